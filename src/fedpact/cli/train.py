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
from typer import Option

from fedpact.cli import inputs, screen
from fedpact.cli.per_agent import Each, per_agent
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
FROM_ZERO = (
    "Promised payoffs count from zero, while an untrained model is right one time in ten already: compare signs and "
    "shapes, not levels. --floor and --ceiling count from a fitted curve."
)


def train(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    deal: inputs.DealArgument = None,
    name: inputs.DealMechanism = None,
    unchecked: inputs.Unchecked = False,
    data: Annotated[str, Option("--data", help=f"MNIST: {', '.join(SOURCES)}; embedded is offline.")] = EMBEDDED,
    rounds: Annotated[int, Option("--rounds", help="How often models are averaged.", min=1)] = ROUNDS,
    samples: Annotated[Each, Option("--samples", help="Images each member holds, tests included.")] = None,
    test_share: Annotated[float, Option("--test-share", help="The part of its images for tests.")] = TEST_SHARE,
    alpha: Annotated[float | None, Option("--alpha", help="The smaller, the more the members' classes differ.")] = None,
    label_noise: Annotated[Each, Option("--label-noise", help="The share of training labels to spoil.")] = None,
    local_epochs: Annotated[int, Option("--local-epochs", help="Passes over the data in a round.", min=1)] = 1,
    learning_rate: Annotated[float, Option("--learning-rate", help="Step of gradient descent.")] = 0.05,
    floor: Annotated[Each, Option("--floor", help="Accuracy that is worth nothing, 0 if not given.")] = None,
    ceiling: Annotated[Each, Option("--ceiling", help="Accuracy worth a member's value, 1 if not given.")] = None,
    seed: inputs.Seed = 0,
    output: Annotated[Path, Option("--output", "-o", help="The run's folder.")] = FOLDER,
    as_json: inputs.AsJson = False,
) -> None:
    """Train under a deal, and compare what it promised with what was measured.

    Every member contributes what it agreed to. It gets the common model (or a personal one), and trains one alone to
    compare. Samples, label noise, floors and ceilings: a number for all, one per member with commas, or NAME=NUMBER.
    The folder holds all rounds, the result, a picture, and what is needed to repeat the run.
    """
    check_folder(output)
    chosen = inputs.read_scenario(scenario)
    federation = chosen.federation
    names, lots = federation.names, federation.lot_labels
    low, high = checked_range(
        per_agent("--floor", floor or [], names, 0.0), per_agent("--ceiling", ceiling or [], names, 1.0), federation
    )
    inputs.say_unchecked(deal, unchecked=unchecked)
    agreed = inputs.choose_deal(chosen, deal, name, unchecked=unchecked)
    experiment = Experiment(
        _images(data),
        n_agents=federation.n_agents,
        names=names,
        lot_owners=federation.lot_owners if federation.has_lots else None,
        lot_names=federation.lot_names if federation.has_lots else None,
        samples=per_agent("--samples", samples or [], lots, SAMPLES),
        test_share=test_share,
        alpha=alpha,
        label_noise=_label_noise(lots, label_noise or []),
        training=Training(rounds=rounds, local_epochs=local_epochs, learning_rate=learning_rate),
        seed=seed,
    )
    alone = 1 if federation.home is None else federation.n_agents
    with screen.progress(federation.n_agents + alone) as begin:  # models at most
        run = train_under(
            agreed, federation, experiment, floors=low, ceilings=high, models=chosen.models, progress=begin
        )
    files = [str(path) for path in save_run(output, run, chosen, experiment, _origin(scenario, deal))]
    if as_json:
        screen.print_json(run_record(run) | {"files": files})
        return
    _show(run, chosen)
    screen.say_written(files)


def _images(source: str) -> Images:
    """What is dealt to the members; it may take a while to come."""
    with screen.progress(1) as begin, error_context("--data"):
        begin("reading images")
        return mnist(source)


def _label_noise(lots: tuple[str, ...], given: list[str]) -> FloatArray:
    """The share of wrong labels in each lot."""
    shares = per_agent("--label-noise", given, lots, 0.0)
    return np.asarray(checked_numbers("--label-noise", shares, lambda x: (x >= 0) & (x <= 1), "a share from 0 to 1"))


