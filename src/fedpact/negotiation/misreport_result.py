"""What a study of misreporting found: gains by mechanism, agent, lie and factor, and what to make of them in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.mechanisms import MECHANISMS
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

LIES = ("costs", "values")
GAME, NEGOTIATION = "message-game", "negotiation"
EXTRA_TITLES = {GAME: "Message game", NEGOTIATION: "Negotiation"}


def study_title(mechanism: str) -> str:
    """The name people read."""
    return EXTRA_TITLES[mechanism] if mechanism in EXTRA_TITLES else MECHANISMS[mechanism].title


@dataclass(frozen=True, kw_only=True)
class BestLie:
    """The lie that gains most under a mechanism; the truth, factor 1 and gain 0, where none gains beyond rounding.

    Attributes
    ----------
    agent, what, factor
        Who lies, about its "costs" or its "values", and by which factor.
    gain, utility
        What it gains, and the true utility it ends with, in units of payoff.
    share
        The gain as a share of its honest utility; NaN where that is not positive.
    others
        The change for all the others together.
    at_end
        Whether the factor is the smallest or the largest that was tried: a bolder lie may gain more.
    gainers
        How many agents gain by some lie.
    """

    agent: str
    what: str
    factor: float
    gain: float
    utility: float
    share: float
    others: float
    at_end: bool
    gainers: int

    @property
    def pays(self) -> bool:
        """Whether some lie gains at all."""
        return self.gain > 0.0


@dataclass(frozen=True, kw_only=True)
class NegotiatedLie:
    """A negotiation with one lying agent; `expected` is its gain under the Externality mechanism on the reports."""

    agent: str
    what: str
    factor: float
    utility: float
    gain: float
    others: float
    expected: float


@dataclass(frozen=True, kw_only=True, eq=False)
class MisreportStudy:
    """The gains of lying. Arrays are (agents, lies, factors) unless said otherwise, in units of payoff.

    Attributes
    ----------
    agents, factors
        Who lied, by name, one at a time; and by which factors.
    utilities
        By mechanism: the true utility of the liar; NaN where the reports have no equilibrium, minus infinity where the
        liar harms itself beyond the domain of its payoff.
    others
        By mechanism: what the lie changes for all the others together.
    honest, rounding
        By mechanism, (agents,): the utility of each when all are honest, and what counts as rounding for it.
    negotiated
        Negotiations by price discovery with one lying agent.
    missing
        What could not be studied, and why.
    """

    agents: Sequence[str]
    factors: FloatArray
    utilities: Mapping[str, FloatArray]
    others: Mapping[str, FloatArray]
    honest: Mapping[str, FloatArray]
    rounding: Mapping[str, FloatArray]
    negotiated: Sequence[NegotiatedLie]
    missing: Mapping[str, str]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What was studied, the negotiation aside."""
        return tuple(self.utilities)

    @property
    def gains(self) -> Mapping[str, FloatArray]:
        """By mechanism: the liar's true utility less that of its honest report."""
        return {
            name: read_only_copy(self.utilities[name] - self.honest[name][:, None, None]) for name in self.mechanisms
        }

    def columns(self) -> dict[str, list[Any]]:
        """One row for each mechanism, agent, lie and factor, then the negotiations."""
        rows: list[tuple[Any, ...]] = []
        for name, gains in self.gains.items():
            for place in np.ndindex(gains.shape):
                agent, what, factor = place
                amounts = (self.utilities[name][place], gains[place], self.others[name][place])
                rows.append((self.agents[agent], LIES[what], self.factors[factor], name, *amounts))
        rows += [(n.agent, n.what, n.factor, NEGOTIATION, n.utility, n.gain, n.others) for n in self.negotiated]
        heads = ("agent", "what", "factor", "mechanism", "utility", "gain", "others")
        plain = [[entry if isinstance(entry, str) else float(entry) for entry in row] for row in rows]
        return {head: list(column) for head, column in zip(heads, zip(*plain, strict=True), strict=True)}

    def best(self, what: str | None = None) -> Mapping[str, BestLie]:
        """By mechanism: the lie that gains most, of one kind if `what` says so."""
        kinds = np.array([what in {None, kind} for kind in LIES])
        if not kinds.any():
            raise InvalidInput(f"what must be one of {', '.join(LIES)}, got {what!r}")
        return {name: self._best(name, kinds) for name in self.mechanisms}

    def _best(self, name: str, kinds: np.ndarray) -> BestLie:
        beyond = (self.gains[name] > self.rounding[name][:, None, None]) & kinds[:, None]
        gains = np.where(beyond, self.gains[name], 0.0)
        agent, what, place = (int(index) for index in np.unravel_index(int(gains.argmax()), gains.shape))
        gain, honest = float(gains[agent, what, place]), float(self.honest[name][agent])
        pays = gain > 0.0
        factor = float(self.factors[place]) if pays else 1.0
        return BestLie(
            agent=self.agents[agent],
            what=LIES[what if pays else int(kinds.argmax())],
            factor=factor,
            gain=gain,
            utility=honest + gain,
            share=gain / honest if honest > self.rounding[name][agent] else np.nan,
            others=float(self.others[name][agent, what, place]) if pays else 0.0,
            at_end=pays and factor in {float(self.factors.min()), float(self.factors.max())},
            gainers=int(beyond.any(axis=(1, 2)).sum()),
        )

    @property
    def text(self) -> str:
        """What the study found and what it does not show, in Markdown."""
        return "\n\n".join([_introduction(self), _table(self), *_findings(self), _limits(self)]) + "\n"

    def plot(self, *, figure: Any = None) -> Any:
        """Gains against factors, a panel for each mechanism and lie, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_misreports  # noqa: PLC0415 - optional dependency

        return plot_misreports(self, figure=figure)


COLUMN_HEADS = (
    "",
    "lie about",
    "largest gain",
    "of honest utility",
    "who",
    "factor",
    "change for the others",
    "who gain",
)


def _introduction(study: MisreportStudy) -> str:
    """What was tried."""
    low, high, count = study.factors.min(), study.factors.max(), study.factors.size
    factors = f"a factor from {low:.4g} to {high:.4g} ({count} factors)" if count > 1 else f"the factor {low:.4g}"
    who = f"Each of {len(study.agents)} members in turn" if len(study.agents) > 1 else _one_line(study.agents[0])
    return (
        f"# What lying gains\n\n{who} reports its costs, or its values, multiplied by {factors}. Everybody else "
        "reports the truth, everybody stays, and everybody delivers what was agreed. A gain is the liar's true "
        "utility less that of an honest report, in units of payoff."
    )


def _table(study: MisreportStudy) -> str:
    rows = [COLUMN_HEADS, ("---",) * len(COLUMN_HEADS)]
    for name in study.mechanisms:
        rows += [(study_title(name), what, *_row(study, study.best(what)[name])) for what in LIES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(study: MisreportStudy, best: BestLie) -> tuple[str, ...]:
    if not best.pays:
        return ("none found", "", "", "", "", "nobody")
    share = f"{100.0 * best.share:.3g}%" if np.isfinite(best.share) else "undefined"
    factor = f"{best.factor:.3g}" + (", an end of the range" if best.at_end else "")
    gainers = f"{best.gainers} of {len(study.agents)}"
    return (f"{best.gain:.4g}", share, _one_line(best.agent), factor, f"{best.others:+.4g}", gainers)


def _findings(study: MisreportStudy) -> Iterator[str]:
    best = study.best()
    paid = [study_title(name) for name, lie in best.items() if lie.pays and name != GAME]
    unpaid = [study_title(name) for name, lie in best.items() if not lie.pays and name != GAME]
    if paid:
        yield (
            f"**Lying can pay** under {' and '.join(paid)}: contributions and payments are worked out from what is "
            "reported, and nothing makes the truth the best report."
        )
    if unpaid:
        lies = f"**None of these lies pays** under {' and '.join(unpaid)}"
        yield f"{lies}, in this federation; that is no promise for another."
    if study.negotiated:
        yield _negotiation_finding(study)
    if GAME in best:
        yield _game_finding(study, best[GAME])
    for name, reason in study.missing.items():
        yield f"{study_title(name)}, left out: {_one_line(reason)}."


def _negotiation_finding(study: MisreportStudy) -> str:
    apart = max(abs(held.gain - held.expected) for held in study.negotiated)
    count = len(study.negotiated)
    held = "one negotiation" if count == 1 else f"{count} negotiations"
    return (
        "**A negotiation asks for the same numbers.** Whoever lies consistently cannot be told from somebody for whom "
        f"the lie is the truth: in {held} by price discovery with a lying member, its gain differed from the one under "
        f"{study_title('externality')} by at most {apart:.1g}."
    )


def _game_finding(study: MisreportStudy, best: BestLie) -> str:
    lost = max(0.0, -float(np.nanmin(study.gains[GAME])))
    no_gain = f"no lie gained anything; the one that cost its teller most cost {lost:.4g}"
    found = f"a lie gained {best.gain:.4g}, so those were no equilibrium messages" if best.pays else no_gain
    return (
        "**In the message game** one member sent the messages that fit its lie, and the others those of the true "
        f"equilibrium: {found}. Truth-telling is what the equilibrium asks, not what the protocol forces: the "
        "equilibrium has to be found first, and whoever lies while it is being found moves the equilibrium itself. "
        f"That is the lie measured under {study_title('externality')}."
    )


def _limits(study: MisreportStudy) -> str:
    unsolved = sum(int(np.isnan(numbers).sum()) for numbers in study.utilities.values())
    missed = f" Points without an equilibrium, which are not counted: {unsolved}." if unsolved else ""
    return (
        "Only these lies were tried, by one member at a time. Lies about whose data is useful or about caps, several "
        f"liars, other factors, and data that is not what was promised may do more.{missed}"
    )


def _one_line(text: str) -> str:
    """On one line, and no mark-up of a table."""
    return " ".join(text.split()).replace("|", "\\|")
