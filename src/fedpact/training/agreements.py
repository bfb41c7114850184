"""What is trained under: how much everybody agreed to contribute, who is paid what, and who trains together.

Agents who are not in the deal, because nobody federates, because they left or because they were excluded, train alone
on what they would contribute alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.deals import Deal, Outcome
from fedpact.federation import Federation
from fedpact.programs.best_response import standalone_optimum
from fedpact.training.checks import IntArray, frozen_counts
from fedpact.training.experiment import Experiment
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

__all__ = ["Agreement", "agreement_of", "check_held", "whole_samples"]

# An agreed 12 that a solver wrote as 11.9999999 is 12 samples.
ROUNDING = 1e-6
MOST = 1e15  # samples that can be told apart


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """A deal as training needs it, in the order of a federation's agents.

    Attributes
    ----------
    mechanism
        The name of the rules it was made by.
    contributions, payments
        What each agent agreed to; those who are not members contribute to their own models, and are paid nothing.
    members
        True for those who train together.
    """

    mechanism: str
    contributions: FloatArray
    payments: FloatArray
    members: NDArray[np.bool_]

    @classmethod
    def among(
        cls,
        federation: Federation,
        members: Sequence[str],
        contributions: Sequence[float] | FloatArray,
        payments: Sequence[float] | FloatArray,
        *,
        mechanism: str,
    ) -> Agreement:
        """The agreement of some agents, by name and in their order; the others are on their own."""
        names = federation.names
        strangers = [name for name in members if name not in names]
        if strangers:
            raise InvalidInput(
                f"the deal must be between agents of the federation ({', '.join(names)}), "
                f"got {short_repr(strangers[0])}"
            )
        places = [names.index(name) for name in members]
        agreed, paid = standalone_optimum(federation)[0].copy(), np.zeros(federation.n_agents)
        agreed[places], paid[places] = contributions, payments
        inside = np.zeros(federation.n_agents, dtype=np.bool_)
        inside[places] = True
        inside.setflags(write=False)
        checked = federation.checked_contributions(agreed)
        return cls(mechanism=mechanism, contributions=checked, payments=read_only_copy(paid), members=inside)

    @classmethod
    def alone(cls, federation: Federation, contributions: FloatArray, *, mechanism: str) -> Agreement:
        """Everybody on its own, with these contributions."""
        nobody = np.zeros(federation.n_agents, dtype=np.bool_)
        nobody.setflags(write=False)
        return cls(
            mechanism=mechanism,
            contributions=federation.checked_contributions(contributions),
            payments=read_only_copy(np.zeros(federation.n_agents)),
            members=nobody,
        )


def agreement_of(deal: Outcome | Deal | Agreement, federation: Federation) -> Agreement:
    """What a solved outcome or a negotiated deal comes to for the agents of a federation."""
    if isinstance(deal, Agreement):
        if deal.members.shape != (federation.n_agents,):
            raise InvalidInput(
                f"the agreement must have one entry per agent: {federation.n_agents} agents, {deal.members.size} given"
            )
        return deal
    if isinstance(deal, Outcome):
        if not deal.federated and tuple(deal.agents) == federation.names:
            return Agreement.alone(federation, deal.contributions, mechanism=deal.mechanism)
        there = np.arange(len(deal.agents)) if deal.federated else np.array([], dtype=np.intp)
        name = deal.mechanism
    elif isinstance(deal, Deal):
        there, name = deal.members, "externality"
    else:
        raise InvalidInput(f"deal must be an Outcome or a negotiated Deal, got {short_repr(deal)}")
    members = [deal.agents[place] for place in there]
    return Agreement.among(federation, members, deal.contributions[there], deal.payments[there], mechanism=name)


def whole_samples(contributions: FloatArray) -> IntArray:
    """Contributions rounded down to whole samples."""
    return frozen_counts(np.floor(np.minimum(contributions + ROUNDING, MOST)))


def check_held(samples: IntArray, alone: IntArray, experiment: Experiment) -> None:
    """Raise `InvalidInput` if somebody would use more samples, in the deal or alone, than it holds.

    Of several the one is named that needs most, so that what is advised is enough for all.
    """
    wanted = np.maximum(samples, alone)
    short = np.flatnonzero(wanted > experiment.available)
    if not short.size:
        return
    agent = int(short[wanted[short].argmax()])
    what = "agreed to" if samples[agent] > experiment.available[agent] else "would use, alone,"
    asked = int(samples[agent] if samples[agent] > experiment.available[agent] else alone[agent])
    enough, there = _images_for(int(wanted[agent]), experiment.test_share), len(experiment.images)
    supply = "" if enough <= there else f", of which there are {there:,} in all"
    raise InvalidInput(
        f'agent "{experiment.names[agent]}" {what} {asked:,} samples but has {experiment.available[agent]:,} to '
        f"train on; give it {enough:,} images, tests included (samples={enough}, --samples {enough}){supply}"
    )


def _images_for(samples: int, test_share: float) -> int:
    """The fewest images of which so many are left when the test set is taken off."""
    images = max(samples, int((samples - 1) / (1.0 - test_share)))
    while images - round(test_share * images) < samples:
        images += 1
    return images
