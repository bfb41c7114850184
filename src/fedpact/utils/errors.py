"""The errors fedpact raises on purpose.

Every message names the argument and the agent, the rule, what was given and the way out. The command line turns
`InvalidInput` and `MissingExtra` into exit code 2 and `NotConverged` into exit code 3.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FedpactError", "InvalidInput", "MissingExtra", "NotConverged", "OutsideDomain"]


class FedpactError(Exception):
    """Base of all errors raised on purpose."""


class InvalidInput(FedpactError, ValueError):
    """An argument or a file breaks a stated rule."""


class OutsideDomain(InvalidInput):
    """A contribution profile at which some agent's reach leaves the domain of its payoff."""


class NotConverged(FedpactError, RuntimeError):
    """A solver stopped short of its tolerance; `result` holds the best point it reached."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class MissingExtra(FedpactError, ImportError):
    """An optional part of fedpact is not installed."""

    def __init__(self, what: str, extra: str, *, how: str | None = None) -> None:
        install = how or f'pip install "fedpact[{extra}]"'
        super().__init__(f"{what} is not installed: {install}")
