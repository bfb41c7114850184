"""The paper's theorems and what we found beyond them, held against random federations and kept counterexamples."""

from fedpact.paper.theorems.catalogue import THEOREMS, theorems_result
from fedpact.paper.theorems.theorem import MARGIN_ROUNDING, Check, Condition, Counterexample, Instance, Theorem, check

__all__ = [
    "MARGIN_ROUNDING",
    "THEOREMS",
    "Check",
    "Condition",
    "Counterexample",
    "Instance",
    "Theorem",
    "check",
    "theorems_result",
]
