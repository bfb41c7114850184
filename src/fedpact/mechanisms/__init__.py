"""The mechanisms behind one base class: `solve(federation) -> Outcome`.

They turn what solvers find (`fedpact.solvers`) into outcomes (`fedpact.deals`). What follows from an outcome, from
departures to reports, asks the mechanism and knows no class or name; so a mechanism may come from outside the package
(`registry`). The message game, M^E played without anybody who computes it, is in `fedpact.negotiation`.

May use: utils, federation, shapley, solvers, certificates, deals.
"""

from fedpact.mechanisms.base import Mechanism, Standalone, Voluntary
from fedpact.mechanisms.externality import ExternalityMechanism, personal_prices
from fedpact.mechanisms.fair import FairMechanism, NashBargaining, Nucleolus
from fedpact.mechanisms.field import (
    AccuracyShaping,
    CostSharing,
    EqualSplit,
    LeaveOneOut,
    ProportionalSharing,
    VCGMechanism,
)
from fedpact.mechanisms.registry import (
    DEFAULT_MECHANISMS,
    FIELD_MECHANISMS,
    MECHANISMS,
    compared_mechanisms,
    mechanism_named,
    resolve_mechanism,
    resolve_mechanisms,
)
from fedpact.mechanisms.shapley import BestResponseTrace, SemivalueMechanism, ShapleyMechanism, best_response_dynamics

__all__ = [
    "DEFAULT_MECHANISMS",
    "FIELD_MECHANISMS",
    "MECHANISMS",
    "AccuracyShaping",
    "BestResponseTrace",
    "CostSharing",
    "EqualSplit",
    "ExternalityMechanism",
    "FairMechanism",
    "LeaveOneOut",
    "Mechanism",
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
