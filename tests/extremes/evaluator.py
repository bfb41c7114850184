"""The process that works on groups of federations: it may crash or hang, and is then replaced.

It reads one JSON object per line, {"seed", "group", "skip", "mechanisms", "judged"}, and writes one per line: a step
that begins ({"begins": ...}), a trial ({"trial": ...}), and {"done": true}. A step that takes more processor time than
the limit ends the process by a signal, which no compiled loop can ignore; the last step that began is then the one that
hung.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import fedpact as fp
from extremes.exact import ExactFederation
from extremes.federations import draw_group
from extremes.trials import (
    CRASHED,
    HUNG,
    MECHANISMS,
    RIGHT,
    Trial,
    check,
    compare_batch,
    mechanisms_for,
    try_alone,
    try_batch,
)

LIMIT = 60.0  # seconds of processor time for one federation under one mechanism
PATIENCE = 20.0  # times that of the clock, on a busy machine


class Evaluator:
    """Such a process, started when there is work and again whenever it died."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "extremes.evaluator")) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[str] | None = None

    def evaluate(
        self, seed: int, group: int, mechanisms: Sequence[str] = tuple(MECHANISMS), *, judged: bool = True
    ) -> list[Trial]:
        """All trials of a group under these mechanisms; unjudged, each alone and without the sixty digits."""
        trials: list[Trial] = []
        skip: list[list[Any]] = []
        while True:
            begun: dict[str, Any] = {}
            request = {"seed": seed, "group": group, "mechanisms": list(mechanisms), "judged": judged}
            for told in self._ask(request | {"skip": skip}):
                if "done" in told:
                    return trials
                if "begins" in told:
                    begun = told["begins"]
                else:
                    trials.append(Trial(**told["trial"]))
                    skip.append([trials[-1].row, trials[-1].place])
            code = self._end()
            if not begun:
                raise RuntimeError(f"the evaluator ended with {code} before it began group {group} of seed {seed}")
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            by_clock = code in {-signal.SIGPROF, -signal.SIGALRM}
            for place in begun["places"]:
                verdict, reason = (HUNG, f"more than {LIMIT:g} s") if by_clock else (CRASHED, ended)
                trials.append(Trial(place=place, row=begun["row"], verdict=verdict, reason=reason, seconds=LIMIT))
                skip.append([begun["row"], place])

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def _ask(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._process is None:
            pipe = subprocess.PIPE
            # A session of its own: an interrupt of the terminal is for the caller.
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            yield json.loads(line)
            if line.startswith('{"done"'):
                return

    def _end(self) -> int:
        assert self._process is not None
        with self._process as ended:  # closes its pipes and waits
            self._process = None
        return ended.returncode


def evaluate(
    group: list[fp.Federation],
    skip: Collection[tuple[str, int]] = (),
    mechanisms: Collection[str] = tuple(MECHANISMS),
    *,
    judged: bool = True,
) -> Iterator[dict[str, Any]]:
    """The steps and trials of a group, as they come."""
    exact = [ExactFederation(federation) for federation in group]
    for name in mechanisms_for(group[0]):
        if name not in mechanisms:
            continue
        alone: dict[int, fp.Outcome | None] = {}
        for place, federation in enumerate(group):
            if (name, place) in skip:
                continue
            yield {"begins": {"row": name, "places": [place]}}
            with _time_limit():
                trial, outcome = try_alone(federation, place, name, exact[place])
            alone[place] = outcome
            if judged and trial.verdict == RIGHT and outcome is not None:
                trial = check(trial, outcome, exact[place])
            yield {"trial": trial.as_record()}
        row = f"{name}, batch"
        places = [place for place in range(len(group)) if (row, place) not in skip]
        if not places or not judged:
            continue
        yield {"begins": {"row": row, "places": places}}
        with _time_limit(len(group)):
            trials, together = try_batch(group, name, exact)
        for place in places:
            trial = trials[place]
            if trial.verdict == RIGHT and together is not None:
                yield {"begins": {"row": row, "places": [place]}}
                with _time_limit():
                    trial = compare_batch(trial, together, alone.get(place), exact[place])
            yield {"trial": trial.as_record()}


class _time_limit:  # noqa: N801 - reads as a verb
    """End this process if what follows takes too long; the default action of these signals needs no Python."""

    def __init__(self, federations: int = 1) -> None:
        self.seconds = LIMIT * federations

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def main() -> None:
    """Answer until nobody asks."""
    for line in sys.stdin:
        request = json.loads(line)
        group = draw_group(request["seed"], request["group"])
        skip = {(row, place) for row, place in request["skip"]}
        for told in evaluate(group, skip, request["mechanisms"], judged=request["judged"]):
            print(json.dumps(told), flush=True)
        print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # whoever asked is gone
        main()
