"""The page as a whole: well-formed and self-contained in every case, shows the outcomes, and is written whole."""

from __future__ import annotations

import os
import re
from importlib.resources import files

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.diagnosis import diagnose
from fedpact.deals.settlement import settle_payments
from fedpact.report import write_report
from fedpact.report.numbers import SPACE, Unit
from fedpact.utils.errors import InvalidInput
from old_hospitals import hospitals
from unit.report.reports import report_of

EUROS = fp.Money("EUR", 1_000_000.0)


@pytest.mark.slow
@pytest.mark.parametrize("money", [EUROS, None])
def test_every_case_is_well_formed_and_self_contained(case, money, comparison_of, read):
    page = read(report_of(comparison_of(case), title="<b>", description="& so on", money=money))
    assert {"html", "head", "title", "main", "h1", "section"} <= page.tags
    assert not page.tags & {"script", "img", "link", "iframe"}
    assert not page.values("src")
    assert all(target.startswith("#") for target in page.values("href"))
    assert "http" not in page.source
    assert "@import" not in page.source
    assert set(re.findall(r"url\((.)", page.source)) <= {"#"}
    assert "nan" not in re.findall(r"\w+", page.text)


def test_ids_are_unique_and_links_lead_somewhere(case, comparison_of, read):
    page = read(report_of(comparison_of(case)))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in page.values("href")} <= set(ids)
    assert {ident for named in page.values("aria-labelledby") for ident in named.split()} <= set(ids)


def test_every_class_has_a_style(case, comparison_of, read):
    page = read(report_of(comparison_of(case)))
    style = files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8")
    used = {name for given in page.values("class") for name in given.split()}
    unstyled = used - set(re.findall(r"\.([a-z][\w-]*)", style))
    assert not unstyled


def test_tables_have_captions_and_scopes_and_pictures_have_titles(case, comparison_of):
    source = report_of(comparison_of(case))
    assert source.count("<table") == source.count("<caption")
    assert not re.findall(r"<th(?![^>]*scope=)(?!ead)", source)
    pictures = re.findall(r'<svg[^>]*class="chart"[^>]*>(<title)?', source)
    assert all(pictures)


def test_names_never_become_markup(comparison_of, read):
    page = read(report_of(comparison_of("odd names"), title="<script>1</script>", description="<i>x"))
    assert "script" not in page.tags and "i" not in page.tags
    assert "<script>alert('x')</script>" in page.text
    assert 'O\'Brien & "Sons"' in page.text
    assert "\x00" not in page.source
    page.source.encode()


def test_the_hospitals_page_shows_the_outcomes(comparison_of, read):
    comparison = comparison_of("hospitals")
    scenario = hospitals()
    page = read(report_of(comparison, title=scenario.title, description=scenario.description, money=scenario.money))
    text = page.text
    assert scenario.title in text and scenario.description in text
    assert comparison.recommendation is not None
    assert all(sentence in text for sentence in comparison.advice)
    assert f"fedpact {fp.__version__}" in text
    for outcome in comparison:
        for contribution in outcome.contributions:
            assert f"{contribution:.2f}" in text
        assert f"{outcome.welfare * 1e6:,.0f}" in text
        assert f"{100 * outcome.welfare / comparison.best_welfare:.1f} %" in text
        for gap in outcome.ir_gaps[np.abs(outcome.ir_gaps) > 1e-9]:
            assert f"{gap * 1e6:+,.0f}".replace("-", "−") in text
        for ratio in outcome.reciprocity_ratios:
            assert f"{100 * ratio:.0f} %" in text
        unit = Unit.of(scenario.money, [each.payoffs for each in comparison])
        said = [sentence.replace(SPACE, " ") for sentence in diagnose(outcome, unit.text)]
        assert len(said) == len(outcome.diagnosis) and all(sentence in text for sentence in said)
    for stable in comparison.after_departures.values():
        assert f"{stable.welfare * 1e6:,.0f}" in text


