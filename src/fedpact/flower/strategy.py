"""Any Flower strategy, under a deal: contributions capped, counted, valued and paid for.

`UnderDeal` holds a strategy and passes everything on to a copy of it: it works with all of Flower's strategies and with
your own. `flwr.serverapp.strategy.Strategy` is an abstract class whose `start` runs the rounds, so `UnderDeal` derives
from that alone. The caller's strategy, configurations and arrays are never written to.

Members sign, on their nodes by `fedpact.flower.keep_deal`: the deal before anybody trains, what they deliver in every
round, what they measure, and what all are paid. The phases are those of `fedpact.flower.run`.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedpact.deals import Deal, Ledger, Outcome, Settlement, is_ledger, load_deal
from fedpact.deals.deal_file import deal_record
from fedpact.deals.ledger import AGREED, FAILED, MEASURED, SETTLED, SIGNED, VERIFIED
from fedpact.deals.settlement import money_terms
from fedpact.deals.signatures import is_signed_by, own_document
from fedpact.deals.transcript import is_transcript
from fedpact.deals.updates import RoundUpdates, TrainingUpdates
from fedpact.federation import Federation
from fedpact.fitting.delivery import check_run
from fedpact.flower.messages import (
    RECORD,
    SEAL,
    Conventions,
    error_reason,
    exchange,
    named_arrays,
    only_arrays,
    own_record,
    record_digest,
)
from fedpact.flower.personal_models import Wants, check_personal, checked_wants, group_members
from fedpact.flower.run import Lost, SignedRun, begin_run
from fedpact.negotiation.check import check_transcript
from fedpact.scenario import Money
from fedpact.scenario.scenario import PERSONAL
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import encode_line, jsonable
from fedpact.utils.words import join_names

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that it is shown beside it

WEIGHT = "num-examples"  # what strategies weigh replies by, unless they say otherwise


class UnderDeal(Strategy):
    """A strategy that trains under a deal.

    Parameters
    ----------
    strategy
        Any Flower strategy; a copy of it is run, to be found at `.strategy`.
    deal
        A `Deal`, an `Outcome`, or any file that `fedpact.load_deal` reads; transcripts and ledgers are checked.
    samples_per_unit
        Samples in a unit of contribution.
    money
        What a unit of payoff is worth; units of payoff are settled as they are without it.
    ledger
        The file to keep the record in. It holds members' keys and signatures, `fedpact check` checks it, and it needs
        `keep_deal` on every node (`fedpact.flower.identity` says with which key). A member that refuses to sign ends
        the run. One that does not deliver in some round, or sends what it has not signed, is lost, and the ledger says
        so: under a deal given as an `Outcome` the others go on with the deal that its mechanism makes for them; a
        `Deal` knows no other, and `start` ends in `Lost`. Once the member is back, the same call with the same ledger
        goes on: all sign anew, and train if they had not finished.
    verify_subsets
        Of how many subsets of the updates models are made that members measure after training, several in one message.
        The ledger holds what they say, for `fedpact verify`. If nobody can measure them, `start` ends in an error, and
        what was trained is at `.result`.
    wants
        For personal models: whose updates the model of every member is made of, by name, or the federation, which says
        it (`Federation.wanted_lots`). Every member is then sent its own model (`.models` has them), and the one in the
        result is that of the deal's first member. None for one model for all.
    metric
        What the app calls the score, from 0 to 1, that it replies with when it evaluates; "accuracy" or "eval_acc" if
        not given. The names of records are the strategy's (`arrayrecord_key`, `configrecord_key`).
    """

    def __init__(
        self,
        strategy: Strategy,
        deal: Deal | Outcome | Path | str,
        *,
        samples_per_unit: float = 1.0,
        money: Money | None = None,
        ledger: Path | str | None = None,
        verify_subsets: int = 0,
        wants: Federation | Wants | None = None,
        metric: str | None = None,
    ) -> None:
        if not isinstance(strategy, Strategy):
            raise InvalidInput(f"strategy must be a flwr.serverapp.strategy.Strategy, got {type(strategy).__name__}")
        if not 0.0 < samples_per_unit < float("inf"):
            raise InvalidInput(f"samples_per_unit must be positive, got {short_repr(samples_per_unit)}")
        if wants is not None:
            check_personal(verify_subsets=verify_subsets)
        self._given, self._wanted = copy.deepcopy(strategy), wants
        self._outcome = deal if isinstance(deal, Outcome) else None
        self._conventions = Conventions.of(strategy, metric)
        self._samples_per_unit, self._verify_subsets = float(samples_per_unit), verify_subsets
        self._ledger = Path(ledger) if ledger is not None else None
        self._money = money
        self._names: dict[int, str] = {}  # by Flower's numbers of nodes, once members have signed
        self._asked_nodes: dict[str, int] = {}  # by the message that asked
        self.settlement: Settlement | None = None
        self.result: Result | None = None
        self.accuracies: dict[str, dict[str, Any]] = {}
        self.verified: dict[str, Any] | None = None
        self._take_deal(_deal_of(deal))

    def _take_deal(self, deal: Deal) -> None:
        """Begin under a deal: nothing is trained yet."""
        self.deal, self.agreed = deal, deal.samples(self._samples_per_unit)
        self._check_enough()
        self._wants = None if self._wanted is None else checked_wants(self._wanted, self.agreed)
        self._groups = group_members(self._given, self.agreed, self._wants)
        self.strategy = self._groups[0].strategy
        self.updates = TrainingUpdates() if self._verify_subsets else None
        self._before: ArrayRecord | None = None
        # The deal's document, everybody's signatures on it, and what each has delivered.
        self._document: dict[str, Any] = {}
        self._seal = ""
        self._deliveries: dict[str, list[dict[str, Any]]] = {}

    @property
    def models(self) -> dict[str, ArrayRecord]:
        """The model of every member, its own or the one of all, once training has begun."""
        return {name: group.arrays for group in self._groups for name in group.members if group.arrays is not None}

    @property
    def samples(self) -> dict[str, list[int]]:
        """The samples that members have signed to have used, round by round."""
        return {name: [each["samples"] for each in self._deliveries.get(name, [])] for name in self.agreed}

    # The interface of strategies

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages to all who have agreed to contribute, with everybody's signatures on the deal."""
        configured = self._configured("configure_train", server_round, arrays, config, grid)
        asked, self._before = [self._names[message.metadata.dst_node_id] for message in configured], arrays
        left_out = [name for name, agreed in self.agreed.items() if agreed and name not in asked]
        if left_out:
            raise InvalidInput(
                f"{type(self.strategy).__name__} does not ask {', '.join(left_out)} to train in round {server_round}; "
                f"under a deal all members contribute: let it take them all, as with fraction_train=1.0"
            )
        return [self._with_seal(message) for message in configured]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate of the replies; who does not keep to the terms is `Lost`."""
        kept = self._checked_replies(replies, server_round)
        if self.updates is not None and self._before is not None:
            updates = {name: named_arrays(only_arrays(each, "a reply to be verified")) for name, each in kept.items()}
            samples = {name: self._deliveries[name][-1]["samples"] for name in kept}
            before = named_arrays(self._before)
            self.updates.rounds.append(RoundUpdates(before=before, updates=updates, samples=samples))
        found = []
        for group in self._groups:
            replies = [_with_records(message) for name, message in kept.items() if name in group.wanted]
            found.append(group.strategy.aggregate_train(server_round, replies))
            group.arrays = group.arrays if found[-1][0] is None else found[-1][0]
        return found[0]

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages to members of the deal, each with its model."""
        return self._configured("configure_evaluate", server_round, arrays, config, grid)

    def _configured(
        self, how: str, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """The strategy's messages to those who take part, each with its model."""

        def takes_part(node: int) -> bool:
            return self._takes_part(node) and (how != "configure_train" or self.agreed[self._names[node]] > 0)

        view: Any = MembersGrid(grid, takes_part, self._asked_nodes)
        messages = []
        for group in self._groups:
            if group.arrays is None or group is self._groups[0]:
                group.arrays = arrays  # what the strategy's loop says; others' is made of the updates that they want
            own, settings = ArrayRecord(dict(group.arrays.items())), copy.deepcopy(config)
            found = getattr(group.strategy, how)(server_round, own, settings, view)
            messages += [
                message
                for message in found
                if takes_part(message.metadata.dst_node_id)
                and self._names[message.metadata.dst_node_id] in group.members
            ]
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's aggregate."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """The terms, then the strategy's own summary."""
        for name, samples in self.agreed.items():
            logger.info('under the deal "%s" contributes %d samples', name, samples)
        self.strategy.summary()

    def start(  # noqa: PLR0917 - as the strategy's
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds as the strategy would, between members that sign; a ledger that has begun is gone on with."""
        if not num_rounds >= 1:
            raise InvalidInput(f"num_rounds must be at least 1, got {num_rounds}")
        if self._wants is not None:
            check_personal(evaluate_fn=evaluate_fn)
        if self._ledger is None:
            raise InvalidInput('name the file for what members sign: UnderDeal(..., ledger="ledger.jsonl")')
        configs, whole = (train_config, evaluate_config, evaluate_fn), self.deal
        header: dict[str, Any] = {"agents": list(whole.agents), "scenario": whole.scenario, "rounds": num_rounds}
        header |= {"samples_per_unit": self._samples_per_unit, **money_terms(self._money)}
        header |= {} if self._wants is None else {"models": PERSONAL}
        with Ledger(self._ledger) as ledger:
            begin_run(ledger, header)
            first = next((entry.content for entry in ledger.entries if entry.kind == AGREED), None)
            if first is not None and first != self._agreed_content():
                raise InvalidInput(f"{ledger.path} holds the record of another run, of another deal; name another file")
            if ledger.last(SETTLED) is not None:
                raise InvalidInput(f"{ledger.path} holds the record of this run, which is over; name another file")
            run = SignedRun(grid, ledger, whole.agents, timeout, patience=timeout, least=len(whole.members))
            run.conventions = self._conventions
            if run.entry(AGREED) is not None:
                self._take_deal(run.deal())
            absent = [name for name in self.agreed if name not in run.nodes]
            if absent and (self._outcome is None or ledger.last(FAILED) is None):
                raise InvalidInput(
                    f"not all members can sign: {join_names(absent)} cannot ({run.description}); "
                    f"every node needs ClientApp(mods=[fedpact.flower.keep_deal])"
                )

            def make_deal(lost: Lost | None) -> dict[str, Any]:
                if lost is not None and self._outcome is None:
                    raise lost
                told: dict[str, str] = {}
                for entry in ledger.entries:
                    told |= entry.content.get("agents", {}) if entry.kind == FAILED else {}
                members = [whole.agents[index] for index in whole.members]
                reasons = {name: told.get(name, "it is not there") for name in members if name not in run.nodes}
                self._take_deal(deal_without(self._outcome, reasons) if self._outcome and reasons else whole)
                return self._agreed_content()

            def train() -> None:
                self.train(run, initial_arrays, num_rounds, timeout, *configs)

            run.to_the_end(make_deal, train)
            self.accuracies = dict(run.content(MEASURED)["accuracies"])
            self.verified = dict(run.content(VERIFIED)) if self._verify_subsets else None
            self.settlement = run.settlement
            self.result = self.result or Result(arrays=run.trained_model())  # of an earlier call
        return self.result

    def _agreed_content(self) -> dict[str, Any]:
        """The entry of the deal in a ledger whose members sign."""
        content: dict[str, Any] = {"deal": deal_record(self.deal), "utilities": {}}
        if self._wants is not None:
            content["wants"] = self._wants
        if self._verify_subsets:
            content["verification"] = {"subsets": self._verify_subsets, "settles": False, "calibration": None}
        return dict(jsonable(content))

    def train(self, run: SignedRun, arrays: ArrayRecord, num_rounds: int, timeout: float, *configs: Any) -> None:
        """Run the rounds of a run whose members have signed the deal; what is not signed does not count.

        A member that does not deliver is `Lost`, and so is one that delivers less than agreed without prices.
        """
        self._names = {node: name for name, node in run.nodes.items()}
        everybody = run.content(SIGNED)["signatures"].items()
        self._document, self._seal = run.document(), encode_line({name: said["signature"] for name, said in everybody})
        noted: Any = MembersGrid(run.grid, self._takes_part, self._asked_nodes)
        self.result = super().start(noted, arrays, num_rounds, timeout, *configs)
        used = self.samples
        short = {
            name: f"agreed to {agreed} samples and delivered {sum(used[name]) / num_rounds:g} on average"
            for name, agreed in self.agreed.items()
            if sum(used[name]) < num_rounds * agreed
        }
        if short and self.deal.prices is None:
            raise Lost(short, signed={"deliveries": self._deliveries})
        run.keep_training(self.models, self._deliveries, self.updates)

    # Messages

    def _with_seal(self, message: Message) -> Message:
        """A message to train with everybody's signatures on the deal."""
        about, seal = message.metadata, ConfigRecord({SEAL: self._seal})
        content = RecordDict({**message.content, RECORD: seal})
        return Message(content, about.dst_node_id, about.message_type, ttl=about.ttl, group_id=about.group_id)

    def _checked_replies(self, replies: Iterable[Message], server_round: int) -> dict[str, Message]:
        """Everybody's replies, in the deal's order: what a model comes to must not depend on who answers first."""
        kept: dict[str, Message] = {}
        broken = {name: "no reply in time" for name, agreed in self.agreed.items() if agreed}
        for reply in replies:
            # The node that was asked: where it has died, Flower answers in its place, under a number of its own.
            name = self._names[self._asked_nodes.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)]
            try:
                delivery = self._read_reply(reply, name, server_round)
            except InvalidInput as reason:
                broken[name] = str(reason)
                continue
            self._deliveries.setdefault(name, []).append(delivery)
            kept[name] = _with_records(reply, without=RECORD)
            broken.pop(name, None)
        for name, problem in broken.items():
            logger.warning('round %d: member "%s" does not count: %s', server_round, name, problem)
        if broken:
            raise Lost(broken, signed={"deliveries": self._deliveries})
        return {name: kept[name] for name in self.agreed if name in kept}

    def _read_reply(self, reply: Message, name: str, server_round: int) -> dict[str, Any]:
        """What a member delivers, checked, with its signature."""
        if reply.has_error():
            raise InvalidInput(error_reason(reply))
        check_model(reply, self._before)
        key = getattr(self.strategy, "weighted_by_key", WEIGHT)
        counts = [metrics[key] for metrics in reply.content.metric_records.values() if key in metrics]
        if len(counts) != 1 or not isinstance(counts[0], int | float) or not 0 < counts[0] < float("inf"):
            raise InvalidInput(f'its reply must say "{key}" once, a positive number')
        if counts[0] > self.agreed[name]:
            raise InvalidInput(f"it used {counts[0]:g} samples and agreed to {self.agreed[name]}")
        update = record_digest(next(iter(reply.content.array_records.values())))
        delivery = {"round": server_round, "samples": int(counts[0]), "update": update}
        signature = own_record(reply).get("signature")
        signed = own_document("delivery", self._document, name, delivery)
        if not is_signed_by(self._document["keys"].get(name), signed, signature):
            raise InvalidInput("it has not signed what it delivers")
        return {**delivery, "signature": signature}

    def _takes_part(self, node: int) -> bool:
        """Whether a node is that of a member of the deal."""
        return self._names.get(node) in self.agreed

    def _check_enough(self) -> None:
        """Strategies wait for nodes without end: say so before."""
        there = sum(samples > 0 for samples in self.agreed.values())
        least = max(int(getattr(self._given, key, 0) or 0) for key in ("min_available_nodes", "min_train_nodes"))
        if there < max(least, 1):
            raise InvalidInput(
                f"{there} members contribute under the deal and the strategy waits for {least} nodes; "
                f"lower its min_train_nodes and min_available_nodes"
            )


