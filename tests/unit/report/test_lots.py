"""The report, a member's page and the pictures of members with several lots: what is brought, what stays at home."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import Comparison
from fedpact.report.member_page import render_member_page
from fedpact.report.page import render_report
from fedpact.scenario import example

TITLE = "Five hospitals"


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return fp.compare(example("hospitals-lots").federation, ["externality", "standalone"])


def test_the_report_says_which_lots_stay_at_home(compared: Comparison) -> None:
    page = render_report(compared, scenario_title=TITLE)
    given = compared["externality"]
    home = [name for name, amount in zip(given.federation.lot_labels, given.contributions, strict=True) if amount == 0]
    assert home == ["City: old device"]
    assert "at home: " in page and page.index("City: old device") > 0 and ">at home<" in page
    for name in given.federation.lot_labels:
        assert name.replace("'", "&#39;") in page
    assert "10 lots of data and 7 tasks" in page and "Lots of data" in page
    assert "Of 70 weights" in page


def test_a_page_of_a_member_lists_its_lots(compared: Comparison) -> None:
    page = render_member_page(compared, "City", scenario_title=TITLE)
    assert "Contribution, labelled" in page and "it stays at home" in page
    assert "of &#34;labelled&#34; and pays" in page and "of &#34;old device" not in page


def test_pictures_have_a_bar_per_lot(compared: Comparison) -> None:
    outcome, federation = compared["externality"], compared.federation
    figure = outcome.plot()
    shown = figure.axes[0]
    labels = [label.get_text() for label in shown.get_yticklabels()]
    assert len(labels) == federation.n_lots and labels[0].startswith("University")
    widths = [bar.get_width() for bar in shown.patches]
    np.testing.assert_allclose(widths, outcome.contributions)
    assert len(figure.axes[1].get_yticklabels()) == federation.n_agents
    assert len(compared.plot().axes) == 2 * 4
    cells = federation.plot().axes[0].images[0].get_array()
    assert cells.shape == (federation.n_tasks, federation.n_lots)
    plt.close("all")
