"""A server that is killed anywhere and started again: nothing is lost, nothing doubled."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fedpact as fp
from fedpact.deals import Ledger, read_ledger
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from random_cases import some
from unit.flower.in_process import InProcessGrid, Killed, Stage

WHOLE = ["begun", "keys", "agreed", "signed", "trained", "measured", "settled"]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(example("paper-w2").federation, tmp_path)


def kinds(stage: Stage) -> list[str]:
    return [entry.kind for entry in read_ledger(stage.ledger).entries]


def uninterrupted(stage: Stage) -> InProcessGrid:
    """The same run from beginning to end, elsewhere."""
    grid = stage.grid()
    Stage(stage.federation, stage.folder / "uninterrupted").conduct(grid)
    return grid


@pytest.mark.slow
def test_killed_at_every_message_in_turn(stage: Stage) -> None:
    """Each start gets one message further than the one before; nodes forget in between, as they do between runs."""
    total, starts = uninterrupted(stage).pushes, 0
    before = None
    while "settled" not in (kinds(stage) if stage.ledger.exists() else []):
        starts += 1
        assert starts <= 4 * total
        with suppress(Killed):
            stage.conduct(stage.grid(killed_at=starts))
        after = read_ledger(stage.ledger).entries
        assert before is None or after[: len(before)] == before
        before = after
    assert starts > 3
    assert kinds(stage) == WHOLE
    assert_same_deal(stage)


@pytest.mark.parametrize("killed_at", some(range(11), 2))
def test_killed_once(killed_at: int, stage: Stage) -> None:
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=killed_at))
    stood = read_ledger(stage.ledger).entries
    stage.conduct()
    assert read_ledger(stage.ledger).entries[: len(stood)] == stood
    assert kinds(stage) == WHOLE
    assert_same_deal(stage)


def assert_same_deal(stage: Stage) -> None:
    found = check_record(stage.ledger)
    assert found.failed == [] and all(finding.holds for finding in found.findings.values())
    direct = fp.negotiate(stage.federation)
    assert found.deal is not None and found.deal.payments.tolist() == direct.payments.tolist()
    assert len(list(stage.ledger.parent.glob("negotiation-*"))) == 1


@pytest.mark.parametrize("kind", some(WHOLE[1:]))
@pytest.mark.parametrize("written", some([0.3, 0.0, 0.999], 1))
def test_killed_while_an_entry_is_written(
    kind: str, written: float, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, write = Ledger.append, Ledger._write

    def dying(self: Ledger, given: str, content: Any) -> Any:
        if given == kind:
            monkeypatch.setattr(Ledger, "_write", lambda it, line: (write(it, line[: int(written * len(line))]), die()))
        return append(self, given, content)

    def die() -> None:
        raise Killed

    monkeypatch.setattr(Ledger, "append", dying)
    with pytest.raises(Killed):
        stage.conduct()
    monkeypatch.undo()
    stage.conduct()
    assert kinds(stage) == WHOLE
    assert_same_deal(stage)


def test_a_run_that_is_over_is_left_alone(stage: Stage) -> None:
    stage.conduct()
    content = stage.ledger.read_bytes()
    grid = stage.grid()
    stage.conduct(grid)
    assert stage.ledger.read_bytes() == content and grid.pushes == 0


def test_the_record_of_another_run_is_refused(stage: Stage) -> None:
    stage.conduct()
    with pytest.raises(fp.InvalidInput, match="record of another run: there rounds is 2, here 5"):
        stage.conduct(rounds=5)


def test_a_record_that_was_changed_is_refused(stage: Stage) -> None:
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=9))
    text = stage.ledger.read_text()
    stage.ledger.write_text(text.replace('"payments":[', '"payments":[9,', 1))
    with pytest.raises(fp.InvalidInput, match="line 3 does not have the hash of what it says"):
        stage.conduct()


def test_a_model_that_was_changed_is_refused(stage: Stage) -> None:
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=uninterrupted(stage).first["evaluate"]))
    model = stage.ledger.parent / "ledger-model.npz"
    model.write_bytes(model.read_bytes() + b" ")
    with pytest.raises(fp.InvalidInput, match=r"ledger-model.npz: the file was changed"):
        stage.conduct()


def test_a_transcript_that_is_broken_is_begun_anew(stage: Stage) -> None:
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=4))
    transcript = stage.ledger.parent / "negotiation-1.jsonl"
    transcript.write_bytes(b"\x00" + transcript.read_bytes())
    stage.conduct()
    assert_same_deal(stage)


def test_one_server_at_a_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedpact.flower.server.PATIENCE", 0.0)
    stage.ledger.parent.mkdir()
    with Ledger(stage.ledger), pytest.raises(fp.InvalidInput, match="another process is writing"):
        stage.conduct()


@pytest.mark.slow
def test_a_member_that_is_not_back_is_lost(tmp_path: Path) -> None:
    stage = Stage(example("hospitals").federation, tmp_path)
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=uninterrupted(stage).first["train"]))
    assert kinds(stage)[-1] == "signed"
    stage.conduct(stage.grid(places=[0, 1, 2, 4]))
    found = check_record(stage.ledger)
    assert found.deal is not None and list(found.deal.excluded) == ["Children's"]
    assert kinds(stage)[-1] == "settled" and found.failed == []
