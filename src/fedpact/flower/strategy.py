"""Any Flower strategy, under a deal: contributions capped, counted, valued and paid for.

`UnderDeal` holds a strategy and passes everything on to a copy of it: it works with all of Flower's strategies and with
your own. `flwr.serverapp.strategy.Strategy` is an abstract class whose `start` runs the rounds, so `UnderDeal` derives
from that alone. The caller's strategy, configurations and arrays are never written to.

Which node is which agent the nodes say themselves, by `fedpact.flower.keep_deal`, which also keeps a node from using
more samples than agreed. What a reply says is checked here again: one that claims more does not count.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedpact.deals import Deal, Ledger, Outcome, Settlement, is_ledger, load_deal, settle
from fedpact.deals.deal_file import deal_record
from fedpact.deals.delivered import delivered_contributions
from fedpact.deals.ledger import AGREED, FAILED, MEASURED, SETTLED, TRAINED, VERIFIED
from fedpact.deals.transcript import is_transcript
from fedpact.deals.updates import RoundUpdates, TrainingUpdates, draw_subsets
from fedpact.deals.verified_models import verified_content
from fedpact.flower.messages import (
    RECORD,
    error_reason,
    exchange,
    models_content,
    record_digest,
    stated_accuracies,
    stated_accuracy,
)
from fedpact.flower.valuation import CoalitionValues
from fedpact.negotiation.audit import audit
from fedpact.scenario import Money
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that it is shown beside it

WEIGHT = "num-examples"  # what strategies weigh replies by, unless they say otherwise


class Lost(FedpactError, RuntimeError):
    """Members of a deal that no longer keep it; `reasons` says why, by name, `signed` what was signed until then."""

    def __init__(self, reasons: Mapping[str, str], *, signed: Mapping[str, Any] | None = None) -> None:
        told = "; ".join(f'"{name}": {reason}' for name, reason in reasons.items())
        super().__init__(f"members of the deal are lost: {told}")
        self.reasons, self.signed = dict(reasons), dict(signed or {})


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
    nodes
        Names by Flower's numbers of nodes, where they are known; otherwise nodes say them as they reply, for which
        they need `keep_deal`.
    ledger
        The file to keep the record in; None for none.
    money
        What a unit of payoff is worth; units of payoff are settled as they are without it.
    coalition_value
        What a model is worth, such as its accuracy on a test set of the server's: then every round is also valued for
        coalitions of its members (`fedpact.flower.valuation`).
    strict
        Whether a member that does not deliver is an error (`Lost`) at once, and so is a model with other arrays than
        it was sent, or numbers that are not finite.
    verify_subsets
        Of how many subsets of the updates models are made that members measure after training, several in one message;
        it needs `keep_deal` on the nodes. The ledger holds what they say, for `fedpact verify`.
    """

    def __init__(
        self,
        strategy: Strategy,
        deal: Deal | Outcome | Path | str,
        *,
        samples_per_unit: float = 1.0,
        nodes: Mapping[int, str] | None = None,
        ledger: Path | str | None = None,
        money: Money | None = None,
        coalition_value: Callable[[ArrayRecord], float] | None = None,
        strict: bool = False,
        verify_subsets: int = 0,
    ) -> None:
        if not isinstance(strategy, Strategy):
            raise InvalidInput(f"strategy must be a flwr.serverapp.strategy.Strategy, got {type(strategy).__name__}")
        if not 0.0 < samples_per_unit < float("inf"):
            raise InvalidInput(f"samples_per_unit must be positive, got {short_repr(samples_per_unit)}")
        self.strategy = copy.deepcopy(strategy)
        self.deal = _deal_of(deal)
        self.agreed = self.deal.samples(samples_per_unit)
        self.samples: dict[str, list[int]] = {name: [] for name in self.agreed}
        self._samples_per_unit = float(samples_per_unit)
        self.accuracies: dict[str, dict[str, Any]] = {}
        self.settlement: Settlement | None = None
        self._names: dict[int, str | None] = dict(nodes or {})
        self._all_known = nodes is not None
        self._ledger = Path(ledger) if ledger is not None else None
        self._money, self._strict = money, strict
        self._verify_subsets = verify_subsets
        self.updates = TrainingUpdates() if verify_subsets else None
        self.verified: dict[str, Any] | None = None
        self._values = CoalitionValues(coalition_value, self.deal.agents) if coalition_value is not None else None
        self._outcome = deal if isinstance(deal, Outcome) else None
        self._asked: list[int] = []
        self._times_asked: Counter[str] = Counter()
        self._before: ArrayRecord | None = None
        self._check_enough()

    @property
    def shapley_values(self) -> dict[str, float] | None:
        """What each agent's updates added to the model's worth, summed over the rounds; None where it is not valued."""
        return self._values.totals if self._values is not None else None

    # The interface of strategies

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages to those who have agreed to contribute, with the terms."""
        view = _Members(grid, self._may_train)
        wanted = self.strategy.configure_train(server_round, _copy_arrays(arrays), copy.deepcopy(config), view)
        messages = [
            _with_content(message, {**message.content, RECORD: self._terms_for(message.metadata.dst_node_id)})
            for message in wanted
            if self._may_train(message.metadata.dst_node_id)
        ]
        self._asked, self._before = [message.metadata.dst_node_id for message in messages], arrays
        self._times_asked.update(self._agent_or_node(node) for node in self._asked)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate of the replies that keep to the terms."""
        kept, broken = self._sort_replies(replies)
        for name, samples in self.samples.items():
            samples.append(kept[name][1] if name in kept else 0)
        for name, reason in broken.items():
            logger.warning('round %d: agent "%s" does not count: %s', server_round, name, reason)
        if broken and self._strict:
            raise Lost(broken)
        delivered = {name: message for name, (message, _) in kept.items()}
        if self.updates is not None and kept and self._before is not None:
            self.updates.rounds.append(
                RoundUpdates(
                    before=self._before.to_numpy_ndarrays(),
                    updates={name: _arrays_of(message).to_numpy_ndarrays() for name, message in delivered.items()},
                    samples={name: samples for name, (_, samples) in kept.items()},
                )
            )
        if self._values is not None and delivered and self._before is not None:
            self._values.add_round(self.strategy, server_round, delivered, self._before)
        return self.strategy.aggregate_train(server_round, list(delivered.values()))

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages to members of the deal."""
        view = _Members(grid, self._is_member)
        return self.strategy.configure_evaluate(server_round, _copy_arrays(arrays), copy.deepcopy(config), view)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's; what each member says of the model is kept, the last round's at the end."""
        answers = list(replies)
        said = {self._names.get(reply.metadata.src_node_id): stated_accuracy(reply) for reply in answers}
        self.accuracies = {name: said[name] for name in self.agreed if name in said} or self.accuracies
        return self.strategy.aggregate_evaluate(server_round, answers)

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
        """Run the rounds as the strategy would, then settle (`settle`)."""
        if not num_rounds >= 1:
            raise InvalidInput(f"num_rounds must be at least 1, got {num_rounds}")
        result = super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        if not self._strict:
            if self.updates is not None and self.updates.rounds:
                self._verify(grid, timeout)
            self.settle()
        return result

    def _verify(self, grid: Grid, timeout: float) -> None:
        """What members measure of models made of subsets of the updates, as far as they answer."""
        assert self.updates is not None
        subsets = draw_subsets(self.updates.digests(), self._verify_subsets)
        models = [ArrayRecord(self.updates.model_of(subset)) for subset in subsets]
        nodes = {name: node for node, name in self._names.items() if name in self.agreed}
        messages = {
            name: Message(models_content(models), node, "evaluate", ttl=max(timeout, 1.0))
            for name, node in nodes.items()
        }
        replies = exchange(grid, messages, timeout=timeout)
        said = {name: stated_accuracies(replies.get(name), len(models)) for name in self.agreed}  # type: ignore[call-overload]
        self.verified = verified_content(subsets, [record_digest(arrays) for arrays in models], said)

    # The account

    def check_all_asked(self) -> None:
        """Raise `InvalidInput` if the strategy has left out somebody who agreed to contribute."""
        left_out = [name for name, agreed in self.agreed.items() if agreed and name not in self._times_asked]
        if left_out:
            raise InvalidInput(
                f"{type(self.strategy).__name__} never asked {', '.join(left_out)} to train; "
                f"under a deal all members contribute: let it take them all, as with fraction_train=1.0"
            )

    def short(self) -> dict[str, str]:
        """Members that delivered less than they agreed to in some round they were asked in, with reasons."""
        return {
            name: f"agreed to {agreed} samples and delivered {self._mean_samples(name):g} on average"
            for name, agreed in self.agreed.items()
            if self._mean_samples(name) < agreed
        }

    def _mean_samples(self, name: str) -> float:
        return sum(self.samples[name]) / max(self._rounds_asked()[name], 1)

    def _rounds_asked(self) -> dict[str, int]:
        """In how many rounds members were asked; of one whose node was not known, at least those it delivered in."""
        delivered = {name: sum(count > 0 for count in counts) for name, counts in self.samples.items()}
        return {name: max(self._times_asked[name], least) for name, least in delivered.items()}

    def settle(self) -> Settlement | None:
        """Payments in cents for what was delivered, and the ledger; None where these do not follow from what is known.

        They follow from the deal's prices, or, of a deal given as an `Outcome`, from its mechanism's payment rule.
        """
        short, trained = self.short(), self._trained_entry()
        for name, reason in short.items():
            logger.warning('"%s" %s', name, reason)
        try:
            known = short or self.deal.prices is not None
            given = delivered_contributions(self.deal, trained) if known else self.deal.contributions
            self.settlement = settle(self._outcome or self.deal, money=self._money, delivered=given)
        except InvalidInput as reason:
            if not short:
                raise
            logger.warning("nothing is settled: %s", reason)
        if self._ledger is not None:
            self._write_ledger(self._ledger, trained, short)
        return self.settlement

    def _trained_entry(self) -> dict[str, Any]:
        valued = {"shapley_values": self.shapley_values} if self.shapley_values is not None else {}
        more = {"asked": self._rounds_asked(), **valued}
        return trained_entry(self.agreed, self.samples, self._samples_per_unit, **more)

    def _write_ledger(self, path: Path, trained: Mapping[str, Any], short: Mapping[str, str]) -> None:
        """The record of training under a deal that was made elsewhere; a file that has entries is left as it is."""
        with Ledger(path) as ledger:
            if ledger.entries:
                raise InvalidInput(f"{path} holds the record of another run; name another file")
            ledger.append("begun", {"agents": list(self.deal.agents)})
            agreed = ledger.append(AGREED, {"deal": deal_record(self.deal)})
            ledger.append(TRAINED, trained)
            if self.verified is not None:
                ledger.append(VERIFIED, self.verified)
            if self.accuracies:
                ledger.append(MEASURED, {"accuracies": self.accuracies})
            if self.settlement is None:
                ledger.append(FAILED, {"phase": "settle", "agents": dict(short), "reason": "not all delivered"})
            else:
                ledger.append(SETTLED, settlement_entry(self.settlement, agreed.hash))

    def _terms_for(self, node: int) -> ConfigRecord:
        """What everybody agreed to; and to a node that is known, its own share."""
        everybody = list(self.deal.agents)
        record = ConfigRecord({"agents": everybody, "agreed": [self.agreed.get(name, 0) for name in everybody]})
        name = self._names.get(node)
        if name is not None:
            record["name"], record["samples"] = name, self.agreed[name]
        return record

    def _sort_replies(self, replies: Iterable[Message]) -> tuple[dict[str, tuple[Message, int]], dict[str, str]]:
        """Replies that keep to the terms with their samples, and what is wrong with the others, by name."""
        kept: dict[str, tuple[Message, int]] = {}
        broken: dict[str, str] = {}
        silent = set(self._asked)
        for reply in replies:
            node = reply.metadata.src_node_id
            silent.discard(node)
            try:
                name, samples = self._read_reply(reply, node)
                if name in kept:
                    raise InvalidInput(f'another node is called "{name}" as well')
                kept[name] = _without_record(reply), samples
            except InvalidInput as reason:
                broken[self._agent_or_node(node)] = str(reason)
        broken |= {self._agent_or_node(node): "no reply in time" for node in silent}
        return kept, broken

    def _read_reply(self, reply: Message, node: int) -> tuple[str, int]:
        """Whose reply it is and how many samples it is made of, checked."""
        if reply.has_error():
            raise InvalidInput(error_reason(reply))
        name = self._name(reply, node)
        if self._strict:
            _check_model(reply, self._before)
        key = getattr(self.strategy, "weighted_by_key", WEIGHT)
        counts = [metrics[key] for metrics in reply.content.metric_records.values() if key in metrics]
        if len(counts) != 1 or not isinstance(counts[0], int | float) or not 0 < counts[0] < float("inf"):
            raise InvalidInput(f'its reply must say "{key}" once, a positive number')
        if counts[0] > self.agreed[name]:
            raise InvalidInput(f"it used {counts[0]:g} samples and agreed to {self.agreed[name]}")
        return name, int(counts[0])

    def _name(self, reply: Message, node: int) -> str:
        """Whose reply it is: what is known of the node, or else what it says."""
        record = reply.content.get(RECORD)
        name = record.get("name") if isinstance(record, ConfigRecord) else None
        if self._all_known:
            known = self._names.get(node)
            if known is None or name not in (None, known):
                raise InvalidInput(f"it says that it is {name!r:.80}")
            return known
        if not isinstance(name, str):
            raise InvalidInput("it does not say who it is: its ClientApp needs mods=[fedpact.flower.keep_deal]")
        self._names[node] = name if name in self.agreed else None
        if name not in self.agreed:
            raise InvalidInput(f'"{name}" is not part of the deal')
        return name

    def _agent_or_node(self, node: int) -> str:
        return self._names.get(node) or f"node {node}"

    def _is_member(self, node: int) -> bool:
        """Whether a node may be part of the deal: it is, or has not yet said who it is."""
        if node not in self._names:
            return not self._all_known
        return self._names[node] in self.agreed

    def _may_train(self, node: int) -> bool:
        name = self._names.get(node)
        return self._is_member(node) and (name is None or self.agreed[name] > 0)

    def _check_enough(self) -> None:
        """Strategies wait for nodes without end: say so before."""
        there = sum(samples > 0 for samples in self.agreed.values())
        least = max(int(getattr(self.strategy, key, 0) or 0) for key in ("min_available_nodes", "min_train_nodes"))
        if there < max(least, 1):
            raise InvalidInput(
                f"{there} agents contribute under the deal and the strategy waits for {least} nodes; "
                f"lower its min_train_nodes and min_available_nodes"
            )


