"""Members on data that is learnt in no time, and what those who cheat do in the place of training.

Five members tell two clouds of points apart. A local model is the mean of a member's points, each with the sign of its
cloud; the model of several is the mean of theirs, so that it is as good as one of all their points together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from scipy.special import ndtr

import fedpact as fp
from fedpact.fitting.delivery import Calibration, check_run
from fedpact.flower import Score
from fedpact.flower.run import read_model
from fedpact.flower.server import conduct, federated_averaging
from unit.flower.in_process import Stage

DIMENSIONS = 300
DISTANCE = 1.6  # of a cloud from the middle, in standard deviations
HELD, TESTED = 400, 2000
TOLD = 10  # samples of a quarter of what is agreed
RECOGNISED = 2.0 * DISTANCE**2  # what common ground adds to the product of a model and an update, twice
MEMBERS = ("Ada", "Ben", "Cleo", "Dan", "Eve")

Update = Callable[["Separating", Any, int], list[np.ndarray]]
Report = Callable[["Separating", Any, float], float]


def share_data(place: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A member's samples and labels, to train and to test on."""
    common = np.random.default_rng([seed, 1]).standard_normal(DIMENSIONS)
    rng = np.random.default_rng([seed, 2, place])
    labels = rng.choice([-1.0, 1.0], HELD + TESTED)
    points = rng.standard_normal((HELD + TESTED, DIMENSIONS))
    points += DISTANCE * labels[:, None] * common / np.linalg.norm(common)
    return points[:HELD], labels[:HELD], points[HELD:], labels[HELD:]


