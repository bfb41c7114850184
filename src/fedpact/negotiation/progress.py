"""What a protocol comes to: an agreement, or how far it got when somebody had to go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.utils.arrays import FloatArray

__all__ = ["Agreement"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """Contributions of everybody and personal prices; without prices it is none yet, but where to go on from."""

    contributions: FloatArray
    prices: FloatArray | None
    rounds: int
    residual: float
    welfare: float = np.nan