def trained_entry(
    agreed: Mapping[str, int], samples: Mapping[str, Sequence[int]], samples_per_unit: float, **more: Any
) -> dict[str, Any]:
    """An entry of a ledger: what was used, by agent and round, beside what was agreed."""
    used = {name: list(counts) for name, counts in samples.items()}
    return {"agreed": dict(agreed), "samples": used, "samples_per_unit": samples_per_unit, **jsonable(more)}


def settlement_entry(settlement: Settlement, deal: str, **more: Any) -> dict[str, Any]:
    """An entry of a ledger: money in whole cents, of the deal whose entry has this hash."""
    return {
        "deal": deal,
        "cents": dict(zip(settlement.names, settlement.cents, strict=True)),
        "decimals": settlement.decimals,
        **settlement.record(),
        **jsonable(more),
    }


def _deal_of(given: Deal | Outcome | Path | str) -> Deal:
    if isinstance(given, Path | str):
        path = Path(given)
        if is_ledger(path) or is_transcript(path):
            found = audit(path)
            for claim in found.failed:
                raise InvalidInput(f"{path}: this deal does not hold: {claim}: {found.findings[claim].reason}")
        return load_deal(path)
    deal = given.deal if isinstance(given, Outcome) else given
    if not isinstance(deal, Deal):
        raise InvalidInput(f"deal must be a Deal, an Outcome or a file, got {short_repr(given)}")
    return deal


