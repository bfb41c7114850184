"""What a study found: by kind and mechanism, the numbers of every federation and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.mechanisms import Mechanism

NOT_KNOWN = -1  # of a property that is undefined, or was not looked at
QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}


@dataclass(frozen=True, kw_only=True, eq=False)
class FieldStudy:
    """Mechanisms on many random federations.

    Attributes
    ----------
    kinds, mechanisms
        Kinds of federations, and mechanisms by name.
    n_agents, seed
        How many members every federation has, and what they were drawn from.
    numbers
        `numbers[kind][mechanism][name]`, one per federation. "share_of_best" is welfare as a part of the best,
        "lowest_share" the smallest part of its Shapley value that a member gets back, "budget" the sum of payments,
        "solved" whether there is an outcome. Under the name of a claim stands 1 where it holds, 0 where it does not,
        -1 where it is undefined or was not looked at. Reciprocity is that of the equilibrium found; "split-proof" is 1
        where nobody was found to gain.
    """

    kinds: Sequence[str]
    mechanisms: Mapping[str, Mechanism]
    n_agents: int
    seed: int
    numbers: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]

    @property
    def count(self) -> int:
        """How many federations there are of each kind."""
        return int(next(iter(self.numbers[self.kinds[0]].values()))["solved"].size)

    def title(self, mechanism: str) -> str:
        """What people call a mechanism."""
        return self.mechanisms[mechanism].title

    def share_holding(self, kind: str, mechanism: str, claim: str) -> float:
        """In which part of the federations that were looked at a property holds; NaN if none was."""
        found = self.numbers[kind][mechanism][claim]
        known = found[found != NOT_KNOWN]
        return float(known.mean()) if known.size else float("nan")

    def quantiles(self, kind: str, mechanism: str, name: str) -> dict[str, float]:
        """Low (5 %), median and high (95 %) of a number over the federations where it is defined."""
        found = self.numbers[kind][mechanism][name]
        known = found[~np.isnan(found)]
        if not known.size:
            return dict.fromkeys(QUANTILES, float("nan"))
        # Shares may be infinite, where interpolation between two gives no number.
        return {label: float(np.quantile(known, part, method="inverted_cdf")) for label, part in QUANTILES.items()}

    def summary(self) -> list[dict[str, Any]]:
        """A row for every kind and mechanism: in what shares properties hold, quantiles of welfare and lowest share."""
        rows = []
        for kind in self.kinds:
            for mechanism, numbers in self.numbers[kind].items():
                row: dict[str, Any] = {"kind": kind, "mechanism": mechanism, "solved": float(numbers["solved"].mean())}
                for claim in Claim:
                    row[str(claim)] = self.share_holding(kind, mechanism, claim)
                    row[f"{claim}-judged"] = int((numbers[claim] != NOT_KNOWN).sum())
                for name in ("share_of_best", "lowest_share"):
                    found = self.quantiles(kind, mechanism, name)
                    row |= {f"{name}_{label}": number for label, number in found.items()}
                rows.append(row)
        return rows

    def columns(self) -> dict[str, list[Any]]:
        """One row for each federation and mechanism; properties that are not known are empty."""
        parts = [(kind, mechanism, each) for kind in self.kinds for mechanism, each in self.numbers[kind].items()]
        columns: dict[str, list[Any]] = {
            "kind": [kind for kind, _, _ in parts for _ in range(self.count)],
            "federation": [place for _ in parts for place in range(self.count)],
            "mechanism": [mechanism for _, mechanism, _ in parts for _ in range(self.count)],
        }
        for name in parts[0][2]:
            joined = [number for _, _, each in parts for number in each[name].tolist()]
            claim = name in list(Claim)
            columns[name] = [None if number == NOT_KNOWN else bool(number) for number in joined] if claim else joined
        return columns

    def to_frame(self) -> Any:
        """A pandas frame with a row for each federation and mechanism; needs pandas."""
        from fedpact.report.display import study_frame  # noqa: PLC0415 - optional dependency

        return study_frame(self)

    def plot(self, *, figure: Any = None) -> Any:
        """Shares in which properties hold, by mechanism and kind, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_study  # noqa: PLC0415 - optional dependency

        return plot_study(self, figure=figure)
