"""Federations that come with fedpact: hospitals, with data of several kinds, with privacy; the paper's instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedpact.federation import Federation, PowerLaw, Quadratic
from fedpact.scenario import Money, Scenario
from fedpact.utils.errors import InvalidInput

PAPER_WEIGHTS = {
    "paper-w1": ("Table 1, W1: equal members", [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    "paper-w2": ("Table 1, W2: unequal weights", [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]),
    "paper-w3": ("Table 1, W3: one harmful weight", [[1.0, 0.1, 2.0], [-0.2, 1.0, 0.5], [1.0, 3.0, 1.0]]),
}


# How alike the patients of five hospitals are: the row receives, the column gives.
HOSPITALS = ("University", "City", "County", "Children's", "Clinic")
ALIKE = np.array(
    [
        [1.00, 0.60, 0.50, 0.25, 0.40],
        [0.60, 1.00, 0.70, 0.20, 0.40],
        [0.50, 0.70, 1.00, 0.20, 0.50],
        [0.40, 0.30, 0.25, 1.00, 0.20],
        [0.40, 0.40, 0.50, 0.15, 1.00],
    ]
)


def hospitals() -> Scenario:
    """Five hospitals of different size, speciality and privacy noise, in thousands of patient records.

    How useful one hospital's records are to another is how alike their patients are, times what the giver's privacy
    noise leaves of its records' quality. The clinic protects its records with so much noise that they are of little use
    to anyone else: sharing by Shapley value charges it more than federating is worth to it.
    """
    quality = np.array([1.0, 0.9, 0.7, 0.8, 0.15])
    weights = np.round(ALIKE * quality, 3)
    np.fill_diagonal(weights, 1.0)
    federation = Federation(
        weights,
        names=HOSPITALS,
        payoff=PowerLaw(beta=0.3),
        costs=Quadratic([0.0014, 0.0020, 0.0022, 0.0018, 0.0016], [2.4e-5, 4e-5, 6e-5, 8e-5, 8e-5]),
        caps=[120.0, 80.0, 60.0, 40.0, 30.0],
    )
    return Scenario(
        federation=federation,
        title="Five hospitals",
        description="Patient records of five hospitals; the clinic adds strong privacy noise.",
        money=Money(currency="EUR", per_payoff=1_000_000.0),
        unit="thousand records",
    )


def hospitals_with_lots() -> Scenario:
    """The same hospitals with records of several kinds, and two that care about a rare disease besides.

    Labelled records teach most; unlabelled ones cost less and teach less; records of an old device mislead those who no
    longer use one. Few records are of the rare disease, which two hospitals test apart.
    """
    # owner, name, of rare patients, quality, cost per thousand records, how fast it rises, records there are
    lots = [
        ("University", "labelled", False, 1.0, 0.0026, 3e-5, 60.0),
        ("University", "unlabelled", False, 0.35, 0.0006, 1e-5, 150.0),
        ("University", "rare disease", True, 1.0, 0.0060, 2e-4, 10.0),
        ("City", "labelled", False, 0.9, 0.0030, 5e-5, 40.0),
        ("City", "old device", False, 0.1, 0.0004, 1e-5, 80.0),
        ("County", "labelled", False, 0.7, 0.0030, 8e-5, 30.0),
        ("County", "unlabelled", False, 0.25, 0.0007, 2e-5, 90.0),
        ("Children's", "labelled", False, 0.8, 0.0028, 1e-4, 25.0),
        ("Children's", "rare disease", True, 0.9, 0.0070, 3e-4, 8.0),
        ("Clinic", "with privacy noise", False, 0.15, 0.0016, 8e-5, 30.0),
    ]
    tasks = [(name, "all patients", False) for name in HOSPITALS]
    tasks += [("University", "rare disease", True), ("Children's", "rare disease", True)]
    weights = np.zeros((len(tasks), len(lots)))
    for row, (receiver, _, rare_test) in enumerate(tasks):
        for column, (giver, kind, rare, quality, *_) in enumerate(lots):
            alike = ALIKE[HOSPITALS.index(receiver), HOSPITALS.index(giver)]
            suits = (0.5 if rare else 1.0) if not rare_test else (4.0 if rare else 0.1)
            own = receiver == giver and kind == "with privacy noise"  # noise is for the others
            weights[row, column] = alike * suits * (1.0 if own else quality)
            if kind == "old device" and receiver in ("University", "Clinic"):
                weights[row, column] = -0.002
    owners, names, _, _, linear, quadratic, caps = zip(*lots, strict=True)
    federation = Federation(
        np.round(weights, 3),
        names=HOSPITALS,
        lot_owners=owners,
        lot_names=names,
        task_owners=[owner for owner, _, _ in tasks],
        task_names=[name for _, name, _ in tasks],
        payoff=PowerLaw(beta=0.3),
        costs=Quadratic(linear, quadratic),
        caps=caps,
        values=[0.4 if rare else 1.0 for _, _, rare in tasks],
    )
    return Scenario(
        federation=federation,
        title="Five hospitals with data of several kinds",
        description="Patient records of several kinds; two hospitals also test a rare disease.",
        money=Money(currency="EUR", per_payoff=1_000_000.0),
        unit="thousand records",
    )


def hospitals_with_privacy(privacy_price: float = 0.001) -> Scenario:
    """Three hospitals that bring each record raw or with noise: privacy is a choice, and has a price.

    A thousand raw records cost their owner `privacy_price` more than with noise. Noise takes four fifths of what they
    teach others; their owner trains on its own records as they are.
    """
    names, records = HOSPITALS[:3], (40.0, 25.0, 20.0)
    kinds = (("raw", 1.0, 0.001 + privacy_price), ("with noise", 0.2, 0.001))
    lots = [(name, *kind, 3e-5 * (kind[0] == "raw")) for name in names for kind in kinds]
    weights = [
        [
            ALIKE[HOSPITALS.index(receiver), HOSPITALS.index(giver)] * (1.0 if receiver == giver else quality)
            for giver, _, quality, *_ in lots
        ]
        for receiver in names
    ]
    federation = Federation(
        np.round(weights, 3),
        names=names,
        lot_owners=[owner for owner, *_ in lots],
        lot_names=[kind for _, kind, *_ in lots],
        payoff=PowerLaw(beta=0.3),
        costs=Quadratic([cost for *_, cost, _ in lots], [rise for *_, rise in lots]),
        shared_caps=[((2 * place, 2 * place + 1), cap) for place, cap in enumerate(records)],
    )
    return Scenario(
        federation=federation,
        title="Three hospitals that choose how much privacy to keep",
        description="Each patient record is brought raw, with noise, or not at all.",
        money=Money(currency="EUR", per_payoff=1_000_000.0),
        unit="thousand records",
    )


def paper(key: str) -> Scenario:
    """An instance of the paper's Table 1: gamma = 0.001, beta = 0.02, and caps of 400, which the paper leaves open."""
    title, weights = PAPER_WEIGHTS[key]
    federation = Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    return Scenario(federation=federation, title=title)


EXAMPLES: Mapping[str, Callable[[], Scenario]] = {
    "hospitals": hospitals,
    "hospitals-lots": hospitals_with_lots,
    "hospitals-privacy": hospitals_with_privacy,
    **{key: (lambda key=key: paper(key)) for key in PAPER_WEIGHTS},  # type: ignore[misc]
}


def example(name: str) -> Scenario:
    """A built-in scenario by name."""
    if name not in EXAMPLES:
        raise InvalidInput(f"there is no built-in federation {name!r}; there are {', '.join(EXAMPLES)}")
    return EXAMPLES[name]()
