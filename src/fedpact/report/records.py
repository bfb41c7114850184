"""Results as plain records, which `--json` prints; as one line; as a pandas frame.

Deals and outcomes are written in `fedpact.deals.deal_file`. Keys and columns are the attribute names. JSON has no
infinity and no NaN: infinite numbers are written as "inf" and "-inf", undefined ones as null. Lines are cheap at any
size; frames hold everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.deals import Deal, Outcome
from fedpact.deals.deal_file import outcome_record
from fedpact.deals.outcome import PER_AGENT, PER_LOT, Outcomes
from fedpact.federation.lots import require_single_lots
from fedpact.report.numbers import number_texts
from fedpact.utils.errors import MissingExtra, OutsideDomain
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from fedpact.comparison import BlockingGroup, Comparison, FieldStudy, Outlook, StableFederation, Sweep
    from fedpact.federation import Federation
    from fedpact.fitting import Delivery, Fit, Suggestion
    from fedpact.fitting.pilots import PilotStudy
    from fedpact.scenario.measured import MeasuredGains
    from fedpact.training import Run


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


MAX_LEAVERS, MAX_LIST_LENGTH = 3, 60  # leavers, and the letters of their names together


def federation_line(federation: Federation) -> str:
    """Size and payoff family, in one line."""
    owned = ""
    if federation.has_lots:
        owned = f", {count_text(federation.n_lots, 'lot')}, {count_text(federation.n_tasks, 'task')}"
    return f"Federation({count_text(federation.n_agents, 'agent')}{owned}, {federation.payoff.family})"


def outcome_line(outcome: Outcome) -> str:
    """Mechanism, size, welfare and who would leave, in one line."""
    return f"Outcome({outcome.mechanism}, {count_text(len(outcome.agents), 'agent')}, {_state(outcome)})"


def comparison_line(comparison: Comparison) -> str:
    """Size and the welfare under every mechanism, in one line."""
    solved = [f"{outcome.mechanism} {_welfare(outcome)}" for outcome in comparison.outcomes]
    entries = ", ".join([*solved, *(f"{mechanism} unsolved" for mechanism in comparison.unsolved)])
    return f"Comparison({count_text(comparison.federation.n_agents, 'agent')}, welfare: {entries or 'no mechanisms'})"


def stable_federation_line(stable: StableFederation) -> str:
    """Mechanism, how many stay, and the welfare, in one line."""
    outcome = stable.outcome or stable.departures[0].outcome
    n_stay, n_all = len(stable.members), len(stable.members) + len(stable.leavers)
    stay = "nobody leaves" if n_stay == n_all else f"{n_stay} of {count_text(n_all, 'agent')} stay"
    return f"StableFederation({outcome.mechanism}, {stay}, welfare {_plain(stable.welfare)})"


def who_would_leave(outcome: Outcome) -> str:
    """Who would leave, in words; by name if they are few."""
    leavers = outcome.leavers
    if not outcome.federated:
        return "nobody federates"
    if not leavers:
        return "nobody would leave"
    if len(leavers) > MAX_LEAVERS or sum(map(len, leavers)) > MAX_LIST_LENGTH:
        return f"{len(leavers)} of {len(outcome.agents)} would leave"
    return f"{join_names([' '.join(name.split()) for name in leavers])} would leave"


def agents_frame(names: Sequence[str], columns: Mapping[str, Any]) -> Any:
    """A pandas frame with a row per agent (task, lot)."""
    pandas = _pandas()
    return pandas.DataFrame(dict(columns), index=pandas.Index(names, name="agent", dtype=object))


def outcome_frame(outcome: Outcome) -> Any:
    """A pandas frame of every per-agent attribute, a row per agent."""
    return agents_frame(outcome.agents, {label: np.array(getattr(outcome, label)) for label in _per_agent(outcome)})


def deal_frame(deal: Deal) -> Any:
    """A pandas frame of what every agent contributes (if each has one lot) and is paid, and how much of it is fixed."""
    given = {} if deal.has_lots else {"contributions": np.array(deal.contributions)}
    fixed = {} if deal.side_payments is None else {"side_payments": np.array(deal.side_payments)}
    return agents_frame(deal.agents, given | {"payments": np.array(deal.payments)} | fixed)


def fit_frame(fit: Fit) -> Any:
    """A pandas frame of the fitted curve of every task, and the weight of every lot for it."""
    labels = fit.observations.lot_labels
    weights = {f"weights[{label}]": fit.weights[:, lot] for lot, label in enumerate(labels)}
    curve = {"floor": fit.floors, "ceiling": fit.ceilings, "beta": fit.beta}
    return agents_frame(fit.observations.task_labels, {**curve, **weights})


def comparison_frame(comparison: Comparison) -> Any:
    """A pandas frame of every per-agent attribute, a row per mechanism and agent."""
    pandas, frames = _pandas(), {outcome.mechanism: outcome_frame(outcome) for outcome in comparison.outcomes}
    if frames:
        return pandas.concat(frames, names=["mechanism", "agent"])
    return pandas.DataFrame(columns=list(PER_AGENT), index=pandas.MultiIndex.from_arrays([[], []]))


def outcomes_frame(outcomes: Outcomes) -> Any:
    """A pandas frame of every per-agent attribute, a row per federation, by its index, and agent.

    What agents with several lots have per lot is left out.
    """
    pandas = _pandas()
    index = pandas.MultiIndex.from_product([range(len(outcomes)), outcomes.arrays.names], names=["federation", "agent"])
    per_agent = [label for label in PER_AGENT if not (outcomes.arrays.has_lots and label in PER_LOT)]
    columns = {label: np.ravel(getattr(outcomes, label)) for label in per_agent}
    return pandas.DataFrame(columns | {"status": np.repeat(outcomes.statuses, outcomes.arrays.n_agents)}, index=index)


def columns_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pandas frame of the columns of a sweep or a study."""
    return _pandas().DataFrame(columns)


