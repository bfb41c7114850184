"""The ServerApp of a coordinator: negotiate, have it signed, train, measure, settle, and keep the record.

Each phase that is completed is one entry of the ledger, and the ledger alone says where a run stands: a server that is
started again on the same folder goes on after the last completed phase. A negotiation goes on in the middle, from its
transcript. Nodes forget between runs, so what they have signed is put to them again; they check it anew.

Members' public keys are fixed when they first answer. Everybody signs one document of the deal, and is then shown
everybody's signature; what is delivered, measured and paid is signed too (`fedpact.deals.documents`). What is delivered
is paid for, at the prices agreed; where a deal names no prices, a member that delivers less than it agreed to is lost.

A member that is lost before training is over takes its data with it: the deal is void, and those who are left negotiate
another. A member that refuses to sign, or finds that others have signed another deal, ends the run: the same deal would
be refused again.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from fedpact.deals import Deal, Entry, Ledger, Settlement, settle
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.documents import accuracy_document, deal_document_of, settlement_document, stated_keys
from fedpact.deals.ledger import AGREED, FAILED, KEYS, MEASURED, SETTLED, SIGNED, SIGNED_VERSION, TRAINED, VERIFIED
from fedpact.deals.settlement import settle_shares
from fedpact.deals.signatures import document_digest, is_signed_by
from fedpact.deals.signed_delivery import signed_delivery, signed_subsets
from fedpact.deals.updates import TrainingUpdates
from fedpact.deals.verified_models import measured_documents, verified_content
from fedpact.fitting.pilot import Pilot
from fedpact.flower.agreement import agreed_deal, ask_members, own_parts, refusals, signatures
from fedpact.flower.channel import roll_call
from fedpact.flower.delivery_check import settles_by_delivery
from fedpact.flower.learner import Model
from fedpact.flower.messages import RECORD, exchange, models_content, record_digest, stated_accuracies, stated_accuracy
from fedpact.flower.settings import AppSettings
from fedpact.flower.signed_training import SignedTraining
from fedpact.flower.strategy import Lost, settlement_entry, trained_entry
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
        self.run = ledger.entries[0].hash
        self.present = roll_call(
            grid,
            settings.num_agents,
            run=self.run,
            timeout=settings.timeout,
            patience=settings.patience,
            seats=settings.seats,
            keys=stated_keys(ledger.entries),
        )
        logger.info("%s", self.present.description)
        new = {name: key for name, key in self.present.keys.items() if name not in stated_keys(ledger.entries)}
        if new:
            self._note(KEYS, {"run": self.run, "keys": new})

    def to_the_end(self) -> None:
        """Every phase that is still to be done; without those who are lost, if need be more than once."""
        while True:
            try:
                self._agree()
                self._sign()
                self._train()
                break
            except Lost as lost:
                self._fail("lost", str(lost), lost.reasons, **lost.signed)
                self.present = self.present.without(list(lost.reasons))
                if len(self.present.nodes) < MIN_AGENTS:
                    raise
                logger.warning("%s; the others negotiate another deal", lost)
        self._verify()
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
        """Everybody signs, again if it has done so in an earlier run of the server, and sees that everybody has."""
        agreed, document = self._deal_entry(), self._document()
        put = own_parts(agreed, document)
        absent = {name: "it is not there" for name in put if self.present.node(name) is None}
        if absent and self._entry(TRAINED) is None:
            raise Lost(absent)
        answers, silent = signatures(self.grid, self.present, put, timeout=self.settings.timeout)
        if self._entry(TRAINED) is None:  # what was signed and done is not undone; who disputes it can say so later
            refused = refusals(answers, "signed")
            self._check_signed("the deal is not signed", "does not sign the deal", refused, silent, answers)
            if self._entry(SIGNED) is None:
                content = {"deal": agreed.hash, "document": document_digest(document), "signatures": answers}
                self._note(SIGNED, content)
        everybody = self._required_entry(SIGNED).content["signatures"]
        shown = {"signatures": {name: each["signature"] for name, each in everybody.items()}}
        seals, silent = ask_members(
            self.grid, self.present, "seal", dict.fromkeys(put, shown), timeout=self.settings.timeout
        )
        if self._entry(TRAINED) is None:
            refused = refusals(seals, "sealed")
            self._check_signed("the deal is not the same for all", "does not train", refused, silent, {})

    def _check_signed(
        self, what: str, told: str, refused: Mapping[str, str], silent: Mapping[str, str], answers: Mapping[str, Any]
    ) -> None:
        """End the run if somebody refuses, and the deal if somebody is silent; what was signed is kept."""
        signed = {name: answer for name, answer in answers.items() if name not in refused}
        kept = {"signatures": signed} if signed else {}
        if refused:
            self._fail("sign", what, refused, **kept)
            raise InvalidInput("; ".join(f'"{name}" {told}: {why}' for name, why in refused.items()))
        if silent:
            raise Lost(silent, signed=kept)

    def _train(self) -> None:
        if self._entry(TRAINED) is not None:
            return
        if not any(self._samples().values()):
            self._keep_model(self._first_model(), {name: [] for name in self._samples()}, {})
            return
        nodes = {node: self.present.names[place] for place, node in self.present.nodes.items()}
        under = SignedTraining(self.strategy(), self._deal(), self._document(), nodes=nodes)
        result = under.start(
            self.grid, self._first_model(), num_rounds=self.settings.rounds, timeout=self.settings.timeout
        )
        under.check_all_asked()
        short = under.short()
        if short and self._deal().prices is None:
            raise Lost(short, signed={"deliveries": under.deliveries})
        self._keep_model(result.arrays, under.samples, under.deliveries, under.updates)

    def _first_model(self) -> ArrayRecord:
        return ArrayRecord([np.asarray(array) for array in self.initial()])

    def _keep_model(
        self,
        arrays: ArrayRecord,
        samples: Mapping[str, list[int]],
        deliveries: Mapping[str, list[dict[str, Any]]],
        updates: TrainingUpdates | None = None,
    ) -> None:
        """The model on disk, and the updates if they are to be verified; then the entry that names them."""
        kept = write_model(self.settings.folder / f"model-{self._attempt}.npz", arrays)
        model = {**kept, "arrays": record_digest(arrays)}
        more: dict[str, Any] = {"model": model, "deliveries": deliveries}
        if updates is not None:
            more["updates"] = updates.save(self.settings.folder / f"updates-{self._attempt}.npz")
        self._note(TRAINED, trained_entry(self._samples(), samples, self.settings.samples_per_unit, **more))

    def _verify(self) -> None:
        """What members measure of models made of subsets of the updates, as far as nodes answer."""
        trained = self._required_entry(TRAINED).content
        stated = trained.get("updates")
        if stated is None or self._entry(VERIFIED) is not None or self._entry(MEASURED) is not None:
            return
        updates = TrainingUpdates.load(self.settings.folder / stated["file"], stated["sha256"])
        document, head = self._document(), self.ledger.head
        subsets = signed_subsets(document, trained["deliveries"])
        models = [ArrayRecord(updates.model_of(subset)) for subset in subsets]
        messages = {
            name: Message(models_content(models, head=head), node, "evaluate", ttl=max(self.settings.timeout, 1.0))
            for name in self._samples()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.settings.timeout)
        said = {name: stated_accuracies(replies.get(name), len(models)) for name in self._samples()}
        digests = [record_digest(arrays) for arrays in models]
        signatures = {}
        documents = measured_documents(document, verified_content(subsets, digests, said)["models"], head=head)
        for name, made in documents:
            record = replies[name].content.get(RECORD)
            signature = record.get("signature") if isinstance(record, ConfigRecord) else None
            if is_signed_by(document["keys"][name], made, signature):
                signatures[name] = signature
            else:
                said[name] = {"accuracies": None, "reason": "the accuracies are not signed"}
        self._note(VERIFIED, verified_content(subsets, digests, said) | {"signatures": signatures})

    def _measure(self) -> None:
        """Everybody's accuracy on its own test set, as far as nodes answer."""
        if self._entry(MEASURED) is not None:
            return
        stated = self._required_entry(TRAINED).content["model"]
        arrays = read_model(self.settings.folder / stated["file"], stated["sha256"])
        head = self.ledger.head
        content = RecordDict({"arrays": arrays, RECORD: ConfigRecord({"head": head})})
        messages = {
            name: Message(content, node, "evaluate", ttl=max(self.settings.timeout, 1.0))
            for name in self._samples()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.settings.timeout)
        found = {name: self._signed_accuracy(name, replies.get(name), head, stated) for name in self._samples()}
        self._note(MEASURED, {"accuracies": found})

    def _signed_accuracy(self, name: str, reply: Message | None, head: str, model: Mapping[str, Any]) -> dict[str, Any]:
        """What a member says of the model, with its signature; without one it says nothing."""
        said = stated_accuracy(reply)
        if said["accuracy"] is None or reply is None:
            return said
        record, document = reply.content.get(RECORD), self._document()
        signature = record.get("signature") if isinstance(record, ConfigRecord) else None
        said["model"] = model["arrays"]
        signed = accuracy_document(self.run, head, document_digest(document), name, said)
        if not is_signed_by(document["keys"][name], signed, signature):
            return {"accuracy": None, "reason": "the accuracy is not signed"}
        return {**said, "signature": signature}

    def _settle(self) -> None:
        agreed, document, trained = self._deal_entry(), self._document(), self._required_entry(TRAINED).content
        deal, deliveries, head = self._deal(), trained["deliveries"], self.ledger.head
        delivered = signed_delivery(document, deliveries)
        settlement, shares = self._due(deal, document, delivered)
        cents = dict(zip(settlement.names, settlement.cents, strict=True))
        put = {"deal": document_digest(document), "head": head, "delivered": delivered, "deliveries": deliveries}
        if shares is not None:
            verified = self._entry(VERIFIED)
            put |= {
                "prices": agreed.content["deal"]["prices"],
                "verified": {"models": [], "signatures": {}} if verified is None else verified.content,
                "verified_after": None if verified is None else verified.previous,
                "paid_shares": shares,
            }
        answers, _ = ask_members(
            self.grid,
            self.present,
            "settle",
            dict.fromkeys(document["keys"], put | {"cents": cents}),
            timeout=self.settings.timeout,
        )
        disputed = {name: f"{said.get('reason')!s:.200}" for name, said in answers.items() if not said.get("confirmed")}
        signed = settlement_document(self.run, head, put["deal"], delivered, cents, shares)
        confirmed = {
            name: said["signature"]
            for name, said in answers.items()
            if said.get("confirmed") is True and is_signed_by(document["keys"][name], signed, said.get("signature"))
        }
        if disputed:
            paid = {} if shares is None else {"paid_shares": shares}
            self._fail(SETTLE, "the settlement is disputed", disputed, cents=cents, signatures=confirmed, **paid)
            raise InvalidInput("; ".join(f'"{name}" disputes it: {why}' for name, why in disputed.items()))
        more: dict[str, Any] = {"confirmed": sorted(confirmed), "signatures": confirmed, "delivered_by": delivered}
        more |= {} if shares is None else {"paid_shares": shares}
        self._note(SETTLED, settlement_entry(settlement, agreed.hash, **more))

    def _due(
        self, deal: Deal, document: Mapping[str, Any], delivered: Mapping[str, float]
    ) -> tuple[Settlement, list[list[float | None]] | None]:
        """What everybody is paid, and the shares that are paid for where the deal is settled by what arrived."""
        given = [delivered.get(name, own) for name, own in zip(deal.agents, deal.contributions, strict=True)]
        counted = settle(deal, money=self.settings.money, decimals=self.settings.decimals, delivered=given)
        if not settles_by_delivery(document):
            return counted, None
        verified, pilot = self._entry(VERIFIED), self._deal_entry().content["verification"]["pilot"]
        models = [] if verified is None else verified.content["models"]
        shares = Pilot.of_record(pilot).paid_shares(deal, models, delivered)
        return settle_shares(deal, shares, counted), shares

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

    def _document(self) -> dict[str, Any]:
        """What everybody signs of the deal."""
        return deal_document_of(self.ledger.entries, self._deal_entry())

    def _samples(self) -> dict[str, int]:
        """What members agreed to, in whole samples."""
        return self._deal().samples(self.settings.samples_per_unit)

    def _note(self, kind: str, content: Mapping[str, Any]) -> None:
        self.ledger.append(kind, content)
        logger.info("%s: entry %d of %s", kind, len(self.ledger.entries) - 1, self.ledger.path)

    def _fail(self, phase: str, reason: str, agents: Mapping[str, str], **signed: Any) -> None:
        """The reason in the ledger, beside what members have signed until then."""
        self._note(FAILED, {"phase": phase, "reason": reason, "agents": dict(agents), **signed})


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
        ledger.append("begun", {"ledger": SIGNED_VERSION, "nonce": secrets.token_hex(32), **settings.header()})
        return
    before = ledger.entries[0].content
    for name, wanted in jsonable(settings.header()).items():
        if before.get(name) != wanted:
            raise InvalidInput(
                f"{ledger.path} is the record of another run: there {name} is {before.get(name)!r}, here {wanted!r}; "
                f"name another folder"
            )