def _deal_of(given: Deal | Outcome | Path | str) -> Deal:
    if isinstance(given, Path | str):
        path = Path(given)
        if is_ledger(path) or is_transcript(path):
            found = check_run(path) if is_ledger(path) else check_transcript(path)
            for claim in found.failed:
                raise InvalidInput(f"{path}: this deal does not hold: {claim}: {found.findings[claim].reason}")
        return load_deal(path)
    deal = given.deal if isinstance(given, Outcome) else given
    if not isinstance(deal, Deal):
        raise InvalidInput(f"deal must be a Deal, an Outcome or a file, got {short_repr(given)}")
    return deal


def deal_without(outcome: Outcome, reasons: Mapping[str, str]) -> Deal:
    """The deal that a mechanism makes for those who are left when some, with reasons, are out."""
    rest = [index for index, name in enumerate(outcome.agents) if name not in reasons]
    part = outcome.rules.solve(outcome.federation.take(rest)).deal
    size = len(outcome.agents)

    def for_all(numbers: Any) -> Any:
        everybody = np.zeros((size,) * np.ndim(numbers))
        everybody[np.ix_(*[rest] * np.ndim(numbers))] = numbers
        return everybody

    return Deal(
        mechanism=part.mechanism,
        agents=tuple(outcome.agents),
        contributions=for_all(part.contributions),
        payments=for_all(part.payments),
        prices=None if part.prices is None else for_all(part.prices),
        side_payments=for_all(part.side_payments),
        excluded={**reasons, **part.excluded},
        scenario=outcome.federation.fingerprint,
        provenance=part.provenance,
    )


