"""Shapley values of a federation at a contribution profile, by three routes with one signature; and of any game."""

from fedpact.shapley.blackbox import sample_game
from fedpact.shapley.coalition_cache import CoalitionCache
from fedpact.shapley.values import ShapleyValues, shapley_values, undefined_values

__all__ = ["CoalitionCache", "ShapleyValues", "sample_game", "shapley_values", "undefined_values"]
