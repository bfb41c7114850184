"""`pilot`: from members' data to a deal that was measured to pay, or is not recommended.

1. **Does it help, and whom?** Everybody alone, one model for all, and own choice are trained and tested on every record
   (`arrangements`), with everything shared.
2. **What is it worth?** Of the arrangement to be used, some profiles of sharing are measured, and curves are fitted to
   the gains (`gain_curves`).
3. **What is the deal?** The curves, with what records cost and what a score is worth, are a federation; the deal is
   that of M^E, which has the most welfare, and under which nobody who does no harm loses. Curves are right about what
   was measured, and a deal is made where they promise most. So it is measured too, and the curves are fitted again with
   it, until the deal is one that was measured.
4. **Does it pay?** The deal is trained on fresh splits and held against everybody alone (`study`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.comparison import stable_federation
from fedpact.deals import Outcome
from fedpact.federation.arrays import sum_by
from fedpact.fitting.pilots.arrangements import ALONE, ONE_MODEL, OWN_CHOICE, Laboratory, Measurement, Shares, Trainer
from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS, built_in_pilot
from fedpact.fitting.pilots.estimators import PilotModel
from fedpact.fitting.pilots.gain_curves import fit_gains, shapes_of
from fedpact.fitting.pilots.members import column_list, frames_of, pilot_data, read_members
from fedpact.fitting.pilots.records import PilotData
from fedpact.fitting.pilots.scores import ScoreFunction
from fedpact.fitting.pilots.study import Confirmation, PilotStudy
from fedpact.fitting.pilots.terms import Stated, pilot_terms
from fedpact.mechanisms import ExternalityMechanism
from fedpact.scenario.measured import NORMAL_QUANTILE
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput, short_repr

PROFILES = 14
MIN_SPLITS, MAX_SPLITS = 2, 8
SECONDS = 60.0  # of training that splits are chosen by
FRESH = 1_000  # number of the first split that the deal is confirmed on
CONFIRMING = 2  # times as many splits confirm the deal as its curves were fitted to
REFITS = 3  # times at most that the deal itself is measured, and curves are fitted again with it
NEAR = 0.01  # shares that differ by less are the same
PARTS = (0.0, 0.1, 0.3, 0.6, 1.0)  # of a lot, in profiles that are drawn
MAX_SEED = 2**32 - 1  # scikit-learn takes no larger one
ARRANGEMENTS = (OWN_CHOICE, ONE_MODEL)
PIECES, SPLITS_PIECE = ".pieces", "splits-0-0"


Progress = Callable[[str, int, int], None]  # what is being done, how much of it, and of how much


def pilot(
    data: Any,
    target: str | None = None,
    *,
    member: str | None = None,
    model: Any = None,
    task: str | None = None,
    score: Any = None,
    ignore: Sequence[str] = (),
    lots: str | None = None,
    groups: str | None = None,
    cost: Stated | None = None,
    value: Stated | None = None,
    floor: float | None = None,
    family: str | None = None,
    arrangement: str | None = None,
    models: int = PROFILES,
    splits: int | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    source: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> PilotStudy:
    """Measure whether members gain by sharing data, make the deal, and train it before recommending it.

    All records are read in one place: that is for public or synthetic data, or a place that all members trust. Where
    data may not be pooled, the ledger of a Flower run is the log to fit.

    Parameters
    ----------
    data
        A folder with a table per member, a table with a column `member`, a mapping from names to tables (pandas
        frames, or pairs of features and targets), `PilotData`, or the name of a built-in pilot.
    target
        The column to predict.
    member
        The column that says whose a record is, in a single table.
    model
        A scikit-learn estimator, or its name such as "sklearn.linear_model:LogisticRegression(C=0.1)"; by default a
        linear model that suits the task.
    task
        "classification" or "regression"; by default the target decides.
    score
        A score of scikit-learn, such as "roc_auc"; by default "accuracy" or "r2".
    ignore
        Columns to leave out.
    lots
        A column that says of which kind a record is.
    groups
        A column of what belongs together, such as a patient's number.
    cost, value
        What sharing a record costs and what the score is worth, for all or by member: money such as "0.02 EUR/record"
        and "20 EUR/point" (a hundredth of the score), or plain numbers per record and per 1.
    floor
        What guessing scores; measured by the constant answer if not given.
    family
        Of the curves: "power-law" or "exponential"; the one that predicts better if not given.
    arrangement
        "own choice" or "one model"; by default own choice, unless one model is measured to be better.
    models
        How many profiles of sharing are measured.
    splits
        How often records are split anew; by default what a minute of training allows.
    seed
        Of splits and training.
    output
        A folder for what is trained and found; started again with it, a pilot goes on where it was.
    source
        A folder that a built-in pilot reads its files from, if it does not come with a package.
    progress
        Told what is being done, how much of it, and of how much.

    Examples
    --------
    >>> found = pilot("wine", models=6, splits=2)
    >>> found.verdict in ("federate", "do not federate", "not enough evidence")
    True
    """
    if floor is not None and not np.isfinite(floor):
        raise InvalidInput(f"floor must be finite, got {floor:g}; leave it out to have it measured")
    if arrangement not in (None, *ARRANGEMENTS):
        raise InvalidInput(f"arrangement must be one of {', '.join(ARRANGEMENTS)}, got {arrangement!r:.40}")
    _check_count("seed", seed, 0, f"from 0 to {MAX_SEED}", most=MAX_SEED)
    _check_count("splits", MIN_SPLITS if splits is None else splits, MIN_SPLITS, f"of at least {MIN_SPLITS}")
    columns = {"member": member, "ignore": ignore, "lots": lots, "groups": groups}
    records = _records(data, target, task=task, source=source, seed=seed, **columns)
    needed = 1 + len(records.caps)
    every = f"of at least {needed}: everything shared, and each of {needed - 1} lots alone"
    _check_count("models", models, needed, every)
    judged = ScoreFunction(score, records.task)
    trained = PilotModel.of(model, records.task, len(records.classes), seed)
    terms, shapes = pilot_terms(records, cost, value), shapes_of(family)
    tell = progress or (lambda doing, done, total: None)
    kept = None
    if output is not None:
        _check_folder(Path(output))
        kept = Checkpoint(Path(output) / PIECES, json.dumps([records.fingerprint, trained.label, judged.name, seed]))
    laboratory = Laboratory(Trainer(records, trained, judged, seed), kept, tell)
    n_splits = splits or _affordable_splits(laboratory, models + CONFIRMING)
    nothing, everything = ((share,) * len(records.caps) for share in (0.0, 1.0))
    kinds = [(ALONE, nothing), (ONE_MODEL, everything), (OWN_CHOICE, everything)]
    measured = laboratory.measure(kinds, range(n_splits), "arrangements")
    by_arrangement = dict(zip((ALONE, ONE_MODEL, OWN_CHOICE), measured, strict=True))
    used = arrangement or _better(by_arrangement, terms.worth)
    title = f"Pilot: {Path(data).stem}" if isinstance(data, str | os.PathLike) else "Pilot"

    def fitted(profiles: FloatArray) -> PilotStudy:
        wanted = [(used, tuple(map(float, each))) for each in profiles]
        found = laboratory.measure(wanted, range(n_splits), "profiles of sharing")
        pairs = [each.gains_over(by_arrangement[ALONE]) for each in found]
        gains, variances = (np.stack(parts) for parts in zip(*pairs, strict=True))
        others = np.arange(len(records.names))[:, None] != np.array(records.lot_owners)
        allowed = others if used == OWN_CHOICE else None
        curves = fit_gains(profiles * records.caps, gains, variances, allowed, shapes=shapes)
        return PilotStudy(
            data=records,
            model=trained,
            score=judged,
            terms=terms.completed(float((terms.worth * curves.values).sum()), records.caps),
            splits=n_splits,
            arrangement=used,
            measurements=by_arrangement,
            guesses=_guesses(laboratory.trainer, floor),
            profiles=profiles,
            gains=gains,
            variances=variances,
            curves=curves,
            title=title,
        )

    study = fitted(sharing_profiles(records, models, seed))
    outcome = _deal(study)
    for _ in range(REFITS):
        shares = None if outcome is None else _shared_records(study, outcome) / records.caps
        if shares is None or np.abs(study.profiles - shares).max(axis=1).min() < NEAR:
            break
        # Curves are right about what was measured: so the deal they would make is measured, before it is promised.
        study = fitted(np.vstack([study.profiles, shares]))
        outcome = _deal(study)
    if outcome is not None:
        study = replace(study, confirmation=_confirm(study, outcome, laboratory))
    if output is not None:
        tell("writing the report", 0, 0)
        study.save(output)
    return study


def _check_count(label: str, given: Any, least: int, rule: str, *, most: float = np.inf) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise InvalidInput(f"{label} must be a whole number {rule}, got {short_repr(given)}")


def _affordable_splits(laboratory: Laboratory, n_profiles: int) -> int:
    """How many splits a minute of training allows; a pilot that goes on has as many as it began with."""
    kept = laboratory.kept
    known = None if kept is None else kept.load(SPLITS_PIECE)
    if known is not None:
        return int(known["splits"])
    everything: Shares = (1.0,) * len(laboratory.trainer.data.caps)
    seconds = laboratory.seconds(OWN_CHOICE, everything) * n_profiles
    splits = int(np.clip(SECONDS / max(seconds, 1e-9), MIN_SPLITS, MAX_SPLITS))
    if kept is not None:
        kept.save(SPLITS_PIECE, {"splits": np.array(splits)})
    return splits


def sharing_profiles(data: PilotData, count: int, seed: int) -> FloatArray:
    """(count, lots): shares of lots to measure: everything, each lot alone, all but one, and some that are drawn."""
    n_lots = len(data.caps)
    drawn = np.random.default_rng([seed, 1]).choice(PARTS, (count, n_lots))
    planned = [
        np.ones((1, n_lots)),
        np.eye(n_lots),
        1.0 - np.eye(n_lots) if n_lots > 2 else np.empty((0, n_lots)),
        drawn,
    ]
    profiles = np.concatenate(planned)
    return np.array(list(dict.fromkeys(tuple(each) for each in profiles if each.any()))[:count])


def _better(measured: Mapping[str, Measurement], worth: FloatArray) -> str:
    """Own choice, unless one model brings more in total beyond doubt."""
    more, variances = measured[ONE_MODEL].gains_over(measured[OWN_CHOICE])
    error = float(np.sqrt((worth**2 * variances).sum()))
    return ONE_MODEL if float(worth @ more) > NORMAL_QUANTILE * error else OWN_CHOICE


def _guesses(trainer: Trainer, floor: float | None) -> FloatArray:
    """(n,): the score of the constant answer, the shares of classes or the mean of a member's own records."""
    found = []
    for own in trainer.data.records:
        answers = np.eye(trainer.model.n_classes)[own.truth.astype(int)] if trainer.model.n_classes else own.truth
        found.append(trainer.score.of(np.broadcast_to(answers.mean(axis=0), answers.shape), own.truth))
    return np.array(found) if floor is None else np.full(len(found), float(floor))