class MembersGrid:
    """A grid with some of the nodes of another; it notes which node each message went to, which replies name."""

    def __init__(self, grid: Grid, includes: Callable[[int], bool], asked: dict[str, int]) -> None:
        self._grid, self._includes, self._asked = grid, includes, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> list[int]:
        """Of the nodes among them."""
        return [node for node in self._grid.get_node_ids() if self._includes(node)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that come in time; without a timeout all."""
        sent = dict(enumerate(messages))
        replies = exchange(self._grid, sent, timeout=math.inf if timeout is None else timeout)
        for number, reply in replies.items():
            self._asked[reply.metadata.reply_to_message_id] = sent[number].metadata.dst_node_id
        return list(replies.values())


def check_model(reply: Message, sent: ArrayRecord | None) -> None:
    """A model is averaged only with others of its kind, and one bad number would spoil it for everybody."""
    records = list(reply.content.array_records.values())
    if len(records) != 1 or len(reply.content.metric_records) != 1:
        raise InvalidInput("its reply must hold one record of arrays and one of metrics")
    try:
        found, wanted = named_arrays(records[0]), {} if sent is None else named_arrays(sent)
        kinds = {name: _kind(array) for name, array in found.items()}
    except Exception as error:  # whatever NumPy makes of bytes of a stranger, MemoryError for one
        raise InvalidInput(f"its model holds an array that cannot be read: {error!r:.80}") from error
    other = [name for name in found | wanted if name not in wanted or kinds.get(name) != _kind(wanted[name])]
    if other:
        raise InvalidInput(f"its model has other arrays than the one it was sent, such as {other[0]!r:.40}")
    for name, numbers in found.items():
        if not np.isfinite(numbers).all():
            raise InvalidInput(f"its model's array {name!r:.40} holds numbers that are not finite")


def _kind(array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], bool]:
    """An array's shape, and whether it is complex: means of whole numbers are floats, so real numbers are alike."""
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{array.dtype} is no kind of number")
    return array.shape, array.dtype.kind == "c"


def _with_records(reply: Message, without: str = "") -> Message:
    """The same reply, with records that a strategy may replace, and one left out."""
    copied = copy.copy(reply)
    copied.content = RecordDict({key: record for key, record in reply.content.items() if key != without})
    return copied
