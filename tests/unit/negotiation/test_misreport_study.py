"""The study of misreporting: gains by hand, no gain in the game, negotiations that agree, words that match numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from cases import CASES
from fedpact.negotiation.misreport_result import GAME, LIES, NEGOTIATION, MisreportStudy
from fedpact.negotiation.misreport_study import FACTORS, FEWER_FACTORS, misreport, misreport_study
from old_hospitals import example, hospitals
from random_cases import cases, some
from strategies import random_federations

FEW = [0.3, 0.8, 1.0, 1.25, 3.0]
TRIED = FACTORS[::2]
# Utilities of about one from solvers that stop within 1e-12 of what is at stake.
SAME = 1e-10
ALONE = ("externality",)  # for what does not need the Shapley mechanism, which takes longest


@pytest.fixture(scope="module")
def study() -> MisreportStudy:
    return misreport_study(hospitals().federation, factors=TRIED)


# Reports


def test_a_lie_changes_one_number_of_one_agent() -> None:
    federation = hospitals().federation
    costs = misreport(federation, 2, what="costs", factor=3.0)
    np.testing.assert_allclose(costs.costs.linear / federation.costs.linear, [1.0, 1.0, 3.0, 1.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(costs.costs.quadratic / federation.costs.quadratic, [1, 1, 3, 1, 1], rtol=1e-15)
    assert costs.values.tolist() == federation.values.tolist()
    values = misreport(federation, 2, what="values", factor=0.5)
    assert values.values.tolist() == [1.0, 1.0, 0.5, 1.0, 1.0]
    assert values.costs.linear.tolist() == federation.costs.linear.tolist()
    with pytest.raises(fp.InvalidInput, match="what must be one of costs, values, got 'caps'"):
        misreport(federation, 2, what="caps", factor=2.0)


# Gains


def test_honesty_gains_nothing(study: MisreportStudy) -> None:
    assert study.mechanisms == ("externality", "shapley", GAME)
    (place,) = np.flatnonzero(study.factors == 1.0)
    for gains in study.gains.values():
        assert gains.shape == (5, len(LIES), TRIED.size)
        assert not gains[:, :, place].any()
    for others in study.others.values():
        assert not others[:, :, place].any()


def test_gains_of_equals_by_hand() -> None:
    """Three equal agents, one says data costs it more: the others contribute the optimal total between them.

    3 beta xi^(-beta - 1) = gamma fixes the total, which the liar no longer adds to. It pays for it at its marginal
    payoff, which is gamma / 3.
    """
    beta, cost = 0.02, 0.001
    federation = fp.Federation(np.ones((3, 3)), costs=cost, caps=400.0, payoff=fp.PowerLaw(beta=beta))
    total = (3 * beta / cost) ** (1 / (beta + 1)) - 1
    payoff = 1 - (1 + total) ** -beta
    honest = payoff - cost * total / 3  # what it is paid and what it pays are the same
    lying = payoff - total * cost / 3
    found = misreport_study(federation, agents=[1], factors=[2.0])
    np.testing.assert_allclose(found.honest["externality"], [honest], rtol=SAME)
    np.testing.assert_allclose(found.utilities["externality"][0, 0], [lying], rtol=SAME)


def test_gains_of_two_by_hand() -> None:
    """One gives, one draws on it: 2 v / (1 + s) = c with log payoffs and v the reported value of the second.

    Agent 0 has no use for more data of its own worth speaking of; agent 1 pays m s, m = v / (1 + s) its reported
    marginal payoff, and truly gets log(1 + s).
    """
    federation = fp.Federation([[1e-7, 0.0], [1.0, 1e-7]], costs=[0.1, 100.0], payoff=fp.Log())
    found = misreport_study(federation, agents=[1], factors=[0.5, 1.0])
    assert "matters to one member" in found.missing[GAME]

    def utility(value: float) -> float:
        contribution = value / 0.1 - 1
        return float(np.log1p(contribution) - 0.1 * contribution)

    np.testing.assert_allclose(found.utilities["externality"][0, 1], [utility(0.5), utility(1.0)], rtol=1e-6)


def test_shapley_gains_from_its_own_parts(study: MisreportStudy) -> None:
    federation = hospitals().federation
    for agent, what, place in ((0, 1, 0), (4, 0, 48), (2, 1, 30)):
        report = misreport(federation, agent, what=LIES[what], factor=float(study.factors[place]))
        outcome = fp.ShapleyMechanism().solve(report)
        s = outcome.contributions
        paid = fp.shapley_values(report, s).values[agent] - report.payoffs(s)[agent]
        true = federation.payoffs(s)[agent] - federation.costs.value(s)[agent] + paid
        np.testing.assert_allclose(study.utilities["shapley"][agent, what, place], true, rtol=SAME)


def test_the_liar_and_the_others_share_what_welfare_changes(study: MisreportStudy) -> None:
    federation = hospitals().federation
    best = fp.ExternalityMechanism().solve(federation).welfare
    for name in ("externality", GAME):
        both = study.gains[name] + study.others[name]
        assert (both <= 1e-12).all()  # welfare is at its largest when everybody is honest
    report = misreport(federation, 3, what="values", factor=float(study.factors[7]))
    lying = federation.welfare(fp.ExternalityMechanism().solve(report).contributions)
    both = study.gains["externality"][3, 1, 7] + study.others["externality"][3, 1, 7]
    np.testing.assert_allclose(both, lying - best, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_nobody_gains_in_the_game(seed: int) -> None:
    played = 0
    for federation in random_federations(seed, 8):
        found = misreport_study(federation, factors=FEW, mechanisms=ALONE)
        assert not found.honest.keys() & found.missing.keys()
        if GAME in found.gains:
            played += 1
            rounding = found.rounding[GAME][:, None, None]
            assert (found.gains[GAME] <= rounding).all()
            assert not found.best()[GAME].pays
    assert played >= 2


def test_what_the_game_makes_of_a_lie() -> None:
    """The liar's row of messages is that of its report, everything else that of the truth."""
    federation = example("paper-w2").federation
    found = misreport_study(federation, agents=[0], factors=[0.5])
    game = fp.MessageGame(federation)
    report = misreport(federation, 0, what="costs", factor=0.5)
    said = fp.MessageGame(report).equilibrium_messages()
    messages = game.equilibrium_messages().replace(0, said.proposals[0], said.prices[0])
    np.testing.assert_allclose(found.utilities[GAME][0, 0, 0], game.outcome(messages).utilities[0], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(cases(2, few=1)))
