"""How federations, outcomes and comparisons show themselves: one line, a table in a notebook, a pandas frame.

Columns carry the words of the attributes they show. Lines are cheap at any size. Tables stop after `MAX_ROWS` rows and
leave out what takes long to work out for many agents: beyond `MAX_JUDGED` the Shapley values and the certificates,
beyond `MAX_ROWS` the recommendation, which solves every mechanism again as agents leave. Frames hold everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from fedpact.deals import Outcome
from fedpact.deals.outcome import PER_AGENT, PER_LOT, Outcomes
from fedpact.federation.lots import require_single_lots
from fedpact.report.numbers import (
    given_text,
    lowest_gain_share_text,
    lowest_share_text,
    number_texts,
    probability_text,
    share_texts,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import MissingExtra, OutsideDomain
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from fedpact.comparison import Comparison, FieldStudy, Outlook, StableFederation, Sweep
    from fedpact.federation import Federation
    from fedpact.fitting import Delivery

MAX_ROWS = 20
MAX_JUDGED = 100
MAX_WEIGHT_COLUMNS = 10
MAX_LEAVERS, MAX_LIST_LENGTH = 3, 60  # leavers, and the letters of their names together
MIN_CHANCE = 0.05  # probabilities of leaving below this are not shown

SIGNED_COLUMNS = ("payments", "ir_gaps")
OUTCOME_COLUMNS = ("contributions", "payments", "utilities", "standalone", "ir_gaps")
SHARE_COLUMNS = ("shapley_values", "reciprocity_ratios")


def federation_line(federation: Federation) -> str:
    """Size and payoff family, in one line."""
    owned = ""
    if federation.has_lots:
        owned = f", {count_text(federation.n_lots, 'lot')}, {count_text(federation.n_tasks, 'task')}"
    return f"Federation({count_text(federation.n_agents, 'agent')}{owned}, {federation.payoff.family})"


def outcome_line(outcome: Outcome) -> str:
    """Mechanism, size, welfare and who would leave, in one line."""
    return f"Outcome({outcome.mechanism}, {count_text(len(outcome.agents), 'agent')}, {_state(outcome)})"


def comparison_line(comparison: Comparison) -> str:
    """Size and the welfare under every mechanism, in one line."""
    solved = [f"{outcome.mechanism} {_welfare(outcome)}" for outcome in comparison.outcomes]
    entries = ", ".join([*solved, *(f"{mechanism} unsolved" for mechanism in comparison.unsolved)])
    return f"Comparison({count_text(comparison.federation.n_agents, 'agent')}, welfare: {entries or 'no mechanisms'})"


def stable_federation_line(stable: StableFederation) -> str:
    """Mechanism, how many stay, and the welfare, in one line."""
    outcome = stable.outcome or stable.departures[0].outcome
    n_stay, n_all = len(stable.members), len(stable.members) + len(stable.leavers)
    stay = "nobody leaves" if n_stay == n_all else f"{n_stay} of {count_text(n_all, 'agent')} stay"
    return f"StableFederation({outcome.mechanism}, {stay}, welfare {_plain(stable.welfare)})"


def who_would_leave(outcome: Outcome) -> str:
    """Who would leave, in words; by name if they are few."""
    leavers = outcome.leavers
    if not outcome.federated:
        return "nobody federates"
    if not leavers:
        return "nobody would leave"
    if len(leavers) > MAX_LEAVERS or sum(map(len, leavers)) > MAX_LIST_LENGTH:
        return f"{len(leavers)} of {len(outcome.agents)} would leave"
    return f"{join_names([' '.join(name.split()) for name in leavers])} would leave"


def outcome_html(outcome: Outcome) -> str:
    """A row per agent, and a verdict per claim."""
    judged = len(outcome.agents) <= MAX_JUDGED
    wanted: Sequence[str] = (*OUTCOME_COLUMNS, *SHARE_COLUMNS) if judged else OUTCOME_COLUMNS
    labels = [label for label in wanted if label in _per_agent(outcome)]
    columns = {label.replace("_", " "): _texts(outcome, label) for label in labels}
    leavers = set(outcome.leavers)
    columns["verdict"] = ["would leave" if name in leavers else "stays" for name in outcome.agents[:MAX_ROWS]]
    verdicts = ", ".join(f"{claim} {proof.verdict}" for claim, proof in outcome.certificates.items()) if judged else ""
    title = Markup("<b>{}</b>: {}, {}").format(
        outcome.mechanism, count_text(len(outcome.agents), "agent"), _state(outcome)
    )
    return _block(title, _table("agent", outcome.agents, columns), *filter(None, [verdicts]))


def comparison_html(comparison: Comparison) -> str:
    """A row per mechanism with its verdicts, then the recommendation."""
    n_agents, outcomes = comparison.federation.n_agents, comparison.outcomes
    columns = {
        "total contributions": number_texts([outcome.contributions.sum() for outcome in outcomes]),
        "welfare": number_texts([outcome.welfare for outcome in outcomes]),
        "who would leave": [
            who_would_leave(outcome).removesuffix(" would leave").removesuffix(" federates") for outcome in outcomes
        ],
    }
    if comparison.uncertainty:
        columns["how likely"] = [_chances(comparison.uncertainty.get(outcome.mechanism)) for outcome in outcomes]
    if n_agents <= MAX_JUDGED:
        columns["lowest fair gain"] = [lowest_gain_share_text(outcome) for outcome in outcomes]
        columns["lowest Shapley share"] = [lowest_share_text(outcome) for outcome in outcomes]
        claims = list(outcomes[0].certificates) if outcomes else []
        columns |= {claim: [outcome.certificates[claim].verdict for outcome in outcomes] for claim in claims}
    parts: list[str] = [_table("mechanism", [outcome.mechanism for outcome in outcomes], columns)]
    parts += [f"{mechanism} has no outcome: {reason}" for mechanism, reason in comparison.unsolved.items()]
    if n_agents <= MAX_ROWS and comparison.recommendation is not None:
        parts.append(" ".join(comparison.advice))
    title = Markup("<b>{}</b>, {}").format(count_text(len(outcomes), "mechanism"), count_text(n_agents, "agent"))
    return _block(title, *parts)


def _chances(outlook: Outlook | None) -> str:
    """The members most likely to leave, with their probabilities."""
    if outlook is None:
        return ""
    if outlook.assumption:
        return outlook.assumption
    order = np.argsort(-outlook.leave_probabilities, kind="stable")[:MAX_LEAVERS]
    likely = [agent for agent in order if outlook.leave_probabilities[agent] >= MIN_CHANCE]
    texts = [probability_text(float(outlook.leave_probabilities[agent]), outlook.n_draws) for agent in likely]
    return ", ".join(f"{outlook.agents[agent]} {text}" for agent, text in zip(likely, texts, strict=True)) or "nobody"


def federation_html(federation: Federation) -> str:
    """Costs, caps, values and payoffs per agent and the weights; only counts where these would be long."""
    n_agents = federation.n_agents
    title = Markup("<b>{}</b>, {} payoffs, {} × {} weights: {} not zero, {} negative").format(
        count_text(n_agents, "agent"),
        federation.payoff.family,
        federation.n_tasks,
        federation.n_lots,
        np.count_nonzero(federation.weights),
        np.count_nonzero(federation.weights < 0),
    )
    if federation.has_lots or n_agents > MAX_JUDGED:
        return _block(title)
    columns = {
        label: [given_text(number) for number in numbers[:MAX_ROWS]]
        for label, numbers in _federation_columns(federation).items()
    }
    parts: list[str] = [_table("agent", federation.names, columns)]
    if n_agents <= MAX_WEIGHT_COLUMNS:
        givers = zip(federation.names, federation.weights.T, strict=True)
        weights = {name: [given_text(weight) for weight in column] for name, column in givers}
        parts.append("weights: how useful the column's data is to the row")
        parts.append(_table("", federation.names, weights))
    return _block(title, *parts)


def outcome_frame(outcome: Outcome) -> Any:
    """A pandas frame of every per-agent attribute, a row per agent."""
    pandas = _pandas()
    index = pandas.Index(outcome.agents, name="agent", dtype=object)
    return pandas.DataFrame({label: np.array(getattr(outcome, label)) for label in _per_agent(outcome)}, index=index)


def comparison_frame(comparison: Comparison) -> Any:
    """A pandas frame of every per-agent attribute, a row per mechanism and agent."""
    pandas = _pandas()
    rows = [(outcome.mechanism, agent) for outcome in comparison.outcomes for agent in outcome.agents]
    index = pandas.MultiIndex.from_arrays(
        [[mechanism for mechanism, _ in rows], [agent for _, agent in rows]], names=["mechanism", "agent"]
    )
    columns = {
        label: np.concatenate([np.empty(0), *(getattr(outcome, label) for outcome in comparison.outcomes)])
        for label in _per_agent(*comparison.outcomes[:1])
    }
    return pandas.DataFrame(columns, index=index)


def outcomes_frame(outcomes: Outcomes) -> Any:
    """A pandas frame of every per-agent attribute, a row per federation, by its index, and agent.

    What agents with several lots have per lot is left out.
    """
    pandas = _pandas()
    index = pandas.MultiIndex.from_product([range(len(outcomes)), outcomes.arrays.names], names=["federation", "agent"])
    per_agent = [label for label in PER_AGENT if not (outcomes.arrays.has_lots and label in PER_LOT)]
    columns = {label: np.ravel(getattr(outcomes, label)) for label in per_agent}
    return pandas.DataFrame(columns | {"status": np.repeat(outcomes.statuses, outcomes.arrays.n_agents)}, index=index)


def study_frame(study: FieldStudy) -> Any:
    """A pandas frame with a row for each federation and mechanism of a study."""
    return _pandas().DataFrame(study.columns())


def sweep_frame(sweep: Sweep) -> Any:
    """A pandas frame with a row for each point and mechanism of a sweep."""
    return _pandas().DataFrame(sweep.columns())


def federation_frame(federation: Federation) -> Any:
    """A pandas frame of costs, caps, values and payoff parameters, a row per agent."""
    pandas = _pandas()
    require_single_lots(federation, "a frame of a federation")
    index = pandas.Index(federation.names, name="agent", dtype=object)
    return pandas.DataFrame(_federation_columns(federation), index=index)


def delivery_frame(delivery: Delivery) -> Any:
    """A pandas frame of what was agreed and the estimated shares with their 95 % intervals, a row per agent."""
    pandas = _pandas()
    index = pandas.Index(delivery.names, name="agent", dtype=object)
    return pandas.DataFrame(delivery_columns(delivery), index=index)


def delivery_columns(delivery: Delivery) -> dict[str, Any]:
    """What is known of each agent's delivery, by name."""
    lower, upper = delivery.intervals()
    return {
        "contributions": np.array(delivery.contributions),
        "shares": np.array(delivery.shares),
        "lower": np.array(lower),
        "upper": np.array(upper),
        "flagged": np.isin(delivery.names, delivery.flagged),
    }


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
    """The package, without which there are no frames: `MissingExtra` says how to install it."""
    try:
        import pandas  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pandas", "frame") from error
    return pandas


