"""The command line on lots that share caps: raw records or records with noise."""

import json

import pytest

NAME = "hospitals-privacy"


@pytest.mark.slow
def test_solve_says_what_to_bring_and_what_one_more_is_worth(run) -> None:
    done = run("solve", NAME)
    assert done.code == 0
    assert 'of "with noise": all of the 40 that these lots share. A cap of 41 would add EUR' in done.words
    record = run("solve", NAME, "--json").record
    assert [each["cap"] for each in record["shared_caps"]] == [40.0, 25.0, 20.0]
    assert record["shared_caps"][0]["lots"] == ["University: raw", "University: with noise"]
    assert all(price > 0 for price in record["shared_cap_prices"])


@pytest.mark.slow
def test_deals_are_checked_and_settled(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deal.json").write_text(run("solve", NAME, "--json").out, encoding="utf-8")
    assert run("check", NAME, "deal.json").code == 0
    assert run("settle", NAME, "deal.json").code == 0
    deal = json.loads((tmp_path / "deal.json").read_text(encoding="utf-8"))
    deal["contributions"][0] += 5.0
    (tmp_path / "over.json").write_text(json.dumps(deal), encoding="utf-8")
    over = run("check", NAME, "over.json")
    assert over.code == 2 and "at most the shared cap 40" in " ".join(over.err.split())


def test_a_negotiation_knows_no_shared_caps_and_says_so(run) -> None:
    refused = run("negotiate", NAME)
    assert refused.code == 2
    assert "knows lots with a cap each only" in " ".join(refused.err.split())
