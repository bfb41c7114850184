"""`fedpact train`: train under a deal, and see what was promised beside what was measured.

Some options take a number for all agents or one for each: `--samples 400`, `400,300,500` or `City=600`. Where agents
have several lots, `--samples` and `--label-noise` are per lot: `"City: labelled=600"`.

Agents go by name or by number, counted from 0; where a name is a number too, the name counts.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedpact.cli.common import (
    DEFAULT_EXAMPLE,
    AsJson,
    ScenarioArgument,
    console,
    escape,
    print_agents,
    print_json,
    progress,
    read_scenario,
    terminal_text,
)
from fedpact.cli.deals import DealArgument, DealMechanism, Unchecked, choose_deal, say_unchecked
from fedpact.cli.per_agent import EACH, per_agent
from fedpact.fitting.parameters import checked_range
from fedpact.mechanisms import MECHANISMS
from fedpact.report.numbers import Unit, number_texts
from fedpact.report.records import run_record
from fedpact.scenario import EXAMPLES, Scenario
from fedpact.scenario.scenario import PERSONAL
from fedpact.training import Experiment, Training
from fedpact.training.data import EMBEDDED, SOURCES, Images, mnist
from fedpact.training.run import Run, check_folder, save_run, train_under
from fedpact.utils.arrays import FloatArray, checked_numbers
from fedpact.utils.errors import error_context
from fedpact.utils.files import read_text
from fedpact.utils.words import MAX_NAMES, count_text, join_names

FOLDER = Path("run")
ROUNDS, SAMPLES, TEST_SHARE = 50, 400.0, 0.2


def train(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    deal: DealArgument = None,
    name: DealMechanism = None,
    unchecked: Unchecked = False,
    data: Annotated[
        str, typer.Option("--data", help=f"MNIST: {', '.join(SOURCES)}; embedded needs no connection.")
    ] = EMBEDDED,
    rounds: Annotated[int, typer.Option("--rounds", help="How often models are averaged.", min=1)] = ROUNDS,
    samples: Annotated[
        list[str] | None,
        typer.Option("--samples", help=f"Images each member holds, tests included; 400 if not given. {EACH}"),
    ] = None,
    test_share: Annotated[
        float, typer.Option("--test-share", help="The part of its images a member is tested on.")
    ] = TEST_SHARE,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            help="Mixes of classes drawn at random: the smaller, the more they differ. All classes alike if not given.",
        ),
    ] = None,
    label_noise: Annotated[
        list[str] | None, typer.Option("--label-noise", help=f"The share of training labels that is wrong. {EACH}")
    ] = None,
    local_epochs: Annotated[
        int, typer.Option("--local-epochs", help="How often a member goes through its samples in a round.", min=1)
    ] = 1,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Step of gradient descent.")] = 0.05,
    floor: Annotated[
        list[str] | None, typer.Option("--floor", help=f"Accuracy that is worth nothing, 0 if not given. {EACH}")
    ] = None,
    ceiling: Annotated[
        list[str] | None,
        typer.Option("--ceiling", help=f"Accuracy that is worth a member's value, 1 if not given. {EACH}"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same accuracies.", min=0)] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run's folder; `run` if not given.", metavar="FOLDER")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train under a deal: accuracies, and what was promised beside what was measured.

    Everybody contributes what it agreed to; beside the common model (or a personal one for each) every agent trains
    alone. The folder holds all rounds, the result, a picture, and what is needed to repeat the run.
    """
    folder = output or FOLDER
    check_folder(folder)
    chosen = read_scenario(scenario)
    names, lots = chosen.federation.names, chosen.federation.lot_labels
    low, high = (
        per_agent(option, given or [], names, otherwise)
        for option, given, otherwise in (("--floor", floor, 0.0), ("--ceiling", ceiling, 1.0))
    )
    low, high = checked_range(low, high, chosen.federation)
    if unchecked:
        say_unchecked(deal)
    agreed = choose_deal(chosen.federation, deal, name, unchecked=unchecked, money=chosen.money)
    experiment = Experiment(
        _images(data),
        n_agents=chosen.federation.n_agents,
        names=names,
        lot_owners=chosen.federation.lot_owners if chosen.federation.has_lots else None,
        lot_names=chosen.federation.lot_names if chosen.federation.has_lots else None,
        samples=per_agent("--samples", samples or [], lots, SAMPLES),
        test_share=test_share,
        alpha=alpha,
        label_noise=_label_noise(lots, label_noise or []),
        training=Training(rounds=rounds, local_epochs=local_epochs, learning_rate=learning_rate),
        seed=seed,
    )
    members = chosen.federation.n_agents
    with progress(members + (1 if chosen.federation.home is None else members)) as begin:  # models at most
        run = train_under(
            agreed, chosen.federation, experiment, floors=low, ceilings=high, models=chosen.models, progress=begin
        )
    files = [str(path) for path in save_run(folder, run, chosen, experiment, _origin(scenario, deal))]
    if as_json:
        print_json(run_record(run) | {"files": files})
        return
    show_run(run, chosen)
    console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


