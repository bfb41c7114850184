"""What ledgers and transcripts prove, and which contradictions are found."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Ledger
from fedpact.deals.ledger import AGREED, FAILED, MEASURED, SETTLED, SIGNED, TRAINED
from fedpact.negotiation.check import (
    CHECKS,
    check_ledger,
    check_record,
    check_transcript,
)
from fedpact.scenario import example
from signed_ledgers import write_signed_ledger

FEDERATION = example("paper-w2").federation
PRICES = [[-0.2, 0.1], [0.2, -0.1]]
DEAL = {
    "mechanism": "externality",
    "agents": ["A", "B"],
    "contributions": [10.0, 4.0],
    "payments": [1.6, -1.6],
    "prices": PRICES,
    "excluded": {},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


# Ledgers


def run_ledger(path: Path, *, until: str = SETTLED, **changed: Any) -> None:
    """The ledger of a run of two agents, some contents changed."""
    used = {"A": [10, 10], "B": [4, 4]}
    write_signed_ledger(path, DEAL, money=fp.Money("EUR", 100.0), used=used, until=until, changed=changed)


def test_a_sound_record(path: Path) -> None:
    run_ledger(path)
    found = check_record(path)
    assert found.failed == [] and found.deal is not None and found.deal.payments.tolist() == DEAL["payments"]
    assert {claim for claim, finding in found.findings.items() if finding.holds is None} == {
        "recomputed",
        "model",
        "measured",
    }


@pytest.mark.parametrize(
    ("kind", "content", "claim"),
    [
        (AGREED, {"deal": DEAL | {"payments": [1.6, -1.5]}}, "budget-balance"),
        (AGREED, {"deal": DEAL | {"payments": [1.5, -1.5]}}, "prices"),
        (AGREED, {"deal": DEAL | {"prices": "none"}}, "prices"),
        (AGREED, {"deal": DEAL | {"contributions": [1.0]}}, "budget-balance"),
        (AGREED, {"deal": DEAL, "transcript": {"file": "../elsewhere", "sha256": ""}}, "recomputed"),
        (TRAINED, {"deliveries": {}}, "delivered"),
        (AGREED, {"deal": DEAL | {"prices": [[-0.2, 0.1], [0.3, -0.35]]}}, "prices"),
        (SETTLED, {"cents": {"A": 161, "B": -160}}, "budget-balance"),
        (SETTLED, {"cents": {"A": 161, "B": -161}}, "settlement"),
        (SETTLED, {"cents": {"A": 160.0, "B": -160.0}}, "budget-balance"),
        (SETTLED, {"cents": None}, "settlement"),
    ],
)
def test_records_that_contradict_themselves(path: Path, kind: str, content: Any, claim: str) -> None:
    run_ledger(path, until=SIGNED if kind == AGREED else SETTLED, **{kind: content})
    assert claim in check_record(path).failed


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (AGREED, {}),
        (AGREED, {"deal": [1, 2]}),
        (SIGNED, {"signatures": None}),
        (TRAINED, {"deliveries": [1]}),
        (MEASURED, {}),
        (MEASURED, {"accuracies": [0.5]}),
        (MEASURED, {"accuracies": {"A": 0.5}}),
        (MEASURED, {"accuracies": {"A": {"accuracy": "high"}}}),
        (MEASURED, {"accuracies": {"A": {"accuracy": 1.5}}}),
        (SETTLED, {"cents": {}, "signatures": []}),
        (FAILED, {"phase": "train"}),
        (FAILED, {"phase": "train", "reason": "lost", "agents": "A"}),
    ],
)
@pytest.mark.parametrize("with_deal", [True, False])
def test_a_sound_chain_of_unsound_entries_fails(path: Path, kind: str, content: Any, with_deal: bool) -> None:
    if with_deal:
        run_ledger(path)
    with Ledger(path) as ledger:
        if not with_deal:
            ledger.append("begun", {})
        ledger.append(kind, content)
    finding = check_record(path).findings["entries"]
    assert finding.holds is False
    assert f'"{kind}", does not hold' in finding.reason


def test_a_model_or_a_transcript_that_was_changed(path: Path) -> None:
    path.with_name("model.npz").write_bytes(b"another")
    path.with_name("talk.jsonl").write_bytes(b"another")
    talk = {"file": "talk.jsonl", "sha256": "0", "exchanges": 1}
    run_ledger(path, agreed={"transcript": talk}, trained={"model": {"file": "model.npz", "sha256": "0"}})
    assert check_record(path).failed == ["recomputed", "model"]
    path.with_name("model.npz").unlink()
    path.with_name("talk.jsonl").unlink()
    assert check_record(path).failed == []


def test_lots_that_nobody_signed_are_found(path: Path) -> None:
    """What members sign has one number for each of them: a deal of lots would be settled between others."""
    run_ledger(path, until=SIGNED, agreed={"deal": DEAL | {"lot_owners": ["B", "A"], "lot_names": ["x", "y"]}})
    finding = check_record(path).findings["signed"]
    assert finding.holds is False and "the deal states lots of data, and what members sign knows" in finding.reason


def test_claims_are_about_the_last_deal(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.append("begun", {})
        ledger.append(AGREED, {"deal": DEAL | {"payments": [9.0, 9.0]}})
        ledger.append(FAILED, {"phase": "sign", "reason": "too dear", "agents": {}})
        ledger.append(AGREED, {"deal": DEAL})
    found = check_record(path)
    assert found.failed == [] and found.findings["signed"].holds is None


def test_two_runs_in_one_ledger_are_found(path: Path) -> None:
    """Of two only the last would be checked; a deal anew within one run is no second run."""
    run_ledger(path)
    with Ledger(path) as ledger:
        ledger.append(AGREED, {"deal": DEAL})
    found = check_record(path)
    assert "order" in found.failed
    assert found.findings["order"].reason.startswith("line 8, 'agreed', comes after the settlement, where a run ends")


def test_payments_are_by_the_prices_and_what_does_not_depend_on_contributions(path: Path) -> None:
    side = {"side_payments": [0.5, -0.5], "payments": [2.1, -2.1]}
    run_ledger(path, until=AGREED, agreed={"deal": DEAL | side})
    assert check_ledger(path).failed == []
    other = path.with_name("other.jsonl")
    run_ledger(other, until=AGREED, agreed={"deal": DEAL | side | {"payments": [1.6, -1.6]}})
    assert check_ledger(other).failed == ["prices"]


def test_prices_of_who_is_out_are_found(path: Path) -> None:
    """By them somebody without a key or a signature pays what the others fall short of."""
    deal = {
        "mechanism": "externality",
        "agents": ["A", "B", "Out"],
        "contributions": [10.0, 5.0, 0.0],
        "payments": [0.0, 0.0, 0.0],
        "prices": [[-3.0, 6.0, 0.0], [0.0, 0.0, 0.0], [3.0, -6.0, 0.0]],
        "excluded": {"Out": "it was late"},
    }
    sound = deal | {"prices": [[0.0, 0.0, 0.0]] * 3}
    write_signed_ledger(path, sound, used={"A": [10], "B": [1]}, changed={AGREED: {"deal": deal}})
    found = check_ledger(path)
    assert {"prices", "settlement"} <= set(found.failed) and found.paid is None
    assert 'nothing is paid by or to member "Out"' in found.findings["prices"].reason


def test_decimals_are_those_of_the_currency(path: Path) -> None:
    run_ledger(path, begun={"currency": "JPY"})
    assert "decimals must be 0, as amounts in 'JPY' have, got 2" in check_ledger(path).findings["settlement"].reason


def test_a_name_of_a_file_that_is_too_long(path: Path) -> None:
    run_ledger(path, trained={"model": {"file": "m" * 5000, "sha256": "0"}})
    finding = check_ledger(path).findings["model"]
    assert finding.holds is None and finding.reason == f"{'m' * 80} is not beside the ledger"


def zipped(content: bytes, **flags: int) -> bytes:
    """An archive with one array, whose header in the archive may say anything."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("rounds.npy", content)
    made = bytearray(file.getvalue())
    listed = made.find(b"PK\x01\x02")
    made[6] |= flags.get("encrypted", 0)
    made[listed + 8] |= flags.get("encrypted", 0)
    made[8] = made[listed + 10] = flags.get("method", 0)
    return bytes(made)


