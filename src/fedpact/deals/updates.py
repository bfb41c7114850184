"""The updates of a training, and models made of subsets of them.

Whoever aggregates holds every member's update of every round, so it can also make the model that some of them alone
come to: to the model that training began with it adds, round by round, the mean of their updates,

    m(Z) = m_0 + sum_r  sum_{j in Z} n_rj (m_rj - m_r) / sum_{j in Z} n_rj,

m_r the model that members were sent in round r, m_rj what member j made of it, n_rj its samples (Song, Tong and Wei,
2019, "Profit allocation for federated learning", IEEE Big Data, the one-round variant). Of all members, under federated
averaging, that is the model trained. All rounds are in it: whoever cheats in one of them shows. A model is its arrays
by name, as members send them. Means of whole numbers, such as counters, are floats, as in the model trained.

Which subsets, the members' own updates decide: they follow from the digests that members signed, so a coordinator
cannot choose them and nobody can foresee them. They are all different, and none is empty. A ledger lists the models
with what members measured of them; a member that did not answer has `{"accuracy": null, "reason": ...}` in its place:

    {"models": [{"subset": [names], "model": digest, "accuracies": {name: {"accuracy": 0.8, "samples": 300}}}, ...],
     "signatures": {name: signature}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count as count_from_zero
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import decode_json, read_arrays, read_bytes, replace_files

Arrays = Mapping[str, NDArray[Any]]  # by name, in a model's own order


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundUpdates:
    """A round: the model that members were sent, and what each made of how many samples of it."""

    before: Arrays
    updates: Mapping[str, Arrays]
    samples: Mapping[str, int]


@dataclass(kw_only=True, eq=False)
class TrainingUpdates:
    """The updates of all rounds."""

    rounds: list[RoundUpdates] = field(default_factory=list)

    def model_of(self, subset: Iterable[str]) -> dict[str, NDArray[Any]]:
        """The model that the updates of some members come to, under the names of the model that training began with."""
        chosen, first = set(subset), self.rounds[0].before
        total = {key: np.array(array, dtype=np.result_type(array.dtype, np.float64)) for key, array in first.items()}
        for each in self.rounds:
            there = [name for name in each.updates if name in chosen and each.samples[name] > 0]
            samples = sum(each.samples[name] for name in there)
            for key, before in each.before.items():
                for name in there:
                    total[key] += (
                        each.samples[name] / samples * (each.updates[name][key] - before.astype(total[key].dtype))
                    )
        return {
            key: total[key].astype(array.dtype if array.dtype.kind in "fc" else np.float64)
            for key, array in first.items()
        }

    def deliveries(self) -> dict[str, list[tuple[str, int]]]:
        """The digest of every update and the samples behind it, by member, in the order of the rounds."""
        found: dict[str, list[tuple[str, int]]] = {}
        for each in self.rounds:
            for name, update in each.updates.items():
                found.setdefault(name, []).append((model_digest(update), each.samples[name]))
        return found

    def save(self, path: Path) -> dict[str, Any]:
        """Write them; the file's name and digest."""
        stored: list[NDArray[Any]] = []

        def keys_of(arrays: Arrays) -> dict[str, str]:
            stored.extend(arrays.values())
            first = len(stored) - len(arrays)
            return {name: f"arr_{first + index}" for index, name in enumerate(arrays)}  # as NumPy calls them

        listed = [
            {
                "before": keys_of(each.before),
                "updates": {name: keys_of(update) for name, update in each.updates.items()},
                "samples": {name: each.samples[name] for name in each.updates},
            }
            for each in self.rounds
        ]
        content = BytesIO()
        np.savez(content, *stored, rounds=np.array(json.dumps(listed)))
        with error_context(str(path)):
            replace_files({path: content.getvalue()})
        return {"file": path.name, "sha256": hashlib.sha256(content.getvalue()).hexdigest()}

    @classmethod
    def load(cls, path: Path, digest: str) -> TrainingUpdates:
        """Those of a file that has this digest."""
        with error_context(str(path)):
            content = read_bytes(path)
            if hashlib.sha256(content).hexdigest() != digest:
                raise InvalidInput("the file was changed: it does not have the digest in the ledger")
            try:
                stored = read_arrays(content, "write it anew, as it was", max_bytes=len(content))  # not compressed
                return cls(rounds=[_stored_round(stored, each) for each in decode_json(str(stored["rounds"]))])
            except InvalidInput:
                raise
            except Exception as error:  # whatever zipfile, zlib and NumPy stumble over
                raise InvalidInput(f"the file does not hold the updates of a training: {error!r:.120}") from error


