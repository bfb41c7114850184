"""Training under a deal: what was promised beside what was measured.

Everybody in the deal contributes what it agreed to, in whole samples, and one model is trained, or with personal models
one for every member, without the data that harms it (`fedpact.training.fedavg`); beside it a model for every agent
alone, on the samples it would use alone. With data at home every member of the deal has a model of what it has there
and what others share (with personal models: those it wants), trained from scratch; alone it has what is there, from
which payoffs count. In place of the curve a_i(s) that the deal was made with, an agent
gets value_i (accuracy - floor_i) / (ceiling_i - floor_i), its measured accuracy on its own test set. With floor 0 and
ceiling 1 that is the paper's reading, value times accuracy: then an untrained model is worth something already, and
measured payoffs stand higher than promised ones. A fitted curve has its floor and its ceiling; give those. Payments are
as agreed: money does not depend on the accuracy.

An agent with several lots trains on what it agreed to bring of each. All its tasks are measured by the accuracy on its
one test set: what a test by task would say, a deal does not know.

What follows from the measured gains is said as in a pilot (`fedpact.scenario.measured`); their errors are those of test
images like these.

A run's folder holds what was asked (`settings.json`), every round (`rounds.csv`, and `alone.csv` of the models
everybody trains alone), what came of it (`result.json`), and the learning curves, where matplotlib is installed
(`learning.png`). All is written together once everything is trained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.claims import agent_values, utility_tolerances, would_leave
from fedpact.deals import Deal, Outcome, whole_samples
from fedpact.deals.deal_file import deal_record
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import default_names
from fedpact.fitting.logs import ALONE_FILE, ROUNDS_FILE
from fedpact.fitting.parameters import checked_range
from fedpact.scenario import Scenario, scenario_to_dict
from fedpact.scenario.measured import DO_NOT, MeasuredGains
from fedpact.scenario.scenario import COMMON, MODELS, PERSONAL
from fedpact.solvers.groups import standalone_optimum
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.tables import csv_rows

Progress = Callable[[str], None]
SETTINGS, RESULT, PICTURE = "settings.json", "result.json", "learning.png"
HEADS = ("round", "member", "alone", "samples", "score", "loss", "test_size")


@dataclass(frozen=True, kw_only=True, eq=False)
class Account:
    """What a deal comes to, per agent in units of payoff; a positive payment is received."""

    #: In the deal, where joining costs count among the costs; of those who are not in it, on their own
    payoffs: FloatArray
    costs: FloatArray
    payments: FloatArray
    standalone: FloatArray  #: Utilities of training alone
    tolerances: FloatArray  #: Losses that rounding may bring

    @property
    def utilities(self) -> FloatArray:
        """Payoffs less costs plus payments."""
        return read_only_copy(self.payoffs - self.costs + self.payments)

    @property
    def gains(self) -> FloatArray:
        """Over training alone."""
        return read_only_copy(self.utilities - self.standalone)

    @property
    def leaves(self) -> NDArray[np.bool_]:
        """Who would do better alone."""
        return would_leave(self.gains, self.tolerances)

    @property
    def welfare(self) -> float:
        """All payoffs less all costs."""
        return float(self.payoffs.sum() - self.costs.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What a deal comes to in whole samples; those who are not in it train alone."""

    deal: Deal
    members: NDArray[np.intp]  #: The indices of those in the deal
    contributions: FloatArray  #: Agreed, per lot; of those who are not in the deal, what they use alone
    payments: FloatArray  #: Agreed, per agent; positive ones are received
    used: IntArray  #: Samples per lot under the deal, and alone
    own: IntArray
    home: IntArray | None  #: Samples per lot that everybody uses for its own model, shared or not


def plan_training(deal: Deal | Outcome, federation: Federation, experiment: Experiment) -> Plan:
    """The samples of a deal, or `InvalidInput` where they cannot be trained on."""
    given = deal.deal if isinstance(deal, Outcome) else deal
    if not isinstance(given, Deal):
        raise InvalidInput(f"deal must be a Deal or an Outcome, got {short_repr(given)}")
    _check_agents(federation, experiment)
    agreed, _ = given.belonging_to(federation)
    agents = np.array([federation.names.index(name) for name in agreed.agents], dtype=np.intp)
    standalone = standalone_optimum(federation)[0]
    contributions, payments = standalone.copy(), np.zeros(federation.n_agents)
    contributions[np.concatenate([federation.lots_of(agent) for agent in agents])] = agreed.contributions
    payments[agents] = agreed.payments
    own = federation.task_owners[:, None] == federation.lot_owners
    harmless = ((federation.weights >= 0.0) & own).any(axis=0)  # nobody uses at home what harms all its tasks
    plan = Plan(
        deal=given,
        members=agents[agreed.members],
        contributions=read_only_copy(federation.checked_contributions(contributions)),
        payments=read_only_copy(payments),
        used=whole_samples(contributions),
        own=whole_samples(standalone),
        home=None if federation.home is None else np.where(harmless, whole_samples(federation.home), 0),
    )
    _check_samples(plan, federation, experiment)
    return plan


