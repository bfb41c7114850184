"""Training under a deal: what was promised beside what came of it.

Everybody in the deal contributes what it agreed to, in whole samples, and one model is trained; beside it a model for
every agent alone, on the samples it would use alone. In place of the curve a_i(s) that the deal was made with, an agent
gets value_i (accuracy - floor_i) / (ceiling_i - floor_i), its measured accuracy on its own test set. With floor 0 and
ceiling 1 that is the paper's reading, value times accuracy: then an untrained model is worth something already, and
realised payoffs stand higher than promised ones. A fitted curve has its floor and its ceiling; give those. Payments are
as agreed: money does not depend on the accuracy.

An agent with several lots trains on what it agreed to bring of each. All its tasks are measured by the accuracy on its
one test set: what a test by task would say, a deal does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.tolerances import agent_values, utility_tolerances, would_leave
from fedpact.deals import Deal, Outcome
from fedpact.federation import Federation
from fedpact.fitting.accuracy_curves import checked_range
from fedpact.solvers.standalone import standalone_optimum
from fedpact.training.checks import IntArray, frozen_counts
from fedpact.training.experiment import Experiment, Histories
from fedpact.training.models import Models
from fedpact.training.settings import whole_number
from fedpact.training.trainable import check_trainable, deal_for_everybody
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

DOUBTFUL_ERRORS = 2.0  # standard errors

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What came of training under a deal. Amounts are in units of payoff.

    Attributes
    ----------
    federation, deal
        Who, and what was agreed, between all agents; those who are not in it train alone.
    together
        Samples per lot, accuracies and losses by round: the common model's for the members of the deal, for others
        those of their own.
    alone
        The same of the models everybody trains alone; an agent without samples has an untrained model.
    test_sizes
        Images each agent was tested on.
    floors, ceilings
        Accuracies at which the payoff counts as 0 and as the agent's value.
    fingerprint
        Of the experiment.
    """

    federation: Federation
    deal: Deal
    together: Histories
    alone: Histories
    test_sizes: IntArray
    floors: FloatArray
    ceilings: FloatArray
    fingerprint: str

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents' names."""
        return self.federation.names

    @property
    def rounds(self) -> int:
        """How many rounds were trained."""
        return len(self.together.accuracies)

    @property
    def contributions(self) -> FloatArray:
        """What was agreed."""
        return self.deal.contributions

    @property
    def payments(self) -> FloatArray:
        """As agreed; positive ones are received."""
        return self.deal.payments

    @property
    def samples(self) -> IntArray:
        """Samples used, per lot."""
        return frozen_counts(self.together.contributions[-1])

    @property
    def accuracies(self) -> FloatArray:
        """After the last round."""
        return read_only_copy(self.together.accuracies[-1])

    @property
    def standalone_samples(self) -> IntArray:
        """Samples used alone, per lot."""
        return frozen_counts(self.alone.contributions[-1])

    @property
    def standalone_accuracies(self) -> FloatArray:
        """Alone, after the last round."""
        return read_only_copy(self.alone.accuracies[-1])

    @cached_property
    def payoffs(self) -> FloatArray:
        """Predicted, a_i(s): among the members of the deal, alone for the others."""
        predicted = self.federation.without_sharing().payoffs(self.contributions)
        places = self.deal.members
        if places.size:
            lots = np.concatenate([self.federation.lots_of(place) for place in places])
            predicted[places] = self.federation.take(places).payoffs(self.contributions[lots])
        return read_only_copy(predicted)

    @cached_property
    def realised_payoffs(self) -> FloatArray:
        """What the measured accuracies are worth."""
        return self._worth(self.accuracies)

    @cached_property
    def costs(self) -> FloatArray:
        """Predicted, of the contributions agreed."""
        return read_only_copy(self.federation.spending(self.contributions))

    @cached_property
    def realised_costs(self) -> FloatArray:
        """Of the samples used."""
        return read_only_copy(self.federation.spending(self.samples))

    @cached_property
    def utilities(self) -> FloatArray:
        """Predicted: payoffs less costs plus payments."""
        return read_only_copy(self.payoffs - self.costs + self.payments)

    @cached_property
    def realised_utilities(self) -> FloatArray:
        """The same with realised payoffs and costs, and payments as agreed."""
        return read_only_copy(self.realised_payoffs - self.realised_costs + self.payments)

    @cached_property
    def standalone(self) -> FloatArray:
        """Predicted: the best each agent could do alone."""
        return read_only_copy(standalone_optimum(self.federation)[1])

    @cached_property
    def realised_standalone(self) -> FloatArray:
        """What came of training alone."""
        spent = self.federation.spending(self.standalone_samples)
        return read_only_copy(self._worth(self.standalone_accuracies) - spent)

    @property
    def ir_gaps(self) -> FloatArray:
        """Predicted gain over training alone."""
        return read_only_copy(self.utilities - self.standalone)

    @property
    def realised_ir_gaps(self) -> FloatArray:
        """Realised gain over training alone."""
        return read_only_copy(self.realised_utilities - self.realised_standalone)

    @property
    def leavers(self) -> tuple[str, ...]:
        """Members who would leave by the prediction."""
        return self._leavers(self.ir_gaps, self.payoffs, self.costs)

    @property
    def realised_leavers(self) -> tuple[str, ...]:
        """Members who would have done better alone."""
        return self._leavers(self.realised_ir_gaps, self.realised_payoffs, self.realised_costs)

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Of the realised gains, as far as they come from the size of the test sets.

        Both models answer the same test images, which makes the error of the difference smaller as a rule; that
        another seed gives other models makes it larger.
        """
        variances = np.zeros(len(self.agents))
        for accuracies in (self.accuracies, self.standalone_accuracies):
            share = (accuracies * self.test_sizes + 1.0) / (self.test_sizes + 2.0)  # not 0 where all answers are right
            variances += share * (1.0 - share) / self.test_sizes
        return read_only_copy(self._values * np.sqrt(variances) / (self.ceilings - self.floors))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Members whose realised gain is within two standard errors of zero: larger test sets might say otherwise."""
        return self._members_where(np.abs(self.realised_ir_gaps) < DOUBTFUL_ERRORS * self.standard_errors)

    @property
    def welfare(self) -> float:
        """Predicted: all payoffs less all costs."""
        return float(self.payoffs.sum() - self.costs.sum())

    @property
    def realised_welfare(self) -> float:
        """The same with realised payoffs and costs."""
        return float(self.realised_payoffs.sum() - self.realised_costs.sum())

    def plot(self, *, figure: Any = None) -> Any:
        """Learning curves as a picture, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_run  # noqa: PLC0415 - optional dependency

        return plot_run(self, figure=figure)

    def __repr__(self) -> str:
        size = f"{len(self.agents)} agents, {self.rounds} rounds, mean accuracy {self.accuracies.mean():.3f}"
        return f"<Run under {self.deal.mechanism}: {size}, welfare {self.realised_welfare:.6g}>"

    @property
    def _values(self) -> FloatArray:
        """What a whole accuracy is worth to each agent, over all its tasks."""
        return self.federation.per_agent_from_tasks(self.federation.values)

    def _worth(self, accuracies: FloatArray) -> FloatArray:
        return read_only_copy(self._values * (accuracies - self.floors) / (self.ceilings - self.floors))

    def _leavers(self, gaps: FloatArray, payoffs: FloatArray, costs: FloatArray) -> tuple[str, ...]:
        tolerances = utility_tolerances(payoffs, costs, self.payments, agent_values(self.federation.arrays))
        return self._members_where(would_leave(gaps, tolerances))

    def _members_where(self, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.agents[agent] for agent in self.deal.members if chosen[agent])


def train_under(
    deal: Deal | Outcome,
    federation: Federation,
    experiment: Experiment,
    *,
    rounds: int | None = None,
    floors: ArrayLike = 0.0,
    ceilings: ArrayLike = 1.0,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> Run:
    """Train the common model of a deal, and everybody's own.

    Parameters
    ----------
    deal
        A deal, or an outcome with its deal. Agents of the federation who are not in it train alone.
    federation
        Costs, values and the payoffs that were predicted.
    experiment
        The agents' images and how to train; as many agents as the federation has, in the same order.
    rounds
        The experiment's if not given.
    floors, ceilings
        Accuracies that are worth nothing and the agent's value; a number or one per agent.
    progress
        Called with what is trained next.
    checkpoint
        A folder that keeps finished models, so that an interrupted call goes on where it was.
    """
    _check_agents(federation, experiment)
    lengths = experiment.training.rounds if rounds is None else whole_number("rounds", rounds, least=1)
    low, high = checked_range(floors, ceilings, federation)
    agreed = deal_for_everybody(deal, federation)
    used, own = check_trainable(agreed, federation, experiment)
    models = Models(experiment, lengths, checkpoint)
    inside = np.isin(np.arange(federation.n_agents), agreed.members)
    owners = federation.lot_owners
    common = np.where(inside[owners], used, 0)
    wanted = [(common, "everybody together")] if inside.any() else []
    by_owner = np.arange(federation.n_agents)[:, None] == owners
    singles = by_owner * np.where(inside[owners], 0, used), by_owner * own
    wanted += [(singles[0][agent], f"{federation.names[agent]} on its own") for agent in np.flatnonzero(~inside)]
    wanted += [(singles[1][agent], f"{name} alone") for agent, name in enumerate(federation.names)]
    models.train(wanted, progress)
    shared = [common if member else singles[0][agent] for agent, member in enumerate(inside)]
    return Run(
        federation=federation,
        deal=agreed,
        together=models.histories(shared),
        alone=models.histories(list(singles[1])),
        test_sizes=experiment.test_sizes,
        floors=low,
        ceilings=high,
        fingerprint=experiment.fingerprint,
    )


def _check_agents(federation: Federation, experiment: Experiment) -> None:
    there = experiment.names
    if experiment.n_agents != federation.n_agents:
        raise InvalidInput(
            f"experiment must have as many members as the federation: {federation.n_agents} there, "
            f"{experiment.n_agents} in the experiment; say n_agents={federation.n_agents}"
        )
    if there != federation.names and there != _default_names(len(there)):
        raise InvalidInput(
            f"experiment must have the federation's members in their order ({', '.join(federation.names)}), "
            f"got {', '.join(there)}; say names=federation.names"
        )
    if not np.array_equal(experiment.ownership.lot_owners, federation.lot_owners):
        raise InvalidInput(
            "experiment must have the federation's lots in their order; say lot_owners=federation.lot_owners, "
            "lot_names=federation.lot_names"
        )
    if experiment.n_tasks != experiment.n_agents:
        raise InvalidInput("experiment must test every member on all of its test images; leave out with_tasks")


def _default_names(count: int) -> Sequence[str]:
    """The names of agents nobody named."""
    return tuple(f"agent {agent}" for agent in range(count))
