"""What an agent gains by misreporting: one at a time says its costs, or its values, are a multiple of the true ones.

The outcome follows from the reports, everybody delivers what was agreed, and the liar is judged by its true payoff and
its true cost, gain = u_i(lie) - u_i(truth):

* "externality" and "shapley", or other mechanisms: solved on the reports, payments as it computes them from these.
* "message-game": the others send the equilibrium messages of the true game, the liar those it would send if its report
  were true. By the definition of an equilibrium it cannot gain.
* "negotiation": price discovery with a lying agent, for the few lies that gain most under "externality". It answers as
  an agent would for whom the lie is the truth, so it should end where the mechanism does on the reports.

Cost: two solves for every lie, compiled for small federations: a few seconds for five agents and 97 factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.tolerances import utility_tolerances
from fedpact.comparison import solve_batch
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.mechanisms import MECHANISMS, Mechanism, personal_prices, resolve_mechanisms
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.channels import InProcess
from fedpact.negotiation.coordinator import coordinate
from fedpact.negotiation.lie_search import report_with
from fedpact.negotiation.lot_agent import agents_of
from fedpact.negotiation.message_game import MessageGame
from fedpact.negotiation.misreport_result import GAME, LIES, NEGOTIATION, MisreportStudy, NegotiatedLie
from fedpact.utils.arrays import POSITIVE, FloatArray, checked_numbers, positive, read_only_copy
from fedpact.utils.errors import FedpactError, InvalidInput, NotConverged

FACTORS = read_only_copy(2.0 ** np.linspace(-2.0, 2.0, 97))  # some lies pay only when they are small
FEWER_FACTORS = read_only_copy(FACTORS[::4])
SOLVED = ("externality", "shapley")

MAX_AGENTS_WITH_ALL_FACTORS = 8  # agents: with more, an equilibrium of the Shapley mechanism takes a second
MAX_AGENTS_IN_BATCH = 64  # agents: larger federations are solved one by one
MAX_AGENTS_IN_GAME = 2000  # agents: messages are a matrix
MAX_LIES_NEGOTIATED = 2  # lies of each kind

Progress = Callable[[int, int], None]


def misreport(federation: Federation, agent: int, *, what: str, factor: float) -> Federation:
    """The federation as it looks when one agent reports its costs or its values multiplied by a factor."""
    require_single_lots(federation, "a misreport")
    if what not in LIES:
        raise InvalidInput(f"what must be one of {', '.join(LIES)}, got {what!r}")
    return report_with(federation, {agent: (factor, 1.0, 1.0) if what == "costs" else (1.0, factor, 1.0)})


def misreport_study(
    federation: Federation,
    *,
    agents: Sequence[int | str] | None = None,
    factors: ArrayLike | None = None,
    mechanisms: Sequence[str] = SOLVED,
    progress: Progress | None = None,
) -> MisreportStudy:
    """How much each agent gains by lying by a factor, under mechanisms and in the message game.

    Parameters
    ----------
    agents
        Who lies, one at a time, by number or by name; everybody if not given.
    factors
        What true costs or values are multiplied by; positive. If not given, 97 from 1/4 to 4, 25 beyond eight agents.
    mechanisms
        Names of those to study, such as "fair"; message game and negotiation are studied beside "externality".
    progress
        Called with how many equilibria are found, and of how many.

    Raises
    ------
    NotConverged
        If no mechanism has an equilibrium when everybody is honest.

    Examples
    --------
    >>> from fedpact.scenario.examples import hospitals
    >>> study = misreport_study(hospitals().federation, agents=["Clinic"], factors=[0.5, 1.0, 2.0])
    >>> best = study.best()["externality"]
    >>> best.agent, best.what, best.factor, round(best.gain)
    ('Clinic', 'values', 0.5, 20638)
    >>> study.best()["message-game"].pays
    False
    """
    liars = _agent_places(federation, agents)
    usual = FACTORS if federation.n_agents <= MAX_AGENTS_WITH_ALL_FACTORS else FEWER_FACTORS
    tried = np.atleast_1d(checked_numbers("factors", usual if factors is None else factors, positive, POSITIVE))
    if not tried.size:
        raise InvalidInput("factors must hold at least one number, got none")
    require_single_lots(federation, "the misreport study")
    rules = {mechanism.name: mechanism for mechanism in resolve_mechanisms(mechanisms)}
    game, missing = _game_of(federation) if "externality" in rules else (None, {})
    count = _BatchProgress(progress, len(liars) * len(rules) * (1 + len(LIES) * tried.size))
    found = [_study_agent(federation, game, agent, tried, rules=rules, count=count) for agent in liars]
    studied = [name for name in (*rules, GAME) if name in found[0]]
    solved = [name for name in studied if all(np.isfinite(each[name].honest) for each in found)]
    missing |= {name: "no equilibrium was found when everybody is honest" for name in studied if name not in solved}
    if not solved:
        raise NotConverged("no mechanism has an equilibrium when everybody is honest: there is nothing to compare with")

    def by_mechanism(part: str) -> dict[str, FloatArray]:
        return {name: read_only_copy([getattr(each[name], part) for each in found]) for name in solved}

    study = MisreportStudy(
        agents=tuple(federation.names[agent] for agent in liars),
        factors=read_only_copy(tried),
        utilities=by_mechanism("utilities"),
        others=by_mechanism("others"),
        honest=by_mechanism("honest"),
        rounding=by_mechanism("rounding"),
        negotiated=(),
        missing=missing,
    )
    return _with_negotiations(federation, liars, study)


class _BatchProgress:
    """Progress over several batches."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def __call__(self, done: int) -> None:
        """So many of the present batch are done."""
        if self._progress is not None:
            self._progress(self._before + done, self._total)

    def finish(self, size: int) -> None:
        """A batch of this size is done."""
        self(size)
        self._before += size


