"""Fig. 4: both mechanisms on the accuracies of models trained on MNIST, at a low and a moderate cost of a sample.

Three agents hold 400 images each, a fifth of them for testing. Accuracies that a mechanism is worked out from are those
of models trained from scratch for 20 rounds; what is drawn is one model trained for 50 rounds under the mechanism's
contributions, which under M^Shap move from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.paper import drawing
from fedpact.paper.markdown import pipe_table
from fedpact.paper.measured_game import MeasuredGame, nearest_counts
from fedpact.paper.measured_mechanisms import (
    BestResponses,
    GridSearch,
    Leaving,
    SurfaceSearch,
    best_responses,
    grid_search,
    leaving,
    standing_alone,
    surface_search,
)
from fedpact.paper.results import Judgement, PaperFinding, Result, judge, number, span
from fedpact.training import Experiment, mnist
from fedpact.utils.arrays import FloatArray

N_AGENTS, SAMPLES, TEST_SHARE, START = 3, 400, 0.2, 150
GAMMAS = (0.001, 0.01)
MAX_GRIDS = 4  # a grid whose best profile is on its edge is followed by one around that profile
PARTS = 4  # of a run, for the progress bar

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Fig4Settings:
    """How long and how fine."""

    seeds: Sequence[int]
    rounds: int
    grid_step: int


FULL = Fig4Settings(seeds=(0, 1, 2), rounds=50, grid_step=20)
QUICK = Fig4Settings(seeds=(0,), rounds=20, grid_step=50)


@dataclass(frozen=True, kw_only=True, eq=False)
class MechanismRounds:
    """One mechanism round by round.

    Attributes
    ----------
    schedule
        (rounds, n_agents): samples used.
    accuracies
        (rounds, n_agents): of the model after each round.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions, once a model is trained.
    leaving
        Who is better off alone, and what is left then.
    """

    schedule: np.ndarray
    accuracies: FloatArray
    utilities: FloatArray
    leaving: Leaving

    @property
    def accuracy(self) -> FloatArray:
        """(rounds,): summed over the agents."""
        return np.asarray(self.accuracies.sum(axis=1))

    @property
    def welfare(self) -> FloatArray:
        """(rounds,): with everybody in."""
        return self.leaving.everybody


@dataclass(frozen=True, kw_only=True, eq=False)
class Fig4Run:
    """Both mechanisms for one seed and one cost."""

    seed: int
    gamma: float
    responses: BestResponses
    grids: Sequence[GridSearch]
    surface: SurfaceSearch
    alone: FloatArray
    shapley: MechanismRounds
    externality: MechanismRounds

    @property
    def grid_trainings(self) -> int:
        """Profiles the grid search looked at."""
        return sum(grid.tried for grid in self.grids)


def runs(settings: Fig4Settings, *, folder: Path | None = None, progress: Progress | None = None) -> list[Fig4Run]:
    """All runs; what was trained before is read from the folder."""
    images = mnist()
    total, found = PARTS * len(GAMMAS) * len(settings.seeds), list[Fig4Run]()
    begun = count(1)

    def finish() -> None:
        if progress is not None:
            progress(next(begun), total)

    for seed in settings.seeds:
        experiment = Experiment(images, n_agents=N_AGENTS, samples=SAMPLES, test_share=TEST_SHARE, seed=seed)
        game = MeasuredGame(experiment, folder=folder)
        found += [_run(game, seed, gamma, settings, finish) for gamma in GAMMAS]
    return found


def _run(game: MeasuredGame, seed: int, gamma: float, settings: Fig4Settings, finish: Callable[[], None]) -> Fig4Run:
    alone = standing_alone(game, gamma)
    grids = [grid_search(game, gamma, centre=START, step=settings.grid_step)]
    while grids[-1].on_edge and len(grids) < MAX_GRIDS:
        grids.append(grid_search(game, gamma, centre=grids[-1].contributions, step=settings.grid_step))
    finish()
    surface = surface_search(game, gamma)
    finish()
    responses = best_responses(game, gamma, start=START, rounds=settings.rounds)
    finish()
    best = grids[-1].contributions
    schedule = np.tile(nearest_counts(best), (settings.rounds, 1))
    utilities = _externality(game, gamma, best, surface)
    run = Fig4Run(
        seed=seed,
        gamma=gamma,
        responses=responses,
        grids=grids,
        surface=surface,
        alone=alone,
        shapley=_shapley(game, gamma, responses, alone, settings.rounds),
        externality=_curve(game, gamma, schedule, np.tile(utilities, (settings.rounds, 1)), alone),
    )
    finish()
    return run


def _shapley(game: MeasuredGame, gamma: float, found: BestResponses, alone: FloatArray, rounds: int) -> MechanismRounds:
    schedule = found.schedule(rounds)
    values = np.array([game.shapley(used).values for used in schedule])
    return _curve(game, gamma, schedule, values - gamma * schedule, alone)


def _externality(game: MeasuredGame, gamma: float, given: FloatArray, surface: SurfaceSearch) -> FloatArray:
    """(n_agents,) utilities at contributions that stay; payments are at the prices of the fitted surface."""
    federation = surface.surface.federation(costs=gamma, caps=game.available)
    return np.asarray(game.accuracies(given) - gamma * given + federation.arrays.price_payments(given))


def _curve(
    game: MeasuredGame, gamma: float, schedule: np.ndarray, utilities: FloatArray, alone: FloatArray
) -> MechanismRounds:
    return MechanismRounds(
        schedule=schedule,
        accuracies=game.history(schedule).accuracies,
        utilities=utilities,
        leaving=leaving(game, gamma, schedule, utilities, alone),
    )


FIG_4 = "section 7.2, Fig. 4"
LOW, MODERATE = GAMMAS
Measure = Callable[[MechanismRounds], FloatArray]
TAIL_ROUNDS = 10  # rounds at the end, over which figures are averaged
SIMILAR = 0.05  # of the larger: two curves converge to similar values
SLIGHTLY = 0.15  # of the smaller
FIG_4_TEXT = """\
Three agents hold 400 MNIST images each, evenly distributed over the classes, 80 of them for testing. They train the
paper's network (784-128-64-10) by federated averaging: {rounds} rounds of one local epoch, SGD with learning rate 0.05
and momentum 0.9. {seeds}. The payoff of an agent is the accuracy on its own test images; without data there is no model
and the payoff is zero.

