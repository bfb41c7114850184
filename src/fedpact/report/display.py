"""How federations, outcomes and comparisons show themselves: one line, a table in a notebook, a pandas frame.

Columns carry the words of the attributes they show. Lines are cheap at any size. Tables stop after `MOST_ROWS` rows and
leave out what takes long to work out for many agents: beyond `MOST_JUDGED` the Shapley values and the certificates,
beyond `MOST_ROWS` the recommendation, which solves every mechanism again as agents leave. Frames hold everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.certificates.tolerances import outcome_tolerances
from fedpact.deals import Outcome
from fedpact.deals.outcome import PER_AGENT
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import MissingExtra, OutsideDomain

if TYPE_CHECKING:
    from fedpact.comparison import Comparison, Outlook, Sweep
    from fedpact.federation import Federation
    from fedpact.stability import StableFederation

__all__ = [
    "comparison_frame",
    "comparison_html",
    "comparison_line",
    "federation_frame",
    "federation_html",
    "federation_line",
    "leaving",
    "number_texts",
    "outcome_frame",
    "outcome_html",
    "outcome_line",
    "stable_federation_line",
    "sweep_frame",
]

MOST_ROWS = 20
MOST_JUDGED = 100
MOST_WEIGHTS = 10
MOST_NAMED, LONGEST_LIST = 3, 60  # leavers, and the letters of their names together
DIGITS = 4
LIKELY = 0.05  # probabilities of leaving below this are not shown
# Entries below this part of the largest in their column are rounding: they are written 0.
NEGLIGIBLE = 1e-9

SIGNED = ("payments", "ir_gaps")
SHOWN = ("contributions", "payments", "utilities", "standalone", "ir_gaps")
SHOWN_SHARES = ("shapley_values", "reciprocity_ratios")


def federation_line(federation: Federation) -> str:
    """Size, payoff family and kind of weights, in one line."""
    kind = f"sparse weights, {federation.weight_entries.size} not zero" if federation.is_sparse else "dense weights"
    return f"Federation({_counted(federation.n_agents, 'agent')}, {federation.payoff.family}, {kind})"


def outcome_line(outcome: Outcome) -> str:
    """Mechanism, size, welfare and who would leave, in one line."""
    return f"Outcome({outcome.mechanism}, {_counted(len(outcome.agents), 'agent')}, {_state(outcome)})"


def comparison_line(comparison: Comparison) -> str:
    """Size and the welfare under every mechanism, in one line."""
    solved = [f"{outcome.mechanism} {_welfare(outcome)}" for outcome in comparison.outcomes]
    entries = ", ".join([*solved, *(f"{mechanism} unsolved" for mechanism in comparison.unsolved)])
    return f"Comparison({_counted(comparison.federation.n_agents, 'agent')}, welfare: {entries or 'no mechanisms'})"


def stable_federation_line(stable: StableFederation) -> str:
    """Mechanism, how many stay, and the welfare, in one line."""
    outcome = stable.outcome or stable.departures[0].outcome
    n_stay, n_all = len(stable.members), len(stable.members) + len(stable.leavers)
    stay = "nobody leaves" if n_stay == n_all else f"{n_stay} of {_counted(n_all, 'agent')} stay"
    return f"StableFederation({outcome.mechanism}, {stay}, welfare {_plain(stable.welfare)})"


def leaving(outcome: Outcome) -> str:
    """Who would leave, in words; by name if they are few."""
    leavers = outcome.leavers
    if not outcome.federated:
        return "nobody federates"
    if not leavers:
        return "nobody would leave"
    if len(leavers) > MOST_NAMED or sum(map(len, leavers)) > LONGEST_LIST:
        return f"{len(leavers)} of {len(outcome.agents)} would leave"
    names = [" ".join(name.split()) for name in leavers]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) + " would leave"


def number_texts(numbers: FloatArray, *, signed: bool = False, rounding: float = 0.0) -> list[str]:
    """A column of numbers as texts with the same decimals, as many as the largest needs.

    Parameters
    ----------
    numbers
        The column; infinite and undefined entries become words.
    signed
        Whether to write a plus before positive numbers.
    rounding
        Numbers up to this size are written 0.

    Examples
    --------
    >>> number_texts(np.array([59.20472, 5.45597, 1e-14]))
    ['59.20', '5.46', '0']
    >>> number_texts(np.array([0.17162, -0.0804501, np.inf, np.nan]), signed=True)
    ['+0.1716', '−0.0805', '∞', 'undefined']
    """
    sizes = np.abs(numbers[np.isfinite(numbers)])
    largest = float(sizes.max(initial=0.0))
    decimals = max(0, DIGITS - 1 - int(np.floor(np.log10(largest)))) if largest > 0 else 0
    form = f"{'+' if signed else ''},.{decimals}f" if decimals <= 2 * DIGITS else f"{'+' if signed else ''}.{DIGITS}g"

    def text(number: float) -> str:
        if np.isnan(number):
            return "undefined"
        if np.isinf(number):
            return "∞" if number > 0 else "−∞"
        if abs(number) <= max(rounding, NEGLIGIBLE * largest):
            return "0"
        vanishes = abs(number) < 0.5 * 10.0**-decimals
        return format(number, f"{'+' if signed else ''}.2g" if vanishes else form).replace("-", "−")

    return [text(float(number)) for number in numbers]


def outcome_html(outcome: Outcome) -> str:
    """A row per agent, and a verdict per claim."""
    judged = len(outcome.agents) <= MOST_JUDGED
    labels = (*SHOWN, *SHOWN_SHARES) if judged else SHOWN
    columns = {label.replace("_", " "): _texts(outcome, label) for label in labels}
    leavers = set(outcome.leavers)
    columns["verdict"] = ["would leave" if name in leavers else "stays" for name in outcome.agents[:MOST_ROWS]]
    title = f"<b>{escape(outcome.mechanism)}</b>: {_counted(len(outcome.agents), 'agent')}, {escape(_state(outcome))}"
    return _block(title, _table("agent", outcome.agents, columns), *([_verdicts(outcome)] if judged else []))


def comparison_html(comparison: Comparison) -> str:
    """A row per mechanism with its verdicts, then the recommendation."""
    n_agents, outcomes = comparison.federation.n_agents, comparison.outcomes
    columns = {
        "total contributions": number_texts(np.array([outcome.contributions.sum() for outcome in outcomes])),
        "welfare": number_texts(np.array([outcome.welfare for outcome in outcomes])),
        "who would leave": [
            leaving(outcome).removesuffix(" would leave").removesuffix(" federates") for outcome in outcomes
        ],
    }
    if comparison.uncertainty:
        columns["how likely"] = [_chances(comparison.uncertainty.get(outcome.mechanism)) for outcome in outcomes]
    if n_agents <= MOST_JUDGED:
        columns["lowest ratio"] = number_texts(np.array([outcome.reciprocity for outcome in outcomes]))
        claims = list(outcomes[0].certificates) if outcomes else []
        columns |= {claim: [outcome.certificates[claim].verdict for outcome in outcomes] for claim in claims}
    parts = [_table("mechanism", [outcome.mechanism for outcome in outcomes], columns)]
    parts += [escape(f"{mechanism} has no outcome: {reason}") for mechanism, reason in comparison.unsolved.items()]
    if n_agents <= MOST_ROWS and comparison.recommendation is not None:
        parts.append(escape(comparison.recommendation.reason))
    return _block(f"<b>{_counted(len(outcomes), 'mechanism')}</b>, {_counted(n_agents, 'agent')}", *parts)


def _chances(outlook: Outlook | None) -> str:
    """The members most likely to leave, with their probabilities."""
    if outlook is None:
        return ""
    order = np.argsort(-outlook.leave_probabilities, kind="stable")[:MOST_NAMED]
    likely = [agent for agent in order if outlook.leave_probabilities[agent] >= LIKELY]
    return (
        ", ".join(f"{outlook.agents[agent]} {outlook.leave_probabilities[agent]:.0%}" for agent in likely) or "nobody"
    )


def federation_html(federation: Federation) -> str:
    """Costs, caps, values and payoffs per agent and the weights; only counts where these would be long."""
    n_agents = federation.n_agents
    n_negative = np.count_nonzero(federation.weight_entries < 0)
    n_weights = np.count_nonzero(federation.weight_entries)
    title = (
        f"<b>{_counted(n_agents, 'agent')}</b>, {escape(federation.payoff.family)} payoffs, {n_agents} × {n_agents} "
        f"{'sparse' if federation.is_sparse else 'dense'} weights: {n_weights} not zero, {n_negative} negative"
    )
    if federation.is_sparse or n_agents > MOST_JUDGED:
        return _block(title)
    columns = {label: _given_texts(numbers) for label, numbers in _federation_columns(federation).items()}
    parts = [_table("agent", federation.names, columns)]
    if n_agents <= MOST_WEIGHTS:
        givers = zip(federation.names, federation.weights.T, strict=True)
        weights = {name: _given_texts(column) for name, column in givers}
        parts.append("weights: how useful the column's data is to the row")
        parts.append(_table("", federation.names, weights))
    return _block(title, *parts)


def outcome_frame(outcome: Outcome) -> Any:
    """A pandas frame of every per-agent attribute, a row per agent.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    pandas = _pandas()
    index = pandas.Index(outcome.agents, name="agent", dtype=object)
    return pandas.DataFrame({label: np.array(getattr(outcome, label)) for label in PER_AGENT}, index=index)