@dataclass(frozen=True, kw_only=True, eq=False)
class _AgentGains:
    """One agent under one mechanism: arrays are (lies, factors)."""

    honest: float
    rounding: float
    utilities: FloatArray
    others: FloatArray


def _agent_places(federation: Federation, agents: Sequence[int | str] | None) -> list[int]:
    names = federation.names
    if agents is None:
        return list(range(len(names)))
    if isinstance(agents, str) or not len(agents):
        raise InvalidInput(f"agents must list at least one member by number or name, got {agents!r}")
    chosen = []
    for agent in agents:
        place = names.index(agent) if agent in names else agent
        if isinstance(place, str) or not 0 <= place < len(names):
            raise InvalidInput(f"agents must be numbers from 0 to {len(names) - 1} or names, got {agent!r}")
        chosen.append(int(place))
    return chosen


def _game_of(federation: Federation) -> tuple[MessageGame | None, dict[str, str]]:
    if federation.n_agents > MAX_AGENTS_IN_GAME:
        return None, {GAME: f"messages between more than {MAX_AGENTS_IN_GAME} members are too many to study"}
    try:
        return MessageGame(federation), {}
    except InvalidInput:
        users = (federation.arrays.weights != 0).sum(axis=0)
        name, count = federation.names[int(users.argmin())], int(users.min())
        counted = "one member" if count == 1 else f"{count} members"
        return None, {
            GAME: f'it needs three members who draw on everybody\'s data; that of "{name}" matters to {counted}'
        }


def _study_agent(
    federation: Federation,
    game: MessageGame | None,
    agent: int,
    factors: FloatArray,
    *,
    rules: Mapping[str, Mechanism],
    count: _BatchProgress,
) -> dict[str, _AgentGains]:
    """One agent's lies under everything that can be studied."""
    lies = [misreport(federation, agent, what=what, factor=float(factor)) for what in LIES for factor in factors]
    reports = [federation, *lies]
    found = {}
    for name, mechanism in rules.items():
        contributions, payments = _solve_reports(reports, mechanism, count)
        count.finish(len(reports))
        utilities = _true_utilities(federation, contributions, payments)
        rounding = _rounding(federation, agent, contributions[0], payments[0])
        found[name] = _gains_of(utilities, agent, factors, rounding)
        if name == "externality" and game is not None:
            found[GAME] = _gains_of(_play_reports(game, agent, reports, contributions), agent, factors, rounding)
    return found


def _solve_reports(
    reports: Sequence[Federation], mechanism: Mechanism, count: _BatchProgress
) -> tuple[FloatArray, FloatArray]:
    """Contributions and payments on every report, (reports, n); NaN where there is no equilibrium."""
    if reports[0].n_agents <= MAX_AGENTS_IN_BATCH:
        batch = solve_batch(reports, mechanism)
        return batch.contributions, batch.payments
    found = np.full((2, len(reports), reports[0].n_agents), np.nan)
    for place, report in enumerate(reports):
        count(place)
        try:
            outcome = mechanism.solve(report)
        except FedpactError:  # NaN, as in a batch
            continue
        found[:, place] = outcome.contributions, outcome.payments
    return found[0], found[1]


def _true_utilities(federation: Federation, contributions: FloatArray, payments: FloatArray) -> FloatArray:
    """Everybody's, (reports, n). A lie about costs or values changes no domain: what was agreed lies within it."""
    utilities = np.full(contributions.shape, np.nan)
    for place in np.flatnonzero(~np.isnan(contributions).any(axis=1)):
        utilities[place] = _utilities(federation, contributions[place], payments[place])
    return utilities


def _utilities(federation: Federation, contributions: FloatArray, payments: FloatArray) -> FloatArray:
    spent = federation.costs.value(contributions) + federation.joining_costs
    return np.asarray(federation.payoffs(contributions) - spent + payments)


