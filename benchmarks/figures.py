"""What a benchmark yields: figures for the table, each a ratio, and curves for the plots."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table.

    `what` was measured `against` something in the same run; `ratio` reads as "<ratio> <unit>". A figure that has to
    reach something says so in `at_least` or `at_most`.
    """

    what: str
    against: str
    ratio: float
    unit: str = "times as fast"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the limit is met; None without one."""
        if self.at_least is not None:
            return bool(self.ratio >= self.at_least)
        return None if self.at_most is None else bool(self.ratio <= self.at_most)

    @property
    def limit(self) -> str:
        """The limit in words."""
        if self.at_least is not None:
            return f"at least {short(self.at_least)}"
        return "" if self.at_most is None else f"at most {short(self.at_most)}"

    def __str__(self) -> str:
        return f"{short(self.ratio)} {self.unit}"

    def as_data(self) -> dict[str, Any]:
        """What `results.json` keeps."""
        kept = {"what": self.what, "against": self.against, "ratio": float(f"{self.ratio:.4g}"), "unit": self.unit}
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        limits = {name: bound for name, bound in bounds.items() if bound is not None}
        return kept | limits | ({"met": self.met} if limits else {})


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a plot: the points (x, y), both ratios, of `method` of `library` on one panel of the plot."""

    plot: str
    panel: str
    library: str
    method: str
    x: list[float]
    y: list[float]


def short(number: float) -> str:
    """Three significant digits, with commas and without exponents where that can be read."""
    rounded = float(f"{number:.3g}")
    if 0 < abs(rounded) < 1e-3:
        return f"{rounded:.0e}"
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"
