"""Mechanisms by name: fedpact's own, registered ones, and import paths."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fedpact as fp
from consortium import EqualCosts, Membership
from fedpact.mechanisms import (
    DEFAULT_MECHANISMS,
    FIELD_MECHANISMS,
    MECHANISMS,
    mechanism_named,
    resolve_mechanism,
    resolve_mechanisms,
)
from strategies import random_federations

PAIR = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5))


FAIR = ["fair", "fair-members", "fair-reciprocity", "fair-reciprocity-members"]


def register(folder: Path, monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    """An installed distribution with entry points."""
    info = folder / "consortium-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: consortium\nVersion: 1.0\n", encoding="utf-8")
    lines = "\n".join(f"{name.replace('_', '-')} = {path}" for name, path in entries.items())
    (info / "entry_points.txt").write_text(f"[fedpact.mechanisms]\n{lines}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))


def test_names_are_those_of_the_mechanisms() -> None:
    assert list(DEFAULT_MECHANISMS) == ["externality", "shapley", "voluntary", "standalone"]
    assert list(MECHANISMS) == [*DEFAULT_MECHANISMS, *FAIR, *FIELD_MECHANISMS]
    assert all(mechanism_named(name).name == name for name in MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_its_claims_on_random_federations(name: str) -> None:
    mechanism = MECHANISMS[name]
    for federation in random_federations(84, 12):
        try:
            certificates = mechanism.solve(federation).certificates
        except fp.NoFairDeal:
            assert federation.has_harm  # only harm can make it impossible to keep everybody
            continue
        except fp.NotConverged:
            assert name == "proportional"  # which may have no equilibrium
            continue
        assert all(certificates[claim].holds for claim in mechanism.promises(federation))


def test_objects_names_and_paths() -> None:
    rules = EqualCosts()
    assert resolve_mechanism(rules) is rules
    assert resolve_mechanism("shapley") is MECHANISMS["shapley"]
    assert type(resolve_mechanism("consortium:EqualCosts")) is EqualCosts
    assert resolve_mechanism("consortium:instance") is sys.modules["consortium"].instance
    assert resolve_mechanisms(None) == tuple(DEFAULT_MECHANISMS.values())
    assert resolve_mechanisms("voluntary") == resolve_mechanisms(["voluntary"]) == (MECHANISMS["voluntary"],)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("barter", f"mechanism must be one of {', '.join([*DEFAULT_MECHANISMS, *FAIR])}, equal-split, "),
        ("", "mechanism must be one of externality"),
        (None, "mechanism must be a name or a mechanism such as ShapleyMechanism(), got None"),
        (3, "got 3"),
        (fp.ShapleyMechanism, "got the class ShapleyMechanism; call it"),
        ("nowhere:Rules", "mechanism 'nowhere:Rules': 'nowhere' cannot be imported: No module named 'nowhere'"),
        (":Rules", "mechanism ':Rules': '' cannot be imported"),
        (".:Rules", "cannot be imported"),
        (
            "consortium:Barter",
            "mechanism 'consortium:Barter' must be a fedpact.Mechanism: there is no 'Barter' in 'consortium'",
        ),
        ("consortium:not_a_mechanism", "must be a fedpact.Mechanism: it is of type function"),
        ("consortium:Membership", "mechanism 'consortium:Membership' cannot be made without arguments"),
        ("fedpact:Mechanism", "mechanism 'fedpact:Mechanism' cannot be made without arguments: Can't instantiate"),
    ],
)
def test_mistakes_are_told(given, message: str) -> None:
    for asked in (
        lambda: resolve_mechanism(given),
        lambda: fp.compare(PAIR, [given]),
        lambda: fp.solve_batch([PAIR], given),
        lambda: fp.stable_federation(PAIR, given),
        lambda: fp.sweep(PAIR, "costs=0.01,0.02", mechanisms=[given]),
    ):
        with pytest.raises(fp.InvalidInput) as caught:
            asked()
        assert message in str(caught.value)


@pytest.mark.parametrize("name", [None, "Equal", "equal costs", "../up", "", "a:b", "ends-"])
def test_names_that_files_cannot_hold(name) -> None:
    class Named(EqualCosts):
        pass

    Named.name = name
    with pytest.raises(fp.InvalidInput, match="name"):
        resolve_mechanism(Named())


def test_each_once() -> None:
    for given, message in (
        (["shapley", fp.ShapleyMechanism()], r"each once, got \['shapley', 'shapley'\]"),
        ([Membership(1.0), Membership(2.0)], r"each once, got \['equal-costs', 'equal-costs'\]"),
        ([], r"got \[\]"),
    ):
        with pytest.raises(fp.InvalidInput, match=message):
            fp.compare(PAIR, given)


# Registered mechanisms


def test_a_registered_mechanism_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, equal_costs="consortium:EqualCosts", shapley="consortium:EqualCosts")
    assert type(mechanism_named("equal-costs")) is EqualCosts
    assert mechanism_named("shapley") is MECHANISMS["shapley"], "fedpact's own come first"
    assert fp.compare(PAIR, ["equal-costs"])["equal-costs"].payments.any()
    with pytest.raises(fp.InvalidInput, match="banzhaf, accuracy-shaping, equal-costs, got"):
        mechanism_named("barter")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("consortium:Barter", "must be a fedpact.Mechanism: there is no 'Barter' in 'consortium'"),
        ("nowhere:Rules", "'nowhere' cannot be imported"),
    ],
)
def test_what_is_registered_wrongly_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    register(tmp_path, monkeypatch, barter=path)
    with pytest.raises(fp.InvalidInput, match=message):
        mechanism_named("barter")


def test_a_registered_mechanism_calls_itself_what_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, barter="consortium:EqualCosts")
    with pytest.raises(
        fp.InvalidInput, match=r"registered under its name, got 'barter' of .*, which calls itself 'equal-costs'"
    ):
        mechanism_named("barter")


def test_two_packages_with_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path / "one", monkeypatch, barter="consortium:EqualCosts")
    register(tmp_path / "two", monkeypatch, barter="consortium:instance")
    (tmp_path / "two" / "consortium-1.0.dist-info").rename(tmp_path / "two" / "other-1.0.dist-info")
    (tmp_path / "two" / "other-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n", encoding="utf-8"
    )
    with pytest.raises(fp.InvalidInput, match="must be registered by one package, got 'barter' of"):
        mechanism_named("barter")


def test_names_from_files_import_nothing() -> None:
    with pytest.raises(fp.InvalidInput, match="mechanism must be one of"):
        mechanism_named("consortium:EqualCosts")
