"""Federations that come with fedpact: five hospitals, and the paper's instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedpact.federation import Federation, PowerLaw, Quadratic
from fedpact.scenario import Money, Scenario
from fedpact.utils.errors import InvalidInput

PAPER_WEIGHTS = {
    "paper-w1": ("Table 1, W1: equal agents", [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]),
    "paper-w2": ("Table 1, W2: unequal weights", [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]),
    "paper-w3": ("Table 1, W3: one harmful weight", [[1.0, 0.1, 2.0], [-0.2, 1.0, 0.5], [1.0, 3.0, 1.0]]),
}


def hospitals() -> Scenario:
    """Five hospitals of different size, speciality and privacy noise, in thousands of patient records.

    How useful one hospital's records are to another is how alike their patients are, times what the giver's privacy
    noise leaves of its records' quality. The clinic protects its records with so much noise that they are of little use
    to anyone else: sharing by Shapley value charges it more than federating is worth to it.
    """
    alike = np.array(
        [
            [1.00, 0.60, 0.50, 0.25, 0.40],
            [0.60, 1.00, 0.70, 0.20, 0.40],
            [0.50, 0.70, 1.00, 0.20, 0.50],
            [0.40, 0.30, 0.25, 1.00, 0.20],
            [0.40, 0.40, 0.50, 0.15, 1.00],
        ]
    )
    quality = np.array([1.0, 0.9, 0.7, 0.8, 0.15])
    weights = np.round(alike * quality, 3)
    np.fill_diagonal(weights, 1.0)
    federation = Federation(
        weights,
        names=["University", "City", "County", "Children's", "Clinic"],
        payoff=PowerLaw(beta=0.3),
        costs=Quadratic([0.0014, 0.0020, 0.0022, 0.0018, 0.0016], [2.4e-5, 4e-5, 6e-5, 8e-5, 8e-5]),
        caps=[120.0, 80.0, 60.0, 40.0, 30.0],
    )
    return Scenario(
        federation=federation,
        title="Five hospitals",
        description="Contributions in thousands of patient records; the clinic adds strong privacy noise.",
        money=Money(currency="EUR", per_payoff=1_000_000.0),
    )


def paper(key: str) -> Scenario:
    """An instance of the paper's Table 1: gamma = 0.001, beta = 0.02, and caps of 400, which the paper leaves open."""
    title, weights = PAPER_WEIGHTS[key]
    federation = Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    return Scenario(federation=federation, title=title)


EXAMPLES: Mapping[str, Callable[[], Scenario]] = {
    "hospitals": hospitals,
    **{key: (lambda key=key: paper(key)) for key in PAPER_WEIGHTS},  # type: ignore[misc]
}


def example(name: str) -> Scenario:
    """A built-in scenario by name."""
    if name not in EXAMPLES:
        raise InvalidInput(f"there is no built-in federation {name!r}; there are {', '.join(EXAMPLES)}")
    return EXAMPLES[name]()
