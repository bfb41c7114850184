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

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.certificates.claims import Certificate, Claim, about
from fedpact.federation.arrays import stack, sum_by
from fedpact.federation.splitting import split_agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError, InvalidInput

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome

MAX_AGENTS_WITH_SIDE_PAYMENTS = 8
MAX_AGENTS_SOLVED = 100  # beyond it no federation is solved
MAX_AGENTS_SOLVED_FOR = 150  # in all the federations that are solved: everybody up to 12 is split

EVEN_SPLIT = "the even split, an equilibrium"
SPLIT_EQUILIBRIUM = "the equilibrium with the member split"
NO_EQUILIBRIUM = (FedpactError, ArithmeticError, np.linalg.LinAlgError)


def certify_split_proof(outcome: Outcome) -> Certificate:
    """Nobody gains by posing as two; the witness is who gains most.

    Where nobody gains more than rounding it is who comes closest to that.
    """
    tols, names, size = outcome.tolerances, outcome.federation.names, outcome.federation.n_agents
    looked_at, gains, there = list(range(size)), _even_gains(outcome), {}
    if gains is None:
        looked_at = _agents_to_split(outcome)
        there = _split_equilibria(outcome, looked_at)
        gains = {
            agent: float(found.utilities[posing].sum() - outcome.utilities[agent])
            for agent, (found, posing) in there.items()
        }
    every = "every member" if len(looked_at) == size else f"{len(looked_at)} of {size} members"
    scope = f"{every} as two that share its cap and value"
    if not gains:
        why = f"{scope}: none of the split federations has an equilibrium that is certified"
        if not looked_at:
            why = "not looked at: {} of more than {} members take long to work out anew".format(
                *("side payments", MAX_AGENTS_WITH_SIDE_PAYMENTS)
                if outcome.rules.has_side_payments
                else ("equilibria", MAX_AGENTS_SOLVED)
            )
        return Certificate.judge(Claim.SPLIT_PROOF, -np.inf, float(tols.max()), why, {}, refuted=False)
    gaining = [agent for agent in gains if gains[agent] > tols[agent]]
    worst = max(gaining or gains, key=lambda agent: gains[agent] / (1.0 if gaining else tols[agent]))
    utility = float(outcome.utilities[worst])
    witness: dict[str, Any] = about(outcome, worst) | {
        "utility": utility,
        "split_utility": utility + gains[worst],
        "compared": SPLIT_EQUILIBRIUM if there else EVEN_SPLIT,
        "gains": {names[agent]: gain for agent, gain in gains.items()},
    }
    if there:
        found, posing = there[worst]
        parts = {"contributions": _brought(found), "payments": found.payments, "utilities": found.utilities}
        witness |= {f"part_{name}": each[posing].tolist() for name, each in parts.items()}
    if len(gains) < len(looked_at):
        scope += f"; of {len(looked_at) - len(gains)} no equilibrium is certified"
    proven = len(gains) == size and not gaining
    proven = proven and (outcome.rules.has_prices or all(found.is_unique for found, _ in there.values()))
    margin, tol = -gains[worst], float(tols[worst])
    return Certificate.judge(Claim.SPLIT_PROOF, margin, tol, scope, witness, proven=proven)


def _even_gains(outcome: Outcome) -> dict[int, float] | None:
    """Everybody at once where prices are linear and the profile is an equilibrium at them; None where it is not."""
    if not outcome.rules.has_prices or outcome.rules.has_side_payments:
        return None
    there = outcome.rules.outcome_at(outcome.federation, outcome.contributions)  # the names halve what the rules pay
    if not _is_equilibrium(outcome, there):
        return None
    return dict(enumerate((there.utilities - outcome.utilities).tolist()))


def _split_equilibria(outcome: Outcome, agents: list[int]) -> dict[int, tuple[Outcome, slice]]:
    """Certified equilibria with each of some members split, and where its names stand; solved together where it can be.

    Members with several lots have different ones in each of the split federations, which are then solved in turn.
    """
    rules, profiles = outcome.rules, None
    try:
        splits = [split_agent(outcome.federation, agent) for agent in agents]
    except InvalidInput:  # halves that are no numbers any more
        return {}
    if agents and not outcome.federation.has_lots:
        try:
            profiles = rules.solve_stack(stack([split for split, _ in splits]))
        except NO_EQUILIBRIUM:  # of one of them
            profiles = None
    equilibria = {}
    for index, (split, posing) in enumerate(splits):
        try:
            if profiles is None or np.isnan(profiles[index]).any():
                there = rules.solve(split)
            else:
                there = rules.outcome_at(split, profiles[index], is_solved=True)
            if _is_equilibrium(outcome, there):
                equilibria[agents[index]] = (there, posing)
        except NO_EQUILIBRIUM:
            continue
    return equilibria


def _brought(outcome: Outcome) -> FloatArray:
    """What each member contributes; the samples of all its lots together."""
    return sum_by(outcome.federation.arrays.lot_owners, outcome.contributions, outcome.federation.arrays.n_agents)


def _is_equilibrium(outcome: Outcome, there: Outcome) -> bool:
    """Whether nobody gains by acting differently and, if that is so of the outcome, payments balance.

    Somebody that is paid too much gains nothing by acting differently; somebody else is then paid too little.
    """
    nash = there.certificates[Claim.NASH]
    there_balances, here_balances = (each.certificates[Claim.BUDGET_BALANCE].holds for each in (there, outcome))
    return nash.margin >= -nash.tol and (there_balances or not here_balances)


def _agents_to_split(outcome: Outcome) -> list[int]:
    """Everybody, or of many those who contribute most, in order; nobody where that takes too long."""
    size = outcome.federation.n_agents
    if size > MAX_AGENTS_SOLVED or (outcome.rules.has_side_payments and size > MAX_AGENTS_WITH_SIDE_PAYMENTS):
        return []
    largest: list[int] = np.argsort(-_brought(outcome), kind="stable")[: max(1, MAX_AGENTS_SOLVED_FOR // size)].tolist()
    return sorted(largest)