def test_lying_in_a_negotiation_is_lying_to_the_mechanism(seed: int) -> None:
    for federation in random_federations(10 + seed, 6):
        found = misreport_study(federation, factors=[0.5, 2.0], mechanisms=ALONE)
        assert NEGOTIATION not in found.missing
        assert found.negotiated
        for held in found.negotiated:
            place = found.agents.index(held.agent), LIES.index(held.what), found.factors.tolist().index(held.factor)
            scale = federation.values.max()
            np.testing.assert_allclose(held.gain, found.gains["externality"][place], atol=1e-7 * scale)
            np.testing.assert_allclose(held.others, found.others["externality"][place], atol=1e-7 * scale)
            assert held.expected == found.gains["externality"][place]


# Kinds of federations


@pytest.mark.slow
@pytest.mark.parametrize("name", some(CASES, 3))
def test_every_case_has_a_study(name: str) -> None:
    found = misreport_study(CASES[name].federation, factors=[0.5, 1.0, 2.0])
    assert {*found.utilities, *found.missing} >= {"externality", "shapley", GAME}
    assert all(np.isfinite(honest).all() for honest in found.honest.values())
    assert found.text


def test_one_agent_alone_has_nobody_to_lie_to() -> None:
    found = misreport_study(fp.Federation([[1.0]], costs=0.01, payoff=fp.Log()))
    assert found.mechanisms == ("externality", "shapley")
    assert not any(best.pays for best in found.best().values())
    assert not any(others.any() for others in found.others.values())
    assert "None of these lies pays" in found.text
    assert "Message game, left out: it needs three members" in found.text


def test_where_nothing_is_contributed_nothing_is_gained() -> None:
    federation = fp.Federation(np.ones((3, 3)), costs=0.015, caps=400.0, payoff=fp.PowerLaw(beta=0.005))
    found = misreport_study(federation, factors=[0.9, 1.0, 2.0])
    assert (np.abs(found.honest["externality"]) < 1e-15).all()
    assert not any(best.pays for best in found.best().values())
    assert np.isnan(found.best()["externality"].share)


