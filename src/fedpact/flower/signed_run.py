"""A run whose members sign: the phases after the deal is made, each an entry of the ledger.

Everybody signs one document of the deal, and is then shown everybody's signature; what is delivered, measured and paid
is signed too (`fedpact.deals.signatures`). The ledger alone says where a run stands: a phase that it holds is not done
again.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedpact.deals import Deal, Entry, Ledger, Settlement, settle
from fedpact.deals.deal_file import deal_from_record, deal_record
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    KEYS,
    MEASURED,
    SETTLE,
    SETTLED,
    SIGNED,
    SIGNED_VERSION,
    TRAINED,
    VERIFIED,
    VERIFY,
    is_end,
)
from fedpact.deals.settlement import (
    MONEY_DECIMALS,
    PAYOFF_DECIMALS,
    PAYOFF_UNIT,
    agreed_transfers,
    payments_for_shares,
    settle_delivered,
    share_matrix,
)
from fedpact.deals.signatures import (
    deal_document,
    document_digest,
    is_signed_by,
    own_document,
    settlement_document,
    signed_delivery,
    signed_subsets,
    stated_keys,
    stated_model,
    verification_documents,
)
from fedpact.deals.updates import TrainingUpdates, missing_measurements, verified_content
from fedpact.fitting.calibration import Calibration
from fedpact.flower.agreement import ask_members, own_parts, refusals, signatures
from fedpact.flower.channel import Present, roll_call
from fedpact.flower.delivery_check import settles_by_delivery
from fedpact.flower.entries import (
    Lost,
    Unmeasured,
    check_measured,
    settlement_entry,
    trained_entry,
    warn_unmeasured,
)
from fedpact.flower.messages import (
    MOD,
    RECORD,
    Conventions,
    array_record,
    exchange,
    record_digest,
    stated_accuracies,
    stated_accuracy,
)
from fedpact.scenario import Money
from fedpact.scenario.scenario import PERSONAL
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes, replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import join_names

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that `flwr run --stream` and `flwr log` show it


class RunTerms(Protocol):
    """What a run goes by."""

    @property
    def timeout(self) -> float:
        """Seconds to wait for nodes to answer."""

    @property
    def samples_per_unit(self) -> float:
        """Samples in a unit of contribution."""

    @property
    def money(self) -> Money | None:
        """The exchange rate; None where amounts are units of payoff."""

    @property
    def decimals(self) -> int | None:
        """Digits after the point of amounts; None for as many as usual."""


class SignedRun:
    """A run under way, with those who are there."""

    def __init__(self, grid: Grid, terms: RunTerms, ledger: Ledger, present: Present) -> None:
        self.grid, self.terms, self.ledger, self.present = grid, terms, ledger, present
        self.run = ledger.entries[0].hash
        self.conventions = Conventions()
        logger.info("%s", present.description)
        new = {name: key for name, key in present.keys.items() if name not in stated_keys(ledger.entries)}
        if new:
            self.note(KEYS, {"run": self.run, "keys": new})

    # Phases

    def sign(self) -> None:
        """Everybody signs, again if it has done so in an earlier run of the server, and sees that everybody has."""
        agreed, document = self._deal_entry(), self.document()
        put = own_parts(agreed, document)
        absent = {name: "it is not there" for name in put if self.present.node(name) is None}
        if absent and self.entry(TRAINED) is None:
            raise Lost(absent)
        answers, silent = signatures(self.grid, self.present, put, timeout=self.terms.timeout)
        if self.entry(TRAINED) is None:  # what was signed and done is not undone; who disputes it can say so later
            refused = refusals(answers, "signed")
            self._check_signed("the deal is not signed", "does not sign the deal", refused, silent, answers)
            if self.entry(SIGNED) is None:
                content = {"deal": agreed.hash, "document": document_digest(document), "signatures": answers}
                self.note(SIGNED, content)
        everybody = self._required_entry(SIGNED).content["signatures"]
        shown = {"signatures": {name: each["signature"] for name, each in everybody.items()}}
        seals, silent = ask_members(
            self.grid, self.present, "seal", dict.fromkeys(put, shown), timeout=self.terms.timeout
        )
        if self.entry(TRAINED) is None:
            refused = refusals(seals, "sealed")
            self._check_signed("the deal is not the same for all", "does not train", refused, silent, {})

    def _check_signed(
        self, what: str, told: str, refused: Mapping[str, str], silent: Mapping[str, str], answers: Mapping[str, Any]
    ) -> None:
        """End the run if somebody refuses, and the deal if somebody is silent; what was signed is kept."""
        signed = {name: answer for name, answer in answers.items() if name not in refused}
        kept = {"signatures": signed} if signed else {}
        if refused:
            self.fail("sign", what, refused, **kept)
            raise InvalidInput("; ".join(f'"{name}" {told}: {why}' for name, why in refused.items()))
        if silent:
            raise Lost(silent, signed=kept)

    @property
    def wants(self) -> dict[str, list[str]] | None:
        """Whose updates the model of every member is made of, as they have signed it; None if all have one model."""
        if "models" not in self.document():
            return None
        return {name: said["wants"] for name, said in self._required_entry(SIGNED).content["signatures"].items()}

    def keep_training(
        self,
        models: Mapping[str, ArrayRecord],
        samples: Mapping[str, list[int]],
        deliveries: Mapping[str, list[dict[str, Any]]],
        updates: TrainingUpdates | None = None,
    ) -> None:
        """Members' models on disk, and the updates if they are to be verified; then the entry that names them."""
        more: dict[str, Any] = {**self._keep_models(models), "deliveries": deliveries}
        if updates is not None:
            more["updates"] = updates.save(self._file("updates"))
        self.note(TRAINED, trained_entry(self.samples(), samples, self.terms.samples_per_unit, **more))

    def _keep_models(self, models: Mapping[str, ArrayRecord]) -> dict[str, Any]:
        """The files and digests of the models, each written once: of the one of all, or by member."""
        different = {record_digest(arrays): arrays for arrays in models.values()}
        if self.wants is None:
            ((digest, arrays),) = different.items()
            return {"model": {**write_model(self._file("model"), arrays), "arrays": digest}}
        kept = {
            digest: {**write_model(self._file(f"model-{number}"), arrays), "arrays": digest}
            for number, (digest, arrays) in enumerate(different.items())
        }
        return {"models": {name: kept[record_digest(arrays)] for name, arrays in models.items()}}

    def verify(self) -> None:
        """What members measure of models made of subsets of the updates, as far as nodes answer.

        Raises
        ------
        Unmeasured
            If nobody does.
        """
        trained = self._required_entry(TRAINED).content
        stated = trained.get("updates")
        if stated is None or self.entry(VERIFIED) is not None or self.entry(MEASURED) is not None:
            return
        updates = TrainingUpdates.load(self.ledger.path.with_name(stated["file"]), stated["sha256"])
        document, head = self.document(), self.ledger.head
        subsets = signed_subsets(document, trained["deliveries"])
        models = [array_record(updates.model_of(subset)) for subset in subsets]
        messages = {
            name: Message(
                self.conventions.several(models, document["rounds"], head=head),
                node,
                "evaluate",
                ttl=max(self.terms.timeout, 1.0),
            )
            for name in self.samples()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.terms.timeout)
        said = {name: stated_accuracies(replies.get(name), len(models)) for name in self.samples()}
        digests = [record_digest(arrays) for arrays in models]
        signatures = {}
        documents = verification_documents(document, verified_content(subsets, digests, said)["models"], head=head)
        for name, made in documents:
            record = replies[name].content.get(RECORD)
            signature = record.get("signature") if isinstance(record, ConfigRecord) else None
            if is_signed_by(document["keys"][name], made, signature):
                signatures[name] = signature
            else:
                said[name] = {"accuracies": None, "reason": "the accuracies are not signed"}
        content = verified_content(subsets, digests, said)
        try:
            check_measured(content["models"])
        except Unmeasured as error:
            self.fail(VERIFY, str(error), error.reasons)
            raise
        self.note(VERIFIED, content | {"signatures": signatures})

    def measure(self) -> None:
        """Everybody's accuracy on its own test set, as far as nodes answer."""
        if self.entry(MEASURED) is not None:
            return
        trained, head = self._required_entry(TRAINED).content, self.ledger.head
        stated = {name: stated_model(trained, name) for name in self.samples()}
        messages = {
            name: Message(self._asked_to_measure(model, head), node, "evaluate", ttl=max(self.terms.timeout, 1.0))
            for name, model in stated.items()
            if (node := self.present.node(name)) is not None
        }
        replies = exchange(self.grid, messages, timeout=self.terms.timeout)
        found = {name: self._signed_accuracy(name, replies.get(name), head, stated[name]) for name in stated}
        content = {"accuracies": found}
        warn_unmeasured(missing_measurements([content]), "the model")
        self.note(MEASURED, content)

    def _asked_to_measure(self, model: Mapping[str, Any], head: str) -> RecordDict:
        arrays = read_model(self.ledger.path.with_name(model["file"]), model["sha256"])
        return self.conventions.content({self.conventions.arrays: arrays}, self.document()["rounds"], head=head)

    def _signed_accuracy(self, name: str, reply: Message | None, head: str, model: Mapping[str, Any]) -> dict[str, Any]:
        """What a member says of the model, with its signature; without one it says nothing."""
        said = stated_accuracy(reply, self.conventions.metric)
        if said["accuracy"] is None or reply is None:
            return said
        record, document = reply.content.get(RECORD), self.document()
        signature = record.get("signature") if isinstance(record, ConfigRecord) else None
        said["model"] = model["arrays"]
        signed = own_document("accuracy", document, name, said, head=head)
        if not is_signed_by(document["keys"][name], signed, signature):
            return {"accuracy": None, "reason": "the accuracy is not signed"}
        return {**said, "signature": signature}

    def settle(self) -> Settlement:
        """What everybody is paid for what was delivered, confirmed by those who find it right."""
        agreed, document, trained = self._deal_entry(), self.document(), self._required_entry(TRAINED).content
        deal, head = self.deal(), self.ledger.head
        delivered = signed_delivery(document, trained["deliveries"])
        settlement, shares = self._due(deal, document, delivered)
        cents = dict(zip(settlement.names, settlement.cents, strict=True))
        entries = [asdict(entry) for entry in self.ledger.entries[agreed.seq + 1 :]]
        digest = document_digest(document)
        put: dict[str, Any] = {"deal": digest, "head": head, "entries": entries, "delivered": delivered}
        if shares is not None:
            put |= {"prices": agreed.content["deal"]["prices"], "paid_shares": shares}
        answers, silent = ask_members(
            self.grid,
            self.present,
            "settle",
            dict.fromkeys(document["keys"], put | {"cents": cents}),
            timeout=self.terms.timeout,
        )
        for name, reason in silent.items():
            logger.warning('member "%s" has not confirmed the settlement: %s', name, reason)
        disputed = {name: f"{said.get('reason')!s:.200}" for name, said in answers.items() if not said.get("confirmed")}
        signed = settlement_document(document, head, delivered, cents, shares)
        confirmed = {
            name: said["signature"]
            for name, said in answers.items()
            if said.get("confirmed") is True and is_signed_by(document["keys"][name], signed, said.get("signature"))
        }
        if disputed:
            paid = {} if shares is None else {"paid_shares": shares}
            self.fail(SETTLE, "the settlement is disputed", disputed, cents=cents, signatures=confirmed, **paid)
            raise InvalidInput("; ".join(f'"{name}" disputes it: {why}' for name, why in disputed.items()))
        more: dict[str, Any] = {"confirmed": sorted(confirmed), "signatures": confirmed, "delivered_by": delivered}
        more |= {} if shares is None else {"paid_shares": shares}
        self.note(SETTLED, settlement_entry(settlement, agreed.hash, **more))
        return settlement

    def _due(
        self, deal: Deal, document: Mapping[str, Any], delivered: Mapping[str, float]
    ) -> tuple[Settlement, list[list[float | None]] | None]:
        """What everybody is paid, and the shares that are paid for where the deal is settled by what arrived."""
        given = [delivered.get(name, own) for name, own in zip(deal.agents, deal.contributions, strict=True)]
        if not settles_by_delivery(document):
            return settle(deal, money=self.terms.money, decimals=self.terms.decimals, delivered=given), None
        verified, calibration = self.entry(VERIFIED), self._deal_entry().content["verification"]["calibration"]
        models = [] if verified is None else verified.content["models"]
        shares = Calibration.of_record(calibration).paid_shares(deal, models, delivered)
        assert deal.prices is not None
        payments = payments_for_shares(deal.payments, agreed_transfers(deal, deal.prices), share_matrix(shares))
        return settle_delivered(deal, np.array(given), payments, **document["money"]), shares

    # The ledger

    def entry(self, kind: str) -> Entry | None:
        """The entry of a phase of the deal that stands."""
        for entry in reversed(self.ledger.entries):
            if entry.kind == kind:
                return entry
            if entry.kind == AGREED or is_end(entry):
                return None
        return None

    @property
    def _attempt(self) -> int:
        """How many deals there will have been with this one."""
        return 1 + sum(map(is_end, self.ledger.entries))

    def _required_entry(self, kind: str) -> Entry:
        entry = self.entry(kind)
        assert entry is not None
        return entry

    def _deal_entry(self) -> Entry:
        return self._required_entry(AGREED)

    def deal(self) -> Deal:
        """The deal that stands."""
        return deal_from_record(self._deal_entry().content["deal"])

    def trained_model(self) -> ArrayRecord | None:
        """The model of the deal's first member, once it is trained."""
        trained = self.entry(TRAINED)
        if trained is None:
            return None
        model = stated_model(trained.content, next(iter(self.samples())))
        return read_model(self.ledger.path.with_name(model["file"]), model["sha256"])

    def content(self, kind: str) -> Mapping[str, Any]:
        """What the entry of a phase holds."""
        return self._required_entry(kind).content

    def document(self) -> dict[str, Any]:
        """What everybody signs of the deal."""
        return deal_document(self.ledger.entries, self._deal_entry())

    def samples(self) -> dict[str, int]:
        """What members agreed to, in whole samples."""
        return self.deal().samples(self.terms.samples_per_unit)

    def note(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add an entry to the ledger."""
        self.ledger.append(kind, content)
        logger.info("%s: entry %d of %s", kind, len(self.ledger.entries) - 1, self.ledger.path)

    def fail(self, phase: str, reason: str, agents: Mapping[str, str], **signed: Any) -> None:
        """The reason in the ledger, beside what members have signed until then."""
        for name, why in agents.items():
            logger.error('the run fails (%s): member "%s": %s', phase, name, why)
        self.note(FAILED, {"phase": phase, "reason": reason, "agents": dict(agents), **signed})

    def _file(self, kind: str) -> Path:
        """Where what the ledger names is kept: beside it."""
        return self.ledger.path.with_name(f"{self.ledger.path.stem}-{kind}.npz")


@dataclass(frozen=True, kw_only=True)
class GivenTerms:
    """What a run under a deal made elsewhere goes by.

    Attributes
    ----------
    timeout
        Seconds to wait for nodes to answer.
    samples_per_unit
        Samples in a unit of contribution.
    money
        The exchange rate; None where amounts are units of payoff.
    rounds, verify_subsets
        Rounds of training, and how many models are made of subsets of the updates.
    wants
        Whose updates the model of every member is made of, by name; None for one model for all.
    """

    timeout: float
    samples_per_unit: float
    money: Money | None
    rounds: int
    verify_subsets: int = 0
    decimals: int | None = None
    wants: Mapping[str, Sequence[str]] | None = None

    def header(self) -> dict[str, Any]:
        """What the ledger's first entry says of the run."""
        money = self.money
        return {
            "rounds": self.rounds,
            "samples_per_unit": self.samples_per_unit,
            "currency": PAYOFF_UNIT if money is None else money.currency,
            "per_payoff": 1.0 if money is None else money.per_payoff,
            "decimals": PAYOFF_DECIMALS if money is None else MONEY_DECIMALS,
            **({} if self.wants is None else {"models": PERSONAL}),
        }


def run_given_deal(grid: Grid, terms: GivenTerms, ledger: Ledger, deal: Deal) -> SignedRun:
    """Call members to a run under a deal that was made elsewhere, which they are to sign.

    Nodes are asked through `keep_deal`. A ledger with entries is gone on with: its members are called again, and after
    a member was lost the deal is signed anew.

    Raises
    ------
    InvalidInput
        If the ledger is of a run that is over or of another one, or a member is not there or has no key.
    """
    header = {"agents": list(deal.agents), "scenario": deal.scenario, **terms.header()}
    content: dict[str, Any] = {"deal": deal_record(deal), "utilities": {}}
    if terms.wants is not None:
        content["wants"] = {name: list(wanted) for name, wanted in terms.wants.items()}
    if terms.verify_subsets:
        content["verification"] = {"subsets": terms.verify_subsets, "settles": False, "calibration": None}
    if not ledger.entries:
        first_entry(ledger, header)
    _check_same_run(ledger, header, content)
    present = roll_call(
        grid,
        len(deal.agents),
        run=ledger.entries[0].hash,
        keys=stated_keys(ledger.entries),
        timeout=terms.timeout,
        patience=terms.timeout,
        seats=deal.agents,
        through=MOD,
        least=len(deal.members),
    )
    run = SignedRun(grid, terms, ledger, present)
    absent = [deal.agents[place] for place in deal.members if place not in present.nodes]
    if absent:
        raise InvalidInput(
            f"not all members can sign: {join_names(absent)} cannot ({present.description}); "
            f"every node needs ClientApp(mods=[fedpact.flower.keep_deal])"
        )
    if run.entry(AGREED) is None:
        run.note(AGREED, content)
    return run


def _check_same_run(ledger: Ledger, header: Mapping[str, Any], agreed: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless a ledger is of this run, which is not over."""
    stated, deal = ledger.entries[0].content, ledger.last(AGREED)
    other = [name for name, part in jsonable(header).items() if stated.get(name) != part]
    if other or (deal is not None and deal.content != jsonable(agreed)):
        raise InvalidInput(f"{ledger.path} holds the record of another run; name another file")
    if ledger.last(SETTLED) is not None:
        raise InvalidInput(f"{ledger.path} holds the record of this run, which is over; name another file")


def first_entry(ledger: Ledger, header: Mapping[str, Any]) -> Entry:
    """Begin a ledger whose members sign; the number drawn for it keeps signatures from being used elsewhere."""
    return ledger.append("begun", {"ledger": SIGNED_VERSION, "nonce": secrets.token_hex(32), **header})


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
            return array_record({name: stored[f"array-{place}"] for place, name in enumerate(names)})
