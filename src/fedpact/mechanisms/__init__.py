"""The mechanisms, one module each, behind one base class: `solve(federation) -> Outcome`.

They turn the programs (`fedpact.programs`) into outcomes (`fedpact.deals`). What follows from an outcome, from
departures to reports, asks the mechanism and knows no class or name; so a mechanism may come from outside the package
(`registry`). The message game is the Externality mechanism played without anybody who computes it.

May use: utils, federation, shapley, programs, certificates, deals.
"""

from fedpact.mechanisms.accuracy_shaping import AccuracyShaping
from fedpact.mechanisms.base import BatchSolution, Mechanism
from fedpact.mechanisms.cost_sharing import CostSharing
from fedpact.mechanisms.equal_split import EqualSplit
from fedpact.mechanisms.externality import ExternalityMechanism, personal_prices
from fedpact.mechanisms.fair import FairMechanism
from fedpact.mechanisms.leave_one_out import LeaveOneOut
from fedpact.mechanisms.message_game import MessageGame
from fedpact.mechanisms.nash_bargaining import NashBargaining
from fedpact.mechanisms.nucleolus import Nucleolus
from fedpact.mechanisms.proportional import ProportionalSharing
from fedpact.mechanisms.registry import (
    DEFAULT_MECHANISMS,
    FIELD_MECHANISMS,
    MECHANISMS,
    compared_mechanisms,
    mechanism_named,
    resolve_mechanism,
    resolve_mechanisms,
)
from fedpact.mechanisms.semivalues import SemivalueMechanism
from fedpact.mechanisms.shapley import BestResponseTrace, ShapleyMechanism, best_response_dynamics
from fedpact.mechanisms.standalone import Standalone
from fedpact.mechanisms.vcg import VCGMechanism
from fedpact.mechanisms.voluntary import Voluntary

__all__ = [
    "DEFAULT_MECHANISMS",
    "FIELD_MECHANISMS",
    "MECHANISMS",
    "AccuracyShaping",
    "BatchSolution",
    "BestResponseTrace",
    "CostSharing",
    "EqualSplit",
    "ExternalityMechanism",
    "FairMechanism",
    "LeaveOneOut",
    "Mechanism",
    "MessageGame",
    "NashBargaining",
    "Nucleolus",
    "ProportionalSharing",
    "SemivalueMechanism",
    "ShapleyMechanism",
    "Standalone",
    "VCGMechanism",
    "Voluntary",
    "best_response_dynamics",
    "compared_mechanisms",
    "mechanism_named",
    "personal_prices",
    "resolve_mechanism",
    "resolve_mechanisms",
]
