"""The errors fedpact raises on purpose.

Every message names the argument and the agent, the rule, what was given and the way out. The command line turns
`InvalidInput`, `MechanismError` and `MissingExtra` into exit code 2, `NotConverged` into exit code 3, `NoFairDeal` and
`DealFails` into exit code 1: that there is no such deal, or that it does not hold, is an answer.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FedpactError(Exception):
    """Base of all errors raised on purpose."""

    def __reduce__(self) -> Any:
        """Errors travel from worker processes as they are, whatever their arguments."""
        return _same_error, (type(self), self.args, self.__dict__)


def _same_error(kind: type[FedpactError], args: tuple[Any, ...], state: dict[str, Any]) -> FedpactError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInput(FedpactError, ValueError):
    """An argument or a file breaks a stated rule.

    Made from a message, or from its parts: `costs[2] must be positive, got -0.5 (member "St. Mary")`.

    Attributes
    ----------
    field
        The argument, such as "costs" or "payoff.beta"; None where no single one is at fault.
    index
        The entry of it: (2,), or (row, column) of a matrix; () if the whole is at fault.
    rule
        What it breaks, such as "must be positive".
    value
        What was given.
    agent
        The name of the agent it belongs to, where known.
    problem
        The message without the place and the agent: what stands beside a field of a form.

    Examples
    --------
    >>> error = InvalidInput(field="costs", index=2, rule="must be positive", value=-0.5, agent="St. Mary")
    >>> print(error)
    costs[2] must be positive, got -0.5 (member "St. Mary")
    >>> error.index, error.problem
    ((2,), 'must be positive, got -0.5')
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        index: int | tuple[int, ...] = (),
        rule: str | None = None,
        value: Any = None,
        agent: str | None = None,
        given: str | None = None,
        whose: str | None = None,
    ) -> None:
        """`given` says what was given where ", got VALUE" does not, `whose` where "agent NAME" does not."""
        self.field = field
        self.index = (index,) if isinstance(index, int) else index
        self.rule = rule
        self.value = value
        self.agent = agent
        self._others: tuple[InvalidInput, ...] = ()
        if message is None:
            what = f"{value:g}" if isinstance(value, float) else short_repr(value)
            self.problem = f"{rule}, got {what}" if given is None else f"{rule}{given}"
            entry = f"[{', '.join(map(str, self.index))}]" if self.index else ""
            whose = f'member "{agent}"' if whose is None and agent is not None else whose
            message = f"{field}{entry} {self.problem}" + (f" ({whose})" if whose else "")
        else:
            self.problem = message
        super().__init__(message)

    @property
    def errors(self) -> tuple[InvalidInput, ...]:
        """All the errors found at the same time, this one first."""
        return (self, *self._others)

    @classmethod
    def first_of(cls, errors: Sequence[InvalidInput]) -> InvalidInput:
        """The first of several errors, holding all of them."""
        first = copy(errors[0])
        first._others = tuple(errors[1:])
        return first

    def within(self, where: str) -> Self:
        """The same error with `where` in front of its message, and of those it holds."""
        located = copy(self)
        located.args = (f"{where}: {self}",)
        located._others = tuple(other.within(where) for other in self._others)
        return located


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Put `where` in front of the message of any `InvalidInput` raised inside."""
    try:
        yield
    except InvalidInput as error:
        raise error.within(where) from error


class _Short(reprlib.Repr):
    """A one-line repr that stays short whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxdict = 2, 4, 4
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print integers of more than 4300 digits.
        return repr(x) if x.bit_length() <= 64 else f"an integer of {x.bit_length()} bits"


short_repr = _Short().repr


class ErrorCollector:
    """Errors of several checks, so that all of them can be told at once."""

    def __init__(self) -> None:
        self.errors: list[InvalidInput] = []

    def attempt(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `check` returns, or None if it refuses, which is noted."""
        try:
            return check(*args, **kwargs)
        except InvalidInput as error:
            self.errors += error.errors
            return None

    def raise_errors(self) -> None:
        """Raise the first error, with all of them in `errors`, if there is any."""
        if self.errors:
            raise InvalidInput.first_of(self.errors)


class DealFails(InvalidInput):
    """A deal, or the ledger of a run, does not hold: a claim fails, as `fedpact check` says too."""


class Refusal(InvalidInput):
    """Why a member does not answer: the text goes to the coordinator, and quotes no number of the member's."""


class OutsideDomain(InvalidInput):
    """A contribution profile at which some agent's reach leaves the domain of its payoff."""


class NotConverged(FedpactError, RuntimeError):
    """A solver stopped short of its tolerance; `result` holds the best point it reached."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class NoFairDeal(NotConverged):
    """No side payments make a fair deal that keeps everybody.

    Attributes
    ----------
    groups
        The names of those who cannot all be kept, group by group; empty where there are no Shapley shares to return.
    subsidy
        The least that would have to come from outside, in units of payoff; NaN where there are no shares.
    """

    def __init__(
        self, *message: str | float, groups: tuple[tuple[str, ...], ...] = (), subsidy: float = float("nan")
    ) -> None:
        self.message = message
        self.groups = groups
        self.subsidy = subsidy
        super().__init__(self.text(lambda amount: f"{amount:.6g} units of payoff"))

    def text(self, amount: Callable[[float], str]) -> str:
        """The message with its amounts written by `amount`, such as in money."""
        return "".join(part if isinstance(part, str) else amount(part) for part in self.message)


class MechanismError(FedpactError, RuntimeError):
    """A mechanism from outside the package fails, or does not return what is asked of it."""


class MissingExtra(FedpactError, ImportError):
    """An optional part of fedpact is not installed."""

    def __init__(self, what: str, extra: str, *, how: str | None = None) -> None:
        install = how or f'pip install ".[{extra}]" in a clone of fedpact, with the Python that runs it'
        super().__init__(f"{what} is not installed: {install}")
