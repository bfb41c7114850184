"""What a sweep can look at: the fields of an outcome, and the margins of its certificates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.batch import BatchOutcome
from fedpact.outcome import PER_AGENT
from fedpact.properties.certificate import Claim

__all__ = ["METRICS", "metric_of", "unit_of"]

METRICS = (*PER_AGENT, "welfare", "reciprocity", *(str(claim) for claim in Claim))

# Everything else is in units of payoff.
UNITS: Mapping[str, str] = {
    "contributions": "samples",
    "reciprocity_ratios": "ratio",
    "reciprocity": "ratio",
    "net_externality": "payoff per sample",
}


def metric_of(outcome: BatchOutcome, metric: str) -> FloatArray:
    """A metric of every federation of a batch; of a claim it is the margin."""
    if metric in set(Claim):
        return outcome.certificates[metric].margins
    return np.asarray(getattr(outcome, metric))


def unit_of(metric: str) -> str:
    """What a metric is counted in."""
    return UNITS.get(metric, "payoff")
