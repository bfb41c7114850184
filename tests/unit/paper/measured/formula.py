"""Experiments whose accuracies come from a formula: what searches find can be held against the exact answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import fedpact as fp
from fedpact.training import Histories


class Formula:
    """In the place of an experiment: accuracy is the federation's payoff, perhaps with the noise of a test set."""

    def __init__(self, federation: fp.Federation, *, test_size: int = 10**6, noisy: bool = False, name: str = "f"):
        self.federation, self.fingerprint = federation, name
        self.n_agents = federation.n_agents
        self.available = federation.caps.astype(np.int64)
        self.names = federation.names
        self.has_lots = False
        self.test_sizes = np.full(self.n_agents, test_size)
        self.asked: list[tuple[int, ...]] = []
        self._noisy, self._test_size = noisy, test_size

    def each(self, profiles: Any) -> Iterator[tuple[int, np.ndarray]]:
        """In another order than asked, as trainings end."""
        for place in reversed(range(len(profiles))):
            self.asked.append(tuple(profiles[place]))
            yield place, self._accuracies(np.asarray(profiles[place], dtype=np.float64))

    def history(self, schedule: Any, *, wanted: Any = None) -> Histories:
        rows = np.asarray(schedule)
        self.asked.append(("history",))  # type: ignore[arg-type]
        found = np.array([self._accuracies(row.astype(np.float64)) for row in rows])
        return Histories(contributions=rows, accuracies=found, loss=1.0 - found)

    def _accuracies(self, contributions: np.ndarray) -> np.ndarray:
        exact = self.federation.payoffs(contributions)
        if not self._noisy:
            return exact
        rng = np.random.default_rng(contributions.astype(np.int64))
        return rng.binomial(self._test_size, np.clip(exact, 0.0, 1.0)) / self._test_size
