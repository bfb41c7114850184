"""No agent gains by posing as two that share its cap and value.

Two ways to tell, neither of which trusts a solver:

* At an even split everybody's data, payoffs and costs are what they were. Where that is an equilibrium of the
  federation with the agent split, by the mechanism's own deviations, the two names have what its rules pay them there.
  Where data is paid for by the sample this is always the case, since prices are linear, and nothing is gained. It is
  checked for everybody at once: nobody else's prices or choices change, so what is left is what one of the names could
  do (`Deviations.as_two`).
* Under other rules the mechanism solves the split federation, when the certificate is asked for; the outcome counts
  only if it is certified to be an equilibrium whose payments balance, so that nobody has more than the rules give.

Up to `MAX_AGENTS_ALL_SPLIT` agents everybody is split in turn, and the witness is who gains most. Among more the claim
is refuted by the first agent found to gain, beginning with those who contribute most; a federation is solved for one of
them only, and in very large federations as many are split as copies of the weights allow. Side payments of many are not
worked out anew: that takes all groups of the split federation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.certificates.certificates import Certificate, CertifiedOutcome, certify_balance, certify_nash
from fedpact.certificates.claims import Claim
from fedpact.certificates.deviations import Deviations
from fedpact.federation import Federation
from fedpact.federation.splitting import split_agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import FedpactError

MAX_AGENTS_ALL_SPLIT = 8  # beyond it one agent that gains is enough
MAX_AGENTS_SOLVED = 100  # beyond it no federation is solved
MAX_AGENTS_LISTED = 12  # whose gains are listed by `split_gains`
MAX_AGENTS_SOLVED_FOR = 150  # in all the federations that `split_gains` solves, beyond the first
MAX_AGENTS_SPLIT = 64
MAX_WEIGHTS_COPIED = 1_000_000  # entries, over all copies of the federation

EVEN_SPLIT = "the even split, an equilibrium"
SPLIT_EQUILIBRIUM = "the equilibrium with the member split"


@dataclass(frozen=True, kw_only=True)
class SplitComparison:
    """What an agent has under two names.

    Attributes
    ----------
    agent
        By its place.
    gain
        The utilities of the names less its own; NaN where no equilibrium is certified.
    compared
        Which profile of the split federation this is.
    proves
        Whether no other equilibrium gives the names anything else.
    parts
        Contributions, payments and utilities of the names where they are not halves of the agent's.
    """

    agent: int
    gain: float
    compared: str
    proves: bool
    parts: dict[str, list[float]]


def certify_split_proof(outcome: CertifiedOutcome, deviations: Callable[[], Deviations]) -> Certificate:
    """Nobody gains by posing as two; the witness is who gains most.

    Where nobody gains more than rounding it is who comes closest to that. `deviations` gives those of the outcome.
    """
    tols, size = outcome.tolerances, outcome.federation.n_agents
    everybody = _even_splits(outcome, deviations, tols)
    found = _compare_splits(outcome, tols) if everybody is None else everybody
    known = [each for each in found if np.isfinite(each.gain)]
    unknown = [each.agent for each in found if not np.isfinite(each.gain)]
    tiny = [outcome.federation.names[agent] for agent in unknown if _halves_vanish(outcome.federation, agent)]
    names, every = outcome.federation.names, everybody is not None or len(found) == size
    whom = "every member" if every else f"{len(found)} of {size} members"
    scope = f"{whom} as two that share its cap and value"
    if not found:
        why = f"not looked at: side payments of more than {MAX_AGENTS_ALL_SPLIT} members take long to work out anew"
        return Certificate.judge(Claim.SPLIT_PROOF, -np.inf, float(tols.max()), why, {}, refuted=False)
    if not known:
        why = f"{scope}: the even split is no equilibrium, and none of the split federation is certified"
        if len(tiny) == len(found):
            why = f"{scope}: half of what {tiny[0]} values payoff at is too small for a number"
        return Certificate.judge(Claim.SPLIT_PROOF, -np.inf, float(tols.max()), why, {}, refuted=False)
    gaining = [each for each in known if each.gain > tols[each.agent]]
    worst = max(gaining or known, key=lambda each: each.gain / (1.0 if gaining else tols[each.agent]))
    utility = float(outcome.utilities[worst.agent])
    witness: dict[str, Any] = {
        "agent": names[worst.agent],
        "index": worst.agent,
        "utility": utility,
        "split_utility": utility + worst.gain,
        "compared": worst.compared,
        "gains": {names[each.agent]: each.gain for each in known},
        **worst.parts,
    }
    if len(known) < len(found):
        scope += f"; of {len(unknown)} no equilibrium is certified"
        scope += f", half the value of {tiny[0]} being too small for a number" if tiny else ""
    proven = every and len(known) == len(found) and all(each.proves for each in known)
    tol = float(tols[worst.agent])
    return Certificate.judge(Claim.SPLIT_PROOF, -worst.gain, tol, scope, witness, proven=proven)


def split_gains(outcome: CertifiedOutcome) -> dict[str, float]:
    """What agents gain by posing as two, by name: everybody up to `MAX_AGENTS_LISTED`, else those who contribute most.

    Where every split takes solving, the fewer the more agents there are: three of 50, one of 100.
    Agents of whom no equilibrium of the split federation is certified are left out; so is everybody where side payments
    of more than that would have to be worked out.
    """
    names, size = outcome.federation.names, outcome.federation.n_agents
    if size > MAX_AGENTS_LISTED and _has_side_payments(outcome):
        return {}
    may_solve = size <= MAX_AGENTS_SOLVED
    count = size if outcome.has_prices else max(1, MAX_AGENTS_SOLVED_FOR // size)
    agents = sorted(_agents_to_split(outcome)[: min(count, MAX_AGENTS_LISTED)])
    found = [compare_split(outcome, agent, may_solve=may_solve) for agent in agents]
    return {names[each.agent]: each.gain for each in found if np.isfinite(each.gain)}


def _has_side_payments(outcome: CertifiedOutcome) -> bool:
    return outcome.side_payments is not None and bool(outcome.side_payments.any())


def _even_splits(
    outcome: CertifiedOutcome, deviations: Callable[[], Deviations], tols: FloatArray
) -> list[SplitComparison] | None:
    """Everybody at once, if every even split is an equilibrium; None where that is not so, or not known.

    Those are listed who contribute most, and who gains most.
    """
    federation = outcome.federation
    if not outcome.has_prices or _has_side_payments(outcome) or (federation.values / 2.0 == 0.0).any():
        return None
    best = deviations()
    if best.as_two is None:
        return None
    there = outcome.played_in(federation, outcome.contributions)  # what the rules pay; the names halve it
    if not _is_equilibrium(outcome, there, best):
        return None
    gained = best.as_two().utilities - there.utilities / 2.0
    if not (gained <= there.tolerances / 2.0).all():
        return None
    gains = there.utilities - outcome.utilities
    most = _agents_to_split(outcome, copied=False)
    listed = dict.fromkeys([*most, int(np.argmax(gains / tols)), int(np.argmax(gains - tols))])
    return [
        SplitComparison(agent=agent, gain=float(gains[agent]), compared=EVEN_SPLIT, proves=True, parts={})
        for agent in listed
    ]


def _compare_splits(outcome: CertifiedOutcome, tols: FloatArray) -> list[SplitComparison]:
    """Everybody in turn where agents are few; among many until one gains, or would have to be solved for.

    Nobody where side payments of many would have to be worked out: that takes all their groups.
    """
    size = outcome.federation.n_agents
    few = size <= MAX_AGENTS_ALL_SPLIT
    if not few and _has_side_payments(outcome):
        return []
    found: list[SplitComparison] = []
    for agent in _agents_to_split(outcome):
        compared = compare_split(outcome, agent, may_solve=few or (size <= MAX_AGENTS_SOLVED and not found))
        found.append(compared)
        if not few and not compared.gain <= tols[agent]:
            break
    return found


def compare_split(outcome: CertifiedOutcome, agent: int, *, may_solve: bool = True) -> SplitComparison:
    """What one agent has under two names, compared with what it has under one."""
    unknown = SplitComparison(agent=agent, gain=np.nan, compared="", proves=False, parts={})
    try:
        split, posing = split_agent(outcome.federation, agent)
    except FedpactError:  # half of the smallest number is none
        return unknown
    for compared in (EVEN_SPLIT, SPLIT_EQUILIBRIUM) if outcome.has_prices else (SPLIT_EQUILIBRIUM, EVEN_SPLIT):
        try:
            there = _even_split(outcome, split, agent) if compared == EVEN_SPLIT else None
            if compared == SPLIT_EQUILIBRIUM and may_solve:
                there = outcome.solved_in(split)
            if there is None or not _is_equilibrium(outcome, there, _deviations(there)):
                continue
        except (FedpactError, ArithmeticError, np.linalg.LinAlgError):  # there is no such equilibrium to compare with
            continue
        gain = float(there.utilities[posing].sum() - outcome.utilities[agent])
        proves = outcome.has_prices if compared == EVEN_SPLIT else there.is_unique
        parts = {} if compared == EVEN_SPLIT else _parts(there, posing)
        return SplitComparison(agent=agent, gain=gain, compared=compared, proves=proves, parts=parts)
    return unknown


def _halves_vanish(federation: Federation, agent: int) -> bool:
    """Whether there is no number for half of what an agent values payoff at."""
    return bool((federation.values[federation.tasks_of(agent)] / 2.0 == 0.0).any())


def _even_split(outcome: CertifiedOutcome, split: Federation, agent: int) -> CertifiedOutcome:
    halved = outcome.federation.lot_owners == agent
    profile = np.repeat(np.where(halved, outcome.contributions / 2.0, outcome.contributions), 1 + halved)
    return outcome.played_in(split, np.minimum(profile, split.caps))


def _parts(there: CertifiedOutcome, posing: slice) -> dict[str, list[float]]:
    numbers = {"contributions": _brought(there), "payments": there.payments, "utilities": there.utilities}
    return {f"part_{name}": [float(number) for number in each[posing]] for name, each in numbers.items()}


def _brought(outcome: CertifiedOutcome) -> FloatArray:
    """What each agent contributes; the samples of all its lots together."""
    return outcome.federation.per_agent_from_lots(outcome.contributions)


def _deviations(there: CertifiedOutcome) -> Deviations:
    return there.deviations(there.federation, there.contributions)


def _is_equilibrium(outcome: CertifiedOutcome, there: CertifiedOutcome, best: Deviations) -> bool:
    """Whether nobody gains by acting differently and, if that is so of the outcome, payments balance.

    Somebody that is paid too much gains nothing by acting differently; somebody else is then paid too little.
    """
    nash = certify_nash(there, best)
    if not nash.margin >= -nash.tol:
        return False
    return certify_balance(there).holds or not certify_balance(outcome).holds


def _agents_to_split(outcome: CertifiedOutcome, *, copied: bool = True) -> list[int]:
    """Everybody in order; of many those who contribute most, as long as copies of the federation are not too much."""
    size = outcome.federation.n_agents
    if size <= MAX_AGENTS_ALL_SPLIT:
        return list(range(size))
    count = min(size, MAX_AGENTS_SPLIT)
    if copied and size > MAX_AGENTS_SPLIT:
        count = int(np.clip(MAX_WEIGHTS_COPIED // size**2, 1, MAX_AGENTS_SPLIT))
    largest: list[int] = np.argsort(-_brought(outcome), kind="stable")[:count].tolist()
    return largest
