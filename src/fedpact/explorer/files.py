"""Scenario files that are opened, and files to take home: the report, the sheets, the data, the picture."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from fedpact.comparison import Comparison
from fedpact.deals.deal_file import deal_record, is_deal_record
from fedpact.deals.outcome import PER_AGENT
from fedpact.report import render_member_page, render_report
from fedpact.report.records import comparison_record
from fedpact.scenario import Scenario, parse_scenario, save_scenario
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import DECODERS, choose_format
from fedpact.utils.tables import csv_text

PACKAGE = "fedpact.explorer"  # where its templates lie
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True)
class Content:
    """The bytes of a file and their kind."""

    data: bytes
    kind: str


@dataclass(frozen=True)
class Download:
    """A file to take home: what the page says of it, and how it is made."""

    label: str
    about: str
    make: Callable[[Scenario, Comparison], Content]


def read_upload(name: str, text: str) -> Scenario:
    """The scenario in a file somebody opened on the page."""
    with error_context(name):
        if not text.strip():
            raise InvalidInput("the file is empty; fill it in, or take another")
        document = choose_format(Path(name), DECODERS)(text.removeprefix(BYTE_ORDER_MARK))
        if is_deal_record(document):
            raise InvalidInput("the file holds a deal; `fedpact check SCENARIO DEAL` says whether it holds")
        if isinstance(document, Mapping) and isinstance(document.get("weights"), str):
            raise InvalidInput(
                f"the weights are in another file, {document['weights']!r}, which a browser does not hand over; "
                f"start with `fedpact explore {name}` instead"
            )
    return parse_scenario(document, where=name)


def _report(scenario: Scenario, comparison: Comparison) -> Content:
    text = render_report(comparison, scenario)
    return Content(text.encode(), "text/html; charset=utf-8")


def _sheets(scenario: Scenario, comparison: Comparison) -> Content:
    """A page for every member, in one file."""
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as bundle:
        for index, name in enumerate(scenario.federation.names):
            page = render_member_page(comparison, index, scenario)
            bundle.writestr(f"{index + 1}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-').lower()}.html", page)
    return Content(made.getvalue(), "application/zip")


def _scenario(scenario: Scenario, comparison: Comparison) -> Content:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        save_scenario(scenario, path)
        return Content(path.read_bytes(), "application/toml")


def _numbers(scenario: Scenario, comparison: Comparison) -> Content:
    agents = [name for outcome in comparison for name in outcome.agents]
    columns: dict[str, list[Any]] = {
        "mechanism": [outcome.mechanism for outcome in comparison for _ in outcome.agents],
        "agent": agents,
    }
    for label in PER_AGENT:
        columns[label] = [number for outcome in comparison for number in getattr(outcome, label).tolist()]
    return Content(csv_text(columns).encode(), "text/csv; charset=utf-8")


def _deal(scenario: Scenario, comparison: Comparison) -> Content:
    """The recommended deal, for every command that takes one."""
    return _json(deal_record(comparison.recommended_deal or comparison.outcomes[0].deal))


def _everything(scenario: Scenario, comparison: Comparison) -> Content:
    return _json(comparison_record(comparison))


def _json(record: Mapping[str, Any]) -> Content:
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    return Content(f"{text}\n".encode(), "application/json")


def _picture(scenario: Scenario, comparison: Comparison) -> Content:
    from fedpact.report.plots.style import figure_bytes  # noqa: PLC0415 - optional dependency

    return Content(figure_bytes(comparison.plot(), "png"), "image/png")


DOWNLOADS: Mapping[str, Download] = {
    "report.html": Download("The report", "one page to mail or to print, for the members", _report),
    "members.zip": Download("The members’ sheets", "what each agrees to, a page for every member", _sheets),
    "scenario.toml": Download("The scenario", "TOML, for fedpact and for people", _scenario),
    "deal.csv": Download("All numbers", "a row per mechanism and member", _numbers),
    "deal.json": Download("The deal", "the recommended one, for `fedpact check`, `settle` and `train`", _deal),
    "comparison.json": Download(
        "Everything", "numbers, certificates, departures, as `fedpact compare --json` prints it", _everything
    ),
    "deal.png": Download("The picture", "both mechanisms and the baselines", _picture),
}
