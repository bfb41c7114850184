"""Split-proofness: no member gains by posing as two that share its cap and value.

Two ways to tell, neither of which trusts a solver:

* Where data is paid for by the sample, an even split changes nobody's data, payoffs, costs or prices. Each name is half
  the member: half its value and cap, and costs that make an even split cost what it did. So its best answer to prices
  is half of the member's, and if the profile is an equilibrium, the even split is one of the federation with the member
  split. The two names together have what the rules pay the member.
* Under other rules the mechanism solves the split federation, when the certificate is asked for; the outcome counts
  only if it is certified to be an equilibrium whose payments balance, so that nobody has more than the rules give.

Up to a dozen members everybody is split in turn; among more a few that contribute most, since every split takes solving
once more. Side payments of many are not worked out anew: that takes all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedpact.certificates.checks import certify_balance, certify_nash
from fedpact.certificates.claims import Certificate, CertifiedOutcome, Claim, about
from fedpact.federation.arrays import sum_by
from fedpact.federation.splitting import split_agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError

MAX_AGENTS_WITH_SIDE_PAYMENTS = 8
MAX_AGENTS_SOLVED = 100  # beyond it no federation is solved
MAX_AGENTS_SOLVED_FOR = 150  # in all the federations that are solved: everybody up to 12 is split
MAX_AGENTS_LISTED = 64  # whose gains are listed where nothing has to be solved

EVEN_SPLIT = "the even split, an equilibrium"
SPLIT_EQUILIBRIUM = "the equilibrium with the member split"


class SplitComparison(NamedTuple):
    """What a member has under two names.

    Attributes
    ----------
    gain
        The utilities of the names less the member's own; NaN where no equilibrium is certified.
    compared
        Which profile of the split federation this is.
    proves
        Whether no other equilibrium gives the names anything else.
    parts
        Contributions, payments and utilities of the names where they are not halves of the member's.
    """

    agent: int
    gain: float = float("nan")
    compared: str = ""
    proves: bool = False
    parts: Mapping[str, list[float]] = {}


def certify_split_proof(outcome: CertifiedOutcome) -> Certificate:
    """Nobody gains by posing as two; the witness is who gains most.

    Where nobody gains more than rounding it is who comes closest to that.
    """
    tols, names, size = outcome.tolerances, outcome.federation.names, outcome.federation.n_agents
    even = _even_splits(outcome)
    found = [compare_split(outcome, agent) for agent in _agents_to_split(outcome)] if even is None else even
    known = [each for each in found if np.isfinite(each.gain)]
    every = even is not None or len(found) == size
    scope = f"{'every member' if every else f'{len(found)} of {size} members'} as two that share its cap and value"
    if not known:
        why = f"{scope}: none of the split federations has an equilibrium that is certified"
        if not found:
            why = "not looked at: {} of more than {} members take long to work out anew".format(
                *("side payments", MAX_AGENTS_WITH_SIDE_PAYMENTS)
                if outcome.rules.has_side_payments
                else ("equilibria", MAX_AGENTS_SOLVED)
            )
        return Certificate.judge(Claim.SPLIT_PROOF, -np.inf, float(tols.max()), why, {}, refuted=False)
    gaining = [each for each in known if each.gain > tols[each.agent]]
    worst = max(gaining or known, key=lambda each: each.gain / (1.0 if gaining else tols[each.agent]))
    utility = float(outcome.utilities[worst.agent])
    witness: dict[str, Any] = about(outcome, worst.agent) | {
        "utility": utility,
        "split_utility": utility + worst.gain,
        "compared": worst.compared,
        "gains": {names[each.agent]: each.gain for each in known},
        **worst.parts,
    }
    if len(known) < len(found):
        scope += f"; of {len(found) - len(known)} no equilibrium is certified"
    proven = every and len(known) == len(found) and all(each.proves for each in known)
    return Certificate.judge(Claim.SPLIT_PROOF, -worst.gain, float(tols[worst.agent]), scope, witness, proven=proven)


def _even_splits(outcome: CertifiedOutcome) -> list[SplitComparison] | None:
    """Everybody at once where prices are linear and the profile is an equilibrium at them; None where it is not.

    Those are listed who contribute most, and who gains most.
    """
    if not outcome.rules.has_prices or outcome.rules.has_side_payments:
        return None
    there = outcome.rules.outcome_at(outcome.federation, outcome.contributions)  # the names halve what the rules pay
    if not _is_equilibrium(outcome, there):
        return None
    gains, tols = there.utilities - outcome.utilities, outcome.tolerances
    most = np.argsort(-_brought(outcome), kind="stable")[:MAX_AGENTS_LISTED].tolist()
    listed = sorted({*most, int(np.argmax(gains / tols)), int(np.argmax(gains - tols))})
    return [SplitComparison(agent, float(gains[agent]), EVEN_SPLIT, True) for agent in listed]


def compare_split(outcome: CertifiedOutcome, agent: int) -> SplitComparison:
    """What one member has under two names, compared with what it has under one."""
    try:
        split, posing = split_agent(outcome.federation, agent)
        there = outcome.rules.solve(split)
        if not _is_equilibrium(outcome, there):
            return SplitComparison(agent)
    except (FedpactError, ArithmeticError, np.linalg.LinAlgError):  # there is no such equilibrium to compare with
        return SplitComparison(agent)
    numbers = {"contributions": _brought(there), "payments": there.payments, "utilities": there.utilities}
    return SplitComparison(
        agent=agent,
        gain=float(there.utilities[posing].sum() - outcome.utilities[agent]),
        compared=SPLIT_EQUILIBRIUM,
        proves=outcome.rules.has_prices or there.is_unique,
        parts={f"part_{name}": [float(number) for number in each[posing]] for name, each in numbers.items()},
    )


def _brought(outcome: CertifiedOutcome) -> FloatArray:
    """What each member contributes; the samples of all its lots together."""
    return sum_by(outcome.federation.arrays.lot_owners, outcome.contributions, outcome.federation.arrays.n_agents)


def _is_equilibrium(outcome: CertifiedOutcome, there: CertifiedOutcome) -> bool:
    """Whether nobody gains by acting differently and, if that is so of the outcome, payments balance.

    Somebody that is paid too much gains nothing by acting differently; somebody else is then paid too little.
    """
    nash = certify_nash(there, there.rules.deviations(there.federation, there.contributions))
    if not nash.margin >= -nash.tol:
        return False
    return certify_balance(there).holds or not certify_balance(outcome).holds


def _agents_to_split(outcome: CertifiedOutcome) -> list[int]:
    """Everybody, or of many those who contribute most, in order; nobody where that takes too long."""
    size = outcome.federation.n_agents
    if size > MAX_AGENTS_SOLVED or (outcome.rules.has_side_payments and size > MAX_AGENTS_WITH_SIDE_PAYMENTS):
        return []
    largest: list[int] = np.argsort(-_brought(outcome), kind="stable")[: max(1, MAX_AGENTS_SOLVED_FOR // size)].tolist()
    return sorted(largest)
