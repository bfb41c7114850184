"""Mechanisms on measured payoffs: accuracies of trained models in the place of a formula.

`MeasuredGame` says what accuracy every agent gets from a coalition's data, and keeps what was trained. The Shapley
mechanism is played on it by best responses, the Externality mechanism is found by search.
"""

from fedpact.training.measured.best_response import BestResponses, best_responses
from fedpact.training.measured.game import MeasuredGame
from fedpact.training.measured.grid import GridSearch, grid_search
from fedpact.training.measured.participation import Leaving, StandingAlone, leaving, standing_alone
from fedpact.training.measured.surface import SurfaceSearch, surface_search

__all__ = [
    "BestResponses",
    "GridSearch",
    "Leaving",
    "MeasuredGame",
    "StandingAlone",
    "SurfaceSearch",
    "best_responses",
    "grid_search",
    "leaving",
    "standing_alone",
    "surface_search",
]
