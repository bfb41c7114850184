"""Saving replaces a file whole or not at all, and says so when it cannot."""

import os
import re

import numpy as np
import pytest

from fedpact import Federation, InvalidInput, Log
from fedpact.scenario import Money, Scenario, load_scenario, save_scenario


def scenario_of(weights, **changes):
    arguments = {"costs": 1.0, "payoff": Log()} | changes
    return Scenario(federation=Federation(weights=weights, **arguments))


@pytest.fixture
def scenario():
    return scenario_of(np.eye(2))


def test_a_failed_save_leaves_everything_as_it_was(tmp_path, monkeypatch, scenario):
    path = tmp_path / "deal.toml"
    save_scenario(scenario, path)

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InvalidInput, match=r"deal\.toml: the file cannot be written: No space left on device"):
        save_scenario(scenario_of(np.eye(101)), path)
    assert list(tmp_path.iterdir()) == [path]
    assert load_scenario(path) == scenario


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("deal.yaml", "the file's name must end in .toml or .json, got 'deal.yaml'"),
        ("nul\0.toml", "the file cannot be written: its name has a null character in it"),
    ],
)
def test_places_that_cannot_be_written(tmp_path, scenario, name, message):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=re.escape(f"{tmp_path / name}: {message}")):
        save_scenario(scenario, tmp_path / name)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_text_beyond_utf8_is_refused(tmp_path, suffix):
    with pytest.raises(InvalidInput, match=r"such that UTF-8 can hold them, got '\\ud800'"):
        save_scenario(scenario_of(np.eye(1), names=["\ud800"]), tmp_path / f"deal{suffix}")


class HomeMadePayoff(Log):
    pass


def test_payoffs_without_a_family_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"payoff must be of the family power-law, .* to be written"):
        save_scenario(scenario_of(np.eye(1), payoff=HomeMadePayoff()), tmp_path / "deal.toml")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Money("", 1.0), "money.currency must be a non-empty text"),
        (lambda: Money("EUR", 0.0), "money.per_payoff must be a positive number, got 0.0"),
        (lambda: Money("EUR", float("inf")), "money.per_payoff must be a positive number, got inf"),
        (lambda: Scenario(federation=None), "federation must be a Federation, got None"),
        (lambda: Scenario(federation=scenario_of(np.eye(1)).federation, title=5), "title must be a text, got 5"),
        (lambda: Scenario(federation=scenario_of(np.eye(1)).federation, money=5), "money must be Money"),
    ],
)
def test_scenarios_are_checked_on_creation(make, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        make()


def test_equality(scenario):
    same = scenario_of(np.eye(2))
    assert scenario == same
    assert scenario != Scenario(federation=same.federation, title="other")
    assert scenario != Scenario(federation=same.federation, money=Money("EUR", 1.0))
    assert scenario != scenario_of(2.0 * np.eye(2))
    assert scenario != "scenario"
