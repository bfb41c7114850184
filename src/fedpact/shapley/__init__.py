"""Shapley values of a federation at a contribution profile, their slopes, and the potential; and values of any game.

`values` answers the question, `routes` chooses how: coalitions (`enumeration`), the integral in NumPy (`quadrature`) or
for many (`compiled`: in `small_rows` up to 64 agents, else in `kernels`), or `sampling`. `blackbox` samples games that
only answer for coalitions. It knows no solver. May use: utils, federation.
"""

from fedpact.shapley.blackbox import sample_game
from fedpact.shapley.coalition_cache import CoalitionCache
from fedpact.shapley.values import ShapleyValues, shapley_values, undefined_values

__all__ = ["CoalitionCache", "ShapleyValues", "sample_game", "shapley_values", "undefined_values"]
