"""The ServerApp of a coordinator: negotiate, have it signed, train, measure, settle, and keep the record.

Each phase that is completed is one entry of the ledger, and the ledger alone says where a run stands: a server that is
started again on the same folder goes on after the last completed phase. A negotiation goes on in the middle, from its
transcript. Nodes forget between runs, so what they have signed is put to them again; they check it anew.

A member that is lost before training is over takes its data with it: the deal is void, and those who are left negotiate
another. A member that refuses to sign ends the run: the same deal would be refused again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from fedpact.deals import Deal, Entry, Ledger, settle
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.ledger import AGREED, FAILED, MEASURED, SETTLED, SIGNED, TRAINED
from fedpact.flower.agreement import agreed_deal, signatures, statements
from fedpact.flower.channel import roll_call
from fedpact.flower.learner import Model
from fedpact.flower.messages import exchange, model_digest, question, read_message, stated_accuracy
from fedpact.flower.settings import AppSettings
from fedpact.flower.statement import statement_digest
from fedpact.flower.strategy import Lost, UnderDeal, settlement_entry, trained_entry
from fedpact.utils.errors import FedpactError, InvalidInput, error_context
from fedpact.utils.files import read_bytes, replace_files
from fedpact.utils.jsonl import jsonable

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that `flwr run --stream` and `flwr log` show it

LEDGER = "ledger.jsonl"
SETTLE = "settle"  # the phase
MIN_AGENTS = 2  #: with fewer there is nothing to agree on


def server_app(
    initial: Callable[[Context], Model], *, strategy: Callable[[Context], Strategy] | None = None
) -> ServerApp:
    """The app of a coordinator.

    Parameters
    ----------
    initial
        Makes the model that training starts from.
    strategy
        Makes the strategy to train with, which must take all members; federated averaging if not given.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        conduct(
            grid,
            AppSettings.of(context.run_config),
            initial=lambda: initial(context),
            strategy=(lambda: strategy(context)) if strategy is not None else federated_averaging,
        )

    return app


