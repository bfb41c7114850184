"""`fedpact explore`: where it cannot start, and how it ends."""

from __future__ import annotations

import socket

import httpx
import numpy as np
import pytest

import fedpact as fp
from edges.browser import explorer, to_question
from edges.command_line import crowd
from fedpact.explorer.draft import draft_of


def test_a_scenario_that_is_not_there_is_named(run):
    result = run("explore", "nowhere", "--no-browser")
    assert result.code == 2 and "no built-in federation" in result.err


def test_a_federation_too_large_to_edit_is_refused(run, tmp_path):
    crowd = fp.Federation(np.eye(31), costs=0.01, payoff=fp.Log())
    fp.save_scenario(fp.Scenario(federation=crowd), tmp_path / "crowd.toml")
    result = run("explore", "crowd.toml", "--no-browser")
    assert result.code == 2 and "up to 30 members" in result.err and "fedpact compare" in result.err


def test_a_taken_port_is_refused(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("explore", "--no-browser", "--port", taken.getsockname()[1])
    assert result.code == 2 and "choose another one" in result.err


def test_without_the_extra_it_says_what_to_install(run, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("explore", "--no-browser")
    assert result.code == 2 and 'pip install ".[explore]"' in result.err


@pytest.mark.slow
def test_it_ends_quietly_when_interrupted(tmp_path):
    import urllib.request

    with explorer(tmp_path, "paper-w1") as url:
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=20) as response:
            assert b"agent 0" in response.read()


@pytest.mark.slow
def test_it_ends_quietly_while_something_is_computed(tmp_path):
    """The first deal, in the background; unwinding its thread would abort the process."""
    crowd(tmp_path / "crowd.toml")
    with explorer(tmp_path, "crowd.toml") as url:
        assert httpx.get(url, timeout=60).status_code == 200


@pytest.mark.slow
def test_it_ends_at_once_in_the_middle_of_a_long_map(tmp_path):
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 1.0, (10, 10)).round(2)
    np.fill_diagonal(weights, 1.0)
    ten = fp.Scenario(federation=fp.Federation(weights, costs=0.01, caps=100.0, payoff=fp.PowerLaw(0.3)))
    fp.save_scenario(ten, tmp_path / "ten.toml")
    question = {
        "draft": draft_of(ten).record(),
        "up": {"parameter": {"kind": "weights", "receiver": 0, "giver": 1}, "low": "0", "high": "1"},
        "right": {"parameter": {"kind": "costs", "agent": 1}, "low": "0.005", "high": "0.02"},
        "metric": "welfare",
        "mechanism": "shapley",
        "count": 30,
    }
    with (
        explorer(tmp_path, "ten.toml") as url,
        httpx.stream("POST", **to_question(url, "map"), json=question, timeout=120) as response,
    ):
        lines = response.iter_lines()
        assert '"done": 0' in next(lines)
        assert '"done": 32,' in next(lines)
