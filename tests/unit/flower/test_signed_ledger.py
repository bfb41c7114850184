"""A ledger before an auditor: an adversary changes it, chains all hashes anew, and is found by the signatures."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedpact as fp
from fedpact.deals.ledger import BEGINNING, canonical_json, read_ledger
from fedpact.deals.settlement import settle_payments
from fedpact.deals.signatures import read_known_keys
from fedpact.negotiation.check import CheckedLedger, check_ledger
from fedpact.scenario import example
from signed_ledgers import write_signed_ledger
from unit.flower.in_process import Pulling, Stage, kind_of

Entries = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A run that is over; tests change copies of its ledger."""
    made = Stage(example("paper-w2").federation, tmp_path_factory.mktemp("signed"))
    made.conduct()
    return made


@pytest.fixture(scope="module")
def replayed(stage: Stage) -> Stage:
    """Another run of the same members, with the same keys, to the same deal."""
    made = Stage(stage.federation, stage.folder, run_config={"record": str(stage.folder / "again")})
    made.conduct()
    return made


@pytest.fixture
def ledger(stage: Stage, tmp_path: Path) -> Path:
    shutil.copytree(stage.ledger.parent, tmp_path / "record")
    return tmp_path / "record" / "ledger.jsonl"


def entries_of(path: Path) -> Entries:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rechain(path: Path, entries: Entries) -> None:
    """Write entries with numbers and hashes that fit, as whoever keeps the ledger can."""
    previous, lines = BEGINNING, []
    for seq, entry in enumerate(entries):
        fields = {**{key: entry[key] for key in ("kind", "content", "time")}, "seq": seq, "previous": previous}
        previous = hashlib.sha256(canonical_json(fields)).hexdigest()
        lines.append(canonical_json(fields | {"hash": previous}) + b"\n")
    path.write_bytes(b"".join(lines))


def content(entries: Entries, kind: str) -> dict[str, Any]:
    return next(entry["content"] for entry in entries if entry["kind"] == kind)


def attacked(path: Path, attack: Callable[[Entries], Any]) -> CheckedLedger:
    entries = entries_of(path)
    attack(entries)
    rechain(path, entries)
    assert read_ledger(path).broken is None
    return check_ledger(path)


def settle_anew(entries: Entries, **changed: Any) -> None:
    """The settlement made to fit what the other entries now say."""
    deal, settled = content(entries, "agreed")["deal"], content(entries, "settled")
    unit = {part: entries[0]["content"][part] for part in ("currency", "per_payoff", "decimals")} | changed
    due = settle_payments(deal["payments"], names=deal["agents"], **unit)
    settled["cents"] = dict(zip(due.names, due.cents, strict=True))


# What a sound one says


def test_a_sound_ledger_says_what_is_signed_by_whom(ledger: Path) -> None:
    found = check_ledger(ledger)
    assert found.failed == [] and all(finding.holds for finding in found.findings.values())
    assert all(part.holds for part in found.signed_parts)
    members = [f"agent {place}" for place in range(3)]
    signed = {about: sorted(p.name for p in found.signed_parts if p.about == about) for about in ABOUTS}
    assert signed == dict.fromkeys(ABOUTS, members) | {"delivery": sorted(members * 2)}
    # One deal for all: the same digest; everything else is each member's own.
    assert len({part.digest for part in found.signed_parts if part.about in ("deal", "settlement")}) == 2
    assert len({part.digest for part in found.signed_parts if part.about == "statement"}) == 3
    assert "--keys compares them" in found.findings["keys"].reason


ABOUTS = ("key", "deal", "statement", "delivery", "accuracy", "settlement")


# What an adversary does


def pose_refusal_as_signature(entries: Entries) -> None:
    content(entries, "signed")["signatures"]["agent 1"] = {"signed": False, "reason": "least gain"}


def empty_signatures(entries: Entries) -> None:
    for said in content(entries, "signed")["signatures"].values():
        said |= {"signature": "", "own_signature": ""}


def no_signatures(entries: Entries) -> None:
    content(entries, "signed")["signatures"].clear()


def swap_signatures(entries: Entries) -> None:
    said = content(entries, "signed")["signatures"]
    said["agent 0"], said["agent 1"] = said["agent 1"], said["agent 0"]


