"""Results as plain records: what `--json` prints. Deals and outcomes are written in `fedpact.deals.deal_file`.

Keys are the attribute names. JSON has no infinity and no NaN: infinite numbers are written as "inf" and "-inf",
undefined ones as null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fedpact.deals.deal_file import outcome_record
from fedpact.utils.jsonl import jsonable

if TYPE_CHECKING:
    from fedpact.comparison import BlockingGroup, Comparison, FieldStudy, Outlook, StableFederation, Sweep
    from fedpact.fitting import Delivery, Fit, Suggestion


def properties_record(comparison: Comparison) -> dict[str, Any]:
    """Mechanisms against properties: verdicts by claim, and what members gain by misreporting."""
    return jsonable({"verdicts": comparison.verdicts, "misreporting_gains": comparison.misreporting_gains})


def sweep_record(sweep: Sweep) -> dict[str, Any]:
    """A sweep as plain data: the values of every axis, and the metrics and flags over the grid by mechanism."""
    return jsonable(
        {
            "axes": [{"name": axis.label, "values": axis.points} for axis in sweep.axes],
            "agents": sweep.agents,
            **({"lots": sweep.lots} if tuple(sweep.lots) not in {(), tuple(sweep.agents)} else {}),
            "mechanisms": {
                mechanism: {
                    **metrics,
                    "solved": sweep.solved[mechanism],
                    "on_boundary": sweep.on_boundary[mechanism],
                    "in_domain": sweep.in_domain[mechanism],
                    "no_deal": sweep.no_deal.get(mechanism),
                    "holds": sweep.holds.get(mechanism, {}),
                }
                for mechanism, metrics in sweep.metrics.items()
            },
        }
    )


def study_record(study: FieldStudy) -> dict[str, Any]:
    """A study as plain data: what it was, and a row for every kind and mechanism."""
    return jsonable(
        {
            "kinds": study.kinds,
            "mechanisms": list(study.mechanisms),
            "count": study.count,
            "n_agents": study.n_agents,
            "seed": study.seed,
            "summary": study.summary(),
        }
    )


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """All outcomes, what is left after departures, who gains by leaving together or posing as two, and the choice."""
    recommended = comparison.recommendation
    plain: dict[str, Any] = jsonable(
        {
            "agents": comparison.federation.names,
            "best_welfare": comparison.best_welfare,
            "outcomes": [outcome_record(outcome) for outcome in comparison],
            "after_departures": {
                name: departures_record(settled) for name, settled in comparison.after_departures.items()
            },
            "blocking_groups": {
                name: None if found is None else blocking_group_record(found)
                for name, found in comparison.blocking_groups.items()
            },
            "splitting_gains": comparison.splitting_gains,
            "unsolved": comparison.unsolved,
            "recommendation": recommended
            and {
                "mechanism": recommended.mechanism,
                "members": recommended.members,
                "out": recommended.out,
                "reason": recommended.reason,
            },
            "sensitivity": comparison.sensitivity and asdict(comparison.sensitivity),
        }
    )
    if recommended is not None and recommended.out and comparison.recommended_outcome is not None:
        plain["recommended_outcome"] = outcome_record(comparison.recommended_outcome)
    if comparison.uncertainty:
        plain["uncertainty"] = {name: outlook_record(outlook) for name, outlook in comparison.uncertainty.items()}
    return plain


def outlook_record(outlook: Outlook) -> dict[str, Any]:
    """What a mechanism may make of an uncertain federation: intervals, and who would leave how probably."""
    intervals = ("contributions", "payments", "ir_gaps", "reciprocity_ratios", "welfare", "reciprocity")
    known = not outlook.assumption
    return jsonable(
        {
            "draws": outlook.n_draws,
            "unsolved_draws": outlook.n_unsolved,
            "level": outlook.level,
            "intervals": {name: outlook.interval(name) for name in intervals},
            "leave_probabilities": outlook.leave_probabilities if known else None,
            "assumption": outlook.assumption or None,
            "assurance": outlook.assurance,
            "keeping_endowments": outlook.keeping_endowments if known else None,
        }
    )


def departures_record(settled: StableFederation) -> dict[str, Any]:
    """Who left, who stayed, and what welfare is left."""
    steps = [
        _fields(departure, "leavers", "gain", "endowments") | {"agents": departure.outcome.agents}
        for departure in settled.departures
    ]
    told = _fields(settled, "members", "leavers", "welfare_all_stay", "welfare", "endowment_to_keep_all")
    return jsonable(told | {"departures": steps})


def blocking_group_record(found: BlockingGroup) -> dict[str, Any]:
    """The group that gains most by leaving, what it gains, and how far that is known."""
    told = ("group", "gain", "upper_bound", "exact", "blocks", "utilities", "group_utilities")
    return jsonable(_fields(found, *told))


def delivery_record(delivery: Delivery) -> dict[str, Any]:
    """What each member delivered in effect, with 95 % intervals, and who is flagged."""
    lower, upper = delivery.intervals()
    counts = {"agents": delivery.names, "models": delivery.n_models, "accuracies": delivery.n_measured}
    judged = ("p_values", "can_judge", "calibrated", "flagged", "run_noise", "misfit_p_value", "notes")
    return jsonable(
        {
            **counts,
            **_fields(delivery, "contributions", "shares"),
            "lower": lower,
            "upper": upper,
            "power": delivery.power(),
            **_fields(delivery, *judged),
        }
    )


def _lots_record(fit: Fit) -> dict[str, Any]:
    """Whose lots and tasks there are, under the keys of a scenario file; nothing where everybody has one of each."""
    owned = fit.observations.ownership
    if not fit.observations.has_lots:
        return {}
    return {
        "lot_owners": [fit.names[owner] for owner in owned.lot_owners],
        "lot_names": owned.lot_names,
        "task_owners": [fit.names[owner] for owner in owned.task_owners],
        "task_names": owned.task_names,
    }


def fit_record(fit: Fit, suggestions: Sequence[Suggestion] = (), *, level: float = 0.9) -> dict[str, Any]:
    """A fit as plain data; intervals are [lower, upper], in the shape of what they belong to."""
    fitted = ("family", "signs", "beta", "weights", "floors", "ceilings", "values", "training_noise")
    return jsonable(
        {
            "agents": fit.names,
            **_lots_record(fit),
            **_fields(fit, *fitted),
            "level": level,
            "intervals": fit.intervals(level),
            "standard_errors": fit.standard_errors,
            "quality": asdict(fit.quality),
            "lack_of_fit": asdict(fit.lack_of_fit),
            "recommended": fit.is_recommended,
            "families": None if fit.families is None else asdict(fit.families),
            **_fields(fit, "warnings", "indistinguishable"),
            "outliers": [asdict(outlier) for outlier in fit.outliers],
            "notes": fit.notes,
            "suggestions": [_fields(each, "contributions", "reason", "settles") for each in suggestions],
        }
    )


def _fields(found: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}
