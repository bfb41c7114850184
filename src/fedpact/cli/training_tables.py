"""What `fedpact train` shows: accuracies, what was promised beside what was measured, and a verdict."""

from __future__ import annotations

import numpy as np

from fedpact.cli.common import console, escape, print_agents, terminal_text
from fedpact.mechanisms import MECHANISMS
from fedpact.report.numbers import Unit, number_texts
from fedpact.scenario import Scenario
from fedpact.scenario.scenario import PERSONAL
from fedpact.training.run import Run
from fedpact.utils.words import MAX_NAMES, count_text, join_names

FROM_ZERO = (
    "Promised payoffs count from zero, while an untrained model is right one time in ten already: compare signs and "
    "shapes, not levels. --floor and --ceiling count from a fitted curve."
)


def show_run(run: Run, scenario: Scenario) -> None:
    """All tables, and a few words."""
    name = run.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else name
    own = ", a model for each member" if run.models == PERSONAL else ""
    title = f"trained under {escape(title)}, {count_text(run.rounds, 'round')}{own}"
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] {title}\n")
    unit = Unit.of(scenario.money, run.promised.payoffs)
    _show_training(run)
    _show_gains(run, unit)
    accounts = run.promised, run.measured
    amounts = [account.welfare for account in accounts] + [each.gains[run.members].sum() for each in accounts]
    welfare, reached, promised, measured, low, high = (
        escape(terminal_text(unit.text(float(amount)))) for amount in (*amounts, *run.total_interval)
    )
    console.print(f"Welfare {welfare} promised, {reached} measured.")
    console.print(
        f"[bold]Verdict: {run.verdict}.[/bold] All members together gain {measured} over training alone (90 % interval "
        f"{low} to {high}); the deal promised {promised}."
    )
    if run.doubtful:
        console.print(
            f"Measured gains of {escape(join_names(run.doubtful, most=MAX_NAMES))} may be chance: larger test sets may "
            "say otherwise."
        )
    if not run.floors.any():
        console.print(FROM_ZERO)


def _show_training(run: Run) -> None:
    amounts = [
        ("agreed", number_texts(run.contributions)),
        ("used", [f"{count:,}" for count in run.samples]),
        ("alone: used", [f"{count:,}" for count in run.standalone_samples])
        if run.home is None
        else ("at home", [f"{count:,}" for count in run.home]),
    ]
    measured = [
        ("accuracy", [f"{accuracy:.4f}" for accuracy in run.accuracies]),
        ("alone: accuracy", [f"{accuracy:.4f}" for accuracy in run.standalone_accuracies]),
    ]
    if run.federation.has_lots:
        print_agents("Lots", run.federation.lot_labels, amounts, sizes=run.contributions)
        console.print()
        print_agents("Training", _names(run), measured, sizes=run.promised.payoffs)
    else:
        columns = [*amounts[:2], measured[0], amounts[2], measured[1]]
        print_agents("Training", _names(run), columns, sizes=run.contributions)
    sizes = run.test_sizes
    worst = 0.5 / np.sqrt(sizes.min())
    images = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    console.print(f"Tested on {images} images each: a standard error of up to {worst:.2g}.\n")


def _show_gains(run: Run, unit: Unit) -> None:
    low, high = run.intervals.T
    amounts = (run.payments, run.promised.gains, run.measured.gains, low, high)
    texts = [unit.column(each, signed=True) for each in amounts]
    columns = list(zip(("receives", "promised", "measured", "from", "to"), texts, strict=True))
    columns.append(("would leave", [_leaves(run, agent) for agent in range(len(run.agents))]))
    sizes = run.promised.payoffs if run.federation.has_lots else run.contributions  # by which the largest are told
    print_agents(f"Gains over training alone, 90 % intervals ({unit.label})", _names(run), columns, sizes=sizes)


def _leaves(run: Run, agent: int) -> str:
    """By what was measured, as far as that is beyond chance, and by what was promised where that is something else."""
    if agent not in run.members:
        return "-"
    promised, measured = ("yes" if account.leaves[agent] else "no" for account in (run.promised, run.measured))
    if run.agents[agent] in run.doubtful:
        return f"not clear, promised {promised}"
    shown = "[red]yes[/red]" if measured == "yes" else measured
    return shown if promised == measured else f"{shown}, promised {promised}"


def _names(run: Run) -> list[str]:
    return [name if agent in run.members else f"{name} (alone)" for agent, name in enumerate(run.agents)]
