"""Mechanisms side by side: on one federation, while its numbers are uncertain, over parameters, on many at once.

May use: utils, federation, scenario, shapley, programs, certificates, deals, mechanisms, stability.
"""

from fedpact.comparison.axes import Axis, parse_axis
from fedpact.comparison.batch_outcome import BatchOutcome, solve_batch
from fedpact.comparison.comparison import Comparison, compare
from fedpact.comparison.federation_kinds import FEDERATION_KINDS
from fedpact.comparison.outlook import Outlook, outlooks
from fedpact.comparison.recommendation import Recommendation
from fedpact.comparison.studies import FieldStudy, study
from fedpact.comparison.sweep_result import Sweep
from fedpact.comparison.sweeps import sweep

__all__ = [
    "FEDERATION_KINDS",
    "Axis",
    "BatchOutcome",
    "Comparison",
    "FieldStudy",
    "Outlook",
    "Recommendation",
    "Sweep",
    "compare",
    "outlooks",
    "parse_axis",
    "solve_batch",
    "study",
    "sweep",
]