def federation_frame(federation: Federation) -> Any:
    """A pandas frame of costs, caps, values and payoff parameters, a row per agent."""
    require_single_lots(federation, "a frame of a federation")
    numbers = {
        "costs.linear": federation.costs.linear,
        "costs.quadratic": federation.costs.quadratic,
        "caps": federation.caps,
        "values": federation.values,
    } | {f"payoff.{label}": parameter for label, parameter in federation.payoff.parameters.items()}
    every = federation.n_agents
    return agents_frame(
        federation.names, {label: np.array(np.broadcast_to(given, every)) for label, given in numbers.items()}
    )


def delivery_frame(delivery: Delivery) -> Any:
    """A pandas frame of what was agreed and the estimated shares with their 95 % intervals, a row per agent."""
    lower, upper = delivery.intervals()
    columns = {
        "contributions": np.array(delivery.contributions),
        "shares": np.array(delivery.shares),
        "lower": np.array(lower),
        "upper": np.array(upper),
        "flagged": np.isin(delivery.names, delivery.flagged),
    }
    return agents_frame(delivery.names, columns)


def _pandas() -> Any:
    """The package, without which there are no frames: `MissingExtra` says how to install it."""
    try:
        import pandas  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pandas", "frame") from error
    return pandas


def _per_agent(*outcomes: Outcome) -> tuple[str, ...]:
    """What is told of each agent: where agents own several lots, nothing that is told of each lot."""
    if not any(outcome.federation.has_lots for outcome in outcomes):
        return PER_AGENT
    return tuple(label for label in PER_AGENT if label not in PER_LOT)


def _state(outcome: Outcome) -> str:
    try:
        return f"welfare {_plain(outcome.welfare)}, {who_would_leave(outcome)}"
    except OutsideDomain:
        return "outside the domain of a payoff"


def _welfare(outcome: Outcome) -> str:
    try:
        return _plain(outcome.welfare)
    except OutsideDomain:
        return "undefined"


