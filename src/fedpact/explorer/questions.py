"""What the page asks and what it is told, as plain data: one function for every question.

Every question carries the draft, so nothing that was typed lives on the server. Questions about a draft with errors are
refused with `Unfinished`; only `deal` tells what the errors are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedpact.comparison import Sweep
from fedpact.comparison.axes import check_axes
from fedpact.deals.outcome import PER_LOT
from fedpact.explorer.draft import (
    Draft,
    draft_of,
    typed_text,
    with_agent,
    with_lot,
    with_own_curves,
    without_agent,
    without_lot,
)
from fedpact.explorer.files import (
    BYTE_ORDER_MARK,
    DOWNLOADS,
    Content,
    check_deal_file,
    is_deal_file,
    picture_file,
    read_upload,
    table_file,
)
from fedpact.explorer.form import error_entries, form_view
from fedpact.explorer.parameters import PARAMETER_KINDS, Parameter, kinds_of, points_between, typed_range
from fedpact.explorer.pasting import open_table, paste_cells
from fedpact.explorer.service import FOLLOWED, MAX_CELLS, MAX_STEP, Service
from fedpact.explorer.validation import read_draft
from fedpact.explorer.views import (
    MAPPED,
    check_view,
    deal_view,
    departure_steps,
    gain_charts,
    heat_map,
    negotiation_chart,
    negotiation_rounds,
    negotiation_steps,
    payoff_chart,
    view_of,
    what_if,
)
from fedpact.federation import Federation
from fedpact.negotiation.coordinator import check_negotiable
from fedpact.report.page import render_section
from fedpact.scenario import Scenario, example
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr

DOUBTS_LEFT_OUT = (
    "The file says how sure its numbers are. The explorer works with the numbers alone, and files saved here leave "
    "that out; `fedpact compare` takes it into account."
)

TABLE_SUFFIXES = (".csv", ".tsv")
Question = Mapping[str, Any]
Answer = dict[str, Any]


class Unfinished(InvalidInput):
    """The draft has errors, which stand at its fields."""

    def __init__(self) -> None:
        super().__init__("some fields of the federation are not right yet; mend those marked there first")


def initial_draft(scenario: Scenario) -> tuple[Draft, list[str]]:
    """The draft of a scenario, and what has to be said about it."""
    return draft_of(scenario), [DOUBTS_LEFT_OUT] if scenario.uncertainty is not None else []


class Questions:
    """Answers every question of the page with what a service computes."""

    def __init__(self, service: Service | None = None) -> None:
        self.service = service or Service()

    def example(self, question: Question) -> Answer:
        """A built-in federation to edit."""
        return _start_answer(example(str(question.get("name"))))

    def upload(self, question: Question) -> Answer:
        """A scenario or a table to edit, or the word that the file holds a deal, which is for `check`."""
        name, text = _opened_file(question)
        if name.lower().endswith(TABLE_SUFFIXES):
            found, notes = open_table(Draft.of_record(question.get("draft")), name, text.removeprefix(BYTE_ORDER_MARK))
            return _form_answer(found, notes)
        return {"is_deal": True} if is_deal_file(name, text) else _start_answer(read_upload(name, text))

    def check(self, question: Question) -> Answer:
        """The deal of a file, held against the federation on the page."""
        _, scenario = _read_question(question)
        name, text = _opened_file(question)
        with self.service.exclusive():
            found = check_deal_file(name, text, scenario)
            return {"holds": not found.failures, "check": check_view(name, scenario, found)}

    def form(self, question: Question) -> Answer:
        """The form for a draft, changed as asked: a member, or a lot of a member, more or less."""
        draft = Draft.of_record(question.get("draft"))
        if question.get("do") == "add":
            draft = with_agent(draft)
        elif question.get("do") == "remove":
            draft = without_agent(draft, _whole("agent", question.get("agent")))
        elif question.get("do") == "add-lot":
            draft = with_lot(draft, _whole("agent", question.get("agent")))
        elif question.get("do") == "remove-lot":
            draft = without_lot(draft, _whole("lot", question.get("lot")))
        return _form_answer(draft)

    def paste(self, question: Question) -> Answer:
        """The form with cells of a spreadsheet put into it, from a field on."""
        draft, text = Draft.of_record(question.get("draft")), question.get("text")
        if not isinstance(text, str):
            raise InvalidInput(f"text must be the cells that were pasted, got {short_repr(text)}")
        return _form_answer(*paste_cells(draft, str(question.get("field")), text))

    def deal(self, question: Question) -> Answer:
        """The deal of a draft, or its errors; what the solvers refuse is a problem of no field."""
        draft = Draft.of_record(question.get("draft"))
        reading = read_draft(draft)
        if reading.scenario is None:
            return {"errors": error_entries(draft, reading.errors)}
        scenario = reading.scenario
        try:
            comparison = self.service.comparison(scenario)
            with self.service.exclusive():
                shown_deal = deal_view(view_of(scenario, comparison))
        except FedpactError as error:
            return {"errors": [], "problem": str(error)}
        federation = scenario.federation
        return {
            "errors": [],
            "deal": shown_deal,
            "curve": payoff_chart(federation, comparison),
            "recommended": comparison.recommendation and comparison.recommendation.mechanism,
            "agents": list(federation.names),
            "lots": list(federation.lot_labels),
            "tasks": list(federation.task_labels),
            "kinds": {kind: PARAMETER_KINDS.get(kind, f"Curve: {kind}") for kind in kinds_of(federation)},
        }

    def mechanisms(self, question: Question) -> Answer:
        """Every mechanism there is against the properties it keeps."""
        _, scenario = _read_question(question)
        comparison = self.service.all_mechanisms(scenario)
        with self.service.exclusive():
            return {"properties": render_section("properties", view_of(scenario, comparison))}

    def range(self, question: Question) -> Answer:
        """A range worth looking at for a parameter."""
        _, scenario = _read_question(question)
        federation = scenario.federation
        low, high = Parameter.of_record(question.get("parameter"), federation).usual_range(federation)
        return {"low": typed_text(low), "high": typed_text(high)}

    def whatif(self, question: Question) -> Answer:
        """The deals with one number different; without a step, at the point nearest to now."""
        draft, scenario = _read_question(question)
        federation = scenario.federation
        parameter, points = _slider(question, federation)
        if question.get("step") is None:
            step = int(np.abs(points - parameter.now(federation)).argmin())
        else:
            step = _whole("step", question["step"])
            if not 0 <= step <= MAX_STEP:
                raise InvalidInput(f"step must be from 0 to {MAX_STEP}, got {step}")
        there = self.service.deals_at(scenario, parameter, float(points[step]))
        return {
            "step": step,
            "value": typed_text(points[step]),
            "words": parameter.words(federation),
            "kept": _keep_value(draft, parameter, federation, typed_text(points[step])).record(),
            "moved": what_if(view_of(scenario, self.service.comparison(scenario)), there),
        }

    def curves(self, question: Question, progress: Callable[[int, int], None]) -> Answer:
        """How the gains change over a slider's whole range."""
        _, scenario = _read_question(question)
        parameter, points = _slider(question, scenario.federation)
        found = self.service.gains_along(scenario, parameter, points, progress)
        words = parameter.words(scenario.federation)
        return {"curves": gain_charts(view_of(scenario, self.service.comparison(scenario)), found, words)}

    def map(self, question: Question, progress: Callable[[int, int], None]) -> Answer:
        """A map over two parameters."""
        _, scenario = _read_question(question)
        found, words, agent = self._map(scenario, question, progress)
        unit = view_of(scenario, self.service.comparison(scenario)).unit
        made, numbers = heat_map(found, agent=agent, unit=unit, words=words)
        return {"map": made, "numbers": numbers}

    def map_file(self, question: Question) -> Content:
        """The map's picture or its numbers."""
        _, scenario = _read_question(question)
        found, _, _ = self._map(scenario, question, lambda done, total: None)
        with self.service.exclusive():
            return picture_file(found.plot(), "png") if question.get("kind") == "png" else table_file(found)

    def leaving(self, question: Question) -> Answer:
        """Who leaves, step by step."""
        _, scenario = _read_question(question)
        view = view_of(scenario, self.service.comparison(scenario))
        leave = str(question.get("leave"))
        settled = self.service.departures(scenario, str(question.get("mechanism")), leave)
        return {"steps": departure_steps(view, settled, together=leave == "groups"), "members": list(settled.members)}

    def talks(self, question: Question) -> Answer:
        """A negotiation, round by round."""
        _, scenario = _read_question(question)
        mechanism, protocol = str(question.get("mechanism", "externality")), str(question.get("protocol"))
        check_negotiable(mechanism, protocol)
        view = view_of(scenario, self.service.comparison(scenario))
        deal = self.service.negotiation(scenario, protocol, mechanism)
        return {
            "steps": negotiation_steps(view, deal),
            "curve": negotiation_chart(view.unit, deal),
            "rounds": len(negotiation_rounds(deal)),
        }

    def file(self, question: Question) -> Content:
        """A file to take home."""
        _, scenario = _read_question(question)
        wanted = str(question.get("file"))
        if wanted not in DOWNLOADS:
            raise InvalidInput(f"there is no file {short_repr(wanted)} to take home; there are {', '.join(DOWNLOADS)}")
        comparison = self.service.comparison(scenario)
        with self.service.exclusive():
            return DOWNLOADS[wanted].make(scenario, comparison)

    def _map(
        self, scenario: Scenario, question: Question, progress: Callable[[int, int], None]
    ) -> tuple[Sweep, tuple[str, str], int]:
        federation = scenario.federation
        count = _whole("points each way", question.get("count"))
        if not 2 <= count <= MAX_CELLS:
            raise InvalidInput(f"points each way must be from 2 to {MAX_CELLS}, got {count}")
        metric, mechanism = str(question.get("metric")), str(question.get("mechanism"))
        if metric not in MAPPED:
            raise InvalidInput(f"metric must be one of {', '.join(MAPPED)}, got {short_repr(metric)}")
        if mechanism not in FOLLOWED:
            raise InvalidInput(f"mechanism must be one of {', '.join(FOLLOWED)}, got {short_repr(mechanism)}")
        agent, count_shown = _whole("agent", question.get("agent", 0)), federation.n_agents
        if metric in PER_LOT:
            count_shown = federation.n_lots
        if not 0 <= agent < count_shown:
            raise InvalidInput(f"agent must be from 0 to {count_shown - 1}, got {agent}")
        up, right = (self._axis(question.get(side), side, federation, count) for side in ("up", "right"))
        found = self.service.map_over(federation, [up, right], metric=metric, mechanism=mechanism, progress=progress)
        return found, (up[0].words(federation), right[0].words(federation)), agent

    def _axis(self, given: Any, side: str, federation: Federation, count: int) -> tuple[Parameter, FloatArray]:
        if not isinstance(given, Mapping):
            raise InvalidInput(f"{side} must be an object with a parameter and a range, got {short_repr(given)}")
        parameter = Parameter.of_record(given.get("parameter"), federation)
        try:
            return parameter, points_between(*typed_range(given), count)
        except InvalidInput as error:
            raise InvalidInput(f"{side}: {error}") from error


