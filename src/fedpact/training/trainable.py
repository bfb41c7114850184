"""What a deal means for everybody's images: who trains together, on how many samples, and whether they are there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedpact.deals import Deal, Outcome, whole_samples
from fedpact.deals.deal import TRAINS_ALONE
from fedpact.federation import Federation
from fedpact.solvers.standalone import standalone_optimum
from fedpact.training.checks import IntArray
from fedpact.training.experiment import Experiment
from fedpact.utils.errors import InvalidInput, short_repr


def deal_for_everybody(deal: Deal | Outcome, federation: Federation) -> Deal:
    """The deal with all agents of a federation, in its order.

    Those who are not in the deal, because nobody federates, because they left or because they were excluded, train
    alone on what they would contribute alone.

    Raises
    ------
    InvalidInput
        If it is a deal of another federation, or asks for contributions that the federation does not allow.
    """
    given = deal.deal if isinstance(deal, Outcome) else deal
    if not isinstance(given, Deal):
        raise InvalidInput(f"deal must be a Deal or an Outcome, got {short_repr(given)}")
    agreed, _ = given.belonging_to(federation)
    names = federation.names
    places = [names.index(name) for name in agreed.agents]
    owners = tuple(names[owner] for owner in federation.lot_owners)
    lots = places
    owned: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None)
    if agreed.has_lots:
        there = list(zip(owners, federation.lot_names, strict=True))
        lots = [there.index(lot) for lot in zip(agreed.lot_owners or (), agreed.lot_names or (), strict=True)]
        owned = owners, federation.lot_names
    contributions = standalone_optimum(federation)[0].copy()
    contributions[lots] = agreed.contributions
    payments, side, prices = np.zeros(len(names)), np.zeros(len(names)), None
    payments[places], side[places] = agreed.payments, agreed.side_payments
    if agreed.prices is not None:
        prices = np.zeros((len(names), federation.n_lots))
        prices[np.ix_(places, lots)] = agreed.prices
    alone = [name for name in names if name not in agreed.agents or name in agreed.excluded]
    return replace(
        agreed,
        agents=names,
        contributions=federation.checked_contributions(contributions),
        payments=payments,
        prices=prices,
        side_payments=side,
        excluded={name: given.excluded.get(name, TRAINS_ALONE) for name in alone},
        scenario=federation.fingerprint,
        lot_owners=owned[0],
        lot_names=owned[1],
    )


def check_trainable(deal: Deal, federation: Federation, experiment: Experiment) -> tuple[IntArray, IntArray]:
    """The samples used in a deal for everybody and alone, per lot, if they are there and somebody contributes any."""
    used = whole_samples(deal.contributions)
    own = whole_samples(standalone_optimum(federation)[0])
    check_held(used, own, experiment)
    inside = np.isin(federation.lot_owners, deal.members) if deal.is_federated else slice(None)
    if not used[inside].any():
        raise InvalidInput(
            "nobody contributes a whole sample under this deal: there is no data and no model to train; "
            "lower costs or another mechanism give one"
        )
    return used, own


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
    enough, there = images_for(int(wanted[agent]), experiment.test_share), len(experiment.images)
    supply = "" if enough <= there else f", of which there are {there:,} in all"
    whose = f'{"lot" if experiment.has_lots else "member"} "{experiment.lot_labels[agent]}"'
    raise InvalidInput(
        f"{whose} {what} {asked:,} samples but has {experiment.available[agent]:,} to train on; give it {enough:,} "
        f"images, tests included (samples={enough}, --samples {enough}){supply}"
    )


def images_for(samples: int, test_share: float) -> int:
    """The fewest images of which so many are left when the test set is taken off."""
    images = max(samples, int((samples - 1) / (1.0 - test_share)))
    while images - round(test_share * images) < samples:
        images += 1
    return images