def conduct(
    grid: Grid, settings: AppSettings, *, initial: Callable[[], Model], strategy: Callable[[], Strategy]
) -> None:
    """Take a run from where its ledger stands to its end.

    Raises
    ------
    InvalidInput
        If the ledger is of another run, or was changed.
    FedpactError
        If the run cannot end in a deal that everybody signs and keeps; the reason is in the ledger.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    with Ledger(settings.folder / LEDGER) as ledger:
        _begin(ledger, settings)
        if ledger.last(SETTLED) is not None:
            logger.info("this run is over; its record is in %s", settings.folder)
            return
        _Run(grid, settings, ledger, initial, strategy).to_the_end()


class _Run:
    """A run under way."""

    def __init__(
        self,
        grid: Grid,
        settings: AppSettings,
        ledger: Ledger,
        initial: Callable[[], Model],
        strategy: Callable[[], Strategy],
    ) -> None:
        self.grid, self.settings, self.ledger = grid, settings, ledger
        self.initial, self.strategy = initial, strategy
        self.present = roll_call(
            grid,
            settings.num_agents,
            timeout=settings.timeout,
            patience=settings.patience,
            seats=settings.seats,
        )
        logger.info("%s", self.present.description)

    def to_the_end(self) -> None:
        """Every phase that is still to be done; without those who are lost, if need be more than once."""
        while True:
            try:
                self._agree()
                self._sign()
                self._train()
                break
            except Lost as lost:
                self._fail("lost", str(lost), lost.reasons)
                self.present = self.present.without(list(lost.reasons))
                if len(self.present.nodes) < MIN_AGENTS:
                    raise
                logger.warning("%s; the others negotiate another deal", lost)
        self._measure()
        self._settle()

    # Phases

    def _agree(self) -> None:
        if self._entry(AGREED) is None:
            try:
                content = agreed_deal(self.grid, self.present, self.settings, self._attempt)
                _check_company(content["deal"])
            except FedpactError as error:
                self._fail("agree", str(error), {})
                raise
            self._note(AGREED, content)

    def _sign(self) -> None:
        """Everybody signs, again if it has done so in an earlier run of the server."""
        agreed = self._deal_entry()
        put = statements(agreed, self.settings)
        absent = {name: "it is not there" for name in put if self.present.node(name) is None}
        if absent and self._entry(TRAINED) is None:
            raise Lost(absent)
        answers, silent = signatures(self.grid, self.present, put, timeout=self.settings.timeout)
        if self._entry(TRAINED) is not None:
            return  # what was signed and done is not undone; who disputes it can say so at the settlement
        refused = {name: answer["reason"] for name, answer in answers.items() if not answer["signed"]}
        if refused:
            self._fail("sign", "the deal is not signed", refused)
            raise InvalidInput("; ".join(f'"{name}" does not sign the deal: {why}' for name, why in refused.items()))
        if silent:
            raise Lost(silent)
        if self._entry(SIGNED) is None:
            self._note(SIGNED, {"deal": agreed.hash, "signatures": answers})

    def _train(self) -> None:
        if self._entry(TRAINED) is not None:
            return
        if not any(self._samples().values()):
            self._keep_model(self._first_model(), {name: [] for name in self._samples()})
            return
        nodes = {node: self.present.names[place] for place, node in self.present.nodes.items()}
        under = UnderDeal(
            self.strategy(),
            self._deal(),
            samples_per_unit=self.settings.samples_per_unit,
            nodes=nodes,
            strict=True,
        )
        result = under.start(
            self.grid, self._first_model(), num_rounds=self.settings.rounds, timeout=self.settings.timeout
        )
        under.check_all_asked()
        short = under.short()
        if short:
            raise Lost(short)
        self._keep_model(result.arrays, under.samples)

    def _first_model(self) -> ArrayRecord:
        return ArrayRecord([np.asarray(array) for array in self.initial()])

    def _keep_model(self, arrays: ArrayRecord, samples: Mapping[str, list[int]]) -> None:
        """The model on disk, then the entry that names it."""
        kept = write_model(self.settings.folder / f"model-{self._attempt}.npz", arrays)
        model = {**kept, "arrays": model_digest(arrays)}
        self._note(TRAINED, trained_entry(self._samples(), samples, self.settings.samples_per_unit, model=model))

    def _measure(self) -> None:
        """Everybody's accuracy on its own test set, as far as nodes answer."""
        if self._entry(MEASURED) is not None:
            return
        stated = self._required_entry(TRAINED).content["model"]
        arrays = read_model(self.settings.folder / stated["file"], stated["sha256"])
        content = RecordDict({"arrays": arrays})
        messages = {
            name: Message(content, node, "evaluate", ttl=max(self.settings.timeout, 1.0))
            for name in self._samples()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.settings.timeout)
        found = {name: stated_accuracy(replies.get(name)) for name in self._samples()}
        self._note(MEASURED, {"accuracies": found})

    def _settle(self) -> None:
        agreed = self._deal_entry()
        settlement = settle(self._deal(), money=self.settings.money, decimals=self.settings.decimals)
        put = statements(agreed, self.settings)
        cents = dict(zip(settlement.names, settlement.cents, strict=True))
        messages = {
            name: question(
                node,
                "settle",
                {"statement": statement_digest(statement), "cents": cents[name]},
                timeout=self.settings.timeout,
            )
            for name, statement in put.items()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.settings.timeout)
        confirmed, disputed = _confirmations(replies)
        if disputed:
            self._fail(SETTLE, "the settlement is disputed", disputed)
            raise InvalidInput("; ".join(f'"{name}" disputes it: {why}' for name, why in disputed.items()))
        self._note(SETTLED, settlement_entry(settlement, agreed.hash, confirmed=confirmed))

    # The ledger

    def _entry(self, kind: str) -> Entry | None:
        """The entry of a phase of the deal that stands."""
        for entry in reversed(self.ledger.entries):
            if entry.kind == kind:
                return entry
            if entry.kind == AGREED or _is_end(entry):
                return None
        return None

    @property
    def _attempt(self) -> int:
        """How many deals there will have been with this one."""
        return 1 + sum(map(_is_end, self.ledger.entries))

    def _required_entry(self, kind: str) -> Entry:
        entry = self._entry(kind)
        assert entry is not None
        return entry

    def _deal_entry(self) -> Entry:
        return self._required_entry(AGREED)

    def _deal(self) -> Deal:
        return deal_from_record(self._deal_entry().content["deal"])

    def _samples(self) -> dict[str, int]:
        """What members agreed to, in whole samples."""
        return self._deal().samples(self.settings.samples_per_unit)

    def _note(self, kind: str, content: Mapping[str, Any]) -> None:
        self.ledger.append(kind, content)
        logger.info("%s: entry %d of %s", kind, len(self.ledger.entries) - 1, self.ledger.path)

    def _fail(self, phase: str, reason: str, agents: Mapping[str, str]) -> None:
        self._note(FAILED, {"phase": phase, "reason": reason, "agents": dict(agents)})