def _deal(study: PilotStudy) -> Outcome | None:
    """The deal of most welfare by the curves, once those who would leave have left, if any."""
    if not study.curves.predicts:
        return None
    settled = stable_federation(study.federation, ExternalityMechanism())
    shares_any = settled.outcome is not None and np.rint(settled.outcome.contributions).any()
    return settled.outcome if shares_any else None


def _shared_records(study: PilotStudy, outcome: Outcome) -> FloatArray:
    """(lots,): whole records that are shared under a deal of some or all members."""
    shared = np.zeros(len(study.data.caps))
    for own, name in enumerate(outcome.agents):
        lots = study.federation.lots_of(study.data.names.index(name))
        shared[lots] = np.rint(outcome.contributions[outcome.federation.lots_of(own)])
    return shared


def _confirm(study: PilotStudy, outcome: Outcome, laboratory: Laboratory) -> Confirmation:
    """A deal, trained on fresh splits beside everybody alone."""
    data, terms, n = study.data, study.terms, len(study.data.names)
    assert terms.costs is not None
    payments, promised, inside = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    members = [data.names.index(name) for name in outcome.agents]
    inside[members], payments[members], promised[members] = True, outcome.payments, outcome.ir_gaps
    shared = _shared_records(study, outcome)
    splits = range(FRESH, FRESH + CONFIRMING * study.splits)
    wanted = [(study.arrangement, tuple(map(float, shared / data.caps))), (ALONE, (0.0,) * len(shared))]
    deal, alone = laboratory.measure(wanted, splits, "the deal, on fresh splits")
    gains, variances = deal.gains_over(alone)
    gains, variances = np.where(inside, gains, 0.0), np.where(inside, variances, 0.0)
    spent = sum_by(np.array(data.lot_owners), terms.costs * shared, n)
    return Confirmation(
        agents=data.names,
        mechanism=ExternalityMechanism().title,
        shared=shared,
        payments=payments,
        promised=promised,
        measured=terms.worth * gains - spent + payments,
        errors=terms.worth * np.sqrt(variances),
        costs=spent,
        currency=study.currency,
    )


