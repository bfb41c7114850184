"""The coordinator: it brings agents to an agreement and settles it, and knows nothing but their answers.

An agreement goes through the game form (`fedpact.mechanisms.message_game`): everybody sends final messages, and what
these say is the deal, balanced to the last digit whatever anybody says. Where fewer than three agents draw on
somebody's data the game form does not apply; the deal is then the agreement at its personal prices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.deals import Deal, Messages, Provenance, Source
from fedpact.federation import Federation
from fedpact.mechanisms.message_game import GameForm
from fedpact.negotiation.admm import reach_consensus
from fedpact.negotiation.channels import Channel, InProcess
from fedpact.negotiation.price_discovery import discover_prices
from fedpact.negotiation.progress import Agreement
from fedpact.negotiation.table import Excluded, Listener, Table
from fedpact.negotiation.validation import final_message
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

__all__ = ["PROTOCOLS", "coordinate", "negotiate"]

PROTOCOLS: dict[str, tuple[Callable[..., Agreement], float, int]] = {
    "price-discovery": (discover_prices, 3e-15, 60),
    "admm": (reach_consensus, 1e-9, 3000),
}


def negotiate(
    federation: Federation, *, protocol: str = "price-discovery", game: bool = True, listener: Listener | None = None
) -> Deal:
    """Let the agents of a federation negotiate: the deal of `ExternalityMechanism`, reached by questions and answers.

    Parameters
    ----------
    protocol
        "price-discovery", few rounds; or "admm", more of them, in which agents answer with what they would ask for.
    game
        Settle by the message game; where fewer than three agents draw on somebody's data, at personal prices, and
        the trace says so.
    listener
        Called with everything that happens, as it happens.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> deal = negotiate(Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02)))
    >>> deal.contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    return coordinate(
        InProcess.of(federation), protocol=protocol, game=game, listener=listener, scenario=federation.fingerprint
    )


def coordinate(
    channel: Channel,
    *,
    protocol: str = "price-discovery",
    game: bool = True,
    tol: float | None = None,
    most_rounds: int | None = None,
    listener: Listener | None = None,
    scenario: str | None = None,
) -> Deal:
    """Negotiate with whoever is at the other end of a channel.

    Agents that do not answer, or answer with something broken, are asked once more and then excluded; the others go on
    from where they are. Where that leaves fewer than three agents who draw on somebody's data, the deal is the
    agreement at its personal prices, and the trace says so.

    Raises
    ------
    NotConverged
        If nobody is left, with everybody's name and what was wrong; or if there is no agreement within `most_rounds`
        of those at the table.
    """
    if protocol not in PROTOCOLS:
        raise InvalidInput(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    reach, usual_tol, usual_rounds = PROTOCOLS[protocol]
    tol, most_rounds = usual_tol if tol is None else tol, usual_rounds if most_rounds is None else most_rounds
    if not tol > 0.0 or not most_rounds >= 1:
        raise InvalidInput(f"tol must be positive and most_rounds at least 1, got {tol!r} and {most_rounds!r}")
    table = Table(channel, listener)
    table.meet()
    profile, rounds = np.zeros(table.size), 0
    while True:
        agreement = reach(table, tol=tol, most_rounds=most_rounds, start=profile)
        rounds += agreement.rounds
        profile = agreement.contributions
        if agreement.prices is None:
            continue
        try:
            return _settle(table, agreement, game=game, protocol=protocol, rounds=rounds, scenario=scenario)
        except Excluded:
            profile = np.where(np.isin(np.arange(table.size), table.members), profile, 0.0)


def _settle(
    table: Table, agreement: Agreement, *, game: bool, protocol: str, rounds: int, scenario: str | None
) -> Deal:
    """The deal of an agreement: through the game form where it applies, otherwise at its personal prices."""
    assert agreement.prices is not None
    form = _form(table) if game else None
    contributions, prices, messages = agreement.contributions, agreement.prices, None
    payments = -(prices * contributions).sum(axis=1)  # they sum to zero because the columns of the prices do
    if form is not None:
        members = table.members
        among = np.ix_(members, members)
        wanted = form.messages_for(agreement.contributions[members], agreement.prices[among])
        messages = _final_messages(table, wanted)
        settled = form.settle(Messages(proposals=messages.proposals[among], prices=messages.prices[among]))
        prices = np.zeros((table.size, table.size))
        prices[among] = settled.prices
        contributions, payments = _spread(table, settled.contributions), _spread(table, settled.payments)
    settled_by = "personal prices" if form is None else "message game"
    table.tell({"event": "settled", "by": settled_by})
    return Deal(
        mechanism="externality",
        agents=tuple(table.names),
        contributions=contributions,
        payments=payments,
        prices=prices,
        excluded=dict(table.excluded),
        scenario=scenario,
        provenance=Provenance(
            source=Source.NEGOTIATED,
            protocol=protocol,
            rounds=rounds,
            welfare=agreement.welfare,
            residual=agreement.residual,
            settled_by=settled_by,
            messages=messages,
            trace=tuple(table.trace),
        ),
    )


def _form(table: Table) -> GameForm | None:
    members = table.members
    matters = np.array([table.uses(int(place))[members] for place in members])
    try:
        return GameForm(matters, table.caps[members], [table.names[place] for place in members])
    except InvalidInput as error:
        table.tell({"event": "no game", "reason": str(error)})
        return None


def _final_messages(table: Table, wanted: Messages) -> Messages:
    """Everybody's final messages; they need not be those that were worked out."""
    members = table.members
    proposals, prices = np.zeros((table.size, table.size)), np.zeros((table.size, table.size))
    proposals[np.ix_(members, members)] = wanted.proposals
    prices[np.ix_(members, members)] = wanted.prices
    said = table.ask(
        "messages",
        lambda place: {"proposals": proposals[place].tolist(), "prices": prices[place].tolist()},
        lambda raw, place: final_message(raw, table.caps, table.uses(place)),
    )
    for place, (own_proposals, own_prices) in said.items():
        if (own_proposals != proposals[place]).any() or (own_prices != prices[place]).any():
            table.tell({"event": "own messages", "agent": table.names[place]})
        proposals[place], prices[place] = own_proposals, own_prices
    return Messages(proposals=proposals, prices=prices)


def _spread(table: Table, numbers: FloatArray) -> FloatArray:
    everybody = np.zeros(table.size)
    everybody[table.members] = numbers
    return read_only_copy(everybody)