# From words to an experiment


def _images(source: str) -> Images:
    """What is dealt to the members; it may take a while to come."""
    with progress(1) as begin, error_context("--data"):
        begin("reading images")
        return mnist(source)


def _label_noise(lots: tuple[str, ...], given: list[str]) -> FloatArray:
    """The share of wrong labels in each lot."""
    shares = per_agent("--label-noise", given, lots, 0.0)
    return np.asarray(checked_numbers("--label-noise", shares, lambda x: (x >= 0) & (x <= 1), "a share from 0 to 1"))


def _origin(scenario: str, deal: Path | None) -> dict[str, Any]:
    """Where a plan came from, for people: the words of the command and the texts of its files."""
    built_in = scenario in EXAMPLES
    return {
        "command": shlex.join(["fedpact", *sys.argv[1:]]).encode("utf-8", "replace").decode(),
        "source": {
            "scenario": scenario,
            "scenario_text": None if built_in else read_text(Path(scenario)),
            "deal": None if deal is None else str(deal),
        },
    }


FROM_ZERO = (
    "Promised payoffs count from zero, while an untrained model is right one time in ten already: compare signs and "
    "shapes, not levels. --floor and --ceiling count from a fitted curve."
)


def show_run(run: Run, scenario: Scenario) -> None:
    """All tables, and a few words."""
    name = run.plan.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else name
    own = ", a model for each member" if run.models == PERSONAL else ""
    title = f"trained under {escape(title)}, {count_text(run.rounds, 'round')}{own}"
    console.print(f"[bold]{escape(scenario.title or 'Federation')}[/bold] {title}\n")
    unit = Unit.of(scenario.money, run.promised.payoffs)
    _show_training(run)
    _show_gains(run, unit)
    gains = run.gains
    amounts = (run.promised.welfare, run.measured.welfare, gains.promised.sum(), gains.total, *gains.total_interval)
    welfare, reached, promised, measured, low, high = (
        escape(terminal_text(unit.text(float(amount)))) for amount in amounts
    )
    console.print(f"Welfare {welfare} promised, {reached} measured.")
    console.print(
        f"[bold]Verdict: {run.verdict}.[/bold] All members together gain {measured} over training alone (90 % interval "
        f"{low} to {high}); the deal promised {promised}."
    )
    if gains.doubtful:
        console.print(
            f"Measured gains of {escape(join_names(gains.doubtful, most=MAX_NAMES))} may be chance: larger test sets "
            "may say otherwise."
        )
    if not run.floors.any():
        console.print(FROM_ZERO)


def _show_training(run: Run) -> None:
    amounts = [
        ("agreed", number_texts(run.plan.contributions)),
        ("used", [f"{count:,}" for count in run.samples]),
        ("alone: used", [f"{count:,}" for count in run.standalone_samples])
        if run.plan.home is None
        else ("at home", [f"{count:,}" for count in run.plan.home]),
    ]
    measured = [
        ("accuracy", [f"{accuracy:.4f}" for accuracy in run.accuracies]),
        ("alone: accuracy", [f"{accuracy:.4f}" for accuracy in run.standalone_accuracies]),
    ]
    if run.federation.has_lots:
        print_agents("Lots", run.federation.lot_labels, amounts, sizes=run.plan.contributions)
        console.print()
        print_agents("Training", _names(run), measured, sizes=run.promised.payoffs)
    else:
        columns = [*amounts[:2], measured[0], amounts[2], measured[1]]
        print_agents("Training", _names(run), columns, sizes=run.plan.contributions)
    sizes = run.test_sizes
    worst = 0.5 / np.sqrt(sizes.min())
    images = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    console.print(f"Tested on {images} images each: a standard error of up to {worst:.2g}.\n")


def _show_gains(run: Run, unit: Unit) -> None:
    low, high = run.gains.intervals.T
    amounts = (run.plan.payments, run.promised.gains, run.measured.gains, low, high)
    texts = [unit.column(each, signed=True) for each in amounts]
    columns = list(zip(("receives", "promised", "measured", "from", "to"), texts, strict=True))
    columns.append(("would leave", [_leaves(run, agent) for agent in range(len(run.agents))]))
    sizes = run.promised.payoffs if run.federation.has_lots else run.plan.contributions  # by which the largest are told
    print_agents(f"Gains over training alone, 90 % intervals ({unit.label})", _names(run), columns, sizes=sizes)


def _leaves(run: Run, agent: int) -> str:
    """By what was measured, as far as that is beyond chance, and by what was promised where that is something else."""
    if not run.is_member[agent]:
        return "-"
    promised, measured = ("yes" if account.leaves[agent] else "no" for account in (run.promised, run.measured))
    if run.agents[agent] in run.gains.doubtful:
        return f"not clear, promised {promised}"
    shown = "[red]yes[/red]" if measured == "yes" else measured
    return shown if promised == measured else f"{shown}, promised {promised}"


def _names(run: Run) -> list[str]:
    return [name if run.is_member[agent] else f"{name} (alone)" for agent, name in enumerate(run.agents)]
