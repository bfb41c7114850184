"""Shapley values of a federation at a contribution profile, by three routes with one signature."""

from fedpact.shapley.values import ShapleyValues, shapley_values, undefined_values

__all__ = ["ShapleyValues", "shapley_values", "undefined_values"]
