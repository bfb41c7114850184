"""What it means for people that a claim is violated: who gains, how much and by what."""

from __future__ import annotations

from collections.abc import Sequence

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.cli.common import terminal_text
from fedpact.comparison import blocking_group
from fedpact.deals import Outcome
from fedpact.negotiation.check import violation_text
from fedpact.report.numbers import Unit
from fedpact.solvers.groups import MAX_LISTED_AGENTS
from fedpact.utils.words import MAX_NAMES, group_text, join_names


def violation_sentences(outcome: Outcome, unit: Unit) -> list[str]:
    """Which group gains by leaving, and who by posing as two, where certificates have found somebody."""
    claims = (Claim.CORE, Claim.SPLIT_PROOF)
    violated = [claim for claim in claims if outcome.certificates[claim].verdict is Verdict.VIOLATED]
    return [said for claim in violated if (said := _sentence(outcome, claim, unit))]


def violation_detail(outcome: Outcome, claim: Claim, unit: Unit) -> str:
    """What follows "the claim is violated": what that means, or the numbers that show it, in units of payoff."""
    said, certificate = _sentence(outcome, claim, unit), outcome.certificates[claim]
    if said:
        return f": {said}"
    amount = terminal_text(f"; {unit.text(-certificate.margin)}") if unit.is_money else ""
    return f" {violation_text(certificate)} (units of payoff{amount})"


def _sentence(outcome: Outcome, claim: Claim, unit: Unit) -> str | None:
    """Who gains, where the witness says so, in the unit of the scenario."""
    certificate, sentence = outcome.certificates[claim], None
    if claim is Claim.CORE and "group" in certificate.witness:
        sentence = _core_sentence(outcome, certificate, unit)
    elif claim is Claim.SPLIT_PROOF and "gains" in certificate.witness:
        sentence = _split_sentence(outcome, certificate, unit)
    return None if sentence is None else terminal_text(sentence)


def _core_sentence(outcome: Outcome, certificate: Certificate, unit: Unit) -> str:
    group, gain = certificate.witness["group"], unit.text(certificate.witness["gain"])
    if len(group) < len(outcome.agents) or len(group) == 1:
        return _leaving(group, outcome.agents, gain)
    said = f"All members together could have {gain} more than this deal gives them."
    if len(group) <= MAX_LISTED_AGENTS:
        found = blocking_group(outcome, proper=True)
        gain = unit.text(found.gain)
        said += " " + (
            _leaving(found.group, outcome.agents, gain) if found.blocks else "No smaller group gains by leaving."
        )
    return said


def _leaving(group: Sequence[str], agents: Sequence[str], gain: str) -> str:
    who = group_text(group, agents, most=MAX_NAMES)
    if len(group) == 1:
        return f"{who} would gain {gain} by leaving alone."
    return f"{who[0].upper()}{who[1:]} would gain {gain} in total by leaving together, to be shared among them."


def _split_sentence(outcome: Outcome, certificate: Certificate, unit: Unit) -> str:
    gains, most = certificate.witness["gains"], certificate.witness["agent"]
    said = f"{most} would gain {unit.text(gains[most])} by posing as two"
    others = [name for name, gain in gains.items() if name != most and gain > certificate.tol]
    if others:
        return f"{said}, more than anybody else; {join_names(others, most=MAX_NAMES)} would gain too."
    if len(gains) < len(outcome.agents):
        return f"{said}; not everybody else was looked at."
    return f"{said}, nobody else would."