def stored(rounds: str, **arrays: Any) -> bytes:
    file = BytesIO()
    np.savez(file, *arrays.values(), rounds=np.array(rounds))
    return file.getvalue()


def header(shape: tuple[int, ...]) -> bytes:
    file = BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


SPREADING = '[{"before": {"w": "arr_0"}, "updates": {"A": {"w": "arr_1"}}, "samples": {"A": 10}}]'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (stored("[" * 100_000), "must not nest lists or objects so deeply"),
        (stored(SPREADING, before=np.zeros((1, 9)), update=np.zeros((9, 1))), "'w' do not have the shape of the model"),
        (zipped(b"\x93NUMPY\x01\x00v\x00" + b"[" * 118), "does not hold the updates of a training"),
        (zipped(header((10**13,))), "does not hold the updates of a training"),
        (zipped(b"abc", method=99), "does not hold the updates of a training"),
        (zipped(b"abc", encrypted=1), "does not hold the updates of a training"),
    ],
    ids=["nested", "spreading", "header", "shape", "method", "encrypted"],
)
def test_whatever_lies_beside_a_ledger_is_a_finding(path: Path, content: bytes, reason: str) -> None:
    path.with_name("updates.npz").write_bytes(content)
    kept = {"file": "updates.npz", "sha256": hashlib.sha256(content).hexdigest()}
    measured = {"subsets": 2, "measure": lambda subsets, _: ([0.5] * len(subsets), 10)}
    write_signed_ledger(path, DEAL, changed={TRAINED: {"updates": kept}}, **measured)
    finding = check_ledger(path).findings["updates"]
    assert finding.holds is False and reason in finding.reason


