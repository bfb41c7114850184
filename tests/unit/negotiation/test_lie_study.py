"""The table of the worst lies: four searches, said as they were found."""

from __future__ import annotations

import pytest

import fedpact as fp
from fedpact.negotiation.lie_search import best_lies
from fedpact.negotiation.lie_study import lie_study
from fedpact.scenario.examples import example


@pytest.mark.slow
def test_it_says_what_the_searches_find() -> None:
    federation = example("paper-w2").federation.take([0, 2])
    told: list[tuple[int, int]] = []
    found = lie_study(federation, "equal-split", progress=lambda *now: told.append(now))
    asked = [(1, False), (1, True), (2, False), (2, True)]
    assert [(len(lie.agents), lie.refusal) for lie in found.lies] == asked
    assert found.lies[2] == best_lies(federation, "equal-split", together=2)
    assert told == [(place, 6) for place in range(6)]  # two members and a pair, twice
    columns = found.columns()
    assert {len(column) for column in columns.values()} == {4}
    assert columns["gain"] == [lie.gain for lie in found.lies]
    rows = [line for line in found.text.splitlines() if line.startswith("|")][2:]
    for lie, row in zip(found.lies, rows, strict=True):
        assert (f"{lie.gain:.4g}" if lie.gain > 0.0 else "none found") in row
        assert lie.gain <= 0.0 or all(agent in row for agent in lie.agents)


def test_one_member_has_nobody_to_collude_with() -> None:
    alone = fp.Federation([[1.0]], costs=0.01, payoff=fp.Log())
    found = lie_study(alone)
    assert [lie.agents for lie in found.lies] == [("agent 0",), ("agent 0",)]
    assert found.text.count("none found") == 2
    with pytest.raises(fp.InvalidInput, match="got none of 2 among 1 members"):
        best_lies(alone, "externality", together=2)
