"""The keys of what commands print with `--json` are those of version 0.2, but for the tables of changes here."""

from __future__ import annotations

import json

import pytest

from golden.commands import COMMANDS, all_key_paths
from golden.recorded import JSON_KEYS

RECORDED = json.loads(JSON_KEYS.read_text(encoding="utf-8"))

# Key paths by command: each is a change that programs which read these records have to be told of.
PARTS = "certificates.split-proof.witness.part_"
BINDING = "certificates.fair-gains.witness.groups_that_bind"
FORGONE = "certificates.fair-gains.witness.gain_forgone"  # of everybody alone
# Fair gains, in every record of an outcome, and their certificate.
FAIR_GAINS = {"joining_costs[]", "fair_gains[]", "fair_gain_errors[]", "gain_shares[]", f"{BINDING}[]"} | {
    f"certificates.fair-gains.{key}"
    for key in [
        "claim",
        "margin",
        "scope",
        "tol",
        "verdict",
        "witness.agent",
        "witness.distance_from_fair",
        "witness.fair_gain",
        "witness.member_gain",
        "witness.index",
        "witness.lacking",
    ]
}
# Whom a deal asks for more than its budget.
OVER_BUDGET = "over_budget[]"
# For whom a mechanism is recommended, and which number would change that.
ADVICE = {
    *(f"recommendation.{key}[]" for key in ("members", "out")),
    *(f"sensitivity.{key}" for key in ("kind", "member", "factor", "sentence")),
}
ADDED: dict[str, set[str]] = {
    **{name: FAIR_GAINS for name in COMMANDS if name.startswith("solve")},
    **{name: FAIR_GAINS | {OVER_BUDGET} for name in COMMANDS if name.startswith("check")},
    **{name: {OVER_BUDGET} for name in COMMANDS if name.startswith("settle")},
    **{
        name: ADVICE | {f"outcomes[].{key}" for key in FAIR_GAINS | {FORGONE}}
        for name in COMMANDS
        if name.startswith("compare")
    },
    # A fair deal with a member split is solved, so the witness says what the parts have.
    "solve hospitals --mechanism fair": FAIR_GAINS
    | {f"{PARTS}{of}[]" for of in ("contributions", "payments", "utilities")},
}
# Shapley values are not sampled any more.
REMOVED: dict[str, set[str]] = {name: {"standard_errors[]"} for name in ("shapley hospitals", "shapley hospitals-lots")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return all_key_paths(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_are_the_recorded_ones(found: dict[str, set[str]], command: str) -> None:
    expected = (set(RECORDED[command]) | ADDED.get(command, set())) - REMOVED.get(command, set())
    assert sorted(found[command] - expected) == []
    assert sorted(expected - found[command]) == []


def test_every_command_is_recorded() -> None:
    assert sorted(RECORDED) == sorted(COMMANDS)


def test_tables_name_recorded_commands() -> None:
    assert {*ADDED, *REMOVED} <= set(COMMANDS)
