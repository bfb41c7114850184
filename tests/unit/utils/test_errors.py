"""Errors are made of parts, and keep them wherever they go."""

from __future__ import annotations

import pickle
from copy import copy

import pytest

import fedpact as fp
from fedpact.utils.errors import ErrorCollector, InvalidInput, OutsideDomain, error_context

PARTS = {"field": "costs", "index": (2,), "rule": "must be positive", "value": -0.5, "agent": "St. Mary"}


def parts(error: InvalidInput) -> dict[str, object]:
    return {part: getattr(error, part) for part in PARTS}


@pytest.mark.parametrize(
    ("given", "message", "problem"),
    [
        ({}, 'costs[2] must be positive, got -0.5 (member "St. Mary")', "must be positive, got -0.5"),
        ({"index": 2}, 'costs[2] must be positive, got -0.5 (member "St. Mary")', "must be positive, got -0.5"),
        ({"index": (2, 0), "agent": None}, "costs[2, 0] must be positive, got -0.5", "must be positive, got -0.5"),
        ({"index": (), "agent": None}, "costs must be positive, got -0.5", "must be positive, got -0.5"),
        (
            {"given": ": 3", "whose": "all"},
            "costs[2] must be positive: 3 (all)",
            "must be positive: 3",
        ),
        ({"value": "a", "agent": None}, "costs[2] must be positive, got 'a'", "must be positive, got 'a'"),
        ({"value": 10**400, "given": ""}, 'costs[2] must be positive (member "St. Mary")', "must be positive"),
    ],
)
def test_the_message_follows_from_the_parts(given: dict[str, object], message: str, problem: str) -> None:
    error = InvalidInput(**PARTS | given)  # type: ignore[arg-type]
    assert str(error) == message
    assert error.problem == problem


def test_a_message_alone_has_no_parts() -> None:
    error = InvalidInput("there is no such file")
    assert str(error) == error.problem == "there is no such file"
    assert (error.field, error.index, error.rule, error.value, error.agent) == (None, (), None, None, None)
    assert error.errors == (error,)


@pytest.mark.parametrize("way", [copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_parts_survive(way) -> None:
    error = InvalidInput.first_of([InvalidInput(**PARTS), InvalidInput("another")])
    again = way(error)
    assert str(again) == str(error)
    assert parts(again) == PARTS
    assert [str(each) for each in again.errors] == [str(error), "another"]


def test_a_context_goes_before_every_message_and_keeps_the_parts() -> None:
    with pytest.raises(InvalidInput) as caught, error_context("file.toml"), error_context("inner"):
        raise InvalidInput.first_of([InvalidInput(**PARTS), InvalidInput("another")])
    assert [str(each) for each in caught.value.errors] == [
        'file.toml: inner: costs[2] must be positive, got -0.5 (member "St. Mary")',
        "file.toml: inner: another",
    ]
    assert parts(caught.value) == PARTS


def test_a_context_keeps_the_kind() -> None:
    with pytest.raises(OutsideDomain, match=r"^here: out$"), error_context("here"):
        raise OutsideDomain("out")


class TestErrorCollector:
    @staticmethod
    def refuse(*messages: str) -> None:
        raise InvalidInput.first_of([InvalidInput(message) for message in messages])

    def test_collects_all_errors_of_all_checks_in_order(self) -> None:
        errors = ErrorCollector()
        assert errors.attempt(self.refuse, "one", "two") is None
        assert errors.attempt(float, "3") == 3.0
        errors.attempt(self.refuse, "four")
        with pytest.raises(InvalidInput, match=r"^one$") as caught:
            errors.raise_errors()
        assert [str(error) for error in caught.value.errors] == ["one", "two", "four"]


def test_errors_travel_between_processes_as_they_are() -> None:
    error = fp.NoFairDeal("no deal", groups=(("A",),), subsidy=2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.groups, again.subsidy, type(again)) == ("no deal", (("A",),), 2.0, fp.NoFairDeal)
    place = fp.InvalidInput(field="costs", index=2, rule="must be positive", value=-0.5, agent="A")
    assert pickle.loads(pickle.dumps(place)).index == (2,)
    assert str(pickle.loads(pickle.dumps(fp.MissingExtra("Dask", "dask")))) == str(fp.MissingExtra("Dask", "dask"))
