"""What a pilot measured goes with its scenario: files, tables, the report and `compare`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fedpact as fp
from edges.command_line import run_main
from fedpact.report.numbers import Unit
from fedpact.report.tables import measured_tables
from fedpact.scenario import Measured, Money, Scenario, save_scenario

FOUND = Measured(
    verdict="federate",
    advice="Federate. The deal brings 30 EUR.",
    arrangement="own choice",
    score="area under the ROC curve",
    guess=(0.5, 0.5),
    alone=(0.7, 0.8),
    one_model=(0.69, 0.81),
    own_choice=(0.72, 0.8),
    points=(2.0, 0.0),
    point_errors=(0.5, 0.0),
    worth=(20.0, 20.0),
    shared=(0.0, 40.0),
    payments=(-10.0, 10.0),
    promised=(25.0, 0.0),
    gains=(30.0, 0.0),
    gain_errors=(10.0, 0.0),
)
NO_DEAL = replace(FOUND, verdict="not enough evidence", advice="Not enough evidence. No curve fits.", shared=(0.0, 0.0))


def scenario(found: Measured) -> Scenario:
    federation = fp.Federation(
        [[0.0, 0.05], [0.0, 0.0]],
        costs=0.25,
        caps=[80.0, 60.0],
        values=[60.0, 1.0],
        payoff=fp.Exponential(rate=1.0),
        names=["A", "B"],
        lot_owners=["A", "B"],
        task_owners=["A", "B"],
    )
    advice = "" if found.verdict == "federate" else found.advice
    return Scenario(federation=federation, money=Money("EUR", 1.0), measured=found, not_recommended=advice)


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_scenario_reads_back_with_what_was_measured(kind: str, tmp_path: Path) -> None:
    save_scenario(scenario(FOUND), tmp_path / f"x.{kind}")
    assert fp.load_scenario(tmp_path / f"x.{kind}") == scenario(FOUND)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"gains": (1.0,)}, "measured.gains must have one number each"), ({"shared": ()}, "measured.shared must have")],
)
def test_lists_have_a_number_for_each(changes: dict[str, object], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        scenario(replace(FOUND, **changes))  # type: ignore[arg-type]


def test_tables_say_who_gains_and_who_keeps_its_own_model() -> None:
    federation = scenario(FOUND).federation
    arrangements, deal = measured_tables(FOUND, federation.names, federation.lot_owners, Unit.of(Money("EUR", 1.0)))
    rows = list(zip(*arrangements.columns.values(), strict=True))
    assert rows[0] == ("0.500", "0.700", "0.690", "0.720", "+2.0 ± 0.8", "+40.00 ± 16.45")
    assert rows[1][-2:] == ("own model", "own model")  # no change by construction, not certainty
    rows = list(zip(deal.names, *deal.columns.values(), strict=True))
    assert rows[-1] == ("all", "40", "0", "+25.00", "+30.00", "+13.55", "+46.45")
    assert rows[1][-3:] == ("0", "own model", "")
    assert len(measured_tables(NO_DEAL, federation.names, federation.lot_owners, Unit.of(None))) == 1


@pytest.mark.parametrize("found", [FOUND, NO_DEAL])
def test_compare_shows_what_was_measured_and_no_zeros_where_there_is_no_deal(
    found: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_scenario(scenario(found), tmp_path / "x.toml")
    page = tmp_path / "page.html"
    assert run_main(["compare", str(tmp_path / "x.toml"), "--html", str(page)]) == 0
    shown, html = " ".join(capsys.readouterr().out.split()), page.read_text(encoding="utf-8")
    for text in (shown, html):
        assert "own model" in text and found.advice in text
        assert ("trained on fresh splits" in text) == found.has_deal
    assert ("Gains against standing alone" in shown) == ('id="deals"' in html) == found.has_deal
    assert ("There is no deal" in shown) == (not found.has_deal)