def _per_agent(*outcomes: Outcome) -> tuple[str, ...]:
    """What is told of each agent: where agents own several lots, nothing that is told of each lot."""
    if not any(outcome.federation.has_lots for outcome in outcomes):
        return PER_AGENT
    return tuple(label for label in PER_AGENT if label not in PER_LOT)


def _state(outcome: Outcome) -> str:
    try:
        return f"welfare {_plain(outcome.welfare)}, {who_would_leave(outcome)}"
    except OutsideDomain:
        return "outside the domain of a payoff"


def _welfare(outcome: Outcome) -> str:
    try:
        return _plain(outcome.welfare)
    except OutsideDomain:
        return "undefined"


def _plain(number: float) -> str:
    """A number within a line of code: no thousands separator, an ASCII minus."""
    return number_texts([number])[0].replace(",", "").replace("−", "-")


def _texts(outcome: Outcome, label: str) -> list[str]:
    """The first rows of an attribute; what is rounding to a certificate is written 0."""
    if label == "reciprocity_ratios":
        return share_texts(outcome)[:MAX_ROWS]
    rounding = 0.0 if label == "contributions" else float(outcome.tolerances.sum())
    return number_texts(getattr(outcome, label)[:MAX_ROWS], signed=label in SIGNED_COLUMNS, rounding=rounding)


def _block(*parts: str) -> str:
    """Titles, tables and lines of text below each other."""
    lines = Markup().join(Markup("<div>{}</div>").format(part) for part in parts)
    return str(Markup("<div>{}</div>").format(lines))


def _table(corner: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Markup:
    """A table with a row per name; rows beyond `MAX_ROWS` are counted."""
    rows = [_row("td", name, [texts[row] for texts in columns.values()]) for row, name in enumerate(names[:MAX_ROWS])]
    if len(names) > MAX_ROWS:
        more = Markup('<tr><td colspan="{}">… {} more</td></tr>').format(len(columns) + 1, len(names) - MAX_ROWS)
        rows.append(more)
    head = _row("th", corner, columns)
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(head, Markup().join(rows))


def _row(tag: str, name: str, texts: Iterable[str]) -> Markup:
    cell = Markup(f'<{tag} style="text-align:right">{{}}</{tag}>')
    cells = Markup().join(cell.format(text) for text in texts)
    return Markup('<tr><th style="text-align:left">{}</th>{}</tr>').format(name, cells)
