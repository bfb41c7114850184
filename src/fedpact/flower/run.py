"""A run whose members sign: a roll call, and the phases after it, each an entry of the ledger.

Every node says in the roll call who it is: the name and the index in its private file, and the public key it signs
with, proven by a signature for this run. Whoever cannot say, or says what cannot be, has no seat; the reason is kept.
Two nodes for one seat are an error, since nobody could tell which of them to believe.

Everybody signs one document of the deal, and is shown everybody's signature with every message to train. What is
delivered, measured and paid is signed too (`fedpact.deals.signatures`). The ledger alone says where a run stands: a
phase that it holds is not done again, and a server that is started again on it goes on after the last one. Nodes forget
between runs, so what they have signed is put to them again; they check it anew.

A member that is lost before training is over takes its data with it: the deal is void, and those who are left go on
under another, if there is one. A member that refuses to sign ends the run: the same deal would be refused again. What
is delivered is paid for, at the prices agreed; where a deal names no prices, a member that delivers less than it agreed
to is lost.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from fedpact.deals import Deal, Entry, Ledger, Settlement
from fedpact.deals.deal_file import deal_from_record
from fedpact.deals.ledger import (
    AGREED,
    FAILED,
    KEYS,
    MEASURED,
    SETTLE,
    SETTLED,
    SIGNED,
    TRAINED,
    VERIFIED,
    VERIFY,
    is_end,
)
from fedpact.deals.settlement import settle_run
from fedpact.deals.signatures import (
    deal_document,
    document_digest,
    is_signed_by,
    key_document,
    own_document,
    plain_key,
    settlement_document,
    settles_by_delivery,
    signed_deals,
    signed_delivery,
    signed_subsets,
    stated_keys,
    stated_model,
    statement_document,
)
from fedpact.deals.updates import RoundUpdates, TrainingUpdates, missing_measurements, score_of, verified_content
from fedpact.fitting.delivery import Calibration
from fedpact.flower.checks import are_members
from fedpact.flower.messages import Conventions, array_record, ask_nodes, ask_to_measure, named_arrays, record_digest
from fedpact.utils.errors import FedpactError, InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that `flwr run --stream` and `flwr log` show it

MIN_AGENTS = 2  #: with fewer there is nothing to agree on
LOOK_PAUSE = 0.5  # seconds between looks for nodes


class Lost(FedpactError, RuntimeError):
    """Members of a deal that no longer keep it; `reasons` says why, by name, `signed` what was signed until then."""

    def __init__(self, reasons: Mapping[str, str], *, signed: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"members of the deal are lost: {_each(reasons, '')}")
        self.reasons, self.signed = dict(reasons), dict(signed or {})


def _each(reasons: Mapping[str, str], does: str) -> str:
    return "; ".join(f'"{name}"{does}: {reason}' for name, reason in reasons.items())


class SignedRun:
    """A run under way, whose ledger has begun, with those who are there.

    Attributes
    ----------
    names
        What the agents are called, by index.
    nodes
        Flower's numbers of nodes, by name, of those who are there.
    unseated
        Why nodes have no seat, by their numbers.
    """

    conventions = Conventions()
    settlement: Settlement | None = None

    def __init__(  # noqa: PLR0917 - how long nodes have to answer, and to connect: all, or so many
        self,
        grid: Grid,
        ledger: Ledger,
        names: Sequence[str],
        timeout: float,
        patience: float,
        least: int | None = None,
    ) -> None:
        self.grid, self.ledger, self.names, self.timeout = grid, ledger, tuple(names), timeout
        self.header, self.nodes, self.unseated = ledger.entries[0].content, dict[str, int](), dict[int, str]()
        self._call_nodes(_connected_nodes(grid, len(self.names) if least is None else least, patience))
        logger.info("%s", self.description)

    def _call_nodes(self, found: Sequence[int]) -> None:
        """Ask every node who it is; `InvalidInput` if two nodes take the same seat, or nobody takes any."""
        run, known, proven = self.ledger.entries[0].hash, stated_keys(self.ledger.entries), {}
        asked = {"run": run, "agents": list(self.names)}
        everybody = {node: node for node in found}
        answers, self.unseated = ask_nodes(self.grid, everybody, "greet", dict.fromkeys(found, asked), self.timeout)
        seated: dict[str, int] = {}
        for node, said in sorted(answers.items()):
            try:
                name, key = _greeting(said, self.names, run, known)
            except InvalidInput as reason:
                self.unseated[node] = str(reason)
                continue
            if name in seated:
                raise InvalidInput(
                    f'nodes {seated[name]} and {node} are both called "{name}"; every member runs one node, with a '
                    f"private file of its own"
                )
            seated[name], proven[name] = node, key
        if not seated:
            reasons = "; ".join(f"node {node}: {reason}" for node, reason in self.unseated.items())
            raise InvalidInput(f"no node is there to negotiate with: {reasons or 'none is connected'}")
        self.nodes = {name: seated[name] for name in self.names if name in seated}
        new = {name: key for name, key in proven.items() if name not in known}
        if new:
            self.note(KEYS, {"keys": new})

    @property
    def description(self) -> str:
        """Who is there, in words."""
        out = "".join(f"; node {node} has no seat: {reason}" for node, reason in self.unseated.items())
        return f"there are {', '.join(self.nodes)}{out}"

    def to_the_end(self, make_deal: Callable[[Lost | None], Mapping[str, Any]], train: Callable[[], None]) -> None:
        """Every phase that is still to be done; without those who are lost, if need be more than once.

        `make_deal` makes the content of a deal's entry for those who are there, or raises who was lost; `train` trains
        under the deal that stands, and ends in `keep_training`.
        """
        lost = None
        while True:
            if self.entry(AGREED) is None:
                self.note(AGREED, make_deal(lost))
            try:
                self.sign()
                if self.entry(TRAINED) is None:
                    train()
                break
            except Lost as found:
                lost = found
                self.fail("lost", str(lost), lost.reasons, **lost.signed)
                self.nodes = {name: node for name, node in self.nodes.items() if name not in lost.reasons}
                if len(self.nodes) < MIN_AGENTS:
                    raise
                logger.warning("%s", lost)
        self.verify()
        self.measure()
        self.settle()

    def ask(
        self, action: str, put: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """What members say to what is put to each, and why others say nothing that can be read."""
        nodes = {name: self.nodes[name] for name in put if name in self.nodes}
        answers, silent = ask_nodes(self.grid, nodes, action, put, self.timeout)
        return answers, silent | {name: "it is not there" for name in put if name not in nodes}

    # Phases

    def sign(self) -> None:
        """Everybody signs, again if it has done so in an earlier run of the server."""
        agreed, document = self.content(AGREED), self.document()
        put = own_parts(agreed, document)
        answers, silent = self.ask("sign", put)
        if self.entry(TRAINED) is not None:  # what was signed and done is not undone; who disputes it can say so later
            return
        signed, refused = {}, {}
        for name, said in answers.items():
            if said.get("signed") is False:
                refused[name] = f"{said.get('reason')!s:.200}"
                continue
            try:
                signed[name] = _checked_signature(name, said, put[name])
            except InvalidInput as reason:
                silent[name] = str(reason)
        kept = {"signatures": signed} if signed else {}
        if refused:
            self.fail("sign", "the deal is not signed", refused, **kept)
            raise InvalidInput(_each(refused, " does not sign the deal"))
        if silent:
            raise Lost(silent, signed=kept)
        if self.entry(SIGNED) is None:
            self.note(SIGNED, kept)

    @property
    def wants(self) -> dict[str, list[str]] | None:
        """Whose updates the model of every member is made of, as they have signed it; None if all have one model."""
        if "models" not in self.document():
            return None
        return {name: said["wants"] for name, said in self.content(SIGNED)["signatures"].items()}

    def keep_training(
        self,
        models: Mapping[str, ArrayRecord],
        deliveries: Mapping[str, list[dict[str, Any]]],
        updates: TrainingUpdates | None = None,
    ) -> None:
        """Members' models on disk, each once, and the updates if they are to be verified; then the entry of them."""
        files: dict[str, dict[str, Any]] = {}
        for arrays in models.values():
            digest = record_digest(arrays)
            if digest not in files:
                path = self._file("model" if self.wants is None else f"model-{len(files)}")
                files[digest] = {**write_model(path, arrays), "arrays": digest}
        if self.wants is None:
            (only,) = files.values()
            more: dict[str, Any] = {"model": only}
        else:
            more = {"models": {name: files[record_digest(arrays)] for name, arrays in models.items()}}
        if updates is not None:
            more["updates"] = updates.save(self._file("updates"))
        self.note(TRAINED, {"deliveries": deliveries, **more})

    def verify(self) -> None:
        """What members measure of models made of subsets of the updates; an error if nobody can."""
        trained, document = self.content(TRAINED), self.document()
        stated = trained.get("updates")
        if stated is None or self.entry(VERIFIED) is not None or self.entry(MEASURED) is not None:
            return
        updates = TrainingUpdates.load(self.ledger.path.with_name(stated["file"]), stated["sha256"])
        subsets = signed_subsets(document, trained["deliveries"])
        models = [array_record(updates.model_of(subset)) for subset in subsets]
        said = self._scores("verification", dict.fromkeys(self.samples(), models))
        content = verified_content(subsets, [record_digest(arrays) for arrays in models], said)
        reasons = missing_measurements(content["models"])
        what = "the models made of subsets of the updates"
        if reasons and len(reasons) == len(said):
            name, reason = next(iter(reasons.items()))
            error = FedpactError(f'no member could measure {what} ("{name}": {reason})')
            self.fail(VERIFY, str(error), reasons)
            raise error
        warn_unmeasured(reasons, what)
        signatures = {name: each["signature"] for name, each in said.items() if each["accuracies"] is not None}
        self.note(VERIFIED, content | {"signatures": signatures})

    def measure(self) -> None:
        """Everybody's accuracy on its own test set, as far as nodes answer."""
        if self.entry(MEASURED) is not None:
            return
        trained = self.content(TRAINED)
        stated = {name: stated_model(trained, name) for name in self.samples()}
        files = {model["file"]: model["sha256"] for model in stated.values()}
        models = {file: [read_model(self.ledger.path.with_name(file), digest)] for file, digest in files.items()}
        said = self._scores("accuracy", {name: models[model["file"]] for name, model in stated.items()})
        found = {name: score_of(each, 0) for name, each in said.items()}
        for name, each in said.items():
            if each["accuracies"] is not None:
                found[name] |= {"model": stated[name]["arrays"], "signature": each["signature"]}
        warn_unmeasured(missing_measurements([{"accuracies": found}]), "the model")
        self.note(MEASURED, {"accuracies": found})

    def _scores(self, about: str, models: Mapping[str, Sequence[ArrayRecord]]) -> dict[str, dict[str, Any]]:
        """What members say of the models they are sent, with their signatures; without one they say nothing."""
        document, head = self.document(), self.ledger.head
        nodes = {name: node for name, node in self.nodes.items() if name in models}
        found = ask_to_measure(
            self.grid, nodes, models, self.conventions, document["rounds"], self.timeout, about=about, head=head
        )
        for name, said in found.items():
            if said["accuracies"] is None:
                continue
            digests = [record_digest(arrays) for arrays in models[name]]
            made = {"models": digests, "accuracies": said["accuracies"], "samples": said["samples"]}
            signed = own_document(about, document, name, made, head=head)
            if not is_signed_by(document["keys"][name], signed, said["signature"]):
                found[name] = {"accuracies": None, "reason": f"the {about} is not signed"}
        return found

    def settle(self) -> None:
        """What everybody is paid for what was delivered, confirmed by those who find it right."""
        document, trained, head = self.document(), self.content(TRAINED), self.ledger.head
        delivered = signed_delivery(document, trained["deliveries"])
        settlement, shares = self._due(delivered)
        cents = dict(zip(settlement.names, settlement.cents, strict=True))
        agreed = self._required(AGREED)
        put: dict[str, Any] = {"deal": document_digest(document), "head": head, "delivered": delivered, "cents": cents}
        put["entries"] = [asdict(entry) for entry in self.ledger.entries[agreed.seq + 1 :]]
        paid = {} if shares is None else {"paid_shares": shares}
        if shares is not None:
            put |= {"prices": agreed.content["deal"]["prices"], **paid}
        answers, silent = self.ask("settle", dict.fromkeys(document["keys"], put))
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
            self.fail(SETTLE, "the settlement is disputed", disputed, cents=cents, signatures=confirmed, **paid)
            raise InvalidInput(_each(disputed, " disputes it"))
        self.note(SETTLED, {"cents": cents, "signatures": confirmed, **paid})
        self.settlement = settlement

    def _due(self, delivered: Mapping[str, float]) -> tuple[Settlement, list[list[float | None]] | None]:
        """What everybody is paid, and the shares that are paid for where the deal is settled by what arrived."""
        deal, document, shares = self.deal(), self.document(), None
        if settles_by_delivery(document):
            verified, calibration = self.entry(VERIFIED), self.content(AGREED)["verification"]["calibration"]
            models = [] if verified is None else verified.content["models"]
            shares = Calibration.of_record(calibration).paid_shares(deal, models, delivered)
        return settle_run(deal, delivered, document["money"], shares=shares), shares

    # The ledger

    def entry(self, kind: str) -> Entry | None:
        """The entry of a phase of the deal that stands."""
        entries = self.ledger.entries
        return None if is_end(entries[-1]) else signed_deals(entries)[-1].entries.get(kind)

    def _required(self, kind: str) -> Entry:
        entry = self.entry(kind)
        assert entry is not None
        return entry

    def content(self, kind: str) -> Mapping[str, Any]:
        """What the entry of a phase holds."""
        return self._required(kind).content

    @property
    def attempt(self) -> int:
        """How many deals there will have been with this one."""
        return 1 + sum(map(is_end, self.ledger.entries))

    def deal(self) -> Deal:
        """The deal that stands."""
        return deal_from_record(self.content(AGREED)["deal"])

    def document(self) -> dict[str, Any]:
        """What everybody signs of the deal."""
        return deal_document(self.ledger.entries, self._required(AGREED))

    def samples(self) -> dict[str, int]:
        """What members agreed to, in whole samples."""
        return self.deal().samples(self.header["samples_per_unit"])

    def trained_model(self) -> ArrayRecord:
        """The model of the deal's first member."""
        model = stated_model(self.content(TRAINED), next(iter(self.samples())))
        return read_model(self.ledger.path.with_name(model["file"]), model["sha256"])

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