def _plain(number: float) -> str:
    """A number within a line of code: no thousands separator, an ASCII minus."""
    return number_texts([number])[0].replace(",", "").replace("−", "-")


def gains_record(gains: MeasuredGains) -> dict[str, Any]:
    """Promised and measured gains; who would leave is named only where that is beyond doubt."""
    return {
        "promised_gains": {"members": gains.promised, "total": gains.promised.sum()},
        "measured_gains": {"members": gains.measured, "total": gains.total},
        "measured_interval": {"members": gains.intervals, "total": gains.total_interval},
        "measured_leavers": gains.losers,
        "doubtful": gains.doubtful,
    }


def pilot_record(study: PilotStudy) -> dict[str, Any]:
    """What a pilot trained, assumed and found."""
    data, deal, measured = study.data, study.confirmation, study.measured
    differences = {kind.replace(" ", "_"): study.gain(kind) for kind in study.measurements if kind != "alone"}
    nothing = {"members": measured.promised, "total": 0.0}
    gains = {"promised_gains": nothing, "measured_gains": None, "measured_interval": None}
    record = {
        "agents": data.names,
        "verdict": study.verdict,
        "advice": study.advice,
        "remedies": study.remedies,
        "arrangement": study.arrangement,
        "score": study.score.name,
        "scores": {key: getattr(measured, key) for key in ("guess", "alone", "one_model", "own_choice")},
        "differences": {
            kind: {"points": 100.0 * gain, "standard_errors": 100.0 * errors}
            for kind, (gain, errors) in differences.items()
        },
        "brings": study.brings,
        "mechanism": None if deal is None else deal.mechanism,
        "shared": measured.shared,
        "payments": measured.payments,
        **(gains if deal is None else gains_record(deal)),
        "promised_errors": study.terms.worth * study.curves.gain_errors,
        "task": data.task,
        "target": data.target,
        "classes": data.classes,
        "features": data.feature_names,
        "model": study.model.label,
        "records": [len(own) for own in data.records],
        "lots": data.lot_names if data.has_lots else None,
        "question": study.question,
        "splits": study.splits,
        "profiles": len(study.profiles),
        "curves": {"family": study.curves.shape.family, "errors_left_out": study.curves.errors}
        | {"used": study.curves.predicts},
        "costs": study.terms.costs,
        "worth": study.terms.worth,
        "currency": None if study.terms.money is None else study.terms.money.currency,
        "notes": [*study.warnings, *data.notes, *filter(None, [study.terms.words])],
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def run_record(run: Run) -> dict[str, Any]:
    """What came of a run, as plain data: keys of what was measured say so, the others are of what was promised."""
    plan, accounts = run.plan, {"": run.promised, "measured_": run.measured}
    record: dict[str, Any] = {
        "mechanism": plan.deal.mechanism,
        "agents": run.agents,
        "members": [name for name, inside in zip(run.agents, run.is_member, strict=True) if inside],
        "models": run.models,
        "verdict": run.verdict,
        "ir_gaps": run.promised.gains,
        "leavers": [run.agents[agent] for agent in plan.members if run.promised.leaves[agent]],
        **gains_record(run.gains),
        "standard_errors": run.gains.errors,
        "contributions": plan.contributions,
        "payments": plan.payments,
    }
    if plan.home is not None:
        record["home"] = plan.home
    if run.federation.has_lots:  # contributions and samples are per lot
        record["lots"] = run.federation.lot_labels
    for name in ("payoffs", "costs", "utilities", "standalone", "welfare"):
        record |= {f"{prefix}{name}": getattr(account, name) for prefix, account in accounts.items()}
    others = ("samples", "accuracies", "standalone_samples", "standalone_accuracies", "test_sizes", "floors")
    settings = ("ceilings", "rounds", "fingerprint")
    plain: dict[str, Any] = jsonable(record | {name: getattr(run, name) for name in (*others, *settings)})
    return plain
