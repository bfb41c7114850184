"""Fig. 4: both mechanisms on the accuracies of models trained on MNIST, at a low and a moderate cost of a sample.

Three agents hold 400 images each, a fifth of them for testing. The mechanisms are worked out from accuracies of models
trained from scratch for 20 rounds. The figure shows one model trained for 50 rounds under each mechanism's
contributions, which under M^Shap move from round to round.

**Payoffs** are measured test accuracies. A coalition's model is trained on its members' contributions alone. Without
data there is no model: the empty coalition, and one whose members contribute nothing, are worth zero to everybody.
Every trained model's accuracies are kept, on disk if a folder is named, so nothing is trained twice.

**The Shapley mechanism** is played by best responses. Agent i's utility is phi_i(s) - c s_i, and the derivative of
phi_i is measured by contributing `perturbation` samples more,

    s_i <- s_i + step ((phi_i(s + perturbation e_i) - phi_i(s)) / perturbation - c),   kept within [0, available_i],

all agents at once. A round takes up to 2^n + n 2^(n - 1) - 1 models.

**The Externality mechanism** contributes the best profile of a grid, as in the paper. Its payments are at the gradients
of a payoff surface (`fedpact.fitting`) through all models trained so far, which a grid by itself does not give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.claims import utility_tolerances, would_leave
from fedpact.fitting import Observations, fit
from fedpact.paper import drawing
from fedpact.paper.results import SYMBOLS, Judgement, Result, Statements, Verdict, judge, number, pipe_table, span
from fedpact.shapley.measured import Coalition, sample_game
from fedpact.training import Experiment, mnist
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.checkpoint import Checkpoint

# Pseudo-observations that everybody's data is alike. With linear costs the slightest difference decides who
# contributes, and noise would make that choice.
PRIOR = 10.0
MODELS_ALONE = 24  # per agent
MAX_GRIDS = 4  # a grid whose best profile is on its edge is followed by one around that profile
N_AGENTS, SAMPLES, TEST_SHARE, START = 3, 400, 0.2, 150
GAMMAS = LOW, MODERATE = 0.001, 0.01
PARTS = 3  # of a run, for the progress bar

Progress = Callable[[int, int], None]


class MeasuredGame:
    """What models trained by coalitions are worth, measured; results are kept in `folder`, or in memory."""

    def __init__(self, experiment: Experiment, *, folder: Path | None = None) -> None:
        self.experiment = experiment
        self.n_agents = experiment.n_agents
        self.available = experiment.available.astype(np.float64)
        self._kept = None
        if folder is not None:
            own = Path(folder) / experiment.fingerprint
            own.parent.mkdir(parents=True, exist_ok=True)
            self._kept = Checkpoint(own, experiment.fingerprint)
        self._known: dict[str, FloatArray] = {}
        self.trained = 0

    def accuracies(self, profiles: ArrayLike) -> FloatArray:
        """Every agent's test accuracy of the models that profiles train, (models, n_agents); all missing in one go."""
        rows = [tuple(map(int, row)) for row in np.rint(np.atleast_2d(profiles))]
        missing = sorted({row for row in rows if any(row) and self._load(row) is None})
        if missing:
            for index, found in self.experiment.each(missing):
                self._keep(missing[index], found)
        nothing = np.zeros(self.n_agents)
        return np.array([self._known[_piece(row)] if any(row) else nothing for row in rows])

    def history(self, schedule: ArrayLike) -> FloatArray:
        """(rounds, n_agents): accuracies of one model whose contributions change from round to round."""
        rows = np.asarray(schedule, dtype=np.int64)
        asked = "history", rows.tolist()
        known = self._load(asked)
        return self._keep(asked, self.experiment.history(rows).accuracies) if known is None else known

    def shapley(self, contributions: ArrayLike) -> FloatArray:
        """Shapley values of the sum of all agents' accuracies, from the models of all coalitions."""
        used = np.rint(contributions)

        def worth(coalitions: Sequence[Coalition]) -> FloatArray:
            members = np.array([np.isin(np.arange(self.n_agents), coalition) for coalition in coalitions])
            return self.accuracies(np.where(members, used, 0)).sum(axis=1)

        return sample_game(worth, self.n_agents, budget=1 << self.n_agents, batch=True).values

    def _load(self, asked: Sequence[object]) -> FloatArray | None:
        """What was trained already, now or before an interruption."""
        piece = _piece(asked)
        stored = self._kept.load(piece) if piece not in self._known and self._kept is not None else None
        if stored is not None:
            self._known[piece] = stored["accuracies"]
        return self._known.get(piece)

    def _keep(self, asked: Sequence[object], accuracies: FloatArray) -> FloatArray:
        if self._kept is not None:
            self._kept.save(_piece(asked), {"accuracies": accuracies})
        self._known[_piece(asked)] = accuracies
        self.trained += 1
        return accuracies


