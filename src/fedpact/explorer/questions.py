"""The questions of the page and their answers, as plain data: one function for every question.

Every question carries the draft, so nothing that was typed lives on the server. Questions about a draft with errors are
refused with `Unfinished`; only `deal` tells what the errors are.

Requests arrive on several threads: one computation runs at a time, for a question that is still wanted. Sliders,
downloads and steps come back to the same federation, so its results are kept. Long sweeps run beside the turns, and end
when the page no longer wants them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fedpact.comparison import Comparison, Sweep, compare, stable_federation, sweep
from fedpact.comparison.axes import arrays_at, check_axes
from fedpact.comparison.batches import is_vectorised
from fedpact.deals import Outcome
from fedpact.explorer.draft import Draft, draft_of, typed_text, with_agent, with_own_curves, without_agent
from fedpact.explorer.files import BYTE_ORDER_MARK, DOWNLOADS, Content, read_upload
from fedpact.explorer.form import FOLLOWED, MAX_CELLS, MAX_STEP, form_view
from fedpact.explorer.parameters import PARAMETER_KINDS, Parameter, kinds_of, points_between, typed_range
from fedpact.explorer.pasting import open_table, paste_cells
from fedpact.explorer.validation import read_draft
from fedpact.explorer.views import (
    MAPPED,
    deal_view,
    departure_steps,
    gain_charts,
    heat_map,
    payoff_chart,
    what_if,
)
from fedpact.federation import Federation
from fedpact.mechanisms import mechanism_named
from fedpact.report.page import View
from fedpact.scenario import Scenario, example
from fedpact.solvers.groups import MAX_LISTED_AGENTS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr

MAX_RESULTS = 64  # of each kind that are kept
LOOK_UP = 0.1  # seconds between two looks whether the answer is still wanted

T = TypeVar("T")
DOUBTS_LEFT_OUT = (
    "The file has standard errors. The explorer ignores them, and files saved here do not have them; `fedpact compare` "
    "uses them."
)
TABLE_SUFFIXES = (".csv", ".tsv")
SLOW_STRIDE = 5  # where deals take long, curves go through every fifth position of a slider

Question = Mapping[str, Any]
Answer = dict[str, Any]
Progress = Callable[[int, int], None]


class Cancelled(Exception):
    """The page no longer wants the answer."""


# Set where a question is answered, once nobody waits for the answer any more.
abandoned: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)


class Turns:
    """A lock that questions stop waiting for, by `Cancelled`, once the page has abandoned them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def is_taken(self) -> bool:
        """Whether somebody has the turn."""
        return self._lock.locked()

    def acquire(self) -> None:
        """Wait for one's turn, while the answer is wanted."""
        gone = abandoned.get()
        while gone is None or not gone.is_set():
            if self._lock.acquire(timeout=LOOK_UP):
                return
        raise Cancelled

    def release(self) -> None:
        """The next one's turn."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Results:
    """The latest results of each kind; `turns` is held while one is computed."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._kept: dict[str, OrderedDict[Any, Any]] = {}

    def of(self, kind: str, key: Any, work: Callable[[], T]) -> T:
        """What was kept under a key, or what `work` returns."""
        with self.turns:
            kept = self._kept.setdefault(kind, OrderedDict())
            if key not in kept:
                kept[key] = work()
                while len(kept) > MAX_RESULTS:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            found: T = kept[key]
            return found


# The questions


class Unfinished(InvalidInput):
    """The draft has errors, which stand at its fields."""

    def __init__(self) -> None:
        super().__init__("some fields of the federation are not right yet; correct those that are marked")


def initial_draft(scenario: Scenario) -> tuple[Draft, list[str]]:
    """The draft of a scenario, and what has to be said about it."""
    return draft_of(scenario), [DOUBTS_LEFT_OUT] if scenario.uncertainty is not None else []


