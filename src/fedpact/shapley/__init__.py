"""Shapley values of a federation at a contribution profile, their gradient and potential; and values of any game.

`values` answers the question: by summing over all `coalitions` of few members, or by the `integral`, which for many
members goes through interpolation `points`. `receiver` has one receiver's part of it, `measured` the values of games
that can only be evaluated. It knows no solver. May use: utils, federation.
"""

from fedpact.shapley.measured import sample_game
from fedpact.shapley.values import ShapleyValues, shapley_values, undefined_values

__all__ = ["ShapleyValues", "sample_game", "shapley_values", "undefined_values"]