def _origin(scenario: str, deal: Path | None) -> dict[str, Any]:
    """Where a plan came from, for people: the words of the command and the texts of its files."""
    return {
        "command": shlex.join(["fedpact", *sys.argv[1:]]).encode("utf-8", "replace").decode(),
        "source": {
            "scenario": scenario,
            "scenario_text": None if scenario in EXAMPLES else read_text(Path(scenario)),
            "deal": None if deal is None else str(deal),
        },
    }


def _show(run: Run, scenario: Scenario) -> None:
    """All tables, and a few words."""
    name = run.plan.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else name
    own = ", a model for each member" if run.models == PERSONAL else ""
    screen.say(
        (scenario.title or "Federation", "bold"), f" trained under {title}, {count_text(run.rounds, 'round')}{own}"
    )
    screen.say()
    unit, gains = Unit.of(scenario.money, run.promised.payoffs), run.gains
    names = [name if run.is_member[agent] else f"{name} (alone)" for agent, name in enumerate(run.agents)]
    _show_training(run, names)
    _show_gains(run, names, unit)
    amounts = (run.promised.welfare, run.measured.welfare, gains.promised.sum(), gains.total, *gains.total_interval)
    welfare, reached, promised, measured, low, high = (unit.text(float(amount)) for amount in amounts)
    screen.say(f"Welfare {welfare} promised, {reached} measured.")
    screen.say(
        (f"Verdict: {run.verdict}.", "bold"),
        f" All members together gain {measured} over training alone (90 % interval {low} to {high}); the deal promised "
        f"{promised}.",
    )
    if gains.doubtful:
        who = join_names(gains.doubtful, most=MAX_NAMES)
        screen.say(f"Measured gains of {who} may be chance: larger test sets may say otherwise.")
    if not run.floors.any():
        screen.say(FROM_ZERO)


def _show_training(run: Run, names: list[str]) -> None:
    alone = ("alone: used", run.standalone_samples) if run.plan.home is None else ("at home", run.plan.home)
    amounts = [
        ("agreed", number_texts(run.plan.contributions)),
        ("used", [f"{count:,}" for count in run.samples]),
        (alone[0], [f"{count:,}" for count in alone[1]]),
    ]
    measured = [
        ("accuracy", [f"{accuracy:.4f}" for accuracy in run.accuracies]),
        ("alone: accuracy", [f"{accuracy:.4f}" for accuracy in run.standalone_accuracies]),
    ]
    if run.federation.has_lots:
        screen.print_agents("Lots", run.federation.lot_labels, amounts, sizes=run.plan.contributions)
        screen.say()
        screen.print_agents("Training", names, measured, sizes=run.promised.payoffs)
    else:
        columns = [*amounts[:2], measured[0], amounts[2], measured[1]]
        screen.print_agents("Training", names, columns, sizes=run.plan.contributions)
    sizes = run.test_sizes
    images = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    screen.say(f"Tested on {images} images each: a standard error of up to {0.5 / np.sqrt(sizes.min()):.2g}.")
    screen.say()


def _show_gains(run: Run, names: list[str], unit: Unit) -> None:
    amounts = (run.plan.payments, run.promised.gains, run.measured.gains, *run.gains.intervals.T)
    texts = [unit.column(each, signed=True) for each in amounts]
    columns = list(zip(("receives", "promised", "measured", "from", "to"), texts, strict=True))
    columns.append(("would leave", [_leaves(run, agent) for agent in range(len(run.agents))]))
    sizes = run.promised.payoffs if run.federation.has_lots else run.plan.contributions  # by which the largest are told
    screen.print_agents(f"Gains over training alone, 90 % intervals ({unit.label})", names, columns, sizes=sizes)


def _leaves(run: Run, agent: int) -> str:
    """By what was measured, as far as that is beyond chance, and by what was promised where that is something else."""
    if not run.is_member[agent]:
        return "-"
    promised, measured = ("yes" if account.leaves[agent] else "no" for account in (run.promised, run.measured))
    if run.agents[agent] in run.gains.doubtful:
        return f"not clear, promised {promised}"
    return measured if promised == measured else f"{measured}, promised {promised}"
