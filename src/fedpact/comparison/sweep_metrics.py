"""What a sweep can look at: the fields of an outcome, and the margins of its certificates by the claim's name.

"reciprocity" is the field, the smallest of the agents' ratios; the margin of that claim is "reciprocity-margin".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.certificates.certificate import Claim
from fedpact.comparison.batch_outcome import BatchOutcome
from fedpact.deals.outcome import PER_AGENT
from fedpact.utils.arrays import FloatArray

__all__ = ["METRICS", "metric_of", "unit_of"]

FIELDS = (*PER_AGENT, "welfare", "reciprocity")
MARGINS: Mapping[str, Claim] = {f"{claim}-margin" if claim in FIELDS else str(claim): claim for claim in Claim}
METRICS = (*FIELDS, *MARGINS)

# Everything else is in units of payoff.
UNITS: Mapping[str, str] = {
    "contributions": "samples",
    "reciprocity_ratios": "ratio",
    "reciprocity": "ratio",
    "net_externality": "payoff per sample",
}


def metric_of(outcome: BatchOutcome, metric: str) -> FloatArray:
    """A metric of every federation of a batch."""
    if metric in MARGINS:
        return outcome.certificates[MARGINS[metric]].margins
    return np.asarray(getattr(outcome, metric))


def unit_of(metric: str) -> str:
    """What a metric is counted in."""
    return UNITS.get(metric, "payoff")