def _stored_round(stored: Mapping[str, Any], listed: Mapping[str, Any]) -> RoundUpdates:
    def arrays(keys: Mapping[str, str]) -> dict[str, NDArray[Any]]:
        return {name: stored[key] for name, key in keys.items()}

    before, updates = arrays(listed["before"]), {name: arrays(keys) for name, keys in listed["updates"].items()}
    for key, array in before.items():
        if any(update[key].shape != array.shape for update in updates.values()):  # two that are small may spread
            raise InvalidInput(f"the updates of {short_repr(key)} do not have the shape of the model")
    return RoundUpdates(before=before, updates=updates, samples=listed["samples"])


def model_digest(arrays: Arrays) -> str:
    """A number for a model: its arrays' names, unless it is a list, and their kinds, shapes and bytes, in order."""
    digest = hashlib.sha256()
    if list(arrays) != [str(index) for index in range(len(arrays))]:  # what Flower calls the arrays of a list
        digest.update(json.dumps(list(arrays)).encode())
    for array in arrays.values():
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def draw_subsets(digests: Mapping[str, Sequence[str]], count: int, *, salt: str = "") -> list[list[str]]:
    """Different subsets of the members, at most so many, as the digests of their updates decide.

    Subsets list members in the order of `digests`; `salt` is what else decides, such as the digest of the deal.

    Examples
    --------
    >>> sorted(draw_subsets({"Ada": ["1"], "Ben": ["2"]}, 30))
    [['Ada'], ['Ada', 'Ben'], ['Ben']]
    """
    members = list(digests)
    size = len(members)
    seed = hashlib.sha256(json.dumps([salt, sorted((name, list(digests[name])) for name in members)]).encode()).digest()
    found: dict[int, None] = {}
    for number in count_from_zero():
        if len(found) == min(count, 2**size - 1):
            break
        drawn = hashlib.shake_256(seed + number.to_bytes(8, "big")).digest(size // 8 + 16)  # more than enough bits
        if chosen := int.from_bytes(drawn, "big") % 2**size:
            found[chosen] = None
    return [[name for index, name in enumerate(members) if chosen >> index & 1] for chosen in found]


def verified_content(
    subsets: Sequence[Sequence[str]], models: Sequence[str], said: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """An entry of a ledger: subsets, digests of their models, and what each member has `said` of these (`score_of`)."""
    listed = []
    for index, (subset, digest) in enumerate(zip(subsets, models, strict=True)):
        scores = {name: score_of(each, index) for name, each in said.items()}
        listed.append({"subset": list(subset), "model": digest, "accuracies": scores})
    return {"models": listed}


def score_of(said: Mapping[str, Any], index: int) -> dict[str, Any]:
    """What a member says of one of the models it was sent, or why it does not."""
    if said["accuracies"] is None:
        return {"accuracy": None, "reason": said["reason"]}
    return {"accuracy": said["accuracies"][index], "samples": said["samples"]}


def missing_measurements(models: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which members have measured none of the models that a ledger lists, and why."""
    said = [(name, each) for model in models for name, each in model["accuracies"].items()]
    measured = {name for name, each in said if each.get("accuracy") is not None}
    return {name: str(each.get("reason")) for name, each in said if name not in measured}
