"""The coordinator: it brings agents to a deal and knows nothing but their answers.

What a protocol comes to goes through the game form (`fedpact.negotiation.message_game`): everybody sends the final
messages that were agreed, and what these say is the deal, balanced to the last digit. Others than those agreed would
move money between third members at no cost to whoever sends them: it is then out, and the others deal anew. Where fewer
than three agents draw on somebody's data the game form does not apply; the deal is then at the personal prices, and the
trace says so.

On record (`transcript=...`) a negotiation goes on from what is on disk, and ends in the same deal as if it had never
been interrupted: everything a coordinator knows it knows from answers, so the exchanges alone determine the deal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedpact.deals import Deal, Messages, Provenance, Source
from fedpact.deals.deal_file import deal_record, negotiation_contradictions, stated_deal
from fedpact.deals.transcript import Channel, Header, Recording, Transcript, find_transcript, read_transcript
from fedpact.federation import Federation, require_federation
from fedpact.federation.lots import labels
from fedpact.negotiation.agent import InProcess
from fedpact.negotiation.message_game import GameForm
from fedpact.negotiation.protocols import PROTOCOLS, check_negotiable
from fedpact.negotiation.session import Listener, MemberExcluded, ProtocolResult, Session, SettledBy
from fedpact.negotiation.validation import read_answer
from fedpact.utils.arrays import FloatArray, checked_numbers
from fedpact.utils.errors import InvalidInput, NotConverged, error_context


def negotiate(
    federation: Federation,
    *,
    mechanism: str = "externality",
    protocol: str = "price-discovery",
    least_gain: float | None = 0.0,
    transcript: Path | str | None = None,
    resume: bool | None = None,
    title: str = "",
    listener: Listener | None = None,
) -> Deal:
    """Let the agents of a federation negotiate: the deal of a mechanism, reached by questions and answers.

    Parameters
    ----------
    mechanism
        "externality" or "shapley".
    protocol
        One of `fedpact.negotiation.PROTOCOLS`: "price-discovery", few rounds; or "sums", more of them, in which the
        coordinator learns only what everybody's answers add up to.
    least_gain
        What everybody asks of the deal beyond standing alone, in units of payoff. Who would get less refuses the deal
        and trains alone, and the others negotiate on without it (`deal.excluded` says so). None: all take any deal.
    transcript, resume, title
        As in `coordinate`.
    listener
        Called with everything that happens, as it happens; first, if it goes on from a transcript, with "resumed".

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> deal = negotiate(Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02)))
    >>> deal.contributions.round(4).tolist()
    [18.1238, 18.1238, 18.1238]
    """
    require_federation(federation)
    if least_gain is not None and checked_numbers("least_gain", least_gain, np.isfinite, "finite, or None").ndim:
        raise InvalidInput(field="least_gain", rule="must be one number, or None", value=least_gain)
    return coordinate(
        InProcess.of(federation, least_gain=least_gain),
        mechanism=mechanism,
        protocol=protocol,
        transcript=transcript,
        resume=resume,
        title=title,
        scenario=federation.fingerprint,
        listener=listener,
    )


def coordinate(
    channel: Channel,
    *,
    mechanism: str = "externality",
    protocol: str = "price-discovery",
    consent: bool = True,
    transcript: Path | str | None = None,
    resume: bool | None = None,
    title: str = "",
    scenario: str | None = None,
    listener: Listener | None = None,
) -> Deal:
    """Negotiate with whoever is at the other end of a channel, as `negotiate` does.

    Agents that do not answer, or answer with something broken, are asked once more and then excluded; the others
    continue from where they are. In the end everybody is asked whether it accepts the deal (`consent`; False where that
    is asked elsewhere), and the others continue without those who do not. It is an error (`NotConverged`) if nobody is
    left, with everybody's name and what was wrong, or if there is no agreement within the rounds of the protocol.

    Parameters
    ----------
    transcript
        The file to keep what is asked and answered in, .jsonl. What is there already is not asked again: the
        negotiation goes on from it, and if it is over the deal is recomputed.
    resume
        True if there must be a transcript to go on from, False to begin anew in place of whatever is there; otherwise
        a negotiation goes on if it can.
    title, scenario
        What the transcript and the deal say they are about: in words, and the fingerprint of the federation.
    """
    header = transcript_header(
        channel.names,
        mechanism=mechanism,
        protocol=protocol,
        title=title,
        scenario=scenario,
        consent=consent,
    )
    if transcript is None:
        if resume:
            raise InvalidInput("resume needs the transcript to go on from")
        return _reach_deal(channel, header, listener)
    path = Path(transcript)
    before = find_transcript(path, header, resume=resume)
    if before is not None and listener is not None:
        listener({"event": "resumed", "exchanges": before.count, "over": before.deal is not None})
    if before is not None and before.deal is not None:
        deal = recompute(before)
        if stated_deal(before).differences(deal) or negotiation_contradictions(before.deal, deal):
            raise InvalidInput(
                f"{path} states another deal than its exchanges come to; `fedpact check {path}` shows the difference"
            )
        return deal
    with Recording(before, channel) if before else Recording.begin(channel, path, header) as recording:
        deal = _reach_deal(recording, header, listener)
        recording.finish(deal_record(deal))
    return deal


def recompute(transcript: Transcript | Path | str, *, listener: Listener | None = None) -> Deal:
    """The deal that follows from a transcript's exchanges alone, whatever deal it states.

    It is an error if they end before there is a deal, or are not those of a negotiation by the rules of its header.
    """
    found = transcript if isinstance(transcript, Transcript) else read_transcript(Path(transcript))
    with error_context(str(found.path)):
        check_negotiable(found.header.mechanism, found.header.protocol)
    recording = Recording(found)
    try:
        deal = _reach_deal(recording, found.header, listener)
    except NotConverged as error:
        if found.deal is None:
            raise
        raise InvalidInput(f"{found.path}: a deal is stated where the exchanges come to none: {error}") from error
    recording.check_over()
    return deal


def transcript_header(
    agents: Sequence[str],
    *,
    mechanism: str = "externality",
    protocol: str,
    title: str = "",
    scenario: str | None = None,
    consent: bool = True,
) -> Header:
    """What a negotiation between these agents is to be, checked."""
    check_negotiable(mechanism, protocol).require(len(agents))
    names = tuple(agents)
    return Header(mechanism=mechanism, protocol=protocol, agents=names, title=title, scenario=scenario, consent=consent)


def _reach_deal(channel: Channel, header: Header, listener: Listener | None) -> Deal:
    """The deal of whoever is at the other end, by the rules of a header."""
    protocol = PROTOCOLS[header.protocol]
    tol, max_rounds = protocol.tolerances[header.mechanism], protocol.max_rounds
    session = Session(channel, listener)
    session.introduce(header.protocol, header.mechanism, tells_uses=not protocol.hides_answers)
    while True:
        session.profile = session.for_all_lots(session.profile[session.lots])
        try:
            result = protocol.negotiate(session, mechanism=header.mechanism, tol=tol, max_rounds=max_rounds)
            session.profile = result.contributions
            deal = _settle(session, result, header)
            given = deal.contributions.tolist()
            if header.consent:
                session.ask(
                    "accept",
                    lambda index: {"contributions": given, "payment": float(deal.payments[index])},  # noqa: B023
                    lambda raw, _: read_answer("accept", raw),
                )
            return deal
        except MemberExcluded:
            continue


def _settle(session: Session, result: ProtocolResult, header: Header) -> Deal:
    """The deal of what a protocol came to: through the game form where it applies, otherwise as the protocol says."""
    contributions, prices, payments, messages = result.contributions, result.prices, result.payments, None
    settled_by, layout = result.settled_by, session.layout
    if prices is not None:
        payments = -(prices * contributions).sum(axis=1)
        form = _game_form(session)
        if form is not None:
            among = np.ix_(session.members, session.lots)
            messages = _final_messages(session, form.messages_for(contributions[session.lots], prices[among]))
            outcome = form.outcome(Messages(proposals=messages.proposals[among], prices=messages.prices[among]))
            prices = session.for_every_pair(outcome.prices)
            contributions = session.for_all_lots(outcome.contributions)
            payments = session.for_everybody(outcome.payments)
            settled_by = SettledBy.MESSAGE_GAME
    assert payments is not None
    session.notify({"event": "settled", "by": settled_by.value})
    return Deal(
        mechanism=header.mechanism,
        agents=tuple(session.names),
        contributions=contributions,
        payments=session.for_everybody(balance_exactly(payments[session.members])),
        prices=prices,
        excluded=dict(session.excluded),
        scenario=header.scenario,
        lot_owners=tuple(session.names[owner] for owner in session.lot_owners) if layout.lot_names else None,
        lot_names=layout.lot_names or None,
        provenance=Provenance(
            source=Source.NEGOTIATED,
            protocol=header.protocol,
            rounds=session.rounds,
            welfare=result.welfare,
            residual=result.residual,
            settled_by=settled_by.value,
            messages=messages,
            trace=tuple(session.trace),
        ),
    )


def _game_form(session: Session) -> GameForm | None:
    """The game between the members; None where fewer than three draw on somebody's data."""
    members, lots, names = session.members, session.lots, session.layout.lot_names
    matters = np.array(
        [
            np.any([session.lot_owners == index, *session.introductions[int(index)].task_uses], axis=0)[lots]
            for index in members
        ]
    )
    called = [labels(session.lot_owners, names, session.names)[lot] for lot in lots] if names else None
    try:
        return GameForm(matters, session.caps[lots], [session.names[index] for index in members], called)
    except InvalidInput as error:
        session.notify({"event": "no game", "reason": str(error)})
        return None


def _final_messages(session: Session, proposed: Messages) -> Messages:
    """The final messages, by all lots; whoever does not send those that were agreed has no part in the deal."""
    proposals, prices = map(session.for_every_pair, (proposed.proposals, proposed.prices))
    session.ask(
        "messages",
        lambda index: {"proposals": proposals[index].tolist(), "prices": prices[index].tolist()},
        lambda raw, index: read_answer("messages", raw, proposals=proposals[index], prices=prices[index]),
    )
    return Messages(proposals=proposals, prices=prices)


def balance_exactly(payments: FloatArray) -> FloatArray:
    """The payments on a grid on which they sum to exactly zero; what rounding leaves is shared out in order.

    Examples
    --------
    >>> balance_exactly(np.array([0.1, 0.2, -0.3])).sum()
    np.float64(0.0)
    """
    size = float(np.abs(payments).sum())
    if size == 0.0:
        return np.zeros_like(payments)
    grid = max(2.0 ** (int(np.frexp(size)[1]) - 52), math.ulp(0.0))  # sums of so few digits are exact
    units = np.rint(payments / grid).astype(np.int64)
    each, left = divmod(int(units.sum()), units.size)
    units -= each
    units[:left] -= 1
    return np.asarray(units * grid)
