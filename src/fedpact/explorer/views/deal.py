"""The deal as the page shows it: the sections of the report, and the payoff curve."""

from __future__ import annotations

import numpy as np

from fedpact.comparison import Comparison
from fedpact.explorer.views.charts import Curve, curves
from fedpact.federation import Federation
from fedpact.report.html import Html, el, join
from fedpact.report.sections.certificates import certificates
from fedpact.report.sections.conditions import conditions
from fedpact.report.sections.contributions import contributions
from fedpact.report.sections.fairness import fairness
from fedpact.report.sections.federation import federation as all_numbers
from fedpact.report.sections.gains import gains
from fedpact.report.sections.payments import payments
from fedpact.report.sections.summary import summary
from fedpact.report.sections.welfare import welfare
from fedpact.report.view import View
from fedpact.scenario import Scenario
from fedpact.utils.words import count_text

__all__ = ["deal", "payoff_picture", "view_of"]

SECTIONS = {
    "gains": (gains, "Gains"),
    "payments": (payments, "Payments"),
    "contributions": (contributions, "Contributions"),
    "fairness": (fairness, "Fairness"),
    "welfare": (welfare, "Welfare"),
    "certificates": (certificates, "Certificates"),
    "conditions": (conditions, "Assumptions"),
    "federation": (all_numbers, "All numbers"),
}
SHOWN = 121  # points of the payoff curve
FURTHER = 1.15  # the curve goes on beyond the most data anybody reaches
MOST_CURVES = 6


def view_of(scenario: Scenario, comparison: Comparison) -> View:
    """What the sections of the report look at."""
    title = scenario.title.strip() or f"A federation of {count_text(scenario.federation.n_agents, 'member')}"
    return View(comparison=comparison, title=title, description=scenario.description.strip(), money=scenario.money)


def deal(scenario: Scenario, comparison: Comparison) -> Html:
    """Recommendation, headline numbers, and a section for every question about the deal."""
    view = view_of(scenario, comparison)
    entries = [el("li", el("a", label, href=f"#{ident}")) for ident, (_, label) in SECTIONS.items()]
    return join(
        summary(view),
        el("nav", el("ol", entries), aria_label="Parts of the deal"),
        [make(view) for make, _ in SECTIONS.values()],
    )


def payoff_picture(federation: Federation, comparison: Comparison | None) -> Html:
    """What data is worth: one curve if the members share it, else those of the first few."""
    reached = _reached(federation, comparison)
    across = np.linspace(0.0, FURTHER * reached, SHOWN)
    worth = federation.values[:, None] * np.array(
        [
            federation.payoff.take([agent]).value(across) if _own(federation) else federation.payoff.value(across)
            for agent in range(federation.n_agents)
        ]
    )
    alike = bool((worth == worth[0]).all())
    shown = [0] if alike else range(min(federation.n_agents, MOST_CURVES))
    lines = [Curve(label="all" if alike else federation.names[agent], points=worth[agent]) for agent in shown]
    below = "Payoff over the weighted data that reaches a member"
    return curves(across, lines, title="The payoff curve", below=below)


def _own(federation: Federation) -> bool:
    return any(np.ndim(numbers) for numbers in federation.payoff.parameters.values())


def _reached(federation: Federation, comparison: Comparison | None) -> float:
    """The most data anybody reaches in any of the deals; some where nobody contributes."""
    if comparison is None or not comparison.outcomes:
        return 1.0
    most = max(float(federation.data(outcome.contributions).max()) for outcome in comparison)
    return most if most > 0 else 1.0
