"""A report on a comparison whose scenario has this title, money and so on."""

from __future__ import annotations

import fedpact as fp
from fedpact.report import render_report


def report_of(comparison: fp.Comparison, **said: object) -> str:
    """The page as HTML text."""
    return render_report(comparison, fp.Scenario(federation=comparison.federation, **said))  # type: ignore[arg-type]
