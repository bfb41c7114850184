"""`--lots auto`: each member's records in two lots, those whose votes as neighbours help and those whose votes mislead.

Every training record is judged by how it votes, as one of the nearest, on other training records of all members
(KNN-Shapley, `fedpact.fitting.sample_values`): half of everybody's records judge the other half, and the other way
round. Tests are not looked at, so they still tell what a lot is worth. Of a regression, records vote on whether a
target lies above the middle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.pilots.records import REGRESSION, PilotData, feature_scales, scale_features
from fedpact.fitting.sample_values import knn_shapley
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

AUTO_LOTS = "auto"
AUTO_LOT_NAMES = ("good", "poor")  # records whose votes help, and those whose votes mislead more often than not
MIN_POOR, MIN_POOR_SHARE = 5, 0.05  # fewer records, or a smaller share, are no lot of their own
MAX_DISTANCES, MIN_JUDGES = 50_000_000, 200  # of large tables, fewer records judge the others


def with_found_lots(data: PilotData, *, seed: int = 0) -> PilotData:
    """The same records, in a good and a poor lot where a member's training records mislead often enough."""
    if data.lots is not None:
        raise InvalidInput('lots are named in this data already; "auto" is for data without')
    rng = np.random.default_rng(seed)
    features = np.vstack([own.features for own in data.train])
    rows = scale_features(features, *feature_scales(features))
    votes = np.concatenate([own.targets for own in data.train])
    if data.task == REGRESSION:
        votes = (votes > np.median(votes)).astype(np.float64)
    owners = np.concatenate([np.full(len(own), place) for place, own in enumerate(data.train)])
    poor = _misleading(rows, votes, _halves(owners, rng), rng)
    owned, names, notes = [], [], []
    for member in range(len(data.names)):
        tiers = poor[owners == member]
        if tiers.sum() < max(MIN_POOR, MIN_POOR_SHARE * tiers.size):
            tiers = np.zeros_like(tiers)
        present = np.unique(tiers)
        owned.append(np.asarray(np.searchsorted(present, tiers), dtype=np.intp))
        names.append(tuple(AUTO_LOT_NAMES[int(tier)] for tier in present))
        if len(present) > 1:
            notes.append(
                f"{data.names[member]}: {count_text(int(tiers.sum()), 'training record')} of {len(tiers)} mislead "
                f'and make up its lot "{AUTO_LOT_NAMES[1]}"'
            )
    if not notes:
        return replace(data, notes=(*data.notes, "no lots found: nobody's records mislead, but for a few"))
    return replace(data, lots=tuple(owned), lot_names=tuple(names), notes=(*data.notes, *notes))


def _misleading(
    rows: FloatArray, votes: FloatArray, halves: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """(N,): whether a record's votes, among those of its half, mislead on the other half."""
    poor = np.zeros(len(votes), dtype=bool)
    for half in (0, 1):
        own = np.flatnonzero(halves == half)
        most = max(MIN_JUDGES, MAX_DISTANCES // max(len(own), 1))
        judges = rng.permutation(np.flatnonzero(halves != half))[:most]
        if own.size and judges.size:
            poor[own] = knn_shapley(rows[own], votes[own], rows[judges], votes[judges]) < 0.0
    return poor


def _halves(owners: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """(N,): 0 or 1, half of each member's records each."""
    halves = np.empty(len(owners), dtype=np.intp)
    for member in np.unique(owners):
        own = rng.permutation(np.flatnonzero(owners == member))
        halves[own] = np.arange(len(own)) % 2
    return halves