class Questions:
    """Answers every question of the page."""

    def __init__(self) -> None:
        self.results = Results()

    def example(self, question: Question) -> Answer:
        """A built-in federation to edit."""
        return _form_answer(*initial_draft(example(str(question.get("name")))))

    def upload(self, question: Question) -> Answer:
        """A scenario or a table to edit."""
        name, text = str(question.get("name")), str(question.get("text", ""))
        if name.lower().endswith(TABLE_SUFFIXES):
            found, notes = open_table(Draft.of_record(question.get("draft")), name, text.removeprefix(BYTE_ORDER_MARK))
            return _form_answer(found, notes)
        return _form_answer(*initial_draft(read_upload(name, text)))

    def form(self, question: Question) -> Answer:
        """The form for a draft, changed as asked: a member more or less."""
        draft = Draft.of_record(question.get("draft"))
        if question.get("do") == "add":
            draft = with_agent(draft)
        elif question.get("do") == "remove":
            draft = without_agent(draft, _whole("agent", question.get("agent")))
        return _form_answer(draft)

    def paste(self, question: Question) -> Answer:
        """The form with cells of a spreadsheet put into it, from a field on."""
        draft, text = Draft.of_record(question.get("draft")), question.get("text")
        if not isinstance(text, str):
            raise InvalidInput(f"text must be the cells that were pasted, got {short_repr(text)}")
        return _form_answer(*paste_cells(draft, str(question.get("field")), text))

    def deal(self, question: Question) -> Answer:
        """The deal of a draft, or the errors at its fields, or what a solver refuses."""
        draft = Draft.of_record(question.get("draft"))
        reading = read_draft(draft)
        if reading.scenario is None:
            return {"errors": [{"field": field, "message": said} for field, said in reading.errors.items()]}
        scenario = reading.scenario
        try:
            comparison = self._comparison(scenario)
            with self.results.turns:
                shown_deal = deal_view(View.of(comparison, scenario))
        except FedpactError as error:
            return {"errors": [], "problem": str(error)}
        federation = scenario.federation
        return {
            "errors": [],
            "deal": shown_deal,
            "curve": payoff_chart(federation, comparison),
            "recommended": comparison.recommendation and comparison.recommendation.mechanism,
            "agents": list(federation.names),
            "kinds": {kind: PARAMETER_KINDS.get(kind, f"Curve: {kind}") for kind in kinds_of(federation)},
        }

    def range(self, question: Question) -> Answer:
        """A range worth looking at for a parameter."""
        federation = _scenario(question).federation
        low, high = Parameter.of_record(question.get("parameter"), federation).usual_range(federation)
        return {"low": typed_text(low), "high": typed_text(high)}

    def whatif(self, question: Question) -> Answer:
        """The deals with one number different; without a step, at the point nearest to now."""
        scenario = _scenario(question)
        federation = scenario.federation
        parameter, points = _slider(question, federation)
        step = int(np.abs(points - parameter.now(federation)).argmin())
        if question.get("step") is not None:
            step = _whole("step", question["step"], high=MAX_STEP)
        axis = parameter.axis(federation, points[step : step + 1])
        changed = federation.with_arrays(arrays_at(federation, [axis], [axis.points]).at(0))
        there = self.results.of(
            "at", changed.fingerprint, lambda: {name: _deal_or_none(changed, name) for name in FOLLOWED}
        )
        value = typed_text(points[step])
        return {
            "step": step,
            "value": value,
            "words": parameter.words(federation),
            "kept": _keep_value(Draft.of_record(question.get("draft")), parameter, federation, value).record(),
            "moved": what_if(View.of(self._comparison(scenario), scenario), there),
        }

    def curves(self, question: Question, progress: Progress) -> Answer:
        """How the gains change over a slider's range: at all points where that is quick, else at every fifth."""
        scenario = _scenario(question)
        federation = scenario.federation
        parameter, points = _slider(question, federation)
        quick = all(is_vectorised(federation, mechanism_named(mechanism)) for mechanism in FOLLOWED)
        axis = parameter.axis(federation, points if quick else points[::SLOW_STRIDE])
        progress(0, 1)
        found = sweep(federation, axis, metrics=["ir_gaps"], mechanisms=FOLLOWED, progress=progress)
        view = View.of(self._comparison(scenario), scenario)
        return {"curves": gain_charts(view, found, parameter.words(federation))}

    def map(self, question: Question, progress: Progress) -> Answer:
        """A map over two parameters."""
        scenario = _scenario(question)
        found, words, agent = self._map(scenario.federation, question, progress)
        unit = View.of(self._comparison(scenario), scenario).unit
        made, numbers = heat_map(found, agent=agent, unit=unit, words=words)
        return {"map": made, "numbers": numbers}

    def leaving(self, question: Question) -> Answer:
        """Who leaves, step by step."""
        scenario, leave = _scenario(question), str(question.get("leave"))
        federation, mechanism = scenario.federation, _one_of("mechanism", question, FOLLOWED)
        if leave == "groups" and federation.n_agents > MAX_LISTED_AGENTS:
            raise InvalidInput(
                f"groups are followed up to {MAX_LISTED_AGENTS} members, got {federation.n_agents}; "
                "fedpact solve --leave groups takes more"
            )
        comparison = self._comparison(scenario)
        rules, first = mechanism_named(mechanism), comparison[mechanism]
        settled = self.results.of(
            "departures",
            (federation.fingerprint, mechanism, leave),
            lambda: stable_federation(federation, rules, leave=leave, first=first),
        )
        steps = departure_steps(View.of(comparison, scenario), settled, together=leave == "groups")
        return {"steps": steps, "members": list(settled.members)}

    def file(self, question: Question) -> Content:
        """A file to take home."""
        scenario = _scenario(question)
        wanted = str(question.get("file"))
        if wanted not in DOWNLOADS:
            raise InvalidInput(f"there is no file {short_repr(wanted)} to take home; there are {', '.join(DOWNLOADS)}")
        comparison = self._comparison(scenario)
        with self.results.turns:
            return DOWNLOADS[wanted].make(scenario, comparison)

    def _comparison(self, scenario: Scenario) -> Comparison:
        """The mechanisms on the federation, with everything a page shows worked out."""

        def work() -> Comparison:
            found = compare(scenario)
            _ = [outcome.certificates for outcome in found], found.advice
            return found

        words = (scenario.not_recommended, scenario.money, scenario.unit, scenario.models)
        return self.results.of("comparison", (scenario.federation.fingerprint, words), work)

    def _map(
        self, federation: Federation, question: Question, progress: Progress
    ) -> tuple[Sweep, tuple[str, str], int]:
        count = _whole("points each way", question.get("count"), low=2, high=MAX_CELLS)
        metric, mechanism = _one_of("metric", question, MAPPED), _one_of("mechanism", question, FOLLOWED)
        agent = _whole("agent", question.get("agent", 0), high=federation.n_agents - 1)
        up, right = (_axis(question.get(side), side, federation, count) for side in ("up", "right"))
        axes = [parameter.axis(federation, points) for parameter, points in (up, right)]
        check_axes(federation, axes)
        found = sweep(federation, axes, metrics=[metric], mechanisms=[mechanism], progress=progress)
        return found, (up[0].words(federation), right[0].words(federation)), agent


