"""What the page asks for, computed by the library: deals, ranges, maps, departures, negotiations.

Requests arrive on several threads and compiled code wants one at a time, so a lock is held while anything is computed.
Long sweeps let others in between their pieces. The latest results are kept: a slider, a download or a step comes back
to the same federation.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fedpact.comparison import Axis, Comparison, StableFederation, Sweep, compare, stable_federation, sweep
from fedpact.comparison.axes import check_axes
from fedpact.comparison.batches import is_vectorised, pays_to_share
from fedpact.deals import Deal
from fedpact.explorer.parameters import Parameter
from fedpact.federation import Federation
from fedpact.mechanisms import DEFAULT_MECHANISMS, mechanism_named
from fedpact.mechanisms.registry import ALL
from fedpact.negotiation import negotiate
from fedpact.scenario import Scenario
from fedpact.solvers.groups import MAX_LISTED_AGENTS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

MAX_STEP = 60  # the last position of a slider
MAX_CELLS = 101  # of a map, each way
MAX_RESULTS = 8  # of each kind that are kept
MAX_POINTS = 400  # of sliders, of which the results are kept
SLOW_STRIDE = 5  # where deals take long, curves go through every fifth position of a slider
PAUSE = 0.002  # seconds in which others may take the lock
LOOK_UP = 0.1  # seconds after which who waits looks whether its answer is still wanted
FOLLOWED = tuple(mechanism.name for mechanism in DEFAULT_MECHANISMS.values() if not mechanism.is_baseline)
SLIDER_METRICS = ("contributions", "payoffs", "costs", "payments", "ir_gaps", "welfare")

T = TypeVar("T")


class Cancelled(Exception):
    """The page no longer wants the answer."""


# Set where a question is answered, once nobody waits for the answer any more.
abandoned: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)


class Turns:
    """A lock for which questions that were abandoned do not wait: `Cancelled` is raised in their stead."""

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

    def take_back(self) -> None:
        """Wait for one's turn whatever happens, to end what was begun."""
        self._lock.acquire()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


@dataclass(frozen=True, kw_only=True, eq=False)
class GainCurves:
    """Gains over the values of one parameter: by mechanism, a row for each value."""

    points: FloatArray
    gaps: Mapping[str, FloatArray]


