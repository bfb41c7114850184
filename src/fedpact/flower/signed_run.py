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
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
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
    PAYOFF_UNIT,
    payments_for_shares,
    settle_delivered,
    share_matrix,
)
from fedpact.deals.signatures import (
    deal_document,
    document_digest,
    is_signed_by,
    measured_parts,
    own_document,
    settlement_document,
    signed_delivery,
    signed_subsets,
    stated_keys,
    stated_model,
)
from fedpact.deals.updates import TrainingUpdates, missing_measurements, score_of, verified_content
from fedpact.fitting.delivery import Calibration
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
from fedpact.flower.messages import Conventions, array_record, ask_to_measure, record_digest
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import read_bytes, replace_files
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import join_names

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that `flwr run --stream` and `flwr log` show it


class SignedRun:
    """A run under way, with those who are there; `timeout` is how many seconds nodes have to answer."""

    def __init__(self, grid: Grid, ledger: Ledger, present: Present, *, timeout: float) -> None:
        self.grid, self.ledger, self.present, self.timeout = grid, ledger, present, timeout
        self.run, self.header = ledger.entries[0].hash, ledger.entries[0].content
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
        answers, silent = signatures(self.grid, self.present, put, timeout=self.timeout)
        if self.entry(TRAINED) is None:  # what was signed and done is not undone; who disputes it can say so later
            refused = refusals(answers, "signed")
            self._check_signed("the deal is not signed", "does not sign the deal", refused, silent, answers)
            if self.entry(SIGNED) is None:
                content = {"deal": agreed.hash, "document": document_digest(document), "signatures": answers}
                self.note(SIGNED, content)
        everybody = self._required_entry(SIGNED).content["signatures"]
        shown = {"signatures": {name: each["signature"] for name, each in everybody.items()}}
        seals, silent = ask_members(self.grid, self.present, "seal", dict.fromkeys(put, shown), timeout=self.timeout)
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
        self.note(TRAINED, trained_entry(self.samples(), samples, self.header["samples_per_unit"], **more))

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
        subsets = signed_subsets(self.document(), trained["deliveries"])
        models = [array_record(updates.model_of(subset)) for subset in subsets]
        digests = [record_digest(arrays) for arrays in models]
        said = self._signed_scores("verification", dict.fromkeys(self.samples(), models))
        content = verified_content(subsets, digests, said)
        try:
            check_measured(content["models"])
        except Unmeasured as error:
            self.fail(VERIFY, str(error), error.reasons)
            raise
        signatures = {name: each["signature"] for name, each in said.items() if each["accuracies"] is not None}
        self.note(VERIFIED, content | {"signatures": signatures})

    def measure(self) -> None:
        """Everybody's accuracy on its own test set, as far as nodes answer."""
        if self.entry(MEASURED) is not None:
            return
        trained = self._required_entry(TRAINED).content
        stated = {name: stated_model(trained, name) for name in self.samples()}
        files = {model["file"]: model["sha256"] for model in stated.values()}
        models = {file: [read_model(self.ledger.path.with_name(file), digest)] for file, digest in files.items()}
        said = self._signed_scores("accuracy", {name: models[model["file"]] for name, model in stated.items()})
        found = {name: score_of(each, 0) for name, each in said.items()}
        for name, each in said.items():
            if each["accuracies"] is not None:
                found[name] |= {"model": stated[name]["arrays"], "signature": each["signature"]}
        content = {"accuracies": found}
        warn_unmeasured(missing_measurements([content]), "the model")
        self.note(MEASURED, content)

    def _signed_scores(self, about: str, models: Mapping[str, Sequence[ArrayRecord]]) -> dict[str, dict[str, Any]]:
        """What members say of the models they are sent, with their signatures; without one they say nothing."""
        document, head = self.document(), self.ledger.head
        nodes = {name: node for name in models if (node := self.present.node(name)) is not None}
        more: dict[str, Any] = {"timeout": self.timeout, "about": about, "head": head}
        found = ask_to_measure(self.grid, nodes, models, self.conventions, document["rounds"], **more)
        for name, said in found.items():
            if said["accuracies"] is None:
                continue
            digests = [record_digest(arrays) for arrays in models[name]]
            made = measured_parts(about, digests, said["accuracies"], said["samples"])
            signed = own_document(about, document, name, made, head=head)
            if not is_signed_by(document["keys"][name], signed, said["signature"]):
                found[name] = {"accuracies": None, "reason": f"the {about} is not signed"}
        return found

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
            timeout=self.timeout,
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
            unit = document["money"]
            money = None if unit["currency"] == PAYOFF_UNIT else Money(unit["currency"], unit["per_payoff"])
            return settle(deal, money=money, decimals=unit["decimals"], delivered=given), None
        verified, calibration = self.entry(VERIFIED), self._deal_entry().content["verification"]["calibration"]
        models = [] if verified is None else verified.content["models"]
        shares = Calibration.of_record(calibration).paid_shares(deal, models, delivered)
        payments = payments_for_shares(deal, share_matrix(shares))
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
        return self.deal().samples(self.header["samples_per_unit"])

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