def test_a_receipt_of_nested_lists(path: Path) -> None:
    run_ledger(path)
    receipt = path.with_name("receipt.json")
    receipt.write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"receipt\.json: must not nest lists or objects so deeply"):
        check_ledger(path, receipts=[receipt])


def test_a_ledger_that_was_changed_stands_as_far_as_its_chain(path: Path) -> None:
    run_ledger(path)
    path.write_text(path.read_text(encoding="utf-8").replace("signatures", "signature!"), encoding="utf-8")
    found = check_ledger(path)
    assert found.failed == ["chain"]
    assert "what stands before it holds" in found.findings["chain"].reason
    assert found.deal is not None and found.entries.get(SETTLED) is None


def test_a_deal_that_cannot_be_read_is_none(path: Path) -> None:
    run_ledger(path, until=AGREED, agreed={"deal": DEAL | {"contributions": [1.0]}})
    assert check_ledger(path).deal is None


@pytest.mark.parametrize(("used", "holds"), [(10, True), (11, False)])
def test_samples_are_held_to_whole_ones(path: Path, used: int, holds: bool) -> None:
    """What training counts as a whole sample the check does too."""
    almost = DEAL | {"contributions": [9.9999995, 4.0], "payments": [0.0, 0.0], "prices": None}
    write_signed_ledger(path, almost, used={"A": [used], "B": [4]}, until=TRAINED)
    finding = check_ledger(path).findings["delivered"]
    assert finding.holds is holds and (holds or '"A" agreed to 10 samples, and 11 are counted' in finding.reason)


# Transcripts


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    fp.negotiate(FEDERATION, transcript=tmp_path / "talk.jsonl")
    return tmp_path / "talk.jsonl"


def change_deal(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    *exchanges, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    entry = json.loads(last)
    change(entry["deal"])
    path.write_text("".join(exchanges) + json.dumps(entry) + "\n", encoding="utf-8")


def test_a_sound_transcript(transcript: Path) -> None:
    found = check_record(transcript)
    assert found.failed == [] and found.checked == ["recomputed", "stated", "budget-balance"]
    found = check_transcript(transcript)
    assert found.deal is not None and not found.deal.differences(found.recomputed)
    solved = fp.ExternalityMechanism().solve(FEDERATION)
    np.testing.assert_allclose(found.recomputed.payments, solved.payments, atol=1e-9)


def test_a_transcript_without_a_deal_says_how_to_go_on(transcript: Path) -> None:
    *exchanges, _ = transcript.read_text(encoding="utf-8").splitlines(keepends=True)
    transcript.write_text("".join(exchanges), encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match="there is no deal in it yet; `fedpact negotiate` with this transcript"):
        check_record(transcript)


def test_agents_of_a_transcript_keep_their_places(transcript: Path) -> None:
    change_deal(transcript, lambda deal: deal["agents"].reverse())
    with pytest.raises(fp.InvalidInput, match="the deal: agents must be those of the first line, in their order"):
        check_transcript(transcript)


def test_the_documentation_lists_every_check() -> None:
    page = (Path(__file__).parents[3] / "docs" / "what-if-somebody-cheats.md").read_text(encoding="utf-8")
    for check in CHECKS:
        assert f"| {check.of} | {check.name} | {check.needs} | {check.proves} |" in page
