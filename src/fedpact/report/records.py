"""Outcomes as plain records: what `--json` prints and what a deal file holds.

Keys are the attribute names. JSON has no infinity and no NaN: infinite numbers are written as "inf" and "-inf",
undefined ones as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedpact.certificates import Certificate
from fedpact.comparison import Comparison, Outlook, Sweep
from fedpact.deals import Outcome
from fedpact.deals.outcome import PER_AGENT
from fedpact.fitting import Fit, Suggestion
from fedpact.stability import StableFederation
from fedpact.utils.jsonl import jsonable

__all__ = [
    "comparison_record",
    "departures_record",
    "fit_record",
    "outcome_record",
    "outlook_record",
    "sweep_record",
]

OUTCOME_FIELDS = (*PER_AGENT, "reciprocity", "welfare", "leavers", "diagnosis")


def sweep_record(sweep: Sweep) -> dict[str, Any]:
    """A sweep as plain data: the values of every axis, and the metrics and flags over the grid by mechanism."""
    return jsonable(
        {
            "axes": [{"name": axis.label, "values": axis.points} for axis in sweep.axes],
            "agents": sweep.agents,
            "mechanisms": {
                mechanism: {
                    **metrics,
                    "solved": sweep.solved[mechanism],
                    "on_boundary": sweep.on_boundary[mechanism],
                    "in_domain": sweep.in_domain[mechanism],
                }
                for mechanism, metrics in sweep.metrics.items()
            },
        }
    )


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """Everything an outcome says, as plain data."""
    worst = outcome.worst_reciprocity
    record: dict[str, Any] = {"mechanism": outcome.mechanism, "agents": outcome.agents}
    record |= {field: getattr(outcome, field) for field in OUTCOME_FIELDS}
    record["worst_reciprocity"] = {
        "value": worst.value,
        "contributions": worst.contributions,
        "payments": worst.payments,
    }
    record["certificates"] = {claim: _certificate(entry) for claim, entry in outcome.certificates.items()}
    record["assumptions"] = [
        {"name": entry.name, "holds": entry.holds, "agents": entry.agents, "consequence": entry.consequence}
        for entry in outcome.assumptions
    ]
    record["equilibria"] = {
        "unique": outcome.equilibria.unique,
        "dimension": outcome.equilibria.dimension,
        "note": outcome.equilibria.note,
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """All outcomes, what is left after departures, and the recommendation."""
    recommended = comparison.recommendation
    plain: dict[str, Any] = jsonable(
        {
            "agents": comparison.federation.names,
            "best_welfare": comparison.best_welfare,
            "outcomes": [outcome_record(outcome) for outcome in comparison],
            "after_departures": {
                name: departures_record(settled) for name, settled in comparison.after_departures.items()
            },
            "unsolved": comparison.unsolved,
            "recommendation": recommended and {"mechanism": recommended.mechanism, "reason": recommended.reason},
        }
    )
    if comparison.uncertainty:
        plain["uncertainty"] = {name: outlook_record(outlook) for name, outlook in comparison.uncertainty.items()}
    return plain


def outlook_record(outlook: Outlook) -> dict[str, Any]:
    """What a mechanism may make of an uncertain federation: intervals, and who would leave how probably."""
    fields = ("contributions", "payments", "ir_gaps", "reciprocity_ratios", "welfare", "reciprocity")
    plain: dict[str, Any] = jsonable(
        {
            "draws": outlook.n_draws,
            "unsolved_draws": outlook.n_unsolved,
            "level": outlook.level,
            "intervals": {name: outlook.interval(name) for name in fields},
            "leave_probabilities": outlook.leave_probabilities,
            "assurance": outlook.assurance,
            "keeping_endowments": outlook.keeping_endowments,
        }
    )
    return plain


def departures_record(settled: StableFederation) -> dict[str, Any]:
    """Who left, who stayed, and what welfare is left."""
    plain: dict[str, Any] = jsonable(
        {
            "members": settled.members,
            "leavers": settled.leavers,
            "welfare_all_stay": settled.welfare_all_stay,
            "welfare": settled.welfare,
            "endowment_to_keep_all": settled.endowment_to_keep_all,
            "departures": [
                {"leavers": departure.leavers, "endowments": departure.endowments, "agents": departure.outcome.agents}
                for departure in settled.departures
            ],
        }
    )
    return plain


def fit_record(fit: Fit, suggestions: Sequence[Suggestion] = (), *, level: float = 0.9) -> dict[str, Any]:
    """A fit as plain data; intervals are [lower, upper], in the shape of what they belong to."""
    plain: dict[str, Any] = jsonable(
        {
            "agents": fit.names,
            "family": fit.family,
            "signs": fit.signs,
            "beta": fit.beta,
            "weights": fit.weights,
            "floors": fit.floors,
            "ceilings": fit.ceilings,
            "values": fit.values,
            "training_noise": fit.training_noise,
            "level": level,
            "intervals": fit.intervals(level),
            "standard_errors": fit.standard_errors,
            "quality": asdict(fit.quality),
            "indistinguishable": fit.indistinguishable,
            "outliers": [asdict(outlier) for outlier in fit.outliers],
            "notes": fit.notes,
            "suggestions": [
                {"contributions": each.contributions, "reason": each.reason, "settles": each.settles}
                for each in suggestions
            ],
        }
    )
    return plain


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "claim": certificate.claim,
        "verdict": certificate.verdict,
        "margin": certificate.margin,
        "tol": certificate.tol,
        "scope": certificate.scope,
        "witness": certificate.witness,
    }