def _play_reports(
    game: MessageGame, agent: int, reports: Sequence[Federation], contributions: FloatArray
) -> FloatArray:
    """Everybody's true utility when one agent sends the equilibrium messages of its report, (reports, n)."""
    utilities = np.full(contributions.shape, np.nan)
    if np.isnan(contributions[0]).any():
        return utilities
    honest = game.equilibrium_messages(contributions[0])
    for place, report in enumerate(reports):
        if np.isnan(contributions[place]).any():
            continue
        personal = personal_prices(report, contributions[place])
        dense = personal if isinstance(personal, np.ndarray) else personal.toarray()
        sent = game.form.messages_for(contributions[place], dense)
        messages = honest.replace(agent, sent.proposals[agent], sent.prices[agent])
        utilities[place] = game.outcome(messages).utilities - reports[0].joining_costs
    return utilities


def _gains_of(utilities: FloatArray, agent: int, factors: FloatArray, rounding: float) -> _AgentGains:
    """The liar's utilities and the others' change; the first row of `utilities` is honesty, which factor 1 is too."""
    own = utilities[:, agent]
    rest = np.delete(utilities, agent, axis=1).sum(axis=1)
    shape, truth = (len(LIES), factors.size), factors == 1.0
    return _AgentGains(
        honest=float(own[0]),
        rounding=rounding,
        utilities=np.where(truth, own[0], own[1:].reshape(shape)),
        others=np.where(truth, 0.0, (rest[1:] - rest[0]).reshape(shape)),
    )


def _rounding(federation: Federation, agent: int, contributions: FloatArray, payments: FloatArray) -> float:
    """What certificates allow for rounding, for one agent."""
    if np.isnan(contributions).any():
        return np.nan
    spent = federation.costs.value(contributions)
    return float(utility_tolerances(federation.payoffs(contributions), spent, payments, federation.values)[agent])


def _with_negotiations(federation: Federation, liars: Sequence[int], study: MisreportStudy) -> MisreportStudy:
    """The study with the lies that gain most under the Externality mechanism told in negotiations."""
    if "externality" not in study.gains:
        return study
    if federation.n_agents > MAX_AGENTS_IN_GAME:
        reason = f"negotiations between more than {MAX_AGENTS_IN_GAME} members take too long here"
        return replace(study, missing={**study.missing, NEGOTIATION: reason})
    honest = MECHANISMS["externality"].solve(federation).utilities
    held, failures = [], []
    for where in _lies_to_negotiate(study):
        try:
            held.append(_negotiate_lie(federation, liars[where[0]], study, where, honest))
        except NotConverged as error:
            failures.append(str(error))
    missing = dict(study.missing)
    if failures:
        missing[NEGOTIATION] = f"{len(failures)} of {len(failures) + len(held)} checks, the first with {failures[0]}"
    return replace(study, negotiated=tuple(held), missing=missing)


def _lies_to_negotiate(study: MisreportStudy) -> list[tuple[int, int, int]]:
    """The agents that gain most by each kind of lie, and their best one: agent, kind and factor by their places."""
    gains = study.gains["externality"]
    gains = np.where(np.abs(gains) <= study.rounding["externality"][:, None, None], 0.0, gains)
    gains = np.where((study.factors == 1.0) | np.isnan(gains), -np.inf, gains)
    peaks = gains.max(axis=2)
    return [
        (int(place), what, int(gains[place, what].argmax()))
        for what in range(len(LIES))
        for place in np.argsort(-peaks[:, what], kind="stable")[:MAX_LIES_NEGOTIATED]
        if np.isfinite(peaks[place, what])
    ]


def _negotiate_lie(
    federation: Federation, agent: int, study: MisreportStudy, where: tuple[int, int, int], honest: FloatArray
) -> NegotiatedLie:
    """Price discovery in which one agent answers as if its lie were the truth, and everybody takes any deal."""
    place, what, at = where
    factor = float(study.factors[at])
    said = misreport(federation, agent, what=LIES[what], factor=factor)
    lying = Agent.of(said, agent, least_gain=None)
    table = [lying if other.index == agent else other for other in agents_of(federation, least_gain=None)]
    deal = coordinate(InProcess(table))
    if deal.excluded:
        raise NotConverged(f"the exclusion of {', '.join(deal.excluded)}: {', '.join(deal.excluded.values())}")
    contributions = np.array(deal.contributions)
    utilities = _utilities(federation, contributions, deal.payments)
    utility = float(utilities[agent])
    return NegotiatedLie(
        agent=study.agents[place],
        what=LIES[what],
        factor=factor,
        utility=utility,
        gain=utility - float(study.honest["externality"][place]),
        others=float(np.delete(utilities - honest, agent).sum()),
        expected=float(study.gains["externality"][where]),
    )