def _check_company(deal: Mapping[str, Any]) -> None:
    out = "; ".join(f'"{name}": {reason}' for name, reason in deal["excluded"].items())
    if len(deal["agents"]) - len(deal["excluded"]) < MIN_AGENTS:
        raise InvalidInput(f"fewer than {MIN_AGENTS} agents are left at the table: {out}")


def _is_end(entry: Entry) -> bool:
    """Whether an entry makes the deal before it void; a settlement that is disputed can be tried again."""
    return entry.kind == FAILED and entry.content.get("phase") != SETTLE


def federated_averaging() -> Strategy:
    """Federated averaging over all members; what models come to is measured once, at the end."""
    return FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=1)


def write_model(path: Path, arrays: ArrayRecord) -> dict[str, Any]:
    """Write a model; its file's name and digest."""
    content = BytesIO()
    named: dict[str, Any] = {f"array-{place}": array.numpy() for place, array in enumerate(arrays.values())}
    np.savez(content, names=np.array(list(arrays.keys()), dtype=np.str_), **named)
    with error_context(str(path)):
        replace_files({path: content.getvalue()})
    return {"file": path.name, "sha256": hashlib.sha256(content.getvalue()).hexdigest()}


def read_model(path: Path, digest: str) -> ArrayRecord:
    """The model of a file that has this digest."""
    with error_context(str(path)):
        content = read_bytes(path)
        if hashlib.sha256(content).hexdigest() != digest:
            raise InvalidInput("the file was changed: it does not have the digest in the ledger")
        with np.load(BytesIO(content), allow_pickle=False) as stored:
            names = stored["names"].tolist()
            return ArrayRecord({name: Array(stored[f"array-{place}"]) for place, name in enumerate(names)})


def _begin(ledger: Ledger, settings: AppSettings) -> None:
    """Write the first entry, or check that it is of this run."""
    if not ledger.entries:
        ledger.append("begun", settings.header())
        return
    before = ledger.entries[0].content
    for name, wanted in jsonable(settings.header()).items():
        if before.get(name) != wanted:
            raise InvalidInput(
                f"{ledger.path} is the record of another run: there {name} is {before.get(name)!r}, here {wanted!r}; "
                f"name another folder"
            )


def _confirmations(replies: Mapping[str, Message]) -> tuple[list[str], dict[str, str]]:
    """Who confirms its cents, and who says that they are wrong."""
    confirmed, disputed = [], {}
    for name in sorted(replies):
        try:
            said = read_message(replies[name])
        except InvalidInput:
            continue  # it has not confirmed
        if said.get("confirmed") is True:
            confirmed.append(name)
        elif said.get("confirmed") is False:
            disputed[name] = f"{said.get('reason')!s:.200}"
    return confirmed, disputed
