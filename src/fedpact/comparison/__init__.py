"""Mechanisms side by side: on one federation, while its numbers are uncertain, over parameters, on many at once.

Who leaves belongs here too, alone or in groups (`members`), and what lies, and posing as several, gain (`lies`).

May use: utils, federation, scenario, shapley, solvers, certificates, deals, mechanisms.
"""

from fedpact.comparison.axes import Axis, parse_axis
from fedpact.comparison.batches import solve_batch
from fedpact.comparison.comparison import Comparison, compare
from fedpact.comparison.lies import splitting_gain
from fedpact.comparison.members import (
    BestMembers,
    BlockingGroup,
    StableFederation,
    best_members,
    blocking_group,
    least_core,
    stable_federation,
)
from fedpact.comparison.outlook import Outlook, outlooks
from fedpact.comparison.recommendation import Recommendation
from fedpact.comparison.sensitivity import Sensitivity
from fedpact.comparison.studies import FEDERATION_KINDS, FieldStudy, study
from fedpact.comparison.sweeps import Sweep, sweep
from fedpact.solvers.nucleolus import LeastCore

__all__ = [
    "FEDERATION_KINDS",
    "Axis",
    "BestMembers",
    "BlockingGroup",
    "Comparison",
    "FieldStudy",
    "LeastCore",
    "Outlook",
    "Recommendation",
    "Sensitivity",
    "StableFederation",
    "Sweep",
    "best_members",
    "blocking_group",
    "compare",
    "least_core",
    "outlooks",
    "parse_axis",
    "solve_batch",
    "splitting_gain",
    "stable_federation",
    "study",
    "sweep",
]