def comparison_frame(comparison: Comparison) -> Any:
    """A pandas frame of every per-agent attribute, a row per mechanism and agent.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    pandas = _pandas()
    rows = [(outcome.mechanism, agent) for outcome in comparison.outcomes for agent in outcome.agents]
    index = pandas.MultiIndex.from_arrays(
        [[mechanism for mechanism, _ in rows], [agent for _, agent in rows]], names=["mechanism", "agent"]
    )
    columns = {
        label: np.concatenate([np.empty(0), *(getattr(outcome, label) for outcome in comparison.outcomes)])
        for label in PER_AGENT
    }
    return pandas.DataFrame(columns, index=index)


def sweep_frame(sweep: Sweep) -> Any:
    """A pandas frame with a row for each point and mechanism of a sweep.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    return _pandas().DataFrame(sweep.columns())


def federation_frame(federation: Federation) -> Any:
    """A pandas frame of costs, caps, values and payoff parameters, a row per agent.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    pandas = _pandas()
    index = pandas.Index(federation.names, name="agent", dtype=object)
    return pandas.DataFrame(_federation_columns(federation), index=index)


def _federation_columns(federation: Federation) -> Mapping[str, FloatArray]:
    """What is known of each agent apart from its weights, by the words scenario files use."""
    numbers = {
        "costs.linear": federation.costs.linear,
        "costs.quadratic": federation.costs.quadratic,
        "caps": federation.caps,
        "values": federation.values,
    } | {f"payoff.{label}": parameter for label, parameter in federation.payoff.parameters.items()}
    return {label: np.array(np.broadcast_to(given, federation.n_agents)) for label, given in numbers.items()}


def _pandas() -> Any:
    try:
        import pandas  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pandas", "frame") from error
    return pandas


def _state(outcome: Outcome) -> str:
    try:
        return f"welfare {_plain(outcome.welfare)}, {leaving(outcome)}"
    except OutsideDomain:
        return "outside the domain of a payoff"


def _welfare(outcome: Outcome) -> str:
    try:
        return _plain(outcome.welfare)
    except OutsideDomain:
        return "undefined"


def _plain(number: float) -> str:
    """A number within a line of code: no thousands separator, an ASCII minus."""
    return number_texts(np.array([number]))[0].replace(",", "").replace("−", "-")


def _given_texts(numbers: FloatArray) -> list[str]:
    """Numbers that people chose: as short as they were written, unlike those that were worked out."""

    def text(number: float) -> str:
        if np.isinf(number):
            return "∞"
        if number == 0 or 1e-6 <= abs(number) < 1e9:
            return np.format_float_positional(number, precision=6, fractional=False, trim="-")
        return f"{number:.6g}"

    return [text(float(number)).replace("-", "−") for number in numbers[:MOST_ROWS]]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _texts(outcome: Outcome, label: str) -> list[str]:
    """The first rows of an attribute; what is rounding to a certificate is written 0."""
    rounding = 0.0 if label == "contributions" else float(outcome_tolerances(outcome).sum())
    return number_texts(getattr(outcome, label)[:MOST_ROWS], signed=label in SIGNED, rounding=rounding)


def _verdicts(outcome: Outcome) -> str:
    return escape(", ".join(f"{claim} {proof.verdict}" for claim, proof in outcome.certificates.items()))


def _block(*parts: str) -> str:
    return f"<div>{''.join(part if part.startswith('<table') else f'<div>{part}</div>' for part in parts)}</div>"


def _table(corner: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> str:
    """An HTML table with a row per name; everything is escaped, and rows beyond `MOST_ROWS` are counted."""
    rows = [_row("td", name, [texts[row] for texts in columns.values()]) for row, name in enumerate(names[:MOST_ROWS])]
    if len(names) > MOST_ROWS:
        rows.append(f'<tr><td colspan="{len(columns) + 1}">… {len(names) - MOST_ROWS} more</td></tr>')
    return f"<table><thead>{_row('th', corner, columns)}</thead><tbody>{''.join(rows)}</tbody></table>"


def _row(tag: str, name: str, texts: Iterable[str]) -> str:
    cells = "".join(f'<{tag} style="text-align:right">{escape(text)}</{tag}>' for text in texts)
    return f'<tr><th style="text-align:left">{escape(name)}</th>{cells}</tr>'
