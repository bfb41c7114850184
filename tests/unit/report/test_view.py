"""What a federation is called, and which rows of many are shown."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from fedpact.report.page import View
from fedpact.report.tables import FEW, MAX_SHOWN, ResultTable


def test_few_rows_are_all_shown_and_of_many_the_largest():
    few = ResultTable(title="", names=["a", "b"], columns={}, sizes=np.arange(2.0))
    assert few.shown() == [0, 1] and few.shown(1, 1) == [1]
    sizes = np.where(np.arange(FEW + 1) == 3, np.nan, np.arange(FEW + 1))
    many = ResultTable(title="", names=[str(row) for row in range(FEW + 1)], columns={}, sizes=-sizes)
    assert many.shown() == list(range(FEW + 1 - MAX_SHOWN, FEW + 1))
    assert len(ResultTable(title="", names=many.names, columns={}).shown()) == FEW + 1


def test_a_federation_without_a_title_is_called_by_its_size(comparison_of):
    comparison = comparison_of("hospitals")
    titles = {" ": "A federation of 5 members", " Five ": "Five"}
    for given, shown in titles.items():
        assert View.of(comparison, fp.Scenario(federation=comparison.federation, title=given)).title == shown