def _check_agents(federation: Federation, experiment: Experiment) -> None:
    if experiment.names not in (federation.names, default_names(federation.n_agents)):
        raise InvalidInput(
            f"experiment must have the federation's members in their order ({', '.join(federation.names)}), "
            f"got {', '.join(experiment.names)}; say n_agents={federation.n_agents}, names=federation.names"
        )
    if not np.array_equal(experiment.ownership.lot_owners, federation.lot_owners):
        raise InvalidInput(
            "experiment must have the federation's lots in their order; say lot_owners=federation.lot_owners, "
            "lot_names=federation.lot_names"
        )


def _check_samples(plan: Plan, federation: Federation, experiment: Experiment) -> None:
    """Refuse more samples than there are, naming who needs most, so that what is advised is enough for all."""
    used, available = plan.used, experiment.available
    alone = plan.own if plan.home is None else plan.home
    wanted = np.maximum(used, alone)
    if (wanted > available).any():
        lot = int(np.where(wanted > available, wanted, -1).argmax())
        agreed = used[lot] > available[lot]
        enough, there = images_for(int(wanted[lot]), experiment.test_share), len(experiment.images)
        raise InvalidInput(
            f'{"lot" if experiment.has_lots else "member"} "{experiment.lot_labels[lot]}" '
            f"{'agreed to' if agreed else 'would use, alone,'} {used[lot] if agreed else alone[lot]:,} samples but has "
            f"{available[lot]:,} to train on; give it {enough:,} images, tests included (samples={enough}, "
            f"--samples {enough}){'' if enough <= there else f', of which there are {there:,} in all'}"
        )
    if not used[np.isin(federation.lot_owners, plan.members) | (not plan.members.size)].any():
        raise InvalidInput(
            "nobody contributes a whole sample under this deal: there is no data and no model to train; "
            "lower costs or another mechanism give one"
        )


