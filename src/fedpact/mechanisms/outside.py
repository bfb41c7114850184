"""Mechanisms from outside the package, held to what `Mechanism` asks of them.

What goes wrong in the code of such a mechanism is told as its mistake: which method of which class, and what is wrong.
fedpact's own are left as they are: a mistake in them is an error in fedpact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import isfunction
from typing import Any

import numpy as np

from fedpact.certificates.deviations import Deviations
from fedpact.certificates.payment_bounds import PaymentBounds
from fedpact.deals import Outcome
from fedpact.utils.errors import FedpactError, MechanismError, short_repr

PACKAGE = __name__.partition(".")[0]

# What a method must return, by name; None where any answer goes, or is checked by those who ask.
METHODS: Mapping[str, type | None] = {
    "solve": Outcome,
    "at_equilibrium": Outcome,
    "deviations": Deviations,
    "payment_bounds": PaymentBounds,
    "payment_rule": None,
    "payoff_rule": None,
    "price_rule": None,
    "nearby_equilibrium": None,
    "solve_together": None,
    "deviation_bounds": None,
}


def guard_methods(cls: type) -> None:
    """Make the methods that a class from outside defines raise `MechanismError` where they fail or return nonsense."""
    if cls.__module__.partition(".")[0] == PACKAGE:
        return
    for name, kind in METHODS.items():
        method = vars(cls).get(name)
        if isfunction(method):
            setattr(cls, name, _guard(method, name, kind))


def _guard(method: Callable[..., Any], name: str, kind: type | None) -> Callable[..., Any]:
    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        where = f"{type(self).__module__}:{type(self).__qualname__}.{name}"
        try:
            answer = method(self, *args, **options)
        except (FedpactError, ArithmeticError, np.linalg.LinAlgError):  # what a federation that has no solution raises
            raise
        except Exception as error:
            raise MechanismError(f"{where} failed: {type(error).__name__}: {error}") from error
        if kind is not None and not isinstance(answer, kind):
            raise MechanismError(f"{where} must return {_article(kind)}, got {short_repr(answer)}")
        if name in ("payment_rule", "payoff_rule"):
            _check_amounts(where, answer, args)
        return answer

    return guarded


def _check_amounts(where: str, amounts: Any, args: tuple[Any, ...]) -> None:
    n_agents = args[0].n_agents
    if np.shape(amounts) != (n_agents,) or np.asarray(amounts).dtype.kind not in "fiu":
        raise MechanismError(f"{where} must return {n_agents} numbers, one per member, got {short_repr(amounts)}")


def _article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