def test_transfers_are_shown_to_the_cent(comparison_of, read):
    comparison = comparison_of("hospitals")
    text = read(report_of(comparison, money=EUROS)).text
    for mechanism in ("externality", "shapley"):
        outcome = comparison[mechanism]
        settlement = settle_payments(outcome.payments, names=outcome.agents, per_payoff=1e6, currency="EUR")
        for transfer in settlement.transfers:
            assert f"{transfer.payer} {transfer.payee} {transfer.cents / 100:,.2f}" in text
        assert f"EUR {sum(transfer.cents for transfer in settlement.transfers) / 100:,.2f} in " in text


def test_yen_have_no_decimals(comparison_of, read):
    text = read(report_of(comparison_of("hospitals"), money=fp.Money("JPY", 1e6))).text
    assert re.search(r"pays \w+ JPY [\d,]+\.? ", text) and not re.search(r"JPY [\d,]+\.\d", text)


def test_endowments_that_would_keep_the_leavers(comparison_of, read):
    outcome = comparison_of("hospitals")["shapley"]
    text = read(report_of(comparison_of("hospitals"), money=EUROS)).text
    assert outcome.leavers == ("Children's", "Clinic")
    assert "2 of 5 would leave." in text
    assert f"would do better alone; EUR {outcome.endowments[4] * 1e6:,.0f} would keep it." in text


def test_verdicts_tell_promises_from_other_claims(comparison_of, read):
    text = read(report_of(comparison_of("hospitals"))).text
    assert "✗ violated not promised" in text
    assert "✓ holds promised by design" in text
    assert "✓ holds not promised, holds here" in text
    assert "an error" not in text


def test_a_broken_promise_is_called_an_error(comparison_of, read):
    text = read(report_of(comparison_of("unbalanced"), money=EUROS)).text
    assert "✗ violated promised: an error" in text
    assert "The payments do not balance: they sum to +EUR 50,000" in text


def test_undefined_shapley_values_are_put_in_words(comparison_of, read):
    comparison = comparison_of("harmful weight")
    assert np.isnan(comparison["voluntary"].shapley_values).all()
    assert np.isposinf(comparison["externality"].reciprocity_ratios[0])
    text = read(report_of(comparison)).text
    assert "share is zero" in text
    assert "– undefined" in text


def test_no_payments_no_cap_no_leavers(comparison_of, read):
    text = read(report_of(comparison_of("one agent, no cap"))).text
    assert "unlimited" in text
    assert "Nobody would leave." in text
    assert "A single member" in text


def test_without_a_recommendation(comparison_of, read):
    assert "nothing is recommended" in read(report_of(comparison_of("baselines only"))).text


def test_unsolved_baselines_are_named_with_the_reason(comparison_of, read):
    assert "Voluntary has no outcome: answers <cycle>" in read(report_of(comparison_of("unsolved baseline"))).text
    page = read(report_of(comparison_of("nothing solved")))
    assert "Voluntary has no outcome: answers <cycle>" in page.text
    assert "How useful one member’s data is to another" in page.text


def test_many_agents_are_cut_to_the_prominent_ones(comparison_of, read):
    text = read(report_of(comparison_of("thirty-one agents"))).text
    assert "11 more members are not shown" in text
    assert re.search(r"in \d+ transfers", text)


# Writing: whole or not at all


def test_writes_what_is_rendered(tmp_path, comparison_of):
    comparison = comparison_of("odd names")
    write_report(comparison, tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written == report_of(comparison)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_folder_is_named(tmp_path, comparison_of):
    with pytest.raises(InvalidInput, match=r"nowhere.report\.html: there is no such folder"):
        write_report(comparison_of("standalone only"), tmp_path / "nowhere" / "report.html")


def test_a_failure_leaves_the_old_report(tmp_path, comparison_of, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(InvalidInput, match="disk full"):
        write_report(comparison_of("standalone only"), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
