"""The paper's theorems, what we found beyond them, and what other papers claim, held against random federations."""

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