def _records(data: Any, target: str | None, *, source: Any, seed: int, **options: Any) -> PilotData:
    """The records of whatever was given."""
    if isinstance(data, PilotData) or (isinstance(data, str) and data in BUILT_IN_PILOTS):
        for label, given in {"target": target, **options}.items():
            if given:
                raise InvalidInput(f"{label} is for tables; this data is split into members already")
        return data if isinstance(data, PilotData) else built_in_pilot(data, source=source, seed=seed)
    if source is not None:
        raise InvalidInput(f"source is for built-in pilots ({', '.join(BUILT_IN_PILOTS)}); name the folder itself")
    member = options.pop("member")
    named = {"target": target, "member": member, "lots": options["lots"], "groups": options["groups"]}
    roles: dict[str, str] = {}
    for role, column in (*named.items(), *(("ignore", each) for each in options["ignore"])):
        if column is not None and (other := roles.setdefault(column, role)) != role:
            raise InvalidInput(f"{role} must be another column than {other}, got {short_repr(column)} for both")
    if isinstance(data, Mapping):
        if member is not None:
            raise InvalidInput("member is for a single table; here each member has its own already")
        frames, target = frames_of(data, target)
        return pilot_data(frames, target, **options)
    if not isinstance(data, str | os.PathLike):
        raise InvalidInput(f"data must be a folder, a table, a mapping of tables or PilotData, got {short_repr(data)}")
    if not os.path.exists(data) and not Path(data).suffix:
        raise InvalidInput(
            f"there is no folder {str(data)!r} and no built-in pilot of that name; built in are "
            f"{', '.join(BUILT_IN_PILOTS)}"
        )
    tables, notes = read_members(Path(data), member)
    if target is None:
        columns = column_list(next(iter(tables.values())))
        raise InvalidInput(f"target must name the column to predict, one of {columns}")
    return pilot_data(tables, target, notes=notes, **options)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PIECES).is_dir():
        raise InvalidInput(f"{folder} holds other files and is of no pilot; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