def images_for(samples: int, test_share: float) -> int:
    """The fewest images of which so many are left when the test set is taken off."""
    images = max(samples, int((samples - 1) / (1.0 - test_share)))
    while images - round(test_share * images) < samples:
        images += 1
    return images


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What came of training under a deal."""

    federation: Federation
    plan: Plan
    #: Samples per lot, accuracies and losses by round: of the common model for the members of the deal, or of the
    #: personal one of each; of others, of the model they train alone
    together: Histories
    alone: Histories  #: Of the models everybody trains alone; an agent without samples has an untrained one
    test_sizes: IntArray  #: Images each agent was tested on
    #: Accuracies at which the payoff counts as 0 and as the agent's value
    floors: FloatArray
    ceilings: FloatArray
    fingerprint: str  #: Of the experiment
    models: str = COMMON  #: "common" or "personal": whether the members have one model or one each

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents' names."""
        return self.federation.names

    @property
    def rounds(self) -> int:
        """How many rounds were trained."""
        return len(self.together.accuracies)

    @property
    def samples(self) -> IntArray:
        """Samples used, per lot."""
        return self.together.contributions[-1]

    @property
    def accuracies(self) -> FloatArray:
        """After the last round."""
        return self.together.accuracies[-1]

    @property
    def standalone_samples(self) -> IntArray:
        """Samples used alone, per lot."""
        return self.alone.contributions[-1]

    @property
    def standalone_accuracies(self) -> FloatArray:
        """Alone, after the last round."""
        return self.alone.accuracies[-1]

    @cached_property
    def is_member(self) -> NDArray[np.bool_]:
        """(n_agents,): who is in the deal."""
        return np.isin(np.arange(len(self.agents)), self.plan.members)

    @cached_property
    def promised(self) -> Account:
        """By the federation's curves."""
        federation, members, given = self.federation, self.plan.members, self.plan.contributions
        payoffs = federation.without_sharing().payoffs(given)
        if members.size:
            lots = np.concatenate([federation.lots_of(agent) for agent in members])
            payoffs[members] = federation.take(members).payoffs(given[lots])
        return self._account(payoffs, given, standalone_optimum(federation)[1])

    @cached_property
    def measured(self) -> Account:
        """By the accuracies of the trained models and the samples used."""
        alone, payoffs = self._worth(self.standalone_accuracies), self._worth(self.accuracies)
        if self.plan.home is not None:  # payoffs count from there
            return self._account(payoffs - alone, self.samples, np.zeros_like(alone))
        return self._account(payoffs, self.samples, alone - self.federation.spending(self.standalone_samples))

    @cached_property
    def gains(self) -> MeasuredGains:
        """Promised and measured gains, and what follows from them.

        Errors come from the size of the test sets. Both models answer the same test images, which makes the error of
        the difference smaller as a rule; that another seed gives other models makes it larger. Who trains alone has
        the same model twice.
        """
        variances = np.zeros(len(self.agents))
        for accuracies in (self.accuracies, self.standalone_accuracies):
            share = (accuracies * self.test_sizes + 1.0) / (self.test_sizes + 2.0)  # not 0 where all answers are right
            variances += share * (1.0 - share) / self.test_sizes
        return MeasuredGains(
            names=self.agents,
            promised=self.promised.gains,
            measured=self.measured.gains,
            errors=self.is_member * self._values * np.sqrt(variances) / (self.ceilings - self.floors),
            slack=self.measured.tolerances,
        )

    @property
    def verdict(self) -> str:
        """What follows from what was measured."""
        return self.gains.verdict if self.plan.members.size else DO_NOT

    def plot(self, *, ax: Any = None) -> Any:
        """Learning curves, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_run  # noqa: PLC0415 - optional dependency

        return plot_run(self, ax=ax)

    def __repr__(self) -> str:
        size = f"{len(self.agents)} agents, {self.rounds} rounds, mean accuracy {self.accuracies.mean():.3f}"
        return f"<Run under {self.plan.deal.mechanism}: {size}, welfare {self.measured.welfare:.6g}>"

    @property
    def _values(self) -> FloatArray:
        """What a whole accuracy is worth to each agent, over all its tasks."""
        return sum_by(self.federation.task_owners, self.federation.values, self.federation.n_agents)

    def _worth(self, accuracies: FloatArray) -> FloatArray:
        return np.asarray(self._values * (accuracies - self.floors) / (self.ceilings - self.floors))

    def _account(self, payoffs: FloatArray, brought: ArrayLike, standalone: FloatArray) -> Account:
        costs, members, payments = np.array(self.federation.spending(brought)), self.plan.members, self.plan.payments
        if members.size > 1:
            costs[members] += self.federation.joining_costs[members]
        tolerances = utility_tolerances(payoffs, costs, payments, agent_values(self.federation.arrays))
        parts = {"payoffs": payoffs, "costs": costs, "payments": payments, "standalone": standalone}
        return Account(**{name: read_only_copy(part) for name, part in parts.items()}, tolerances=tolerances)


def train_under(
    deal: Deal | Outcome,
    federation: Federation,
    experiment: Experiment,
    *,
    floors: ArrayLike = 0.0,
    ceilings: ArrayLike = 1.0,
    models: str = COMMON,
    progress: Progress | None = None,
) -> Run:
    """Train the common model of a deal, or a personal one for every member, and everybody's alone.

    Agents of the federation who are not in the deal train alone. The experiment has their images and how to train, as
    many agents in the same order. `floors` and `ceilings` are accuracies that are worth nothing and the agent's value,
    a number or one per agent. `models` are "common", one for the members of the deal, or "personal": every member has
    its own, made of the updates that are of use to it (`Federation.wanted_lots`); the deal is then one of
    `federation.with_personal_models()`. `progress` is told what is trained next.
    """
    if models not in MODELS:
        raise InvalidInput(f"models must be one of {', '.join(MODELS)}, got {short_repr(models)}")
    if models == PERSONAL:
        federation = federation.with_personal_models()
    low, high = checked_range(floors, ceilings, federation)
    plan = plan_training(deal, federation, experiment)
    wanted, home = federation.wanted_lots if models == PERSONAL else None, plan.home
    trained: dict[tuple[bool, tuple[int, ...]], Histories] = {}

    def history(profile: IntArray, what: str, *, shared: bool = False) -> Histories:
        key = shared and wanted is not None, tuple(profile.tolist())
        if key not in trained:
            if progress is not None:
                progress(what)
            schedule = np.tile(profile, (experiment.training.rounds, 1))
            trained[key] = experiment.history(schedule, wanted=wanted if shared else None)
        return trained[key]

    inside = np.isin(np.arange(federation.n_agents), plan.members)
    owned = np.arange(federation.n_agents)[:, None] == federation.lot_owners
    common = np.where(inside[federation.lot_owners], plan.used, 0)

    def in_the_deal(agent: int, name: str) -> Histories:
        if not inside[agent]:
            return history(owned[agent] * (plan.used if home is None else home), f"{name} on its own")
        if home is None:
            return history(common, "everybody together", shared=True)
        others = common if wanted is None else np.where(wanted[agent], common, 0)
        return history(np.where(owned[agent], home, others), f"{name} with what others share")

    together = [in_the_deal(agent, name) for agent, name in enumerate(federation.names)]
    alone = [
        history(owned[agent] * (plan.own if home is None else home), f"{name} alone")
        for agent, name in enumerate(federation.names)
    ]
    return Run(
        federation=federation,
        plan=plan,
        together=_own_columns(together, plan.used),
        alone=_own_columns(alone, plan.own),
        test_sizes=experiment.test_sizes,
        floors=low,
        ceilings=high,
        fingerprint=experiment.fingerprint,
        models=models,
    )


def _own_columns(models: list[Histories], samples: IntArray) -> Histories:
    """Each agent's column of its own model."""
    accuracies, loss = (
        np.stack([getattr(model, part)[:, agent] for agent, model in enumerate(models)], axis=1)
        for part in ("accuracies", "loss")
    )
    rounds = np.broadcast_to(samples, (len(loss), len(samples)))
    return Histories(contributions=rounds, accuracies=read_only_copy(accuracies), loss=read_only_copy(loss))


