"""Every field of every entry of a signed ledger, changed, taken out or added one at a time, and chained anew.

A change is found by `check`, or it moves no money: then the field is one of those that are stated, not checked.
"""

from __future__ import annotations

import copy
import json
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedpact as fp
from edges.command_line import run_main
from fedpact.deals import read_ledger
from fedpact.deals.signatures import signed_deals, signed_delivery
from fedpact.negotiation.check import check_ledger
from fedpact.scenario import example
from random_cases import some
from unit.flower.in_process import Stage
from unit.flower.test_signed_ledger import entries_of, rechain

Way = tuple[Any, ...]
MEMBERS = example("paper-w2").federation.names

# The kind of an entry and the way to what nobody signs and no money follows from: a field may be added at the end.
STATED_NOT_CHECKED = {("settled", ("time",), "changed"), ("settled", ("content",), "added")}


def leaves(value: Any, at: Way = ()) -> Iterator[Way]:
    """The way to every number, text and truth value, and to every list and object, which can lose or gain a part."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*at, key))
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from leaves(part, (*at, index))


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return 2 * value + 1
    if isinstance(value, str):
        return ("0" if value[:1] != "0" else "1") + value[1:]
    if isinstance(value, list):
        return value[:-1] if value else [1]
    if isinstance(value, dict):
        return dict(list(value.items())[:-1]) if value else {"more": 1}
    return 1


def put(entry: dict[str, Any], at: Way, way: str = "changed") -> None:
    *path, last = at
    inside: Any = entry
    for key in path:
        inside = inside[key]
    if way == "taken out":
        del inside[last]
    elif way == "added":
        inside[last]["asked"] = {"agent 0": 100}
    else:
        inside[last] = changed(inside[last])


def ways(entry: dict[str, Any]) -> Iterator[tuple[Way, str]]:
    """What can be done to each part of an entry."""
    for at in leaves({key: entry[key] for key in ("kind", "time", "content")}):
        inside: Any = entry
        for key in at:
            inside = inside[key]
        yield at, "changed"
        if len(at) > 1:
            yield at, "taken out"
        if isinstance(inside, dict):
            yield at, "added"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Stage(example("paper-w2").federation, tmp_path_factory.mktemp("fields"))
    made.conduct(**{"verify-subsets": 4})
    return made.ledger


def transfers(ledger: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What `settle` pays."""
    capsys.readouterr()
    assert run_main(["settle", "paper-w2", str(ledger), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["transfers"]


@pytest.mark.parametrize("number", some(range(8), 3))
def test_every_change_is_found_or_moves_no_money(
    number: int, ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ledger.parent, tmp_path / "record")
    copied = tmp_path / "record" / ledger.name
    before, whole = transfers(copied, capsys), entries_of(copied)
    kind = whole[number]["kind"]
    for at, way in some(ways(whole[number]), 40):
        entries = copy.deepcopy(whole)
        put(entries[number], at, way)
        rechain(copied, entries)
        try:
            found = check_ledger(copied)
        except fp.InvalidInput:  # it is no ledger any more
            continue
        lost = [name for name in MEMBERS if name not in entries[number]["content"].get("signatures", {})]
        if (
            kind == "settled"
            and lost
            and at[:2] == ("content", "signatures")
            and found.findings["confirmed"].holds is None
        ):
            assert all(name in found.findings["confirmed"].reason for name in lost)
            assert transfers(copied, capsys) == before  # whoever has not signed it is paid all the same
        elif (kind, at, way) in STATED_NOT_CHECKED:
            assert found.unchecked and transfers(copied, capsys) == before
            assert way == "changed" or "'asked' in the settlement" in found.unchecked
        else:
            assert found.failed, f"{kind} {at} was {way} and nobody noticed"


def test_all_entries_are_changed(ledger: Path) -> None:
    assert len(entries_of(ledger)) == 8


def test_a_number_of_rounds_takes_no_memory(ledger: Path, tmp_path: Path) -> None:
    """A small ledger, and the document that a node is shown, may say any number of rounds."""
    shutil.copytree(ledger.parent, tmp_path / "record")
    copied = tmp_path / "record" / ledger.name
    entries = entries_of(copied)
    entries[0]["content"]["rounds"] = 10**8
    rechain(copied, entries)
    tracemalloc.start()
    try:
        assert "delivered" in check_ledger(copied).failed
        under = signed_deals(read_ledger(copied).entries)[-1]
        assert under.document["rounds"] == 10**8
        with pytest.raises(fp.InvalidInput, match="has not signed what it"):
            signed_delivery(under.document, under.entries["trained"].content["deliveries"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6