def _piece(asked: Sequence[object]) -> str:
    """What a result is called on disk."""
    return f"model-{hashlib.sha256(repr(asked).encode()).hexdigest()[:16]}-0-0"


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponses:
    """Where best responses led.

    Attributes
    ----------
    contributions
        (rounds + 1, n_agents): what is contributed in each round, and in the end.
    models
        How many models were looked at.
    """

    contributions: FloatArray
    models: int

    def schedule(self, rounds: int) -> IntArray:
        """Whole samples used in each of `rounds` rounds; once at rest, always the same."""
        path = np.rint(self.contributions).astype(np.int64)
        return path[np.minimum(np.arange(rounds), len(path) - 1)]


def best_responses(
    game: MeasuredGame,
    cost: float,
    *,
    start: float = 150.0,
    step: float = 1000.0,
    perturbation: int = 10,
    threshold: float = 5.0,
    patience: int = 3,
    rounds: int = 50,
) -> BestResponses:
    """Best-response dynamics with finite differences; the defaults are the paper's.

    Stopping inequality: in `patience` rounds in a row nobody moves by more than `threshold` samples.
    """
    masks = np.array(list(product([0, 1], repeat=game.n_agents)))
    path = [np.clip(np.full(game.n_agents, start), 0.0, game.available)]
    seen: set[tuple[int, ...]] = set()
    quiet = 0
    while len(path) <= rounds and quiet < patience:
        used = np.rint(path[-1]).astype(np.int64)
        # Forwards, backwards for who has nothing more.
        moves = np.where(used + perturbation <= game.available, perturbation, -np.minimum(perturbation, used))
        moved = used + np.diag(moves)
        asked = np.concatenate([masks * profile for profile in (used, *moved)])
        seen.update(map(tuple, asked[asked.any(axis=1)].tolist()))
        game.accuracies(asked)  # all in one go
        own = np.array([game.shapley(profile)[agent] for agent, profile in enumerate(moved)])
        derivatives = np.divide(own - game.shapley(used), moves, out=np.zeros(game.n_agents), where=moves != 0)
        path.append(np.clip(path[-1] + step * (derivatives - cost), 0.0, game.available))
        quiet = quiet + 1 if np.abs(path[-1] - path[-2]).max() <= threshold else 0
    return BestResponses(contributions=read_only_copy(path), models=len(seen))


@dataclass(frozen=True, kw_only=True, eq=False)
class GridSearch:
    """The best profile of a search and every profile it looked at, in units of whole samples."""

    best: IntArray
    profiles: IntArray