def double_rate(entries: Entries) -> None:
    settle_anew(entries, per_payoff=2.0 * entries[0]["content"]["per_payoff"])


def double_rate_everywhere(entries: Entries) -> None:
    entries[0]["content"]["per_payoff"] *= 2.0
    double_rate(entries)


def other_payments(entries: Entries) -> None:
    deal = content(entries, "agreed")["deal"]
    deal["payments"] = [payment * 1.01 for payment in deal["payments"]]
    deal["prices"] = [[price * 1.01 for price in row] for row in deal["prices"]]
    content(entries, "agreed").pop("transcript")
    settle_anew(entries)


def other_side_payments(entries: Entries) -> None:
    deal = content(entries, "agreed")["deal"]
    deal["side_payments"] = [0.1, -0.1, 0.0]
    deal["payments"] = [p + s for p, s in zip(deal["payments"], deal["side_payments"], strict=True)]
    content(entries, "agreed").pop("transcript")
    settle_anew(entries)


def deliver_nothing(entries: Entries) -> None:
    trained = content(entries, "trained")
    for each in trained["deliveries"]["agent 2"]:
        each["samples"] = 0


def leave_deliveries_out(entries: Entries) -> None:
    content(entries, "trained")["deliveries"].pop("agent 2")


def one_round_twice(entries: Entries) -> None:
    rounds = content(entries, "trained")["deliveries"]["agent 2"]
    rounds[1] = rounds[0]


def confirm_by_nobody(entries: Entries) -> None:
    content(entries, "settled").update(signatures={})


def confirm_in_words(entries: Entries) -> None:
    content(entries, "settled")["signatures"]["agent 1"] = "confirmed"


def other_accuracy(entries: Entries) -> None:
    content(entries, "measured")["accuracies"]["agent 0"]["accuracy"] = 0.5


def other_model(entries: Entries) -> None:
    content(entries, "trained")["model"]["arrays"] = "0" * 64


def remove(kind: str) -> Callable[[Entries], None]:
    def attack(entries: Entries) -> None:
        entries.remove(next(entry for entry in entries if entry["kind"] == kind))

    return attack


def reorder(entries: Entries) -> None:
    entries[4], entries[5] = entries[5], entries[4]


def another_title(entries: Entries) -> None:
    entries[0]["content"]["title"] = "Another run"


def another_time(entries: Entries) -> None:
    entries[2]["time"] = "2000-01-01T00:00:00Z"


def add_after_the_end(entries: Entries) -> None:
    entries.append({**entries[2], "kind": "agreed"})


def a_second_key(entries: Entries) -> None:
    entries.insert(2, json.loads(json.dumps(entries[1])))


def add_utility(entries: Entries) -> None:
    content(entries, "agreed")["utilities"]["agent 0"] = 5.0


@pytest.mark.parametrize(
    ("attack", "claim"),
    [
        (pose_refusal_as_signature, "signed"),
        (empty_signatures, "signed"),
        (no_signatures, "signed"),
        (swap_signatures, "signed"),
        (double_rate, "confirmed"),
        (double_rate_everywhere, "signed"),
        (other_payments, "signed"),
        (other_side_payments, "signed"),
        (deliver_nothing, "delivered"),
        (leave_deliveries_out, "delivered"),
        (one_round_twice, "delivered"),
        (confirm_by_nobody, "confirmed"),
        (confirm_in_words, "confirmed"),
        (other_accuracy, "measured"),
        (other_model, "measured"),
        (remove("keys"), "signed"),
        (remove("signed"), "order"),
        (remove("trained"), "order"),
        (remove("measured"), "order"),
        (reorder, "order"),
        (another_title, "signed"),
        (another_time, "signed"),
        (add_after_the_end, "order"),
        (a_second_key, "keys"),
        (add_utility, "signed"),
    ],
)
def test_a_ledger_chained_anew_is_found(ledger: Path, attack: Callable[[Entries], None], claim: str) -> None:
    found = attacked(ledger, attack)
    assert claim in found.failed, found.findings