def _connected_nodes(grid: Grid, size: int, patience: float) -> list[int]:
    """The nodes that are connected, once there are enough of them or patience is over."""
    deadline = time.monotonic() + patience
    while True:
        found = sorted(grid.get_node_ids())
        remaining = deadline - time.monotonic()
        if len(found) >= size or remaining <= 0.0:
            return found
        time.sleep(min(LOOK_PAUSE, remaining))


def _greeting(
    said: Mapping[str, Any], names: Sequence[str], run: str, fixed: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Whose node it is, and its key with the signature for this run, as the ledger holds them."""
    name, index, agents = (said.get(part) for part in ("name", "index", "agents"))
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(f"it is called {short_repr(name)}, which no member is")
    if agents != len(names) or type(agents) is not int:
        raise InvalidInput(f'"{name}" has a row for {short_repr(agents)} members, the run is for {len(names)}')
    if type(index) is not int or index != names.index(name):
        raise InvalidInput(f'"{name}" says that its index is {short_repr(index)}, and it is {names.index(name)}')
    key, signature = plain_key(said.get("key")), said.get("signature")
    if not is_signed_by(key, key_document(run, name, index, key), signature):
        raise InvalidInput(f'"{name}" does not prove that its key is its own')
    if fixed.get(name, key) != key:
        raise InvalidInput(f'"{name}" signs with another key than at the start of the run')
    return name, {"place": index, "key": key, "signature": str(signature)}


def begin_run(ledger: Ledger, header: Mapping[str, Any]) -> None:
    """Write the first entry of a run whose members sign, or check that the one there is of this run.

    The number drawn for a run keeps signatures from being used elsewhere.
    """
    wanted = jsonable(header)
    if not ledger.entries:
        ledger.append("begun", {"nonce": secrets.token_hex(32), **wanted})
        return
    before = ledger.entries[0].content
    for name in dict.fromkeys([*wanted, *before]):
        if name not in ("ledger", "nonce") and before.get(name) != wanted.get(name):
            raise InvalidInput(
                f"{ledger.path} is the record of another run: there {name} is {before.get(name)!r}, here "
                f"{wanted.get(name)!r}; name another place for this one"
            )


def own_parts(agreed: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each member is asked to sign: the deal's document, its index in it, and its own prices and utility."""
    prices, utilities = agreed["deal"].get("prices"), agreed["utilities"]
    calibration, wants = (agreed.get("verification") or {}).get("calibration"), agreed.get("wants")
    return {
        name: {
            "document": document,
            "place": index,
            "prices": prices[index] if prices else None,
            "utility": utilities.get(name),
            **({} if calibration is None else {"calibration": calibration}),
            **({} if wants is None else {"wants": wants[name]}),
        }
        for index, name in enumerate(document["agents"])
        if name not in document["excluded"]
    }


def _checked_signature(name: str, said: Mapping[str, Any], put: Mapping[str, Any]) -> dict[str, Any]:
    """What a member says that signs, as the ledger holds it."""
    document, claims, wants = put["document"], said.get("claims"), said.get("wants")
    key, listed = document["keys"][name], isinstance(claims, list) and all(isinstance(each, str) for each in claims)
    if not are_members(wants, document["agents"]) if "models" in document else wants is not None:
        raise InvalidInput("does not say whose updates its model is made of, as this deal has it")
    if said.get("signed") is not True or not listed or not is_signed_by(key, document, said.get("signature")):
        raise InvalidInput("signs something else than the deal")
    parts = {"prices": put["prices"], "utility": put["utility"], "claims": claims or [], "wants": wants}
    if not is_signed_by(key, statement_document(document, name, **parts), said.get("own_signature")):
        raise InvalidInput("signs something else than its own part of the deal")
    kept = ("signature", "own_signature", "claims", *(["wants"] if wants is not None else []))
    return {part: said[part] for part in kept}


def warn_unmeasured(reasons: Mapping[str, str], what: str) -> None:
    """Say who could not measure, and why."""
    for name, reason in reasons.items():
        logger.warning('member "%s" has not measured %s: %s', name, what, reason)


# Models on disk


def write_model(path: Path, arrays: ArrayRecord) -> dict[str, Any]:
    """Write a model, as a training without updates; its file's name and digest."""
    return TrainingUpdates(rounds=[RoundUpdates(before=named_arrays(arrays), updates={}, samples={})]).save(path)


def read_model(path: Path, digest: str) -> ArrayRecord:
    """The model of a file that has this digest."""
    return array_record(TrainingUpdates.load(path, digest).rounds[0].before)
