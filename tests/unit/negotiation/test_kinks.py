"""Members whose payoff is a table of what amounts of data are worth, with kinks: only consensus agrees then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate
from fedpact.negotiation.coordinator import MAX_ROUNDS
from fedpact.utils.arrays import FloatArray

WELFARE = 1e-9  # of the welfare of the linear program
CAP = 100.0


@dataclass(frozen=True, eq=False)
class Table:
    """A payoff that is linear between amounts of data; concave and rising."""

    amounts: FloatArray
    worths: FloatArray

    @property
    def floor(self) -> FloatArray:
        return np.array([-1.0])

    @property
    def slopes(self) -> FloatArray:
        return np.append(np.diff(self.worths) / np.diff(self.amounts), 0.0)

    def value(self, data: FloatArray) -> FloatArray:
        return np.where(data < 0.0, self.slopes[0] * data, np.interp(data, self.amounts, self.worths))

    def slope(self, data: FloatArray) -> FloatArray:
        return self.slopes[np.clip(np.searchsorted(self.amounts, data, side="right") - 1, 0, None)]

    def curvature(self, data: FloatArray) -> FloatArray:
        return np.zeros_like(data)


def table_agents(size: int, seed: int, rows: int = 12) -> list[Agent]:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (size, size))
    np.fill_diagonal(weights, 1.0)
    beta, costs = rng.uniform(0.2, 0.6, size), rng.uniform(0.005, 0.02, size)
    smooth = fp.Federation(weights, costs=costs, caps=CAP, payoff=fp.PowerLaw(beta))
    amounts = np.concatenate([[0.0], np.geomspace(0.5, CAP * size, rows)])
    tables: list[Any] = [Table(amounts, 1.0 - (1.0 + amounts) ** -power) for power in beta]
    return [replace(agent, payoff=tables[place]) for place, agent in enumerate(agents_of(smooth, least_gain=None))]


def test_sums_find_no_agreement_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """They follow slopes, which jump: the page says so."""
    monkeypatch.setitem(MAX_ROUNDS, "sums", 60)
    with pytest.raises(fp.NotConverged, match="no agreement within 60 rounds"):
        coordinate(InProcess(table_agents(3, 0)), protocol="sums")