def test_the_end_cut_off_alone_is_found_by_who_holds_a_receipt(ledger: Path, stage: Stage) -> None:
    receipts = [stage.folder / "agents" / f"{place}-record" / "receipt.json" for place in range(3)]
    assert check_ledger(ledger, receipts=receipts).failed == []
    entries = entries_of(ledger)
    rechain(ledger, entries[:-1])
    assert check_ledger(ledger).failed == []
    found = check_ledger(ledger, receipts=receipts[:1])
    assert found.failed == ["receipt of agent 0"]
    assert 'what "agent 0" signed last (settlement) is not in the ledger' in found.findings[found.failed[0]].reason
    rechain(ledger, entries[:-2])
    assert "it was changed or cut off" in check_ledger(ledger, receipts=receipts).findings["receipt of agent 1"].reason


def test_a_receipt_of_another_run(ledger: Path, replayed: Stage) -> None:
    receipt = replayed.folder / "agents" / "0-record" / "receipt.json"  # that run came later
    found = check_ledger(ledger, receipts=[receipt])
    assert "is of another run" in found.findings["receipt of agent 0"].reason and len(found.failed) == 1


@pytest.mark.parametrize("kind", ["keys", "signed", "trained", "measured", "settled"])
def test_nothing_signed_in_another_run_is_of_use(ledger: Path, replayed: Stage, kind: str) -> None:
    """Same members, keys and deal; the signatures are of that run all the same."""
    other = content(entries_of(Path(replayed.settings().record) / "ledger.jsonl"), kind)
    found = attacked(ledger, lambda entries: content(entries, kind).update(other))
    claim = {"trained": "delivered", "settled": "confirmed"}.get(kind, kind)
    assert claim in found.failed


@pytest.mark.slow
def test_a_run_made_up_from_nothing_needs_other_keys(stage: Stage, tmp_path: Path) -> None:
    """A coordinator plays all members with keys of its own: sound in itself, and not what the auditor knows."""
    invented = Stage(stage.federation, tmp_path)
    invented.conduct()
    assert check_ledger(invented.ledger).failed == []
    known = read_known_keys(public_keys(stage, tmp_path))
    assert check_ledger(invented.ledger, keys=known).failed == ["keys"]
    found = check_ledger(stage.ledger, keys=known)
    assert found.failed == [] and "they are the keys known" in found.findings["keys"].reason


def public_keys(stage: Stage, folder: Path) -> Path:
    keys = folder / "public"
    keys.mkdir()
    for file in (stage.folder / "agents").glob("*.key.pub"):
        shutil.copy(file, keys)
    return keys


def test_a_deal_that_nobody_has_signed_fails_where_signatures_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    deal = {"mechanism": "externality", "agents": ["A", "B"], "contributions": [1, 1], "payments": [0, 0]}
    write_signed_ledger(path, deal | {"excluded": {}}, until="agreed")
    found = check_ledger(path)
    assert found.failed == [] and "nobody has signed the deal" in found.findings["signed"].reason
    assert check_ledger(path, must_be_signed=True).failed == ["signed"]
    before = path.read_text(encoding="utf-8").replace('"ledger":3', '"ledger":1')
    path.write_text(before, encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"ledgers of version 0\.2 are not read"):
        check_ledger(path)


# Delivered and paid


def test_what_is_delivered_is_paid_for(tmp_path: Path) -> None:
    """A member whose data ran short is paid less, its partners pay less, and everybody signs that."""

    class Short(Pulling):
        samples = 10**12

    def lose_data(message: Any, honest: Any) -> Any:
        Short.samples = 15 if kind_of(message) == "train" else 10**12
        try:
            return honest(message)
        finally:
            Short.samples = 10**12

    stage = Stage(example("paper-w2").federation, tmp_path, learner=Short, faults={2: lose_data})
    stage.conduct()
    found = check_ledger(stage.ledger)
    assert found.failed == [] and all(finding.holds for finding in found.findings.values())
    settled = found.entries.get("settled").content  # type: ignore[union-attr]
    deal = found.deal
    assert deal is not None and deal.prices is not None
    share = 15 / 31
    assert found.delivered is not None and found.delivered[2] == pytest.approx(share * deal.contributions[2])
    due = -(deal.prices @ (deal.contributions * [1, 1, share]))
    assert list(settled["cents"].values()) == pytest.approx(list(1e8 * due), abs=1.5)
    assert sum(settled["cents"].values()) == 0
    assert settled["cents"]["agent 2"] < 1e8 * deal.payments[2]
