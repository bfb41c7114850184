"""What `fedpact compare` says of a deal whose numbers are uncertain."""

from __future__ import annotations

import numpy as np
from rich.markup import escape

from fedpact.cli.common import Units, console, shown_agents, table
from fedpact.comparison import Comparison, Outlook

__all__ = ["probability", "show_outlooks"]


def show_outlooks(compared: Comparison, units: Units) -> None:
    """A table per mechanism: intervals of payments and gains, who may leave, what would keep them."""
    for outlook in compared.uncertainty.values():
        _show(outlook, units)


def probability(part: float, draws: int) -> str:
    """A share of the draws as a percentage; none and all of them are not called impossible and certain."""
    if part <= 0:
        return f"< {100.0 / draws:.2g} %"
    if part >= 1:
        return f"> {100.0 - 100.0 / draws:.4g} %"
    return f"{100.0 * part:.0f} %" if 0.1 <= part <= 0.9 else f"{100.0 * part:.1f} %"


def _show(outlook: Outlook, units: Units) -> None:
    heading = f"{outlook.title} under uncertainty: {100 * outlook.level:.0f} % intervals from {outlook.n_draws} draws"
    keeps = f"keeps with {100 * outlook.assurance:.0f} %"
    pays = bool(np.nan_to_num(outlook.payments).any())
    made = table(f"{heading}, in {units.label}", "agent", *(["payment"] if pays else []), "gain", "leaves", keeps)
    payments, gains = outlook.interval("payments"), outlook.interval("ir_gaps")
    agents, rest = shown_agents(outlook.leave_probabilities + np.abs(payments).max(axis=1))
    for agent in agents:
        made.add_row(
            escape(outlook.agents[agent]),
            *([_interval(payments[agent], units)] if pays else []),
            _interval(gains[agent], units),
            probability(float(outlook.leave_probabilities[agent]), outlook.n_draws),
            units.show(float(outlook.keeping_endowments[agent])),
        )
    console.print(made)
    if rest:
        console.print(rest)
    low, high = outlook.interval("reciprocity")
    if np.isfinite([low, high]).all():
        console.print(f"Reciprocity between {low:.3f} and {high:.3f}.")
    if outlook.n_unsolved:
        console.print(f"{outlook.n_unsolved} draws could not be solved and are left out.")
    console.print()


def _interval(ends: np.ndarray, units: Units) -> str:
    return f"{units.show(float(ends[0]), sign=True)} to {units.show(float(ends[1]), sign=True)}"
