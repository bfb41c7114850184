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

A measured gain has an interval of 90 %, of test images like these: each end leaves out 5 %. The verdict is the pilot's:

* **federate**: the members gain together beyond doubt (the interval of the total is above zero), and nobody loses;
* **do not federate**: they lose together beyond doubt, or somebody does, or there is no deal;
* **not enough evidence**: anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.claims import agent_values, utility_tolerances, would_leave
from fedpact.deals import Deal, Outcome, whole_samples
from fedpact.federation import Federation
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import default_names
from fedpact.fitting.parameters import checked_range
from fedpact.scenario.measured import DO_NOT, gain_intervals, verdict_of
from fedpact.scenario.scenario import COMMON, MODELS, PERSONAL
from fedpact.solvers.groups import standalone_optimum
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.settings import IntArray
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

Progress = Callable[[str], None]


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
class Run:
    """What came of training under a deal."""

    federation: Federation
    deal: Deal
    members: NDArray[np.intp]  #: The indices of those in the deal; the others train alone
    contributions: FloatArray  #: Agreed, per lot; of those who are not in the deal, what they use alone
    payments: FloatArray  #: Agreed, per agent; positive ones are received
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
    home: IntArray | None = None  #: Samples per lot that everybody uses for its own model, shared or not

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
    def promised(self) -> Account:
        """By the federation's curves."""
        payoffs = self.federation.without_sharing().payoffs(self.contributions)
        if self.members.size:
            lots = np.concatenate([self.federation.lots_of(agent) for agent in self.members])
            payoffs[self.members] = self.federation.take(self.members).payoffs(self.contributions[lots])
        return self._account(payoffs, self.contributions, standalone_optimum(self.federation)[1])

    @cached_property
    def measured(self) -> Account:
        """By the accuracies of the trained models and the samples used."""
        alone, payoffs = self._worth(self.standalone_accuracies), self._worth(self.accuracies)
        if self.home is not None:  # payoffs count from there
            return self._account(payoffs - alone, self.samples, np.zeros_like(alone))
        return self._account(payoffs, self.samples, alone - self.federation.spending(self.standalone_samples))

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Of the measured gains, as far as they come from the size of the test sets.

        Both models answer the same test images, which makes the error of the difference smaller as a rule; that
        another seed gives other models makes it larger.
        """
        variances = np.zeros(len(self.agents))
        for accuracies in (self.accuracies, self.standalone_accuracies):
            share = (accuracies * self.test_sizes + 1.0) / (self.test_sizes + 2.0)  # not 0 where all answers are right
            variances += share * (1.0 - share) / self.test_sizes
        return read_only_copy(self._values * np.sqrt(variances) / (self.ceilings - self.floors))

    @property
    def intervals(self) -> FloatArray:
        """(n_agents, 2): 90 % intervals of the measured gains."""
        return gain_intervals(self.measured.gains, self.standard_errors)

    @property
    def total_interval(self) -> FloatArray:
        """(2,): of what the members of the deal gain together; their test images are different ones."""
        gain = self.measured.gains[self.members].sum()
        return gain_intervals(gain, np.sqrt((self.standard_errors[self.members] ** 2).sum()))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Members whose interval holds zero: larger test sets might say otherwise."""
        low, high = self.intervals.T
        return self.member_names((low < 0) & (high > 0))

    @property
    def verdict(self) -> str:
        """What follows from what was measured."""
        losers = self.member_names(self.intervals[:, 1] < -self.measured.tolerances)
        return verdict_of(self.total_interval, has_losers=bool(losers)) if self.members.size else DO_NOT

    def member_names(self, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        """The members of the deal among some agents."""
        return tuple(self.agents[agent] for agent in self.members if chosen[agent])

    def plot(self, *, figure: Any = None) -> Any:
        """Learning curves as a picture, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_run  # noqa: PLC0415 - optional dependency

        return plot_run(self, figure=figure)

    def __repr__(self) -> str:
        size = f"{len(self.agents)} agents, {self.rounds} rounds, mean accuracy {self.accuracies.mean():.3f}"
        return f"<Run under {self.deal.mechanism}: {size}, welfare {self.measured.welfare:.6g}>"

    @property
    def _values(self) -> FloatArray:
        """What a whole accuracy is worth to each agent, over all its tasks."""
        return sum_by(self.federation.task_owners, self.federation.values, self.federation.n_agents)

    def _worth(self, accuracies: FloatArray) -> FloatArray:
        return np.asarray(self._values * (accuracies - self.floors) / (self.ceilings - self.floors))

    def _account(self, payoffs: FloatArray, brought: ArrayLike, standalone: FloatArray) -> Account:
        costs = np.array(self.federation.spending(brought))
        if self.members.size > 1:
            costs[self.members] += self.federation.joining_costs[self.members]
        tolerances = utility_tolerances(payoffs, costs, self.payments, agent_values(self.federation.arrays))
        payoffs, costs, standalone = (read_only_copy(amounts) for amounts in (payoffs, costs, standalone))
        return Account(
            payoffs=payoffs, costs=costs, payments=self.payments, standalone=standalone, tolerances=tolerances
        )


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

    Parameters
    ----------
    deal
        A deal, or an outcome with its deal. Agents of the federation who are not in it train alone.
    federation
        Costs, values and the payoffs that were promised.
    experiment
        The agents' images and how to train; as many agents as the federation has, in the same order.
    floors, ceilings
        Accuracies that are worth nothing and the agent's value; a number or one per agent.
    models
        "common": one model for the members of the deal; "personal": every member has its own, made of the updates that
        are of use to it (`Federation.wanted_lots`). The deal is then one of `federation.with_personal_models()`.
    progress
        Called with what is trained next.
    """
    if models not in MODELS:
        raise InvalidInput(f"models must be one of {', '.join(MODELS)}, got {short_repr(models)}")
    if models == PERSONAL:
        federation = federation.with_personal_models()
    low, high = checked_range(floors, ceilings, federation)
    agreed, members, contributions, payments = _agreed(deal, federation)
    wanted, home = federation.wanted_lots if models == PERSONAL else None, home_samples(federation)
    used, own = check_trainable(deal, federation, experiment)
    trained: dict[tuple[bool, tuple[int, ...]], Histories] = {}

    def history(profile: IntArray, what: str, *, shared: bool = False) -> Histories:
        key = shared and wanted is not None, tuple(profile.tolist())
        if key not in trained:
            if progress is not None:
                progress(what)
            schedule = np.tile(profile, (experiment.training.rounds, 1))
            trained[key] = experiment.history(schedule, wanted=wanted if shared else None)
        return trained[key]

    inside = np.isin(np.arange(federation.n_agents), members)
    owned = np.arange(federation.n_agents)[:, None] == federation.lot_owners
    common = np.where(inside[federation.lot_owners], used, 0)

    def in_the_deal(agent: int, name: str) -> Histories:
        if not inside[agent]:
            return history(owned[agent] * (used if home is None else home), f"{name} on its own")
        if home is None:
            return history(common, "everybody together", shared=True)
        others = common if wanted is None else np.where(wanted[agent], common, 0)
        return history(np.where(owned[agent], home, others), f"{name} with what others share")

    together = [in_the_deal(agent, name) for agent, name in enumerate(federation.names)]
    alone = [
        history(owned[agent] * (own if home is None else home), f"{name} alone")
        for agent, name in enumerate(federation.names)
    ]
    return Run(
        federation=federation,
        deal=agreed,
        members=members,
        contributions=read_only_copy(contributions),
        payments=read_only_copy(payments),
        together=_own_columns(together, used),
        alone=_own_columns(alone, own),
        test_sizes=experiment.test_sizes,
        floors=low,
        ceilings=high,
        fingerprint=experiment.fingerprint,
        models=models,
        home=home,
    )


def home_samples(federation: Federation) -> IntArray | None:
    """Whole samples per lot that owners use at home; nobody uses there what harms all its tasks."""
    if federation.home is None:
        return None
    own = federation.task_owners[:, None] == federation.lot_owners
    return np.where(((federation.weights >= 0.0) & own).any(axis=0), whole_samples(federation.home), 0)


def _own_columns(models: list[Histories], samples: IntArray) -> Histories:
    """Each agent's column of its own model."""
    accuracies, loss = (
        np.stack([getattr(model, part)[:, agent] for agent, model in enumerate(models)], axis=1)
        for part in ("accuracies", "loss")
    )
    rounds = np.broadcast_to(samples, (len(loss), len(samples)))
    return Histories(contributions=rounds, accuracies=read_only_copy(accuracies), loss=read_only_copy(loss))


def _agreed(deal: Deal | Outcome, federation: Federation) -> tuple[Deal, NDArray[np.intp], FloatArray, FloatArray]:
    """The deal, the indices of its members, and contributions (per lot) and payments of all agents.

    Those who are not in the deal, because nobody federates, because they left or because they were excluded, train
    alone on what they would contribute alone.
    """
    given = deal.deal if isinstance(deal, Outcome) else deal
    if not isinstance(given, Deal):
        raise InvalidInput(f"deal must be a Deal or an Outcome, got {short_repr(given)}")
    agreed, _ = given.belonging_to(federation)
    agents = np.array([federation.names.index(name) for name in agreed.agents], dtype=np.intp)
    contributions, payments = standalone_optimum(federation)[0].copy(), np.zeros(federation.n_agents)
    contributions[np.concatenate([federation.lots_of(agent) for agent in agents])] = agreed.contributions
    payments[agents] = agreed.payments
    return given, agents[agreed.members], federation.checked_contributions(contributions), payments


def check_trainable(deal: Deal | Outcome, federation: Federation, experiment: Experiment) -> tuple[IntArray, IntArray]:
    """The samples used in a deal and alone, per lot, or `InvalidInput` where they cannot be trained on."""
    _check_agents(federation, experiment)
    _, members, contributions, _ = _agreed(deal, federation)
    used, own = whole_samples(contributions), whole_samples(standalone_optimum(federation)[0])
    home = home_samples(federation)
    alone = own if home is None else home
    wanted = np.maximum(used, alone)
    short = np.flatnonzero(wanted > experiment.available)
    if short.size:  # the one that needs most is named, so that what is advised is enough for all
        lot = int(short[wanted[short].argmax()])
        agreed = used[lot] > experiment.available[lot]
        enough, there = images_for(int(wanted[lot]), experiment.test_share), len(experiment.images)
        raise InvalidInput(
            f'{"lot" if experiment.has_lots else "member"} "{experiment.lot_labels[lot]}" '
            f"{'agreed to' if agreed else 'would use, alone,'} {used[lot] if agreed else alone[lot]:,} samples but has "
            f"{experiment.available[lot]:,} to train on; give it {enough:,} images, tests included (samples={enough}, "
            f"--samples {enough}){'' if enough <= there else f', of which there are {there:,} in all'}"
        )
    inside = np.isin(federation.lot_owners, members) if members.size else slice(None)
    if not used[inside].any():
        raise InvalidInput(
            "nobody contributes a whole sample under this deal: there is no data and no model to train; "
            "lower costs or another mechanism give one"
        )
    return used, own


def images_for(samples: int, test_share: float) -> int:
    """The fewest images of which so many are left when the test set is taken off."""
    images = max(samples, int((samples - 1) / (1.0 - test_share)))
    while images - round(test_share * images) < samples:
        images += 1
    return images


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
