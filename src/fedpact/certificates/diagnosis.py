"""What stands out in an outcome, in words: who would leave, and why (Proposition 1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fedpact.utils.arrays import FloatArray

__all__ = ["diagnose"]

NEGLIGIBLE = 1e-9


class Diagnosed(Protocol):
    """What the diagnosis looks at."""

    @property
    def agents(self) -> Sequence[str]: ...
    @property
    def contributions(self) -> FloatArray: ...
    @property
    def leavers(self) -> Sequence[str]: ...
    @property
    def endowments(self) -> FloatArray: ...
    @property
    def net_externality(self) -> FloatArray: ...
    @property
    def shapley_values(self) -> FloatArray: ...


def diagnose(outcome: Diagnosed) -> tuple[str, ...]:
    """One sentence per agent that harms the others or would leave."""
    externality = outcome.net_externality
    size = max(float(np.abs(externality).max()), np.finfo(float).tiny)
    sentences = []
    for agent, name in enumerate(outcome.agents):
        harms = externality[agent] < -NEGLIGIBLE * size
        leaves = name in outcome.leavers
        keep = f"{outcome.endowments[agent]:.3g} would keep it"
        if harms and leaves:
            sentences.append(f"{name} harms the others on net and would leave; {keep}.")
        elif leaves and externality[agent] > NEGLIGIBLE * size:
            sentences.append(f"{name} helps the others on net but would do better alone; {keep}.")
        elif leaves:
            sentences.append(f"{name}'s data makes no difference to the others, and it would do better alone; {keep}.")
        elif harms and outcome.contributions[agent] > 0:
            sentences.append(f"{name} harms the others on net, yet gains by staying.")
        elif harms:
            sentences.append(f"{name}'s data would harm the others on net: it contributes none.")
    return tuple(sentences)
