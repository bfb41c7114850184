"""Outcomes as plain records: what `--json` prints and what a deal file holds.

Keys are the attribute names. JSON has no infinity and no NaN: infinite numbers are written as "inf" and "-inf",
undefined ones as null.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.certificates import Certificate
from fedpact.comparison import Comparison, Outlook, Sweep
from fedpact.deals import Outcome
from fedpact.deals.outcome import PER_AGENT
from fedpact.fitting import Fit, Suggestion
from fedpact.negotiation import Deal
from fedpact.negotiation.transcript import read_transcript
from fedpact.stability import StableFederation
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import DECODERS, error_context, read_text, short_repr

__all__ = [
    "comparison_record",
    "deal_record",
    "departures_record",
    "fit_record",
    "jsonable",
    "outcome_record",
    "outlook_record",
    "read_deal",
    "stated_numbers",
    "sweep_record",
]

TRANSCRIPT = ".jsonl"
OUTCOME_FIELDS = (*PER_AGENT, "reciprocity", "welfare", "leavers", "diagnosis")


def jsonable(value: Any) -> Any:
    """`value` with arrays as lists and every number representable in JSON."""
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [jsonable(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isnan(number):
            return None
        return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return value.item() if isinstance(value, np.generic) else value


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
            "agents": comparison.federation.agent_names,
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


def deal_record(deal: Deal) -> dict[str, Any]:
    """A negotiated deal as plain data; its contributions and payments are those of the Externality mechanism."""
    plain: dict[str, Any] = jsonable(
        {
            "mechanism": "externality",
            "agents": deal.agents,
            "contributions": deal.contributions,
            "payments": deal.payments,
            "prices": deal.prices,
            "protocol": deal.protocol,
            "settled_by": "personal prices" if deal.messages is None else "message game",
            "rounds": deal.rounds,
            "welfare": deal.welfare,
            "residual": deal.residual,
            "excluded": deal.excluded,
        }
    )
    return plain


def read_deal(path: Path, names: Sequence[str]) -> tuple[str, list[float], list[float]]:
    """The mechanism, contributions and payments of a deal file or a transcript, in the order of `names`."""
    with error_context(str(path)):
        record = _deal_of(path)
        for key in ("mechanism", "agents", "contributions", "payments"):
            if key not in record:
                raise InvalidInput(f"a deal must have the key {key!r}; `fedpact solve --json` writes it")
        agents = record["agents"] if isinstance(record["agents"], list) else []
        if not all(isinstance(agent, str) for agent in agents) or sorted(agents) != sorted(names):
            given = short_repr(record["agents"])
            raise InvalidInput(f"agents must be those of the scenario ({', '.join(names)}), got {given}")
        order = [agents.index(name) for name in names]
        contributions, payments = stated_numbers(record, len(names))
    return str(record["mechanism"]), [contributions[place] for place in order], [payments[place] for place in order]


def stated_numbers(record: Mapping[str, Any], count: int) -> tuple[list[float], list[float]]:
    """The contributions and payments a deal states, checked."""
    contributions, payments = (_numbers(key, record.get(key), count) for key in ("contributions", "payments"))
    return contributions, payments


def _deal_of(path: Path) -> Mapping[str, Any]:
    if path.suffix.lower() == TRANSCRIPT:
        deal = read_transcript(path).deal
        if deal is None:
            raise InvalidInput("the negotiation is not over; `fedpact negotiate` with this transcript goes on")
        return deal
    record = DECODERS[".json"](read_text(path))
    if not isinstance(record, dict):
        raise InvalidInput(f"a deal must be one JSON object, got {short_repr(record)}")
    return record


def _numbers(key: str, given: Any, count: int) -> list[float]:
    if not isinstance(given, list) or len(given) != count:
        raise InvalidInput(f"{key} must be a list of {count} numbers, got {short_repr(given)}")
    for index, entry in enumerate(given):
        if isinstance(entry, bool) or not isinstance(entry, (int, float)) or not abs(entry) <= sys.float_info.max:
            raise InvalidInput(f"{key}[{index}] must be a finite number, got {short_repr(entry)}")
    return [float(entry) for entry in given]


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "claim": certificate.claim,
        "verdict": certificate.verdict,
        "margin": certificate.margin,
        "tol": certificate.tol,
        "scope": certificate.scope,
        "witness": certificate.witness,
    }