def _start_answer(scenario: Scenario) -> Answer:
    return _form_answer(*initial_draft(scenario))


def _form_answer(draft: Draft, notes: Sequence[str] = ()) -> Answer:
    draft = with_own_curves(draft)
    return {"draft": draft.record(), "form": form_view(draft), "notes": list(notes)}


def _opened_file(question: Question) -> tuple[str, str]:
    return str(question.get("name")), str(question.get("text", ""))


def _slider(question: Question, federation: Federation) -> tuple[Parameter, FloatArray]:
    """The parameter of a slider and the values of its positions, at both ends of which there is a federation."""
    parameter = Parameter.of_record(question.get("parameter"), federation)
    points = points_between(*typed_range(question), MAX_STEP + 1)
    check_axes(federation, [parameter.axis(federation, points)])
    return parameter, points


def _keep_value(draft: Draft, parameter: Parameter, federation: Federation, text: str) -> Draft:
    """The draft with a parameter's value typed in; one member's curve makes all have their own."""
    own = parameter.kind not in PARAMETER_KINDS and parameter.agent is not None
    if own and not draft.own_curves:
        draft = with_own_curves(replace(draft, own_curves=True), anew=True)
    fields = parameter.fields(federation, own_curves=draft.own_curves)
    return replace(draft, texts={**draft.texts, **dict.fromkeys(fields, text)})


def _read_question(question: Question) -> tuple[Draft, Scenario]:
    draft = Draft.of_record(question.get("draft"))
    scenario = read_draft(draft).scenario
    if scenario is None:
        raise Unfinished
    return draft, scenario


def _whole(label: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(f"{label} must be a whole number, got {short_repr(given)}")
    return given