def mean_point(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return points.T @ labels / len(labels)


class Separating:
    """A learner of the mean point; what a cheat does instead the table of its run says."""

    samples = HELD
    seed = 0
    updates: Mapping[int, Update] = {}
    reports: Mapping[int, Report] = {}

    def __init__(self, context: Context) -> None:
        self.place = int(context.node_config["partition-id"])
        self.points, self.labels, self.tests, self.answers = share_data(self.place, self.seed)

    def honest(self, samples: int) -> list[np.ndarray]:
        return [mean_point(self.points[:samples], self.labels[:samples])]

    def train(self, model: Any, samples: int, server_round: int) -> list[np.ndarray]:
        cheat = self.updates.get(self.place)
        return self.honest(samples) if cheat is None else cheat(self, model, samples)

    def accuracy(self, model: Any) -> float:
        """The truth."""
        return float(((self.tests @ model[0] >= 0.0) == (self.answers > 0.0)).mean())

    def evaluate(self, model: Any) -> Score:
        found, lie = self.accuracy(model), self.reports.get(self.place)
        return Score(accuracy=found if lie is None else lie(self, model, found), samples=TESTED)


def learner(
    seed: int, *, updates: Mapping[int, Update] | None = None, reports: Mapping[int, Report] | None = None
) -> type[Separating]:
    made = {"seed": seed, "updates": updates or {}, "reports": reports or {}}
    return type("SeparatingWithCheats", (Separating,), made)


# What a cheat sends in the place of an update


def fewer(member: Separating, model: Any, samples: int) -> list[np.ndarray]:
    """Trained on a quarter of the samples it agreed to."""
    return member.honest(max(samples // 4, 1))


def wrong_labels(member: Separating, model: Any, samples: int) -> list[np.ndarray]:
    """Trained on labels drawn at random."""
    rng = np.random.default_rng([member.seed, 3, member.place])
    return [mean_point(member.points[:samples], rng.choice([-1.0, 1.0], samples))]


def noise(member: Separating, model: Any, samples: int) -> list[np.ndarray]:
    """Random numbers as large as an update."""
    return [drawn_noise(member.seed, member.place) * np.linalg.norm(member.honest(samples)[0])]


def drawn_noise(seed: int, place: int) -> np.ndarray:
    drawn = np.random.default_rng([seed, 4, place]).standard_normal(DIMENSIONS)
    return drawn / np.linalg.norm(drawn)


def sent_back(member: Separating, model: Any, samples: int) -> list[np.ndarray]:
    """The model it was given."""
    return [np.array(model[0])]


# What a cheat says of models


def worthless(member: Separating, model: Any, found: float) -> float:
    """As if no model was of any use, so that nobody's data seems worth its price."""
    return 0.5


def vouching(other: int) -> Report:
    """As if models with the other's update were better, by a member that was told that update and so knows it again."""

    def report(member: Separating, model: Any, found: float) -> float:
        points, labels, _, _ = share_data(other, member.seed)
        update = mean_point(points[:TOLD], labels[:TOLD])
        return min(1.0, found + 0.05) if float(model[0] @ update) > RECOGNISED else found

    return report


#: The accuracy of the mean of 24 to 200 points, to 0.001: what a calibration would find. Everybody's data is alike.
CURVE, WEIGHT, FLOOR, CEILING = fp.PowerLaw(beta=0.53998), 0.10838, 0.5, 0.98973
COST = 1.1e-3
FEDERATION = fp.Federation(
    weights=np.full((len(MEMBERS), len(MEMBERS)), WEIGHT),
    costs=COST,
    caps=float(HELD),
    payoff=CURVE,
    names=MEMBERS,
    values=CEILING - FLOOR,
)
EUROS = 1e6  # per unit of payoff


@dataclass(frozen=True)
class Cheat:
    """What one or two members do; Ada is judged, by what she really used of the samples she agreed to."""

    updates: Mapping[int, Update] = field(default_factory=dict)
    reports: Mapping[int, Report] = field(default_factory=dict)
    used: float = 1.0
    colludes: bool = False


CHEATS: Mapping[str, Cheat] = {
    "nobody cheats": Cheat(),
    "trains on a quarter": Cheat(updates={0: fewer}, used=0.25),
    "wrong labels": Cheat(updates={0: wrong_labels}, used=0.0),
    "noise": Cheat(updates={0: noise}, used=0.0),
    "sends the model back": Cheat(updates={0: sent_back}, used=0.0),
    "false accuracies": Cheat(reports={0: worthless}),
    "a quarter, another vouches": Cheat(updates={0: fewer}, reports={1: vouching(0)}, used=0.25, colludes=True),
}

# All of them in two runs, for where a run takes long.
TOGETHER: Mapping[str, Cheat] = {
    "false updates": Cheat(updates={0: fewer, 1: wrong_labels, 2: noise}),
    "false reports": Cheat(updates={0: sent_back}, reports={1: vouching(0), 3: worthless}),
}


@contextmanager
def estimating_once() -> Iterator[None]:
    """Within it nodes of this process share one estimate of the same numbers, which each would make for itself."""
    original, known = Calibration.shares_due, {}

    def shares_due(self: Calibration, deal: Any, models: Any, delivered: Any) -> Any:
        key = json.dumps([self.record(), models, delivered, deal.contributions.tolist()], sort_keys=True)
        if key not in known:
            known[key] = original(self, deal, models, delivered)
        return known[key]

    Calibration.shares_due = shares_due  # type: ignore[method-assign]
    try:
        yield
    finally:
        Calibration.shares_due = original  # type: ignore[method-assign]


def conduct_run(folder: Path, seed: int, cheat: Cheat, *, once: bool = True, **more: Any) -> Stage:
    """A whole run, negotiated, signed, trained, verified and settled by what arrived."""
    folder.mkdir(parents=True, exist_ok=True)
    calibration = folder / "calibration.toml"
    fp.save_scenario(fp.Scenario(federation=FEDERATION, title="Five members"), calibration)
    made = learner(seed, updates=cheat.updates, reports=cheat.reports)
    stage = Stage(FEDERATION, folder, learner=made)
    verified = {
        "verify-subsets": 31,
        "settle-by": "delivery",
        "calibration": str(calibration),
        "floor": FLOOR,
        "ceiling": CEILING,
    }
    settings = stage.settings(**{"rounds": 1, "per-payoff": EUROS, "timeout": 60.0, **verified, **more})
    with estimating_once() if once else nullcontext():
        conduct(stage.grid(), settings, initial=lambda: [np.zeros(DIMENSIONS)], strategy=federated_averaging)
    return stage


def utilities(stage: Stage, seed: int, cheat: Cheat) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's true utility in euros, if what arrived is paid for and if what is counted is."""
    found = check_run(stage.ledger)
    assert found.failed == [], found.failed
    settled, trained = found.entries.get("settled"), found.entries.get("trained")
    assert found.deal is not None and settled is not None and trained is not None
    record = stage.ledger.parent
    model = read_model(record / trained.content["model"]["file"], trained.content["model"]["sha256"])
    arrays = model.to_numpy_ndarrays()
    truth = [mean_accuracy(arrays[0], place, seed) for place in range(len(MEMBERS))]
    used = np.array([cheat.used if place in cheat.updates else 1.0 for place in range(len(MEMBERS))])
    spent = COST * found.deal.contributions * used
    own = (np.array(truth) - FLOOR - spent) * EUROS
    paid = np.array([settled.content["cents"][name] for name in MEMBERS]) / 100.0
    counted = np.array(found.settlement().agreed_cents) / 100.0
    return own + paid, own + counted


def mean_accuracy(model: np.ndarray, place: int, seed: int) -> float:
    """What the model is worth to a member: by the clouds themselves, not by a test."""
    common = np.random.default_rng([seed, 1]).standard_normal(DIMENSIONS)
    along = float(model @ common / (np.linalg.norm(model) * np.linalg.norm(common) + 1e-300))
    return float(ndtr(DISTANCE * along))


def ada_earns(folder: Path, seed: int, cheat: Cheat) -> np.ndarray:
    """What Ada has in the end of a run, in euros: by what arrived and by what is counted."""
    return np.array([earned[0] for earned in utilities(conduct_run(folder, seed, cheat), seed, cheat)])