@pytest.mark.slow
def test_large_federations_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = example("paper-w2").federation
    together = misreport_study(federation, factors=FEW)
    monkeypatch.setattr("fedpact.negotiation.misreport_study.MAX_AGENTS_IN_BATCH", 2)
    monkeypatch.setattr("fedpact.negotiation.misreport_study.MAX_AGENTS_IN_GAME", 2)
    sparse = fp.Federation(
        sp.csr_array(federation.weights), costs=federation.costs, caps=federation.caps, payoff=federation.payoff
    )
    apart = misreport_study(sparse, factors=FEW)
    for name in ("externality", "shapley"):
        np.testing.assert_allclose(apart.utilities[name], together.utilities[name], rtol=1e-8)
    assert set(apart.missing) == {GAME, NEGOTIATION}
    assert apart.negotiated == ()


@pytest.mark.slow
def test_reports_without_equilibrium_are_counted_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = fp.ShapleyMechanism.solve

    def stubborn(self: fp.ShapleyMechanism, federation: fp.Federation) -> fp.Outcome:
        if federation.values[0] > 2.0:
            raise fp.NotConverged("too much is at stake")
        return solve(self, federation)

    monkeypatch.setattr("fedpact.negotiation.misreport_study.MAX_AGENTS_IN_BATCH", 0)
    monkeypatch.setattr(fp.ShapleyMechanism, "solve", stubborn)
    found = misreport_study(example("paper-w2").federation, agents=[0, 1], factors=FEW)
    assert np.argwhere(np.isnan(found.utilities["shapley"])).tolist() == [[0, 1, 4]]
    assert found.best()["shapley"].pays
    assert "Points without an equilibrium, which are not counted: 1." in found.text
    assert found.plot() is not None


def test_a_mechanism_without_honest_equilibrium_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Any, federation: fp.Federation) -> fp.Outcome:
        raise fp.NotConverged("no")

    federation = example("paper-w2").federation
    monkeypatch.setattr("fedpact.negotiation.misreport_study.MAX_AGENTS_IN_BATCH", 0)
    monkeypatch.setattr(fp.ShapleyMechanism, "solve", never)
    found = misreport_study(federation, agents=[0], factors=FEW)
    assert found.mechanisms == ("externality", GAME)
    assert "Shapley, left out: no equilibrium was found" in found.text
    monkeypatch.setattr(fp.ExternalityMechanism, "solve", never)
    with pytest.raises(fp.NotConverged, match="no mechanism has an equilibrium"):
        misreport_study(federation, agents=[0], factors=FEW)


def test_a_negotiation_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(channel: object) -> None:
        raise fp.NotConverged("no agreement within 60 rounds")

    monkeypatch.setattr("fedpact.negotiation.misreport_study.coordinate", fails)
    found = misreport_study(example("paper-w2").federation, agents=[0], factors=FEW)
    assert found.negotiated == ()
    assert "Negotiation, left out: 2 of 2 checks, the first with no agreement within 60 rounds." in found.text


# Asking


