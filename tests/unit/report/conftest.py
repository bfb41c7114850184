"""Comparisons that between them hold every odd case, and a strict reader of the pages made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import numpy as np
import pytest

import fedpact as fp
from fedpact.scenario import example as built_in
from old_hospitals import example, hospitals

VOID = {"br", "col", "hr", "meta"}
ODD_NAMES = ["<script>alert('x')</script>", 'O\'Brien & "Sons"', "W" * 120, "a\x00\ud800b\n", "\u202e&amp;"]


@dataclass
class Page(HTMLParser):
    """A page taken apart: its elements, attributes and text; unbalanced tags are errors."""

    source: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()
        assert not self.open_tags, f"never closed: {self.open_tags}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags, f"</{tag}> closes nothing"
        opened = self.open_tags.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open_tags:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """Everything a reader can read, no-break spaces as spaces."""
        return " ".join(" ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ").split())

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.elements if attribute in attrs]

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def harmless(n_agents: int, **options: object) -> fp.Federation:
    given = {"costs": 0.001, "caps": 400.0, "payoff": fp.PowerLaw(beta=0.02)} | options
    return fp.Federation(np.ones((n_agents, n_agents)), **given)  # type: ignore[arg-type]


def many(n_agents: int) -> fp.Comparison:
    """Real payments among many agents, by the one mechanism that is quick for them."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 1.0, (n_agents, n_agents)) ** 3
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(
        weights,
        costs=rng.uniform(0.001, 0.003, n_agents),
        caps=rng.uniform(5.0, 50.0, n_agents),
        payoff=fp.PowerLaw(beta=0.2),
    )
    return fp.compare(federation, [fp.ExternalityMechanism(), fp.Standalone()])


def unbalanced() -> fp.Comparison:
    """A deal whose payments are more than is paid in."""
    comparison = fp.compare(hospitals().federation, [fp.ExternalityMechanism(), fp.Standalone()])
    deal = comparison["externality"]
    spoiled = deal.with_profile(deal.contributions, deal.payments + 0.01)
    return replace(comparison, outcomes=(spoiled, comparison["standalone"]))


def unsolved() -> fp.Comparison:
    comparison = fp.compare(harmless(3), [fp.ExternalityMechanism(), fp.Voluntary()])
    return replace(comparison, outcomes=comparison.outcomes[:1], unsolved={"voluntary": "answers <cycle>"})


CASES: dict[str, Callable[[], fp.Comparison]] = {
    "hospitals": lambda: fp.compare(hospitals().federation),
    "data at home": lambda: fp.compare(built_in("hospitals").federation),
    "equal agents": lambda: fp.compare(example("paper-w1").federation),
    "harmful weight": lambda: fp.compare(example("paper-w3").federation),
    "one agent, no cap": lambda: fp.compare(harmless(1, caps=np.inf)),
    "nothing contributed": lambda: fp.compare(harmless(3, costs=1.0)),
    "nothing to give": lambda: fp.compare(harmless(3, caps=0.0)),
    "odd names": lambda: fp.compare(harmless(5, names=ODD_NAMES, values=[1.0, 2.0, 3.0, 4.0, 5.0])),
    "log payoffs, own parameters": lambda: fp.compare(harmless(4, payoff=fp.Log(), costs=fp.Quadratic(0.0, 0.01))),
    "baselines only": lambda: fp.compare(harmless(3), [fp.Voluntary(), fp.Standalone()]),
    "without standalone": lambda: fp.compare(harmless(3), [fp.ShapleyMechanism()]),
    "standalone only": lambda: fp.compare(harmless(3), [fp.Standalone()]),
    "unsolved baseline": unsolved,
    "nothing solved": lambda: replace(unsolved(), outcomes=()),
    "unbalanced": unbalanced,
    "thirty-one agents": lambda: many(31),
}


@pytest.fixture(scope="session")
def comparison_of() -> Callable[[str], fp.Comparison]:
    made: dict[str, fp.Comparison] = {}

    def of(case: str) -> fp.Comparison:
        if case not in made:
            made[case] = CASES[case]()
        return made[case]

    return of


@pytest.fixture(scope="session")
def many_agents() -> Callable[[int], fp.Comparison]:
    return many


@pytest.fixture(scope="session")
def read() -> type[Page]:
    return Page


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES)
