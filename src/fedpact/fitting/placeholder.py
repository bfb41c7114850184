"""A cost to begin with where nobody has said one."""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

PLACEHOLDER_SHARE = 0.1


def placeholder_cost(values: FloatArray, caps: FloatArray) -> float:
    """The cost of a sample such that giving all one has costs a tenth of what perfect accuracy is worth, one digit."""
    rate = PLACEHOLDER_SHARE * float(values.mean()) / float(np.median(caps[caps > 0]))
    return float(f"{rate:.1g}")
