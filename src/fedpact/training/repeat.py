"""A run trained again: are the accuracies the same?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedpact.training.plan import Plan, versions
from fedpact.training.run import Run
from fedpact.training.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """How a run compares with the one it repeats.

    Attributes
    ----------
    same
        Whether all accuracies and losses of all rounds are equal, bit for bit.
    largest_difference
        Between two accuracies.
    where
        In which round, for whom, and whether in the deal or alone; empty if no accuracies differ.
    changed
        What the runs depend on and do not have in common, such as versions: its name, then and now.
    """

    same: bool
    largest_difference: float
    where: str
    changed: Mapping[str, tuple[str, str]]

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def compare_runs(before: RunFolder, plan: Plan, run: Run) -> Repetition:
    """A finished run, and the same trained again."""
    settings = before.settings()
    first = before.load(plan)
    pairs = {"in the deal": (first.together, run.together), "alone": (first.alone, run.alone)}
    same, largest, where = True, 0.0, ""
    for what, (then, now) in pairs.items():
        same &= all(np.array_equal(getattr(then, part), getattr(now, part)) for part in ("accuracies", "loss"))
        apart = np.abs(then.accuracies - now.accuracies)
        if apart.max() > largest:
            largest = float(apart.max())
            number, agent = np.unravel_index(int(apart.argmax()), apart.shape)
            where = f"{run.agents[int(agent)]} {what}, round {int(number) + 1}"
    stated = {**settings.get("versions", {}), "fingerprint": settings.get("fingerprint", "")}
    present = {**versions(), "fingerprint": run.fingerprint}
    changed = {
        name: (str(stated.get(name, "unknown")), here) for name, here in present.items() if stated.get(name) != here
    }
    return Repetition(same=same, largest_difference=largest, where=where, changed=changed)
