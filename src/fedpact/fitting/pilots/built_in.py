"""Pilots that come with fedpact: natural members, and artificial ones, which are named as such.

**Natural**: `penguins` are those of three islands, female or male (the package palmerpenguins); `heart` the patients of
four hospitals (UCI's heart disease data, downloaded or read from a folder). **Artificial**: data of scikit-learn dealt
out to five members, each with a fault of its own: the first holds most records, the second few of few kinds, the third
what an old device recorded, the fourth wrong targets, the fifth hardly anything. Tests are clean: faults are in what
is trained on, except the third's device and the second's kinds, which are what these members work with.
"""

from __future__ import annotations

import importlib
import io
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.fitting.pilots.models import require_sklearn
from fedpact.fitting.pilots.records import (
    CLASSIFICATION,
    REGRESSION,
    PilotData,
    Records,
    pandas,
    pilot_data,
    read_table,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from pandas import DataFrame

ARTIFICIAL = {
    "digits": ("load_digits", CLASSIFICATION),
    "breast-cancer": ("load_breast_cancer", CLASSIFICATION),
    "wine": ("load_wine", CLASSIFICATION),
    "diabetes": ("load_diabetes", REGRESSION),
}
BUILT_IN_PILOTS = ("penguins", "heart", *ARTIFICIAL)
MEMBERS = ("Large", "One-sided", "Old device", "Mislabelled", "Small")
SIZES = np.array([0.36, 0.18, 0.18, 0.18, 0.10])
FAVOURED = 6.0  # how many times as often the one-sided member sees its own half of the targets
DEVICE_NOISE = 0.7  # standard deviations of a feature
WRONG_TARGETS = 0.3  # share of them
HEART_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/processed.{}.data"
HOSPITALS = {"Cleveland": "cleveland", "Hungary": "hungarian", "Long Beach": "va", "Switzerland": "switzerland"}
HEAD = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num\n"
SECONDS = 20.0  # that a download may wait for an answer


def built_in_pilot(name: str, *, source: Any = None, seed: int = 0) -> PilotData:
    """The records of a built-in pilot."""
    if name == "heart":
        return pilot_data(_hospitals(None if source is None else Path(source)), "disease")
    if source is not None:
        raise InvalidInput(f"source is for the pilot heart, which reads files; {name} comes with a package")
    if name != "penguins":
        return _artificial(name, seed)
    try:
        table = importlib.import_module("palmerpenguins").load_penguins()
    except ImportError as error:
        raise MissingExtra("palmerpenguins", "pilot") from error
    return pilot_data(
        {str(island): own.drop(columns="island") for island, own in table.groupby("island")}, "sex", ignore=("year",)
    )


def _hospitals(folder: Path | None) -> dict[str, DataFrame]:
    """The four tables: the files of UCI, or a CSV with a head for each hospital, in a folder or from the network."""
    found = {}
    for hospital, called in HOSPITALS.items():
        plain = None if folder is None else folder / f"{hospital.replace(' ', '')}.csv"
        if plain is not None and plain.is_file():
            found[hospital] = read_table(plain)
            continue
        name = f"processed.{called}.data"
        if folder is not None and not (folder / name).is_file():
            raise InvalidInput(f"{folder} has no {name} and no {hospital.replace(' ', '')}.csv; put UCI's files there")
        content = _download(HEART_URL.format(called)) if folder is None else (folder / name).read_text(encoding="utf-8")
        table = pandas().read_csv(io.StringIO(HEAD + content), na_values="?")
        found[hospital] = table.drop(columns="num").assign(disease=np.where(table["num"] > 0, "yes", "no"))
    return found


def _download(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            return str(answer.read().decode("utf-8"))
    except OSError as error:
        raise InvalidInput(
            f"{address} cannot be fetched ({error}); download the four processed.*.data files of UCI's heart disease "
            f"data where there is a connection, and name their folder: --from FOLDER"
        ) from error


def _artificial(name: str, seed: int) -> PilotData:
    """Data of scikit-learn, split into members with skew of targets, features, size and noise."""
    require_sklearn()
    loader, task = ARTIFICIAL[name]
    found = getattr(importlib.import_module("sklearn.datasets"), loader)()
    features, targets = np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64)
    classes = tuple(map(str, getattr(found, "target_names", ()))) if task == CLASSIFICATION else ()
    rng, records = np.random.default_rng(seed), []
    for member, rows in zip(MEMBERS, _deal(targets, rng), strict=True):
        own, truth = features[rows], targets[rows]
        if member == "Old device":
            own = own + DEVICE_NOISE * features.std(axis=0) * rng.standard_normal(own.shape)
        spoiled = truth
        if member == "Mislabelled" and task == REGRESSION:
            spoiled = truth + 2.0 * truth.std() * rng.standard_normal(len(truth))
        elif member == "Mislabelled":
            wrong = rng.random(len(truth)) < WRONG_TARGETS
            spoiled = np.where(wrong, (truth + rng.integers(1, len(classes), len(truth))) % len(classes), truth)
        records.append(Records.of(own, spoiled, truth=truth))
    return PilotData(
        names=MEMBERS,
        records=tuple(records),
        task=task,
        classes=classes,
        feature_names=tuple(map(str, found.feature_names)),
        notes=("members are artificial: one data set, dealt out with a fault for each",),
    )


def _deal(targets: FloatArray, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of the records of each member; the one-sided takes mostly targets below the middle."""
    sizes = np.floor(SIZES * len(targets)).astype(np.intp)
    favoured = np.where(targets < np.median(targets), FAVOURED, 1.0)
    one_sided = rng.choice(len(targets), sizes[1], replace=False, p=favoured / favoured.sum())
    rest = rng.permutation(np.setdiff1d(np.arange(len(targets)), one_sided))
    sizes[1] = 0
    parts = np.split(rest, np.cumsum(sizes))[: len(sizes)]
    parts[1] = one_sided
    return parts