def run_given_deal(
    grid: Grid, ledger: Ledger, deal: Deal, header: Mapping[str, Any], agreed: Mapping[str, Any], *, timeout: float
) -> SignedRun:
    """Call members to a run under a deal that was made elsewhere, which they are to sign.

    Nodes are asked through `keep_deal`. A ledger with entries is gone on with: its members are called again, and after
    a member was lost the deal is signed anew.

    Parameters
    ----------
    header, agreed
        What the ledger's first entry says of the run, and what the deal's entry holds beside the deal.

    Raises
    ------
    InvalidInput
        If the ledger is of a run that is over or of another one, or a member is not there or has no key.
    """
    header = {"agents": list(deal.agents), "scenario": deal.scenario, **header}
    content = jsonable({"deal": deal_record(deal), "utilities": {}, **agreed})
    begin_run(ledger, header)
    before = ledger.last(AGREED)
    if before is not None and before.content != content:
        raise InvalidInput(f"{ledger.path} holds the record of another run, of another deal; name another file")
    if ledger.last(SETTLED) is not None:
        raise InvalidInput(f"{ledger.path} holds the record of this run, which is over; name another file")
    present = roll_call(
        grid,
        len(deal.agents),
        run=ledger.entries[0].hash,
        keys=stated_keys(ledger.entries),
        timeout=timeout,
        patience=timeout,
        seats=deal.agents,
        least=len(deal.members),
    )
    run = SignedRun(grid, ledger, present, timeout=timeout)
    absent = [deal.agents[place] for place in deal.members if place not in present.nodes]
    if absent:
        raise InvalidInput(
            f"not all members can sign: {join_names(absent)} cannot ({present.description}); "
            f"every node needs ClientApp(mods=[fedpact.flower.keep_deal])"
        )
    if run.entry(AGREED) is None:
        run.note(AGREED, content)
    return run


def begin_run(ledger: Ledger, header: Mapping[str, Any]) -> None:
    """Write the first entry of a run whose members sign, or check that the one there is of this run.

    The number drawn for a run keeps signatures from being used elsewhere.
    """
    wanted = jsonable(header)
    if not ledger.entries:
        ledger.append("begun", {"ledger": SIGNED_VERSION, "nonce": secrets.token_hex(32), **wanted})
        return
    before = ledger.entries[0].content
    for name in dict.fromkeys([*wanted, *before]):
        if name not in ("ledger", "nonce") and before.get(name) != wanted.get(name):
            raise InvalidInput(
                f"{ledger.path} is the record of another run: there {name} is {before.get(name)!r}, here "
                f"{wanted.get(name)!r}; name another place for this one"
            )


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
