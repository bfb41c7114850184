"""Data of several kinds on trained models: the deal with lots against the deal without, predicted and realised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.paper import drawing
from fedpact.paper.judging import BEYOND, judge, number, span
from fedpact.paper.lots_runs import (
    COSTS,
    MEMBER_NAMES,
    NEARBY,
    RUNS,
    TRAININGS,
    TURNS,
    LotsStudy,
    RealisedLots,
    studies,
)
from fedpact.paper.markdown import pipe_table
from fedpact.paper.results import Judgement, PaperFinding, Result
from fedpact.report.plots.style import BAD, FAINT, GOOD, INK

POOR = "poor"
WAYS_TO_OFFER = ("without lots", "with lots")
MIN_STANDARD_ERRORS = 2.0  # standard errors
LOTS_TEXT = """\
Four members hold 500 MNIST images each to train on and 500 to be tested on. Classes 7 to 9 are rare: 90 of the training
images of three members, 250 of the fourth's. Of the training labels 10, 30, 50 and 30 % are wrong. Everybody is tested
on common and on rare classes, with clean labels, and both count alike: welfare is the sum of eight accuracies less the
costs of the images. A member's lots are its common and its rare classes, each in a good and a poor tier by what single
images are worth (KNN-Shapley, judged by 400 clean images that are nobody's); a tier with less than a twentieth of a
member's images is none. For the deal without lots members bring a part of all they have, as it comes.

For either deal {runs} coalition models were trained and weights fitted, then models near the deals and the weights
fitted again ({turns} times {nearby} models for each cost). The deal is the welfare optimum of the fit (M^E). What came
of it is the mean of {trainings} trainings that the fit has not seen. All of this {dealings}.

{deals}

Which images were brought, over all members, and how many labels of each tier are wrong:

{lots}

**Where the power law does not fit.** It explains {explained} % of the variance of the accuracies of lots. An image of a
rare class is worth more where there are many of common ones, and the other way round: a network that sees few of a
class hardly ever names it. One weight per lot and task cannot say that, which is why models near the deals are added.
"""


def lots_result(*, folder: Path | None = None, progress: Any = None) -> Result:
    """The study, drawn and judged; `folder` keeps what was trained."""
    found = studies(folder=folder, progress=progress)
    explained = [100 * each.by_lots.quality.r_squared for each in found]
    return Result(
        name="lots",
        title="Data of several kinds: the deal with lots and the deal without",
        columns=_columns(found),
        draw=lambda figure: _draw(figure, found),
        size=(7.2, 3.1),
        text=LOTS_TEXT.format(
            runs=RUNS,
            turns=TURNS,
            nearby=NEARBY,
            trainings=TRAININGS,
            dealings="was done once" if len(found) == 1 else f"was done {len(found)} times, with images dealt anew",
            deals=_deals(found),
            lots=_brought_table(found),
            explained=span(explained, ".0f"),
        ),
        findings=[_labels(found), _order(found), _welfare(found), _at_home(found), _predictions(found)],
    )


# Numbers


def _poor(study: LotsStudy) -> NDArray[np.bool_]:
    """(lots,): whether it is a poor tier."""
    return np.array([name.endswith(POOR) for name in study.lot_names])


def _pairs(study: LotsStudy) -> list[tuple[int, int]]:
    """The good and the poor tier of every member and kind that has both."""
    places = {(int(owner), name): lot for lot, (owner, name) in enumerate(_labelled(study))}
    return [
        (places[owner, name.replace(POOR, "good")], lot)
        for (owner, name), lot in places.items()
        if name.endswith(POOR) and (owner, name.replace(POOR, "good")) in places
    ]


def _labelled(study: LotsStudy) -> list[tuple[int, str]]:
    return list(zip(study.lot_owners.tolist(), study.lot_names, strict=True))


def _gains(found: Sequence[LotsStudy]) -> list[tuple[float, float, float]]:
    """Of every dealing and cost: the cost, what lots add to the welfare realised, and its standard error."""
    return [
        (cost, lots.welfare - whole.welfare, float(np.hypot(lots.welfare_error, whole.welfare_error)))
        for study in found
        for cost, (whole, lots) in study.deals.items()
    ]


def _deals(found: Sequence[LotsStudy]) -> str:
    rows = []
    for dealing, study in enumerate(found):
        for cost, pair in study.deals.items():
            for kind, deal in zip(WAYS_TO_OFFER, pair, strict=True):
                rows.append(
                    [
                        f"{cost:g}",
                        str(dealing + 1),
                        kind,
                        f"{deal.samples.sum():,}",
                        number(float(deal.realised.mean()), ".3f"),
                        number(deal.predicted_welfare, ".2f"),
                        f"{number(deal.welfare, '.2f')} ± {deal.welfare_error:.2f}",
                    ]
                )
    heads = ["γ", "dealing", "deal", "images brought", "mean accuracy", "welfare predicted", "realised"]
    return pipe_table(heads, sorted(rows, key=lambda row: (float(row[0]), row[1])))


def _brought_table(found: Sequence[LotsStudy]) -> str:
    rows = []
    for name in dict.fromkeys(sorted(name for study in found for name in study.lot_names)):
        held, wrong, *brought = _totals(found, name)
        rows.append(
            [name, f"{held:,}", f"{100 * wrong / held:.0f} %", *(f"{100 * each / held:.0f} %" for each in brought)]
        )
    return pipe_table(["lot", "images", "wrong labels", *(f"brought at γ = {cost:g}" for cost in COSTS)], rows)


def _totals(found: Sequence[LotsStudy], name: str) -> list[int]:
    """Over all members and dealings, of the lots of this name: images held, labels wrong, and brought at every cost."""
    totals = np.zeros(2 + len(COSTS), dtype=np.int64)
    for study in found:
        chosen = np.array([each == name for each in study.lot_names])
        brought = [study.deals[cost][1].samples[chosen].sum() for cost in COSTS]
        totals += np.array([study.held[chosen].sum(), study.wrong[chosen].sum(), *brought])
    return [int(total) for total in totals]


def _columns(found: Sequence[LotsStudy]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for dealing, study in enumerate(found):
        for cost, (whole, lots) in study.deals.items():
            for lot, (owner, name) in enumerate(_labelled(study)):
                row = {
                    "dealing": dealing + 1,
                    "gamma": cost,
                    "member": MEMBER_NAMES[owner],
                    "lot": name,
                    "images": int(study.held[lot]),
                    "wrong_labels": int(study.wrong[lot]),
                    "brought": int(lots.samples[lot]),
                    "member_brings_without_lots": int(whole.samples[owner]),
                    "loss_per_hundred_left_out": float(study.losses[lot]),
                    **_welfare_columns("with_lots", lots),
                    **_welfare_columns("without_lots", whole),
                }
                for key, value in row.items():
                    columns.setdefault(key, []).append(value)
    return columns


def _welfare_columns(kind: str, deal: RealisedLots) -> dict[str, float]:
    return {
        f"welfare_predicted_{kind}": deal.predicted_welfare,
        f"welfare_realised_{kind}": deal.welfare,
        f"welfare_error_{kind}": deal.welfare_error,
    }


# Judgements


def _labels(found: Sequence[LotsStudy]) -> PaperFinding:
    wrong, held = np.zeros(2), np.zeros(2)
    for study in found:
        poor = _poor(study)
        for place, chosen in enumerate((~poor, poor)):
            wrong[place] += study.wrong[chosen].sum()
            held[place] += study.held[chosen].sum()
    shares, caught = wrong / np.maximum(held, 1), wrong[1] / max(wrong.sum(), 1)
    return PaperFinding(
        BEYOND,
        "Values of single images tell wrong labels from right ones.",
        judge(shares[1] >= 0.8 and caught >= 0.8, partly=bool(shares[1] > 2 * shares[0])),
        f"{100 * shares[1]:.0f} % of the labels in poor tiers are wrong and {100 * shares[0]:.0f} % of those in good "
        f"ones; poor tiers hold {100 * caught:.0f} % of all wrong labels.",
        expected=Judgement.CONFIRMED,
    )


def _order(found: Sequence[LotsStudy]) -> PaperFinding:
    losses = [(study.losses[good], study.losses[poor]) for study in found for good, poor in _pairs(study)]
    agree = sum(bool(good > poor) for good, poor in losses)
    good, poor = np.mean(losses, axis=0)
    return PaperFinding(
        BEYOND,
        "The order of the tiers agrees with what leaving them out does: models miss good images more than poor ones.",
        judge(agree == len(losses), partly=agree >= 0.8 * len(losses)),
        f"In {agree} of {len(losses)} pairs of tiers, a hundred good images left out cost more accuracy than a hundred "
        f"poor ones: {number(float(good), '+.2f')} and {number(float(poor), '+.2f')} on average, summed over eight "
        f"tests, one training each.",
        expected=Judgement.CONDITIONAL,
    )


def _welfare(found: Sequence[LotsStudy]) -> PaperFinding:
    gains = _gains(found)
    sure = sum(gain > MIN_STANDARD_ERRORS * error for _, gain, error in gains)
    means = [np.mean([gain for cost, gain, _ in gains if cost == each]) for each in COSTS]
    base = [np.mean([study.deals[cost][0].welfare for study in found]) for cost in COSTS]
    told = " and ".join(
        f"{number(float(mean), '+.2f')} ({100 * mean / whole:.0f} %) at γ = {cost:g}"
        for mean, whole, cost in zip(means, base, COSTS, strict=True)
    )
    return PaperFinding(
        BEYOND,
        "The deal with lots comes to more welfare than the deal without, as trained.",
        judge(sure == len(gains), partly=all(mean > 0 for mean in means)),
        f"On average {told}; by more than two standard errors in {sure} of {len(gains)} cases, from "
        f"{span([gain for _, gain, _ in gains], '+.2f')}.",
        expected=Judgement.CONDITIONAL,
    )


def _at_home(found: Sequence[LotsStudy]) -> PaperFinding:
    brought, held = np.zeros((2, len(COSTS))), np.zeros(2)
    for study in found:
        poor = _poor(study)
        for place, chosen in enumerate((~poor, poor)):
            held[place] += study.held[chosen].sum()
            brought[place] += [study.deals[cost][1].samples[chosen].sum() for cost in COSTS]
    shares = brought / held[:, None]
    told = " and ".join(
        f"{100 * good:.0f} % of the good and {100 * poor:.0f} % of the poor images are brought at γ = {cost:g}"
        for good, poor, cost in zip(*shares, COSTS, strict=True)
    )
    return PaperFinding(
        BEYOND,
        "The deal with lots leaves images with wrong labels at home.",
        judge(bool((shares[1] <= 0.05).all()), partly=bool((shares[1] < shares[0]).all())),
        f"{told}.",
        expected=Judgement.CONFIRMED,
    )


def _predictions(found: Sequence[LotsStudy]) -> PaperFinding:
    apart = {
        kind: np.array(
            [pair[place].welfare - pair[place].predicted_welfare for study in found for pair in study.deals.values()]
        )
        for place, kind in enumerate(WAYS_TO_OFFER)
    }
    size = {kind: float(np.sqrt((each**2).mean())) for kind, each in apart.items()}
    gains = [gain for _, gain, _ in _gains(found)]
    return PaperFinding(
        BEYOND,
        "Welfare comes out as the fit predicts, up to less than what lots add.",
        judge(max(size.values()) < float(np.mean(gains)), partly=size[WAYS_TO_OFFER[1]] < max(gains)),
        f"Realised less predicted, root mean square: {number(size[WAYS_TO_OFFER[0]], '.2f')} without lots and "
        f"{number(size[WAYS_TO_OFFER[1]], '.2f')} with lots, where lots add {number(float(np.mean(gains)), '.2f')} on "
        "average.",
        expected=Judgement.CONFIRMED,
    )


# Picture


def _draw(figure: Any, found: Sequence[LotsStudy]) -> None:
    panels = figure.subplots(1, 3)
    _draw_welfare(panels[0], found)
    _draw_brought(panels[1], found)
    _draw_losses(panels[2], found)
    _legend(figure)


def _draw_welfare(panel: Any, found: Sequence[LotsStudy]) -> None:
    """A place for every cost and dealing: without and with lots, predicted and realised."""
    drawing.dress(panel, "welfare")
    marks = {WAYS_TO_OFFER[0]: (BAD, "s"), WAYS_TO_OFFER[1]: (GOOD, "o")}
    for group, cost in enumerate(COSTS):
        for dealing, study in enumerate(found):
            place = group * (len(found) + 1) + dealing
            for kind, deal in zip(WAYS_TO_OFFER, study.deals[cost], strict=True):
                colour, marker = marks[kind]
                panel.plot([place, place], [deal.predicted_welfare, deal.welfare], color=colour, linewidth=0.7)
                panel.plot(place, deal.predicted_welfare, marker, color=colour, markerfacecolor="white")
                panel.plot(place, deal.welfare, marker, color=colour)
    centres = [group * (len(found) + 1) + (len(found) - 1) / 2 for group in range(len(COSTS))]
    panel.set_xticks(centres, [f"γ = {cost:g}" for cost in COSTS])
    panel.grid(visible=False, axis="x")


def _draw_brought(panel: Any, found: Sequence[LotsStudy]) -> None:
    drawing.dress(panel, "images brought, with lots")
    names = list(dict.fromkeys(sorted(name for study in found for name in study.lot_names)))
    width = 0.8 / len(COSTS)
    for group, cost in enumerate(COSTS):
        shares = []
        for name in names:
            held, _, *brought = _totals(found, name)
            shares.append(100 * brought[group] / held)
        places = np.arange(len(names)) + (group - (len(COSTS) - 1) / 2) * width
        panel.barh(places, shares, width, color=GOOD, alpha=1.0 - 0.45 * group, label=f"γ = {cost:g}")
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("% of those held")
    panel.legend(loc="center right", bbox_to_anchor=(1.0, 0.62), handlelength=1.0)
    panel.grid(visible=False, axis="y")


def _draw_losses(panel: Any, found: Sequence[LotsStudy]) -> None:
    drawing.dress(panel, "accuracy lost without 100")
    pairs = [(study.losses[good], study.losses[poor]) for study in found for good, poor in _pairs(study)]
    for good, poor in pairs:
        panel.plot([0, 1], [good, poor], color=FAINT, linewidth=0.8, marker=".", markersize=4)
    if pairs:
        panel.plot([0, 1], np.mean(pairs, axis=0), color=INK, linewidth=1.6)
    panel.axhline(0.0, color=FAINT, linewidth=0.8)
    panel.set_xticks([0, 1], ["good tier", "poor tier"])
    panel.set_xlim(-0.3, 1.3)
    panel.grid(visible=False, axis="x")


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency

    plain: dict[str, Any] = {"linestyle": "none"}
    handles = [
        Line2D([], [], color=BAD, marker="s", label=f"deal {WAYS_TO_OFFER[0]}", **plain),
        Line2D([], [], color=GOOD, marker="o", label=f"deal {WAYS_TO_OFFER[1]}", **plain),
        Line2D([], [], color=INK, marker="o", markerfacecolor="white", label="predicted", **plain),
        Line2D([], [], color=INK, marker="o", label="as trained", **plain),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