@pytest.mark.slow
def test_agents_are_chosen_by_number_or_name() -> None:
    federation = hospitals().federation
    found = misreport_study(federation, agents=["Clinic", 0], factors=FEW)
    assert found.agents == ("Clinic", "University")
    everybody = misreport_study(federation, factors=FEW)
    for name, gains in found.gains.items():
        np.testing.assert_allclose(gains, everybody.gains[name][[4, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": []}, r"agents must list at least one member by number or name, got \[\]"),
        ({"agents": "Clinic"}, "agents must list at least one member"),
        ({"agents": [5]}, "agents must be numbers from 0 to 4 or names, got 5"),
        ({"agents": [-1]}, "agents must be numbers from 0 to 4 or names, got -1"),
        ({"agents": ["Nobody"]}, "agents must be numbers from 0 to 4 or names, got 'Nobody'"),
        ({"factors": [1.0, 0.0]}, r"factors\[1\] must be positive, got 0"),
        ({"factors": []}, "factors must hold at least one number"),
    ],
)
def test_bad_questions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        misreport_study(hospitals().federation, **options)


@pytest.mark.slow
def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    misreport_study(example("paper-w2").federation, factors=FEW, progress=lambda *now: seen.append(now))
    counts = [done for done, _ in seen]
    assert counts == sorted(counts)
    assert seen[-1] == (66, 66)  # three agents, two mechanisms, the truth and ten lies


@pytest.mark.slow
def test_many_agents_get_fewer_factors() -> None:
    assert 1.0 in FACTORS and 1.0 in FEWER_FACTORS
    federation = fp.Federation(np.eye(9), costs=0.01, payoff=fp.Log())
    assert misreport_study(federation, agents=[0], mechanisms=ALONE).factors.tolist() == FEWER_FACTORS.tolist()


# What it says


def test_columns_hold_everything(study: MisreportStudy) -> None:
    columns = study.columns()
    assert list(columns) == ["agent", "what", "factor", "mechanism", "utility", "gain", "others"]
    lies = 5 * len(LIES) * TRIED.size
    assert {len(column) for column in columns.values()} == {3 * lies + len(study.negotiated)}
    row = lies + TRIED.size + 5  # Shapley, University, values
    assert [columns[head][row] for head in ("agent", "what", "factor", "mechanism")] == [
        "University", "values", study.factors[5], "shapley",
    ]  # fmt: skip
    assert columns["gain"][row] == study.gains["shapley"][0, 1, 5]
    assert columns["mechanism"][-1] == NEGOTIATION
    assert all(type(entry) in {str, float} for column in columns.values() for entry in column)


def test_best_is_the_largest(study: MisreportStudy) -> None:
    for name, best in study.best().items():
        gains = study.gains[name]
        if name == GAME:
            assert (best.pays, best.gain, best.factor, best.gainers) == (False, 0.0, 1.0, 0)
            continue
        assert best.gain == gains.max()
        place = study.agents.index(best.agent), LIES.index(best.what), study.factors.tolist().index(best.factor)
        assert gains[place] == best.gain
        assert best.others == study.others[name][place]
        assert best.utility == study.honest[name][place[0]] + best.gain
        assert best.at_end == (best.factor in {0.25, 4.0})
    assert study.best("costs")["externality"].gain == study.gains["externality"][:, 0].max()
    with pytest.raises(fp.InvalidInput, match="what must be one of costs, values"):
        study.best("caps")


def test_the_hospitals_numbers(study: MisreportStudy) -> None:
    """Computed with this code: a change of them is a change to tell."""
    found = {(name, what): round(study.best(what)[name].gain, 5) for name in study.mechanisms for what in LIES}
    assert found == {
        ("externality", "costs"): 0.00744,
        ("externality", "values"): 0.04577,
        ("shapley", "costs"): 0.00023,
        ("shapley", "values"): 0.41723,
        (GAME, "costs"): 0.0,
        (GAME, "values"): 0.0,
    }


def test_the_text_has_the_numbers(study: MisreportStudy) -> None:
    rows = re.findall(r"^\| (\w[\w ]*) \| (costs|values) \| (.*) \|$", study.text, flags=re.MULTILINE)
    assert [(row[0], row[1]) for row in rows] == [
        (title, what) for title in ("Externality", "Shapley", "Message game") for what in LIES
    ]
    for name, what, (_, _, rest) in zip(np.repeat(study.mechanisms, 2), LIES * 3, rows, strict=True):
        best = study.best(what)[str(name)]
        cells = [cell.strip() for cell in rest.split("|")]
        if not best.pays:
            assert cells == ["none found", "", "", "", "", "nobody"]
            continue
        assert float(cells[0]) == pytest.approx(best.gain, rel=1e-3)
        assert float(cells[1].rstrip("%")) == pytest.approx(100 * best.share, rel=1e-2)
        assert cells[2] == best.agent
        assert float(cells[3].split(",")[0]) == pytest.approx(best.factor, rel=1e-2)
        assert float(cells[4]) == pytest.approx(best.others, rel=1e-3)
        assert cells[5] == f"{best.gainers} of 5"
    assert "**Lying can pay** under Externality and Shapley" in study.text
    assert f"cost {-study.gains[GAME].min():.4g}." in study.text
    assert "Truth-telling is what the equilibrium asks, not what the protocol forces" in study.text


def test_names_cannot_break_the_table() -> None:
    federation = fp.Federation(
        example("paper-w2").federation.weights,
        costs=0.001,
        payoff=fp.PowerLaw(beta=0.02),
        names=["a|b", "c\nd", "$e_f$"],
    )
    found = misreport_study(federation, factors=FEW)
    rows = [line for line in found.text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {9}
    assert len(rows) == 8


# The picture


def test_the_picture_shows_every_gain(study: MisreportStudy) -> None:
    pytest.importorskip("matplotlib")
    figure = study.plot()
    assert len(figure.axes) == 6
    for panel, (lie, name) in zip(
        figure.axes, [(lie, name) for lie in range(2) for name in study.mechanisms], strict=True
    ):
        lines = {line.get_label(): line for line in panel.lines}
        for agent, gains in zip(study.agents, study.gains[name][:, lie], strict=True):
            np.testing.assert_array_equal(lines[agent].get_ydata(), gains)
            np.testing.assert_array_equal(lines[agent].get_xdata(), study.factors)
        low, high = panel.get_ylim()
        assert low < 0.0 < high
        assert study.gains[name][:, lie].max() < high
        assert panel.get_xscale() == "log"
    rings = [line for panel in figure.axes for line in panel.lines if line.get_label() == "in a negotiation"]
    assert sum(len(ring.get_xdata()) for ring in rings) == len(study.negotiated)
    figure.canvas.draw()


@pytest.mark.slow
@pytest.mark.parametrize("factors", some([[1.0], [2.0], [0.9, 1.1], [3.0, 5.0], [1e-3, 1e3], [4.0, 0.25, 1.0]], 2))
def test_any_factors_can_be_drawn(factors: list[float]) -> None:
    pytest.importorskip("matplotlib")
    figure = misreport_study(example("paper-w3").federation, factors=factors).plot()
    figure.canvas.draw()
    assert figure.axes[0].get_xlim()[0] < min(factors) <= max(factors) < figure.axes[0].get_xlim()[1]


@pytest.mark.slow
def test_of_many_agents_those_who_gain_most_are_named() -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(4)
    federation = fp.Federation(rng.uniform(0.2, 1.0, (10, 10)) + np.eye(10), costs=0.01, payoff=fp.Log())
    found = misreport_study(federation, factors=[0.5, 1.0], mechanisms=ALONE)
    figure = found.plot()
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "2 more" in labels
    assert found.best()["externality"].agent in labels
    assert all(len(panel.lines) >= 12 for panel in figure.axes)


def test_names_that_look_alike_when_shortened_keep_their_lines() -> None:
    pytest.importorskip("matplotlib")
    names = [f"{'a' * 40} {middle} {'b' * 40}" for middle in "xyz"]
    weights = example("paper-w2").federation.weights
    federation = fp.Federation(weights, costs=0.001, payoff=fp.PowerLaw(beta=0.02), names=names)
    figure = misreport_study(federation, factors=FEW).plot()
    assert len(figure.legends[0].get_texts()) == 5  # three agents, the rings, the ground


def test_subfigures_can_be_drawn_on(study: MisreportStudy) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    whole = figures.Figure(figsize=(11.0, 12.0), layout="constrained")
    above, _ = whole.subfigures(2, 1)
    assert study.plot(figure=above) is above
    whole.canvas.draw()


def test_side_payments_are_studied_by_name() -> None:
    """Under fixed sums a lie moves more than prices: the sums follow from what everybody reports."""
    found = misreport_study(hospitals().federation, agents=["County"], factors=[0.5, 1.0], mechanisms=["fair"])
    assert found.mechanisms == ("fair",)
    assert found.negotiated == ()
    report = misreport(hospitals().federation, 2, what="values", factor=0.5)
    lied, truth = fp.FairMechanism().solve(report), fp.FairMechanism().solve(hospitals().federation)
    payoff = hospitals().federation.payoffs(lied.contributions)[2] - lied.costs[2] + lied.payments[2]
    assert found.gains["fair"][0, 1, 0] == pytest.approx(payoff - truth.utilities[2], abs=1e-9)
    assert found.gains["fair"][0, 1, 0] > 0.0
    assert found.best()["fair"].agent == "County"
