"""Logs with known parameters, which a fit has to find again, and logs of another law, which it cannot."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
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


Law = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Lawful:
    """A log of accuracies that follow some law of the contributions, (runs, n) to (runs, n)."""

    law: Law
    contributions: np.ndarray
    accuracies: np.ndarray
    test_size: int

    @property
    def observations(self) -> fp.Observations:
        return fp.Observations.of(self.contributions, self.accuracies, self.test_size)

    @classmethod
    def of(
        cls, law: Law, contributions: np.ndarray, rng: np.random.Generator, *, test_size: int, noise: float = 0.0
    ) -> Lawful:
        true = law(contributions)
        true = np.clip(true + noise * rng.standard_normal(true.shape), 0.0, 1.0)
        return cls(law, contributions, rng.binomial(test_size, true) / test_size, test_size)


def per_class_law(rng: np.random.Generator, n_agents: int) -> Law:
    """Every class is learnt along a logistic curve of the logarithm of its samples; agents differ in their labels."""
    labels = rng.dirichlet(np.full(10, 0.5), n_agents)
    half = np.exp(rng.uniform(np.log(5.0), np.log(60.0), 10))
    power = rng.uniform(0.7, 1.3, 10)

    def law(contributions: np.ndarray) -> np.ndarray:
        samples = np.maximum(contributions @ labels, 1e-12)
        return (0.1 + 0.88 / (1.0 + (half / samples) ** power)) @ labels.T

    return law


def sigmoid_law(rng: np.random.Generator, n_agents: int) -> Law:
    """Curves that start slowly, between ends of the agents' own: no concave family, and nothing is shared."""
    weights = 0.03 * rng.uniform(0.2, 1.2, (n_agents, n_agents))
    np.fill_diagonal(weights, 0.03)
    power, ends = rng.uniform(1.2, 2.0, n_agents), rng.uniform([0.05, 0.8], [0.3, 0.97], (n_agents, 2))

    def law(contributions: np.ndarray) -> np.ndarray:
        reached = (contributions @ weights.T) ** power
        return ends[:, 0] + (ends[:, 1] - ends[:, 0]) * reached / (1.0 + reached)

    return law


def power_law(rng: np.random.Generator, n_agents: int) -> Law:
    """The law that is fitted."""
    weights = 0.03 * rng.uniform(0.2, 1.2, (n_agents, n_agents))
    np.fill_diagonal(weights, 0.03)
    return lambda contributions: 0.1 + 0.85 * (1.0 - (1.0 + contributions @ weights.T) ** -0.6)


def all_coalitions(n_agents: int, levels: tuple[float, ...], repeats: int) -> np.ndarray:
    """Every coalition at every level, so often each."""
    members = np.array(list(product([0.0, 1.0], repeat=n_agents)))[1:]
    return np.repeat(np.concatenate([level * members for level in levels]), repeats, axis=0)


def random_coalitions(rng: np.random.Generator, n_agents: int, count: int, repeats: int) -> np.ndarray:
    """Random members with contributions over two decades, so often each."""
    given = np.exp(rng.uniform(np.log(3.0), np.log(400.0), (count, n_agents)))
    given *= rng.random(given.shape) < 0.6
    return np.repeat(given[given.any(axis=1)], repeats, axis=0)
