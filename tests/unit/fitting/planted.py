"""Logs with known parameters: what a fit has to find again."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fedpact as fp


@dataclass(frozen=True)
class Planted:
    contributions: np.ndarray
    accuracies: np.ndarray
    weights: np.ndarray
    beta: float
    floor: float
    ceiling: float
    test_size: int | None

    @property
    def observations(self) -> fp.Observations:
        return fp.Observations.of(self.contributions, self.accuracies, self.test_size)

    def write(self, path: Path, names: list[str]) -> Path:
        kinds = ["contributions", "accuracy", *(["test_size"] if self.test_size else [])]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([f"{kind}.{name}" for kind in kinds for name in names])
            for given, seen in zip(self.contributions, self.accuracies, strict=True):
                cells = [repr(float(each)) for each in given] + ["" if np.isnan(each) else str(each) for each in seen]
                writer.writerow([*cells, *([self.test_size] * len(names) if self.test_size else [])])
        return path


def planted(
    seed: int,
    *,
    n_agents: int = 5,
    n_runs: int = 60,
    beta: float = 0.6,
    floor: float = 0.1,
    ceiling: float = 0.95,
    test_size: int = 1000,
    training_noise: float = 0.0,
    useless: float = 0.0,
    say_size: bool = True,
    largest: float = 1000.0,
) -> Planted:
    """Coalitions of random members with contributions over three decades; accuracies of a finite test set."""
    rng = np.random.default_rng(seed)
    ratios = rng.uniform(0.2, 1.2, (n_agents, n_agents))
    ratios[rng.random(ratios.shape) < useless] = 0.0
    np.fill_diagonal(ratios, 1.0)
    weights = 0.03 * np.exp(rng.normal(0.0, 0.3, n_agents))[:, None] * ratios
    given = np.exp(rng.uniform(np.log(2.0), np.log(largest), (n_runs, n_agents)))
    given *= rng.random(given.shape) < 0.6
    true = floor + (ceiling - floor) * (1.0 - (1.0 + given @ weights.T) ** -beta)
    true = np.clip(true + training_noise * rng.standard_normal(true.shape), 0.0, 1.0)
    seen = rng.binomial(test_size, true) / test_size
    return Planted(given, seen, weights, beta, floor, ceiling, test_size if say_size else None)