def check_folder(path: Path) -> None:
    """Raise `InvalidInput` if a run cannot be put there."""
    with error_context(str(path)):
        if path.exists() and not path.is_dir():
            raise InvalidInput("this is a file; name a folder")
        if not path.absolute().parent.is_dir():
            raise InvalidInput("there is no such folder to put it in; make it first")
        entries = path.iterdir() if path.is_dir() else ()
        held = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        if held:
            raise InvalidInput(f"the folder must be empty, it holds {held[0]!r}; -o names another")


def save_run(path: Path, run: Run, scenario: Scenario, experiment: Experiment, origin: Mapping[str, Any]) -> list[Path]:
    """Write what was trained, of what, and what came of it, to a folder; the files written.

    `origin` says for people where the scenario and the deal are from.
    """
    from fedpact.report.records import run_record  # noqa: PLC0415 - it is made of what lies below

    settings = {
        "scenario": scenario_to_dict(replace(scenario, uncertainty=None)),
        "deal": deal_record(replace(run.plan.deal, scenario=scenario.federation.fingerprint)),
        "experiment": experiment.settings,
        "floors": run.floors,
        "ceilings": run.ceilings,
        "fingerprint": experiment.fingerprint,
        **origin,
        "versions": {name: version(name) for name in ("fedpact", "jax", "numpy")} | {"python": sys.version.split()[0]},
    }
    contents = {
        SETTINGS: _json(jsonable(settings)),
        ROUNDS_FILE: _rounds(run, run.together, ~run.is_member),
        ALONE_FILE: _rounds(run, run.alone, np.ones_like(run.is_member)),
        RESULT: _json(run_record(run)),
    }
    with suppress(MissingExtra):
        picture = BytesIO()
        run.plot().savefig(picture, format="png", dpi=200)
        contents[PICTURE] = picture.getvalue()
    with error_context(str(path)):
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"the folder cannot be made: {error.strerror}") from error
        replace_files({path / name: content for name, content in contents.items()})
    return [path / name for name in contents]


def _json(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _rounds(run: Run, history: Histories, alone: NDArray[np.bool_]) -> bytes:
    """A table of rounds."""
    rows: list[Sequence[Any]] = [HEADS]
    for number in range(run.rounds):
        for agent, name in enumerate(run.agents):
            samples = int(history.contributions[number, run.federation.lots_of(agent)].sum())
            accuracy, loss = (array[number, agent].item() for array in (history.accuracies, history.loss))
            rows.append([number + 1, name, int(alone[agent]), samples, accuracy, loss, int(run.test_sizes[agent])])
    return csv_rows(rows).encode()
