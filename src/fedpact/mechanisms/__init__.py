"""The mechanisms, all behind one protocol: `solve(federation) -> Outcome`."""

from fedpact.mechanisms.base import Mechanism
from fedpact.mechanisms.best_response_dynamics import BestResponseTrace, best_response_dynamics
from fedpact.mechanisms.externality import ExternalityMechanism, personal_prices
from fedpact.mechanisms.message_game import MessageGame
from fedpact.mechanisms.registry import MECHANISMS, mechanism_named
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.mechanisms.standalone import Standalone
from fedpact.mechanisms.voluntary import Voluntary

__all__ = [
    "MECHANISMS",
    "BestResponseTrace",
    "ExternalityMechanism",
    "Mechanism",
    "MessageGame",
    "ShapleyMechanism",
    "Standalone",
    "Voluntary",
    "best_response_dynamics",
    "mechanism_named",
    "personal_prices",
]