class Service:
    """Computes one thing at a time and keeps the latest results."""

    def __init__(self) -> None:
        self._lock = Turns()
        self._kept: dict[str, OrderedDict[Any, Any]] = {}
        self._maps: list[tuple[Any, Sweep]] = []

    @property
    def is_busy(self) -> bool:
        """Whether something is being computed."""
        return self._lock.is_taken

    def comparison(self, scenario: Scenario) -> Comparison:
        """All mechanisms on the federation, with everything a page shows worked out."""

        def work() -> Comparison:
            found = compare(scenario)
            for outcome in found:
                _ = outcome.certificates
            _ = found.advice
            return found

        return self._remember("comparison", _words_key(scenario), work)

    def all_mechanisms(self, scenario: Scenario) -> Comparison:
        """Those of the literature as well, with what each keeps; members lie, pose as two and leave for it."""

        def work() -> Comparison:
            found = compare(scenario, ALL)
            _ = found.verdicts, found.misreporting_gains, found.recommendation
            return found

        return self._remember("all", _words_key(scenario), work)

    def deals_at(self, scenario: Scenario, parameter: Parameter, value: float) -> Sweep:
        """The deals at one value of a parameter: a sweep over one point."""
        axis = parameter.axis(scenario.federation, np.array([value]))
        return self._remember(
            "at",
            (_key(scenario), parameter, value),
            lambda: _swept_once(scenario.federation, axis),
            max_results=MAX_POINTS,
        )

    def gains_along(
        self, scenario: Scenario, parameter: Parameter, points: FloatArray, progress: Callable[[int, int], None]
    ) -> GainCurves:
        """Gains over a range: at all points where that is quick, else at every fifth; `progress` may raise."""
        federation = scenario.federation
        progress(0, 1)
        axis = parameter.axis(federation, points)
        check_axes(federation, [axis])
        if _quick(federation, FOLLOWED):
            with self._lock:
                found = sweep(federation, axis, metrics=["ir_gaps"], mechanisms=FOLLOWED)
            return GainCurves(points=points, gaps={rules: each["ir_gaps"] for rules, each in found.metrics.items()})
        few = points[::SLOW_STRIDE]
        singles = []
        for place, value in enumerate(few):
            progress(place, few.size)
            time.sleep(PAUSE)
            singles.append(self.deals_at(scenario, parameter, float(value)).metrics)
        return GainCurves(
            points=few, gaps={rules: np.vstack([one[rules]["ir_gaps"] for one in singles]) for rules in FOLLOWED}
        )

    def map_over(
        self,
        federation: Federation,
        axes: Sequence[tuple[Parameter, FloatArray]],
        *,
        metric: str,
        mechanism: str,
        progress: Callable[[int, int], None],
    ) -> Sweep:
        """One metric over two parameters; `progress` may raise `Cancelled`."""
        key = (federation.fingerprint, [(parameter, points.tobytes()) for parameter, points in axes], metric, mechanism)
        for kept, found in self._maps:
            if kept == key:
                return found
        made = [parameter.axis(federation, points) for parameter, points in axes]
        check_axes(federation, made)

        def let_others_in(done: int, total: int) -> None:
            self._lock.release()
            try:
                progress(done, total)
                time.sleep(PAUSE)
            finally:
                self._lock.take_back()

        single = not is_vectorised(federation, mechanism_named(mechanism))
        elsewhere = single and pays_to_share(made[0].points.size * made[1].points.size)  # then this process is free
        with nullcontext() if elsewhere else self._lock:
            tell = progress if elsewhere else let_others_in
            found = sweep(federation, made, metrics=[metric], mechanisms=[mechanism], progress=tell)
        self._maps = [*self._maps, (key, found)][-MAX_RESULTS:]
        return found

    def departures(self, scenario: Scenario, mechanism: str, leave: str) -> StableFederation:
        """Who leaves, until nobody wants to."""
        if mechanism not in FOLLOWED:
            raise InvalidInput(f"mechanism must be one of {', '.join(FOLLOWED)}, got {mechanism!r}")
        if leave == "groups" and scenario.federation.n_agents > MAX_LISTED_AGENTS:
            raise InvalidInput(
                f"groups are followed up to {MAX_LISTED_AGENTS} members, got {scenario.federation.n_agents}; "
                "fedpact solve --leave groups takes more"
            )
        first = self.comparison(scenario)[mechanism]
        return self._remember(
            "departures",
            (_key(scenario), mechanism, leave),
            lambda: stable_federation(scenario.federation, mechanism_named(mechanism), leave=leave, first=first),
        )

    def negotiation(self, scenario: Scenario, protocol: str, mechanism: str = "externality") -> Deal:
        """A negotiation between the members; its trace has what was on the table, round by round."""
        return self._remember(
            "negotiation",
            (_key(scenario), protocol, mechanism),
            lambda: negotiate(scenario.federation, mechanism=mechanism, protocol=protocol),
        )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Compute something else of the library's."""
        with self._lock:
            yield

    def _remember(self, kind: str, key: Any, work: Callable[[], T], *, max_results: int = MAX_RESULTS) -> T:
        with self._lock:
            kept = self._kept.setdefault(kind, OrderedDict())
            if key not in kept:
                kept[key] = work()
                while len(kept) > max_results:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            found: T = kept[key]
            return found


def _swept_once(federation: Federation, axis: Axis) -> Sweep:
    """One point of a slider."""
    return sweep(federation, axis, metrics=SLIDER_METRICS, mechanisms=FOLLOWED)


def _quick(federation: Federation, mechanisms: Sequence[str]) -> bool:
    """Whether all points of a sweep are solved together."""
    return all(is_vectorised(federation, mechanism_named(mechanism)) for mechanism in mechanisms)


def _key(scenario: Scenario) -> Any:
    return scenario.federation.fingerprint


def _words_key(scenario: Scenario) -> Any:
    """What a comparison with its advice in words depends on."""
    return _key(scenario), scenario.not_recommended, scenario.money, scenario.unit, scenario.models