class _Members(Grid):
    """A grid with some of its nodes."""

    def __init__(self, grid: Grid, includes: Callable[[int], bool]) -> None:
        self._grid, self._includes = grid, includes

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return [node for node in self._grid.get_node_ids() if self._includes(node)]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [node for node in self._grid.get_nodes() if self._includes(node.node_id)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self._grid.send_and_receive(messages, timeout=timeout)


def _check_model(reply: Message, sent: ArrayRecord | None) -> None:
    """A model is averaged only with others of its kind, and one bad number would spoil it for everybody."""
    records = list(reply.content.array_records.values())
    if len(records) != 1 or len(reply.content.metric_records) != 1:
        raise InvalidInput("its reply must hold one record of arrays and one of metrics")
    if _kinds(records[0]) != _kinds(sent):
        raise InvalidInput("its model has other arrays than the one it was sent")
    for name, array in records[0].items():
        numbers = array.numpy()
        if numbers.shape != tuple(array.shape) or (numbers.dtype.kind in "fc" and not np.isfinite(numbers).all()):
            raise InvalidInput(f"its model's array {name!r:.40} holds numbers that are not finite")


def _kinds(arrays: ArrayRecord | None) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (array.dtype, tuple(array.shape)) for name, array in arrays.items()} if arrays is not None else {}


def _copy_arrays(arrays: ArrayRecord) -> ArrayRecord:
    """Another record of the same arrays, which hold bytes that nobody can write to."""
    return ArrayRecord(dict(arrays.items()))


def _with_content(message: Message, content: Mapping[str, Any]) -> Message:
    """The same message with another content."""
    about = message.metadata
    return Message(
        RecordDict(dict(content)), about.dst_node_id, about.message_type, ttl=about.ttl, group_id=about.group_id
    )


def _arrays_of(reply: Message) -> ArrayRecord:
    """The model of a reply."""
    records = list(reply.content.array_records.values())
    if len(records) != 1:
        raise InvalidInput(f"a reply to be verified must hold one record of arrays, got {len(records)}")
    return records[0]


def _without_record(reply: Message) -> Message:
    """A reply as the strategy would have received it."""
    stripped = copy.copy(reply)
    stripped.content = RecordDict({key: record for key, record in reply.content.items() if key != RECORD})
    return stripped
