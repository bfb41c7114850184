"""Whether a deal holds together: who would leave in a group, and who gains by posing as two or by lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedpact.certificates import Verdict
from fedpact.comparison import Comparison
from fedpact.report.numbers import Unit

NOBODY = "nobody"
NOT_WORKED_OUT = "not worked out"
NO_GAIN = "–"
GROUP_WORDS: dict[Verdict, str] = {
    Verdict.HOLDS: NOBODY,
    Verdict.NOT_REFUTED: "none found",
    Verdict.UNDEFINED: NOT_WORKED_OUT,
}


@dataclass(frozen=True, kw_only=True)
class Temptation:
    """Who gains by not keeping to a deal as it is: names, or a word where there are none; and what they gain.

    Attributes
    ----------
    members
        Empty where nobody gains, or nobody was found.
    word
        What to say instead of names.
    gain
        What they gain together, a number in the unit of the table; empty where they do not.
    limit
        What others gain at most, or how many were looked at, in words; empty where everything is known.
    """

    members: Sequence[str] = ()
    word: str = ""
    gain: str = ""
    limit: str = ""


def leaving_group(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The group that gains most by leaving the others behind."""
    verdict, found = comparison.group_verdict(mechanism), comparison.blocking_groups.get(mechanism)
    if found is None:
        return Temptation(word=NO_GAIN if comparison.federation.n_agents == 1 else NOT_WORKED_OUT)
    limit = (
        "" if found.exact or verdict is Verdict.HOLDS else f"no group gains more than {unit.text(found.upper_bound)}"
    )
    if verdict is Verdict.VIOLATED:
        return Temptation(members=found.group, gain=unit.column([found.gain], signed=True)[0], limit=limit)
    return Temptation(word=GROUP_WORDS[verdict], limit=limit)


def posing_as_two(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The member that gains most by entering under two names that share what it has, of those looked at."""
    gains, size = comparison.splitting_gains.get(mechanism), comparison.federation.n_agents
    if gains is None:
        return Temptation(word=NOT_WORKED_OUT)
    found = _one_member(comparison.largest_splitting_gain(mechanism), unit)
    if len(gains) == size:
        return found
    word = GROUP_WORDS[Verdict.NOT_REFUTED] if found.word == NOBODY else found.word
    return replace(found, word=word, limit=f"{len(gains)} of {size} members looked at")


def misreporting(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The member that gains most by reporting other costs or values than its own, of the lies tried."""
    if comparison.misreporting_gains.get(mechanism) is None:
        return Temptation(word=NOT_WORKED_OUT)
    return _one_member(comparison.largest_misreporting_gain(mechanism), unit)


def _one_member(largest: tuple[str, float] | None, unit: Unit) -> Temptation:
    if largest is None:
        return Temptation(word=NOBODY)
    member, gain = largest
    return Temptation(members=(member,), gain=unit.column([gain], signed=True)[0])