def grid_search(
    game: MeasuredGame, cost: float, *, centre: float = 150.0, reach: int = 100, step: int = 20
) -> GridSearch:
    """Train every profile within `reach` samples of `centre` in steps of `step`; the defaults are the paper's.

    While the best profile is on the edge of the grid and more of the same is possible, another grid around it follows.
    """
    best, tried = np.full(game.n_agents, round(centre)), list[IntArray]()
    offsets = np.arange(-(reach // step) * step, reach + 1, step)
    while len(tried) < MAX_GRIDS:
        around = zip(best[:, None] + offsets, game.available, strict=True)
        axes = [axis[(axis >= 0) & (axis <= most)] for axis, most in around]
        profiles = np.array(list(product(*axes)), dtype=np.int64)
        tried.append(profiles)
        best = profiles[np.argmax(game.accuracies(profiles).sum(axis=1) - cost * profiles.sum(axis=1))]
        below, above = (best == profiles.min(axis=0)) & (best >= step), best == profiles.max(axis=0)
        if not (below | (above & (best + step <= game.available))).any():
            break
    return GridSearch(best=best, profiles=np.unique(np.concatenate(tried), axis=0))


def externality_payments(game: MeasuredGame, cost: float, found: GridSearch) -> FloatArray:
    """What everybody receives at the best profile, at the gradients of a surface through all models trained so far."""
    seen = np.concatenate([found.profiles, *_profiles_alone(game)]).astype(np.float64)
    seen = seen[seen.any(axis=1)]
    sizes = np.broadcast_to(game.experiment.test_sizes.astype(np.float64), seen.shape)
    observations = Observations.of(seen, game.accuracies(seen), test_sizes=sizes, names=game.experiment.names)
    federation = fit(observations, prior=PRIOR).federation(costs=cost, caps=game.available)
    return federation.arrays.price_payments(found.best.astype(np.float64))


def standing_alone(game: MeasuredGame, cost: float) -> FloatArray:
    """(n_agents,) the best utility of each alone, by a curve through models of its own at several sizes.

    The best measured utility would be the luckiest one; a curve averages over the noise. An agent that loses by every
    model of its own trains none, and has zero.
    """
    profiles = _profiles_alone(game)
    everybody = game.accuracies(profiles.reshape(-1, game.n_agents)).reshape(profiles.shape)
    best = np.zeros(game.n_agents)
    for agent in range(game.n_agents):
        sizes, measured = profiles[agent, :, agent][:, None], everybody[agent, :, agent][:, None]
        curve = fit(Observations.of(sizes, measured, test_sizes=float(game.experiment.test_sizes[agent])))
        tried = np.arange(1.0, sizes.max() + 1.0)
        best[agent] = max(0.0, (curve.predict(tried[:, None])[:, 0] - cost * tried).max())
    return best


def _profiles_alone(game: MeasuredGame) -> FloatArray:
    """(n_agents, models, n_agents): everybody by itself, at sizes that are closer where curves are steep."""
    shares = np.linspace(0.0, 1.0, MODELS_ALONE + 1)[1:] ** 1.6
    sizes = np.maximum(np.rint(np.outer(game.available, shares)), 1.0)
    return np.asarray(sizes[:, :, None] * np.eye(game.n_agents)[:, None, :])


# The figure: runs, and what is drawn and judged


@dataclass(frozen=True, kw_only=True)
class Fig4Settings:
    """How long and how fine."""

    seeds: Sequence[int]
    rounds: int
    grid_step: int


FULL = Fig4Settings(seeds=(0, 1, 2), rounds=50, grid_step=20)
QUICK = Fig4Settings(seeds=(0,), rounds=20, grid_step=50)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One mechanism round by round; rows are rounds.

    Attributes
    ----------
    models
        How many models were looked at to find the contributions.
    schedule
        (rounds, n_agents): samples used.
    accuracies
        (rounds, n_agents): of the model after each round.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions, once a model is trained.
    leaves
        (rounds, n_agents): who is better off alone.
    welfare, welfare_without
        (rounds,): with everybody in, and if those who are better off alone leave: they have their utility alone, the
        others a model without their data.
    """

    models: int
    schedule: IntArray
    accuracies: FloatArray
    utilities: FloatArray
    leaves: NDArray[np.bool_]
    welfare: FloatArray
    welfare_without: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Fig4Run:
    """Both mechanisms for one seed and one cost, and what everybody has alone."""

    seed: int
    gamma: float
    alone: FloatArray
    curves: Mapping[str, Curve]


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
    alone, rounds = standing_alone(game, gamma), settings.rounds
    grid = grid_search(game, gamma, centre=START, step=settings.grid_step)
    given = np.tile(grid.best, (rounds, 1))
    paid = game.accuracies(grid.best) - gamma * grid.best + externality_payments(game, gamma, grid)
    finish()
    responses = best_responses(game, gamma, start=START, rounds=rounds)
    schedule = responses.schedule(rounds)
    shares = np.array([game.shapley(used) for used in schedule])
    finish()
    curves = {
        "externality": train_rounds(game, gamma, given, np.tile(paid, (rounds, 1)), alone, models=len(grid.profiles)),
        "shapley": train_rounds(game, gamma, schedule, shares - gamma * schedule, alone, models=responses.models),
    }
    finish()
    return Fig4Run(seed=seed, gamma=gamma, alone=alone, curves=curves)


def train_rounds(
    game: MeasuredGame, cost: float, schedule: IntArray, utilities: FloatArray, alone: FloatArray, *, models: int = 0
) -> Curve:
    """Two federations trained round by round: with everybody, and without those who are better off alone."""
    whole, spent = game.history(schedule), np.asarray(cost * schedule, dtype=np.float64)
    tolerances = utility_tolerances(whole, spent, utilities - (whole - spent), np.ones(game.n_agents))
    leaves = would_leave(utilities - alone, tolerances)
    staying = np.where(leaves, 0, schedule)
    rest = game.history(staying) if leaves.any() else whole
    # Before anybody has trained anything together, and where nobody is left, there is no model.
    begun = np.cumsum(staying.sum(axis=1)) > 0
    kept = np.where(begun[:, None], rest, 0.0) - spent
    return Curve(
        models=models,
        schedule=schedule,
        accuracies=whole,
        utilities=utilities,
        leaves=leaves,
        welfare=(whole - spent).sum(axis=1),
        welfare_without=np.where(leaves, alone, kept).sum(axis=1),
    )


FIG_4 = Statements("section 7.2, Fig. 4")
Measure = Callable[[Curve], FloatArray]
TAIL_ROUNDS = 10  # rounds at the end, over which figures are averaged
SIMILAR = 0.05  # of the larger: two curves converge to similar values
SLIGHTLY = 0.15  # of the smaller
FIG_4_TEXT = """\
Three agents hold 400 MNIST images each, evenly distributed over the classes, 80 of them for testing. They train the
paper's network (784-128-64-10) by federated averaging: {rounds} rounds of one local epoch, SGD with learning rate 0.05
and momentum 0.9. {seeds}. The payoff of an agent is the accuracy on its own test images; without data there is no model
and the payoff is zero.

Under M^Shap everybody starts with {start} samples and follows the measured gradient of its utility (step 1000, 10
samples more to measure it, at rest when nobody moves by more than 5 samples in 3 rounds). Shapley values are exact
here: three agents have seven coalitions, so the paper's 300 random orders are not needed. M^E is the best profile of a
grid of 100 samples around {start} in steps of {step}, every profile trained from scratch for 20 rounds; where the best
one was on the edge of the grid, another grid around it followed. The payments of M^E are at the prices of a payoff
surface fitted to these accuracies and to those of everybody alone. An agent leaves if its utility under the mechanism
is below what it has alone; "w/v" is the welfare with everybody in, "w/0" that with the leavers alone and the others
training without their data.

{table}

Averages over the last {tail} rounds and over seeds; in brackets the smallest and largest of the seeds.
"""


def fig4_result(*, quick: bool = False, folder: Path | None = None, progress: Any = None) -> Result:
    """The runs, drawn and judged; `folder` keeps what was trained."""
    settings = QUICK if quick else FULL
    found = runs(settings, folder=folder, progress=progress)
    seeds = "One seed: a quick run, whose figures are those of a single draw" if quick else "Three seeds"
    findings = FIG_4.judge(found)
    if quick:  # of a quick run nothing is known before
        findings = [replace(one, expected=one.judgement) for one in findings]
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


# Numbers


def _at(found: Sequence[Fig4Run], gamma: float) -> list[Fig4Run]:
    return [run for run in found if run.gamma == gamma]


def _both(found: Sequence[Fig4Run], gamma: float, of: Measure) -> list[FloatArray]:
    """By seed, the mean over the last rounds: of M^E and of M^Shap."""
    return [np.array([of(run.curves[name])[-TAIL_ROUNDS:].mean() for run in _at(found, gamma)]) for name in SYMBOLS]


def _seeds_text(by_seed: FloatArray, form: str = ".3f") -> str:
    if by_seed.size == 1:
        return number(float(by_seed[0]), form)
    return f"{number(float(by_seed.mean()), form)} ({span(by_seed.tolist(), form)})"


def _accuracy(curve: Curve) -> FloatArray:
    return np.asarray(curve.accuracies.sum(axis=1))


def _welfare(curve: Curve) -> FloatArray:
    return curve.welfare


def _samples(curve: Curve) -> FloatArray:
    return np.asarray(curve.schedule.sum(axis=1), dtype=np.float64)


SHOWN: dict[str, tuple[Measure, str]] = {
    "samples in all": (_samples, ".0f"),
    "accuracy, summed": (_accuracy, ".3f"),
    "welfare w/v": (_welfare, ".3f"),
    "welfare w/0": (lambda curve: curve.welfare_without, ".3f"),
    "leavers": (lambda curve: curve.leaves.sum(axis=1), ".1f"),
    "models": (lambda curve: np.array([float(curve.models)]), ".0f"),
}


def _table(found: Sequence[Fig4Run]) -> str:
    rows = []
    for gamma in GAMMAS:
        cells = [[_seeds_text(each, form) for each in _both(found, gamma, of)] for of, form in SHOWN.values()]
        rows += [[f"{gamma:g}", *row] for row in zip(SYMBOLS.values(), *cells, strict=True)]
    return pipe_table(["γ", "mechanism", *SHOWN], rows)


def _columns(found: Sequence[Fig4Run]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    cases = [(run, name, curve) for run in found for name, curve in run.curves.items()]
    for run, name, curve in cases:
        for index in range(len(curve.schedule)):
            row = {
                "seed": run.seed,
                "gamma": run.gamma,
                "mechanism": SYMBOLS[name],
                "round": index + 1,
                "accuracy": float(_accuracy(curve)[index]),
                "welfare": float(curve.welfare[index]),
                "welfare_without_leavers": float(curve.welfare_without[index]),
                "leavers": int(curve.leaves[index].sum()),
            }
            row |= {f"contribution_{agent}": int(used) for agent, used in enumerate(curve.schedule[index])}
            row |= {f"utility_{agent}": float(one) for agent, one in enumerate(curve.utilities[index])}
            row |= {f"alone_{agent}": float(one) for agent, one in enumerate(run.alone)}
            for key, value in row.items():
                columns.setdefault(key, []).append(value)
    return columns


# Judgements


@FIG_4.statement(Judgement.CONDITIONAL, or_better=True)
def _everybody_stays(found: Sequence[Fig4Run]) -> Verdict:
    """At the low cost all agents are individually rational and take part under both mechanisms."""
    texts, gone = [], []
    for name, symbol in SYMBOLS.items():
        ends = np.array([run.curves[name].leaves[-1] for run in _at(found, LOW)])
        gap = min(float((run.curves[name].utilities[-1] - run.alone).min()) for run in _at(found, LOW))
        gone.append(int(ends.sum()))
        texts.append(f"{symbol}: {ends.sum()} of {ends.size} leave, smallest IR gap {number(gap)}")
    return judge(max(gone) == 0, partly=min(gone) == 0), f"At the last round, over all seeds: {'; '.join(texts)}."


@FIG_4.statement(Judgement.CONDITIONAL, or_better=True)
def _alike_at_low_cost(found: Sequence[Fig4Run]) -> Verdict:
    """At the low cost accuracy and welfare converge to similar values under both mechanisms."""
    pairs = [[float(by_seed.mean()) for by_seed in _both(found, LOW, of)] for of in (_accuracy, _welfare)]
    apart = [abs(a - b) / max(a, b) for a, b in pairs]
    texts = [
        f"{what} {number(ours, '.3f')} and {number(fair, '.3f')} ({100 * off:.1f} % apart)"
        for what, (ours, fair), off in zip(("accuracy", "welfare"), pairs, apart, strict=True)
    ]
    return judge(max(apart) <= SIMILAR, partly=min(apart) <= SIMILAR), f"M^E and M^Shap: {', '.join(texts)}."


@FIG_4.statement()
def _some_leave(found: Sequence[Fig4Run]) -> Verdict:
    """At the moderate cost some agents leave under M^Shap."""
    leaves = [run.curves["shapley"].leaves for run in _at(found, MODERATE)]
    last = sum(int(one[-1].sum()) for one in leaves)
    when = [int(np.flatnonzero(one.any(axis=1))[-1]) + 1 for one in leaves if one.any()]
    share = float(np.mean([one.any(axis=1).mean() for one in leaves]))
    return judge(last > 0, partly=bool(when)), (
        f"Somebody is better off alone in {100 * share:.0f} % of the rounds, and {last} of "
        f"{sum(one.shape[1] for one in leaves)} agents are at the last one (seeds: last round with a leaver "
        f"{', '.join(map(str, when)) or 'none'}). From 150 samples each, which cost more than they bring, agents come "
        f"down by at most 10 a round."
    )


@FIG_4.statement(Judgement.CONDITIONAL, or_better=True)
def _more_accurate(found: Sequence[Fig4Run]) -> Verdict:
    """At the moderate cost M^Shap has slightly higher aggregate accuracy, because agents contribute more."""
    ours, fair = _both(found, MODERATE, _accuracy)
    samples = [_seeds_text(each, ".0f") for each in _both(found, MODERATE, _samples)]
    more = float((fair - ours).mean())
    slightly = bool((fair > ours).all()) and more <= SLIGHTLY * ours.mean()
    return judge(slightly, partly=more > 0), (
        f"M^Shap {_seeds_text(fair)}, M^E {_seeds_text(ours)}; samples {samples[1]} and {samples[0]}."
    )


@FIG_4.statement(Judgement.CONDITIONAL, or_better=True)
def _welfare_drops(found: Sequence[Fig4Run]) -> Verdict:
    """With leavers at their standalone accuracy, the welfare of M^Shap (w/0) drops."""
    curves = [run.curves["shapley"] for run in _at(found, MODERATE)]
    changes = np.concatenate([(each.welfare_without - each.welfare)[each.leaves.any(axis=1)] for each in curves])
    drops = int((changes < 0).sum())
    return judge(bool(changes.size) and drops == changes.size, partly=bool(drops)), (
        f"Somebody leaves in {changes.size} rounds, and welfare is lower for it in {drops} of them; the change is "
        f"{span(changes.tolist())}. Whoever leaves gains, and the others lose its data and save nothing."
    )


@FIG_4.statement()
def _fluctuates(found: Sequence[Fig4Run]) -> Verdict:
    """The welfare of M^Shap fluctuates because best responses keep changing the contributions."""
    parts = []
    for run in _at(found, MODERATE):
        curve, later = run.curves["shapley"], slice(len(run.curves["shapley"].schedule) // 3, None)
        series = (curve.welfare, -run.gamma * _samples(curve), _accuracy(curve), run.curves["externality"].welfare)
        parts.append([float(np.diff(each[later]).std()) for each in series])
    whole, cost, accuracy, other = np.array(parts).mean(axis=0)
    return judge(cost > accuracy and whole > other, partly=whole > other), (
        f"After the first third of the rounds welfare changes from one to the next by {number(whole)} (standard "
        f"deviation), {number(cost)} through costs and {number(accuracy)} through accuracy; under M^E, with fixed "
        f"contributions, by {number(other)}."
    )


@FIG_4.statement(Judgement.CONDITIONAL, where=f"{FIG_4}; Theorem 1", or_better=True)
def _less_data(found: Sequence[Fig4Run]) -> Verdict:
    """M^E reaches higher welfare with less data in all."""
    texts, less, higher = [], [], []
    for gamma in GAMMAS:
        samples, welfare = _both(found, gamma, _samples), _both(found, gamma, _welfare)
        less.append(bool((samples[0] < samples[1]).all()))
        higher.append(bool((welfare[0] > welfare[1]).all()))
        amounts, worth = (" against ".join(_seeds_text(each, form) for each in both)
                          for both, form in ((samples, ".0f"), (welfare, ".3f")))  # fmt: skip
        texts.append(f"γ = {gamma:g}: samples {amounts}, welfare {worth}")
    partly = any(a and b for a, b in zip(less, higher, strict=True))
    return judge(all(less) and all(higher), partly=partly), f"{'; '.join(texts)}."


# Picture


def _draw(figure: Any, found: Sequence[Fig4Run]) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    panels = figure.subplots(2, len(GAMMAS), sharex=True)
    without = {"linestyle": ":", "color": drawing.MARKS["shapley"]["color"], "label": "Shapley, leavers alone, w/0"}
    styles = {
        name: {"color": mark["color"], "linestyle": mark["linestyle"], "label": f"{mark['label']}, w/v"}
        for name, mark in drawing.MARKS.items()
    }
    for (upper, lower), gamma in zip(panels.T, GAMMAS, strict=True):
        some = _at(found, gamma)
        for name, style in styles.items():
            _band(upper, [_accuracy(run.curves[name]) for run in some], style)
            _band(lower, [run.curves[name].welfare for run in some], style)
        _band(lower, [run.curves["shapley"].welfare_without for run in some], without)
        drawing.dress(upper, f"γ = {gamma:g}, {'low' if gamma == LOW else 'moderate'} cost")
        drawing.dress(lower, "")
        lower.set_xlabel("round")
        lower.xaxis.get_major_locator().set_params(integer=True)
    panels[0, 0].set_ylabel("accuracy, summed over agents")
    panels[1, 0].set_ylabel("welfare")
    marks = [Line2D([], [], **style) for style in (*styles.values(), without)]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))


def _band(panel: Any, by_seed: Sequence[FloatArray], style: dict[str, Any]) -> None:
    """The mean over seeds, and from the smallest to the largest."""
    rounds = np.arange(1, len(by_seed[0]) + 1)
    panel.plot(rounds, np.mean(by_seed, axis=0), **style)
    if len(by_seed) > 1:
        low, high = np.min(by_seed, axis=0), np.max(by_seed, axis=0)
        panel.fill_between(rounds, low, high, color=style["color"], alpha=0.15, linewidth=0)
