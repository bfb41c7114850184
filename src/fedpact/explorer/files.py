"""Files to take home: the report, the scenario, the data, the pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedpact.comparison import Comparison, Sweep
from fedpact.deals.outcome import PER_AGENT
from fedpact.report import render_report
from fedpact.report.records import comparison_record
from fedpact.scenario import Scenario, parse_scenario, save_scenario
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import DECODERS, choose_format
from fedpact.utils.tables import csv_text

__all__ = ["FILES", "Content", "picture", "read_upload", "table_of"]


@dataclass(frozen=True)
class Content:
    """The bytes of a file and their kind."""

    data: bytes
    kind: str


def read_upload(name: str, text: str) -> Scenario:
    """The scenario in a file somebody opened on the page."""
    with error_context(name):
        if not text.strip():
            raise InvalidInput("the file is empty")
        document = choose_format(Path(name), DECODERS)(text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"))
        if isinstance(document, Mapping) and isinstance(document.get("weights"), str):
            raise InvalidInput(
                f"the weights are in another file, {document['weights']!r}, which a browser does not hand over; "
                f"start with `fedpact explore {name}` instead"
            )
    return parse_scenario(document, where=name, folder=Path())


def table_of(found: Sweep) -> Content:
    """The numbers of a sweep."""
    return Content(csv_text(found.columns()).encode(), "text/csv; charset=utf-8")


def picture(figure: Any, kind: str) -> Content:
    """A matplotlib figure as a file."""
    from fedpact.report.plots.style import figure_bytes  # noqa: PLC0415 - optional dependency

    return Content(figure_bytes(figure, kind), {"png": "image/png", "svg": "image/svg+xml"}[kind])


def _report(scenario: Scenario, comparison: Comparison) -> Content:
    text = render_report(
        comparison, scenario_title=scenario.title, description=scenario.description, money=scenario.money
    )
    return Content(text.encode(), "text/html; charset=utf-8")


def _scenario(kind: str) -> Callable[[Scenario, Comparison], Content]:
    def written(scenario: Scenario, comparison: Comparison) -> Content:
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"scenario.{kind}"
            save_scenario(scenario, path)
            return Content(path.read_bytes(), f"application/{kind}")

    return written


def _numbers(scenario: Scenario, comparison: Comparison) -> Content:
    agents = [name for outcome in comparison for name in outcome.agents]
    columns: dict[str, list[Any]] = {
        "mechanism": [outcome.mechanism for outcome in comparison for _ in outcome.agents],
        "agent": agents,
    }
    for label in PER_AGENT:
        columns[label] = [number for outcome in comparison for number in getattr(outcome, label).tolist()]
    return Content(csv_text(columns).encode(), "text/csv; charset=utf-8")


def _everything(scenario: Scenario, comparison: Comparison) -> Content:
    text = json.dumps(comparison_record(comparison), indent=2, ensure_ascii=False, allow_nan=False)
    return Content(f"{text}\n".encode(), "application/json")


FILES: Mapping[str, Callable[[Scenario, Comparison], Content]] = {
    "report.html": _report,
    "scenario.toml": _scenario("toml"),
    "scenario.json": _scenario("json"),
    "deal.csv": _numbers,
    "deal.json": _everything,
    "deal.png": lambda scenario, comparison: picture(comparison.plot(), "png"),
    "deal.svg": lambda scenario, comparison: picture(comparison.plot(), "svg"),
    "weights.png": lambda scenario, comparison: picture(scenario.federation.plot().figure, "png"),
}
