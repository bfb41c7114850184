"""Try many federations and print what became of them: `python -m extremes --cases 100000`.

Results are kept as they come, so that an interrupted run goes on where it was; those of other code are not used.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import fedpact
from extremes.evaluator import Evaluator
from extremes.federations import GROUP
from extremes.trials import BAD, CRASHED, FLAGGED, MECHANISMS, NONE, REFUSED, RIGHT, ROWS, VERDICTS, Trial
from fedpact.utils.threads import thread_count

NOTES = """none: there is no equilibrium with payoffs that are finite numbers, which a proof shows
confirmed: of those right and none, by a route that shares nothing with the package"""
SLOW = 10.0  # seconds: trials that take longer are counted
MAX_REASONS = 8
Numbered = tuple[int, Trial]


class Tally:
    """What became of all federations so far."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.checked: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str, str]] = Counter()
        self.slowest: dict[str, tuple[float, int]] = {}
        self.slow: Counter[str] = Counter()
        self.bad: list[Numbered] = []
        self.seconds = 0.0

    def add(self, number: int, trial: Trial) -> None:
        """Count one trial of the federation of that number."""
        self.counts[trial.row, trial.verdict] += 1
        self.checked[trial.row] += trial.verdict in {RIGHT, NONE} and trial.checked
        self.slow[trial.row] += trial.seconds > SLOW
        self.slowest[trial.row] = max(self.slowest.get(trial.row, (0.0, 0)), (trial.seconds, number))
        self.seconds += trial.seconds
        if trial.verdict in {REFUSED, FLAGGED, CRASHED}:
            self.reasons[trial.row, trial.verdict, _kind(trial.reason)] += 1
        if trial.verdict in BAD:
            self.bad.append((number, trial))

    def table(self) -> str:
        """One row per mechanism, alone and in batches."""
        headings = (*VERDICTS, "confirmed", f"> {SLOW:g} s", "slowest")
        lines = [" " * 19 + "".join(f"{heading:>10}" for heading in headings) + "  federation"]
        for row in ROWS:
            if row not in self.slowest:
                continue
            seconds, number = self.slowest[row]
            counts = [*(self.counts[row, verdict] for verdict in VERDICTS), self.checked[row], self.slow[row]]
            lines.append(f"{row:<19}" + "".join(f"{count:10,d}" for count in counts) + f"{seconds:8.1f} s{number:12d}")
        return "\n".join([*lines, NOTES])


def _kind(reason: str) -> str:
    """A reason without its numbers."""
    return "".join("#" if sign.isdigit() else sign for sign in reason)[:110]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, count, print; 1 if anything was wrong, crashed or hung."""
    options = _options(arguments)
    tally, begun = Tally(), time.monotonic()
    groups = range(-(-options.cases // GROUP))
    if options.only is not None:
        groups = range(options.only // GROUP, options.only // GROUP + 1)
    known = {} if options.only is not None else _known(options)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("federations", total=len(groups) * GROUP)
            for done, (number, trial) in _trials(options, groups, known):
                bar.update(task, completed=done * GROUP)
                if options.only in {None, number}:
                    tally.add(number, trial)
                    if trial.verdict in BAD or options.only is not None:
                        line = _line(options.seed, number, trial)
                        bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        print(f"interrupted; the same command goes on where this ended ({options.results})")
    _report(tally, options, time.monotonic() - begun, sum(group in known for group in groups) * GROUP)
    return 1 if tally.bad else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m extremes", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="how many federations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one federation: run it alone")
    parser.add_argument("--results", type=Path, default=Path("out/extremes.jsonl"), help="where they are kept")
    parser.add_argument("--workers", type=int, default=thread_count(), help="processes at work")
    parser.add_argument("--mechanism", choices=tuple(MECHANISMS), help="this one only")
    parser.add_argument(
        "--unjudged", action="store_true", help="count refusals, each alone: certificates, but no sixty digits"
    )
    return parser.parse_args(arguments)


def _trials(
    options: argparse.Namespace, groups: range, known: dict[int, list[Trial]]
) -> Iterator[tuple[int, Numbered]]:
    """Every trial with its federation's number and how many groups are done: first those of an earlier run."""
    done = itertools.count(1)
    for group in groups:
        if group in known:
            yield from _numbered(next(done), group, known[group])
    waiting = [group for group in groups if group not in known]
    evaluators: list[Evaluator] = []
    own = threading.local()
    mechanisms = [options.mechanism] if options.mechanism else list(MECHANISMS)

    def work(group: int) -> tuple[int, list[Trial]]:
        if not hasattr(own, "evaluator"):
            own.evaluator = Evaluator()
            evaluators.append(own.evaluator)
        return group, own.evaluator.evaluate(options.seed, group, mechanisms, judged=not options.unjudged)

    jobs = min(options.workers, len(waiting)) or 1
    parallel = joblib.Parallel(
        n_jobs=jobs, backend="threading", return_as="generator_unordered", batch_size=1, pre_dispatch=2 * jobs
    )
    try:
        for group, trials in parallel(joblib.delayed(work)(group) for group in waiting):
            if options.only is None:
                _keep(options, group, trials)
            yield from _numbered(next(done), group, trials)
    finally:
        for evaluator in evaluators:
            evaluator.close()


def _numbered(done: int, group: int, trials: list[Trial]) -> Iterator[tuple[int, Numbered]]:
    return ((done, (group * GROUP + trial.place, trial)) for trial in trials)


def _code() -> str:
    """A number that stands for the code on trial and for this one."""
    folders = (Path(fedpact.__file__).parent, Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _known(options: argparse.Namespace) -> dict[int, list[Trial]]:
    """What an earlier run of the same code and seed left."""
    head = {
        "code": _code(),
        "seed": options.seed,
        "mechanism": options.mechanism,
        "judged": not options.unjudged,
    }
    path: Path = options.results
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    if not lines or lines[0] != json.dumps(head) + "\n":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(head) + "\n", encoding="utf-8")
        return {}
    whole = [json.loads(line) for line in lines[1:] if line.endswith("\n")]
    return {entry["group"]: [Trial(**trial) for trial in entry["trials"]] for entry in whole}


def _keep(options: argparse.Namespace, group: int, trials: list[Trial]) -> None:
    with options.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"group": group, "trials": [trial.as_record() for trial in trials]}) + "\n")


def _line(seed: int, number: int, trial: Trial) -> str:
    """One trial, and how to try that federation again."""
    again = f"make test-extremes SEED={seed} ONLY={number}"
    return f"{trial.row}: {trial.verdict} ({trial.reason or 'no remark'}, {trial.seconds:.2f} s): {again}"


def _report(tally: Tally, options: argparse.Namespace, elapsed: float, before: int) -> None:
    for (row, verdict, reason), count in tally.reasons.most_common(MAX_REASONS * len(ROWS)):
        print(f"{count:7d} {row}: {verdict}: {reason}")
    print(tally.table())
    federations = max(sum(tally.counts[row, verdict] for verdict in VERDICTS) for row in ROWS)
    if federations:
        each, pace = 1e3 * tally.seconds / federations, elapsed / max(federations - before, 1)
        print(
            f"seed {options.seed}: {federations:,.0f} federations in {elapsed / 60:.1f} min. The package took "
            f"{each:.0f} ms of processor time each, {each / 36:.1f} h for 100,000. With its judges and "
            f"{options.workers} at work these would take {pace * 100 / 3.6:.1f} h."
        )
    for number, trial in tally.bad:
        print(_line(options.seed, number, trial))


if __name__ == "__main__":
    sys.exit(main())
