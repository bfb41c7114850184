"""Federations over twelve orders of magnitude on the command line: no warning, no traceback, no error of fedpact's own.

Warnings are errors in these tests, and what is raised unforeseen ends with exit code 4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fedpact as fp
from extremes.federations import FAMILIES, draw_group
from fedpact.cli.exit_codes import CLAIM_FAILS, NOT_CONVERGED
from random_cases import ALL_CASES, cases, some

MAX_AGENTS = 8 if ALL_CASES else 3


@pytest.mark.parametrize("family", some(FAMILIES, 1))
def test_no_warning_reaches_a_user(run, tmp_path: Path, family: str) -> None:
    groups = (draw_group(2, number) for number in range(1000))
    fitting = (group for group in groups if group[0].payoff.family == family and group[0].n_agents <= MAX_AGENTS)
    for _ in range(cases(4, few=1)):
        for federation in next(fitting)[: cases(4, few=1)]:
            fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "extreme.toml")
            for command in ("compare", "solve", "check", "shapley"):
                done = run(command, "extreme.toml")
                # At the optimum a group may leave somebody outside its payoff's domain: then there are no shares.
                undefined = command == "shapley" and "is harmed more than its payoff curve describes" in done.err
                assert done.code in ({2} if undefined else {0, CLAIM_FAILS, NOT_CONVERGED}), (command, done.err)
                assert "Warning" not in done.err and "Traceback" not in done.err
