"""What version 0.2 answered, as data: how a recorded federation is built, and how answers are taken and read.

`answers/NAME.json` holds one federation, its numbers and its answers, rounded to twelve significant digits. Numbers
that are not finite are the texts "inf", "-inf" and "nan".
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedpact as fp
from old_hospitals import example

Spec = Mapping[str, Any]
ANSWERS = Path(__file__).parent / "answers"
JSON_KEYS = Path(__file__).parent / "json_keys.json"

# Recorded name: class and arguments. Version 0.2 divides by reciprocity, and has no argument that says so.
MECHANISMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "externality": ("ExternalityMechanism", {}),
    "shapley": ("ShapleyMechanism", {}),
    "voluntary": ("Voluntary", {}),
    "standalone": ("Standalone", {}),
    "fair-groups": ("FairMechanism", {"keep": "groups", "by": "reciprocity"}),
    "fair-members": ("FairMechanism", {"keep": "members", "by": "reciprocity"}),
    "nash-bargaining": ("NashBargaining", {}),
    "vcg": ("VCGMechanism", {}),
    "leave-one-out": ("LeaveOneOut", {}),
    "equal-split": ("EqualSplit", {}),
    "cost-sharing": ("CostSharing", {}),
    "nucleolus": ("Nucleolus", {}),
    "proportional": ("ProportionalSharing", {}),
    "accuracy-shaping": ("AccuracyShaping", {}),
    "banzhaf": ("SemivalueMechanism", {}),
}
# These follow from all groups; with more members than can be listed, from those that a search came upon.
NEED_ALL_GROUPS = ("fair-groups", "nucleolus")
MAX_LISTED = 16
PER_AGENT = (
    "payments",
    "side_payments",
    "payoffs",
    "costs",
    "utilities",
    "ir_gaps",
    "shapley_values",
    "reciprocity_ratios",
    "reciprocity_gaps",
)


def build(spec: Spec) -> fp.Federation:
    """The federation of recorded numbers."""
    single = spec["lot_owners"] == spec["task_owners"] == list(range(len(spec["names"])))
    owners = {} if single else {"lot_owners": spec["lot_owners"], "task_owners": spec["task_owners"]}
    shared = {"shared_caps": [(lots, cap) for lots, cap in spec["shared_caps"]]} if spec["shared_caps"] else {}
    linear, quadratic = numbers(spec["linear"]), numbers(spec["quadratic"])
    return fp.Federation(
        numbers(spec["weights"]),
        costs=fp.Quadratic(linear, quadratic) if quadratic.any() else fp.Linear(linear),
        caps=numbers(spec["caps"]),
        payoff=getattr(fp, spec["family"])(*[numbers(each) for each in spec["parameters"]]),
        values=numbers(spec["values"]),
        names=spec["names"],
        **owners,
        **shared,
    )


def built_in(name: str) -> fp.Federation:
    """A federation that comes with fedpact."""
    return example(name).federation


def mechanism(name: str) -> fp.Mechanism:
    """The mechanism recorded under a name, without the arguments that this version does not know."""
    kind, arguments = MECHANISMS[name]
    made = getattr(fp, kind)
    known = inspect.signature(made).parameters
    return made(**{key: argument for key, argument in arguments.items() if key in known})


def mechanisms_for(spec: Spec) -> list[str]:
    """The mechanisms whose answers for a federation are recorded."""
    many = len(spec["names"]) > MAX_LISTED
    return [name for name in MECHANISMS if not (many and name in NEED_ALL_GROUPS)]


def solve(federation: fp.Federation, name: str) -> fp.Outcome | str:
    """The outcome, or the name of the error."""
    try:
        return mechanism(name).solve(federation)
    except fp.FedpactError as error:
        return type(error).__name__


def outcome_answers(outcome: fp.Outcome) -> dict[str, Any]:
    """What is recorded of an outcome."""
    equilibria = outcome.equilibria
    answers: dict[str, Any] = {
        "unique": equilibria.unique,
        "dimension": equilibria.dimension,
        "contributions": outcome.contributions,
        "welfare": outcome.welfare,
        "leavers": list(outcome.leavers),
    }
    answers |= {label: getattr(outcome, label) for label in PER_AGENT}
    answers["certificates"] = {claim: str(each.verdict) for claim, each in sorted(outcome.certificates.items())}
    return answers


def shapley_answers(federation: fp.Federation, profile: NDArray[np.float64]) -> dict[str, Any] | str:
    """Shapley values and their gradient, or the name of the error."""
    try:
        found = fp.shapley_values(federation, profile)
    except fp.FedpactError as error:
        return type(error).__name__
    return {"values": found.values, "gradient": found.gradient}


def numbers(recorded: Any) -> NDArray[np.float64]:
    """Recorded numbers as an array."""
    return np.array(recorded, dtype=np.float64)


def load(name: str) -> dict[str, Any]:
    """The record of one federation."""
    return json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))


def names() -> list[str]:
    """The recorded federations, the smallest files first."""
    return [path.stem for path in sorted(ANSWERS.glob("*.json"), key=lambda path: (path.stat().st_size, path.stem))]