Under M^Shap everybody starts with {start} samples and follows the measured slope of its utility (step 1000, 10 samples
more to measure it, at rest when nobody moves by more than 5 samples in 3 rounds). Shapley values are exact here: three
agents have seven coalitions, so the paper's 300 random orders are not needed. M^E is the best profile of a grid of 100
samples around {start} in steps of {step}, every profile trained from scratch for 20 rounds; where the best one was on
the edge of the grid, another grid around it followed. The payments of M^E are at the prices of a payoff surface fitted
to accuracies. An agent leaves if its utility under the mechanism is below what it has alone; "w/v" is the welfare with
everybody in, "w/0" that with the leavers alone and the others training without their data.

{table}

Averages over the last {tail} rounds and over seeds; in brackets the smallest and largest of the seeds.
"""


def fig4_result(*, quick: bool = False, folder: Path | None = None, progress: Any = None) -> Result:
    """The runs, drawn and judged; `folder` keeps what was trained."""
    settings = QUICK if quick else FULL
    found = runs(settings, folder=folder, progress=progress)
    seeds = "One seed: a quick run, whose figures are those of a single draw" if quick else "Three seeds"
    findings = [judged(found) for judged in FINDINGS]
    if quick:  # of a quick run nothing is known before
        findings = [_unknown(one) for one in findings]
    return Result(
        name="fig4",
        title="Fig. 4: measured accuracies (MNIST)" + (", quick run" if quick else ""),
        columns=_columns(found),
        draw=lambda figure: _draw(figure, found),
        size=(7.2, 4.6),
        text=FIG_4_TEXT.format(
            rounds=settings.rounds,
            seeds=seeds,
            start=START,
            step=settings.grid_step,
            table=_table(found),
            tail=TAIL_ROUNDS,
        ),
        findings=findings,
    )


def _unknown(known: PaperFinding) -> PaperFinding:
    return PaperFinding(known.where, known.statement, known.judgement, known.evidence, expected=known.judgement)


# Numbers


def _at(found: Sequence[Fig4Run], gamma: float) -> list[Fig4Run]:
    return [run for run in found if run.gamma == gamma]


def _ends(found: Sequence[Fig4Run], gamma: float, name: str, of: Measure) -> FloatArray:
    """By seed: the mean over the last rounds under a mechanism."""
    return np.array([of(CURVES[name](run))[-TAIL_ROUNDS:].mean() for run in _at(found, gamma)])


def _both(found: Sequence[Fig4Run], gamma: float, of: Measure) -> tuple[FloatArray, FloatArray]:
    """Of M^E and of M^Shap."""
    return _ends(found, gamma, "M^E", of), _ends(found, gamma, "M^Shap", of)


def _shown(by_seed: FloatArray, form: str = ".3f") -> str:
    if by_seed.size == 1:
        return number(float(by_seed[0]), form)
    return f"{number(float(by_seed.mean()), form)} ({span(by_seed.tolist(), form)})"


def _accuracy(curve: MechanismRounds) -> FloatArray:
    return curve.accuracy


def _welfare(curve: MechanismRounds) -> FloatArray:
    return curve.welfare


def _without_leavers(curve: MechanismRounds) -> FloatArray:
    return curve.leaving.without


def _samples(curve: MechanismRounds) -> FloatArray:
    return np.asarray(curve.schedule.sum(axis=1), dtype=np.float64)


def _leavers(curve: MechanismRounds) -> FloatArray:
    return np.asarray(curve.leaving.leaves.sum(axis=1), dtype=np.float64)


CURVES: dict[str, Callable[[Fig4Run], MechanismRounds]] = {
    "M^E": lambda run: run.externality,
    "M^Shap": lambda run: run.shapley,
}
TRAININGS: dict[str, Callable[[Fig4Run], int]] = {
    "M^E": lambda run: run.grid_trainings,
    "M^Shap": lambda run: run.responses.models,
}
SHOWN: dict[str, tuple[Measure, str]] = {
    "samples in all": (_samples, ".0f"),
    "accuracy, summed": (_accuracy, ".3f"),
    "welfare w/v": (_welfare, ".3f"),
    "welfare w/0": (_without_leavers, ".3f"),
    "leavers": (_leavers, ".1f"),
}


def _table(found: Sequence[Fig4Run]) -> str:
    rows = []
    for gamma in GAMMAS:
        for name in CURVES:
            numbers_of = [_shown(_ends(found, gamma, name, of), form) for of, form in SHOWN.values()]
            models = np.array([float(TRAININGS[name](run)) for run in _at(found, gamma)])
            rows.append([f"{gamma:g}", name, *numbers_of, _shown(models, ".0f")])
    return pipe_table(["γ", "mechanism", *SHOWN, "models"], rows)


def _columns(found: Sequence[Fig4Run]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for run in found:
        for name, curve_of in CURVES.items():
            curve = curve_of(run)
            for place in range(len(curve.schedule)):
                row = {
                    "seed": run.seed,
                    "gamma": run.gamma,
                    "mechanism": name,
                    "round": place + 1,
                    "accuracy": float(curve.accuracy[place]),
                    "welfare": float(curve.welfare[place]),
                    "welfare_without_leavers": float(curve.leaving.without[place]),
                    "leavers": int(curve.leaving.leaves[place].sum()),
                }
                row |= {f"contribution_{agent}": int(used) for agent, used in enumerate(curve.schedule[place])}
                row |= {f"utility_{agent}": float(one) for agent, one in enumerate(curve.utilities[place])}
                row |= {f"alone_{agent}": float(one) for agent, one in enumerate(run.alone)}
                for key, value in row.items():
                    columns.setdefault(key, []).append(value)
    return columns


# Judgements


def _everybody_stays(found: Sequence[Fig4Run]) -> PaperFinding:
    cases = [(name, run, curve_of(run)) for name, curve_of in CURVES.items() for run in _at(found, LOW)]
    ends = {name: sum(int(curve.leaving.leaves[-1].sum()) for one, _, curve in cases if one == name) for name in CURVES}
    of = len(_at(found, LOW)) * cases[0][2].schedule.shape[1]
    gaps = {
        name: min(float((curve.utilities[-1] - run.alone).min()) for one, run, curve in cases if one == name)
        for name in CURVES
    }
    text = "; ".join(f"{name}: {ends[name]} of {of} leave, smallest IR gap {number(gaps[name])}" for name in CURVES)
    return PaperFinding(
        FIG_4,
        "At the low cost all agents are individually rational and take part under both mechanisms.",
        judge(ends["M^E"] == 0 and ends["M^Shap"] == 0, partly=min(ends["M^E"], ends["M^Shap"]) == 0),
        f"At the last round, over all seeds: {text}.",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


def _alike_at_low_cost(found: Sequence[Fig4Run]) -> PaperFinding:
    accuracy = [float(by_seed.mean()) for by_seed in _both(found, LOW, _accuracy)]
    welfare = [float(by_seed.mean()) for by_seed in _both(found, LOW, _welfare)]
    apart = [abs(a - b) / max(a, b) for a, b in (accuracy, welfare)]
    return PaperFinding(
        FIG_4,
        "At the low cost accuracy and welfare converge to similar values under both mechanisms.",
        judge(max(apart) <= SIMILAR, partly=min(apart) <= SIMILAR),
        f"M^E and M^Shap: accuracy {number(accuracy[0], '.3f')} and {number(accuracy[1], '.3f')} "
        f"({100 * apart[0]:.1f} % apart), welfare {number(welfare[0], '.3f')} and {number(welfare[1], '.3f')} "
        f"({100 * apart[1]:.1f} % apart).",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


def _some_leave(found: Sequence[Fig4Run]) -> PaperFinding:
    leaves = [run.shapley.leaving.leaves for run in _at(found, MODERATE)]
    last = sum(int(one[-1].sum()) for one in leaves)
    when = [int(np.flatnonzero(one.any(axis=1))[-1]) + 1 for one in leaves if one.any()]
    share = float(np.mean([one.any(axis=1).mean() for one in leaves]))
    return PaperFinding(
        FIG_4,
        "At the moderate cost some agents leave under M^Shap.",
        judge(last > 0, partly=bool(when)),
        f"Somebody is better off alone in {100 * share:.0f} % of the rounds, and {last} of "
        f"{sum(one.shape[1] for one in leaves)} agents are at the last one (seeds: last round with a leaver "
        f"{', '.join(map(str, when)) or 'none'}). From 150 samples each, which cost more than they bring, agents come "
        f"down by at most 10 a round.",
        expected=Judgement.CONFIRMED,
    )


def _more_accurate(found: Sequence[Fig4Run]) -> PaperFinding:
    by_seed = _both(found, MODERATE, _accuracy)
    more = float((by_seed[1] - by_seed[0]).mean())
    samples = _both(found, MODERATE, _samples)
    return PaperFinding(
        FIG_4,
        "At the moderate cost M^Shap has slightly higher aggregate accuracy, because agents contribute more.",
        judge(bool((by_seed[1] > by_seed[0]).all()) and more <= SLIGHTLY * by_seed[0].mean(), partly=more > 0),
        f"M^Shap {_shown(by_seed[1])}, M^E {_shown(by_seed[0])}; samples "
        f"{_shown(samples[1], '.0f')} and {_shown(samples[0], '.0f')}.",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


def _more_welfare(found: Sequence[Fig4Run]) -> PaperFinding:
    by_seed = _both(found, MODERATE, _welfare)
    return PaperFinding(
        FIG_4,
        "At the moderate cost M^E has strictly higher welfare.",
        judge(bool((by_seed[0] > by_seed[1]).all()), partly=bool(by_seed[0].mean() > by_seed[1].mean())),
        f"M^E {_shown(by_seed[0])}, M^Shap {_shown(by_seed[1])}; higher in {int((by_seed[0] > by_seed[1]).sum())} of "
        f"{by_seed[0].size} seeds.",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


def _welfare_drops(found: Sequence[Fig4Run]) -> PaperFinding:
    changes = []
    for run in _at(found, MODERATE):
        left = run.shapley.leaving.leaves.any(axis=1)
        changes += (run.shapley.leaving.without - run.shapley.leaving.everybody)[left].tolist()
    drops = [change for change in changes if change < 0]
    return PaperFinding(
        FIG_4,
        "With leavers at their standalone accuracy, the welfare of M^Shap (w/0) drops.",
        judge(bool(changes) and len(drops) == len(changes), partly=bool(drops)),
        f"Of {len(changes)} rounds in which somebody leaves, welfare is lower for it in {len(drops)}; the change is "
        f"{span(changes)}. Whoever leaves gains by it, and the others save nothing and lose its data.",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


def _fluctuates(found: Sequence[Fig4Run]) -> PaperFinding:
    parts = []
    for run in _at(found, MODERATE):
        curve, later = run.shapley, slice(len(run.shapley.schedule) // 3, None)
        parts.append(
            (
                float(np.diff(curve.welfare[later]).std()),
                float(np.diff(-run.gamma * _samples(curve)[later]).std()),
                float(np.diff(curve.accuracy[later]).std()),
                float(np.diff(run.externality.welfare[later]).std()),
            )
        )
    whole, cost, accuracy, other = np.array(parts).mean(axis=0)
    return PaperFinding(
        FIG_4,
        "The welfare of M^Shap fluctuates because best responses keep changing the contributions.",
        judge(cost > accuracy and whole > other, partly=whole > other),
        f"After the first third of the rounds welfare changes from one to the next by {number(whole)} (standard "
        f"deviation), {number(cost)} through costs and {number(accuracy)} through accuracy; under M^E, with fixed "
        f"contributions, by {number(other)}.",
        expected=Judgement.CONFIRMED,
    )


def _less_data(found: Sequence[Fig4Run]) -> PaperFinding:
    texts, less, higher = [], [], []
    for gamma in GAMMAS:
        samples = _both(found, gamma, _samples)
        welfare = _both(found, gamma, _welfare)
        less.append(bool((samples[0] < samples[1]).all()))
        higher.append(bool((welfare[0] > welfare[1]).all()))
        texts.append(
            f"γ = {gamma:g}: samples {_shown(samples[0], '.0f')} against {_shown(samples[1], '.0f')}, welfare "
            f"{_shown(welfare[0])} against {_shown(welfare[1])}"
        )
    return PaperFinding(
        f"{FIG_4}; Theorem 1",
        "M^E reaches higher welfare with less data in all.",
        judge(all(less) and all(higher), partly=any(a and b for a, b in zip(less, higher, strict=True))),
        f"{'; '.join(texts)}.",
        expected=Judgement.CONDITIONAL,
        or_better=True,
    )


FINDINGS: Sequence[Callable[[Sequence[Fig4Run]], PaperFinding]] = (
    _everybody_stays,
    _alike_at_low_cost,
    _some_leave,
    _more_accurate,
    _more_welfare,
    _welfare_drops,
    _fluctuates,
    _less_data,
)


# Picture


def _draw(figure: Any, found: Sequence[Fig4Run]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    panels = figure.subplots(2, len(GAMMAS), sharex=True)
    left_alone = {"linestyle": ":", "color": drawing.MARKS["shapley"]["color"]}
    for column, gamma in enumerate(GAMMAS):
        some = _at(found, gamma)
        for name, curve_of in (("externality", CURVES["M^E"]), ("shapley", CURVES["M^Shap"])):
            style = {key: drawing.MARKS[name][key] for key in ("color", "linestyle")}
            _band(panels[0, column], np.array([curve_of(run).accuracy for run in some]), style)
            _band(panels[1, column], np.array([curve_of(run).welfare for run in some]), style)
        _band(panels[1, column], np.array([run.shapley.leaving.without for run in some]), left_alone)
        cost = "low" if gamma == LOW else "moderate"
        drawing.dress(panels[0, column], f"γ = {gamma:g}, {cost} cost")
        drawing.dress(panels[1, column], "")
        panels[1, column].set_xlabel("round")
        panels[1, column].xaxis.get_major_locator().set_params(integer=True)
    panels[0, 0].set_ylabel("accuracy, summed over agents")
    panels[1, 0].set_ylabel("welfare")
    marks = [
        Line2D([], [], **{key: mark[key] for key in ("color", "linestyle")}, label=f"{mark['label']}, w/v")
        for mark in drawing.MARKS.values()
    ]
    marks.append(Line2D([], [], **left_alone, label="Shapley, leavers alone, w/0"))
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))


def _band(panel: Any, by_seed: FloatArray, style: dict[str, Any]) -> None:
    """The mean over seeds, and from the smallest to the largest."""
    rounds = np.arange(1, by_seed.shape[1] + 1)
    panel.plot(rounds, by_seed.mean(axis=0), **style)
    if len(by_seed) > 1:
        low, high = by_seed.min(axis=0), by_seed.max(axis=0)
        panel.fill_between(rounds, low, high, color=style["color"], alpha=0.15, linewidth=0)