def _axis(given: Any, side: str, federation: Federation, count: int) -> tuple[Parameter, FloatArray]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{side} must be an object with a parameter and a range, got {short_repr(given)}")
    parameter = Parameter.of_record(given.get("parameter"), federation)
    try:
        return parameter, points_between(*typed_range(given), count)
    except InvalidInput as error:
        raise InvalidInput(f"{side}: {error}") from error


def _form_answer(draft: Draft, notes: Sequence[str] = ()) -> Answer:
    draft = with_own_curves(draft)
    return {"draft": draft.record(), "form": form_view(draft), "notes": list(notes)}


def _slider(question: Question, federation: Federation) -> tuple[Parameter, FloatArray]:
    """The parameter of a slider and its values; the federation must exist at both ends."""
    parameter = Parameter.of_record(question.get("parameter"), federation)
    points = points_between(*typed_range(question), MAX_STEP + 1)
    check_axes(federation, [parameter.axis(federation, points)])
    return parameter, points


def _keep_value(draft: Draft, parameter: Parameter, federation: Federation, text: str) -> Draft:
    """Type a parameter's value into the draft. If it is one member's curve, everybody gets a curve of its own."""
    own = parameter.kind not in PARAMETER_KINDS and None not in parameter.who
    if own and not draft.own_curves:
        draft = with_own_curves(replace(draft, own_curves=True), anew=True)
    return draft.with_texts(dict.fromkeys(parameter.fields(federation, own_curves=draft.own_curves), text))


def _deal_or_none(federation: Federation, mechanism: str) -> Outcome | None:
    """The deal of a mechanism; None where there is no equilibrium."""
    try:
        return mechanism_named(mechanism).solve(federation)
    except FedpactError:
        return None


def _scenario(question: Question) -> Scenario:
    scenario = read_draft(Draft.of_record(question.get("draft"))).scenario
    if scenario is None:
        raise Unfinished
    return scenario


def _one_of(key: str, question: Question, known: Mapping[str, Any] | Sequence[str]) -> str:
    given = str(question.get(key))
    if given not in known:
        raise InvalidInput(f"{key} must be one of {', '.join(known)}, got {short_repr(given)}")
    return given


def _whole(label: str, given: Any, *, low: int = 0, high: int | None = None) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(f"{label} must be a whole number, got {short_repr(given)}")
    if given < low or (high is not None and given > high):
        raise InvalidInput(f"{label} must be from {low} to {high}, got {given}")
    return given
