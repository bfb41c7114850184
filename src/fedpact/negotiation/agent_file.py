"""What stands in a member's private file, checked: its row, payoff, cost and cap. The file is written by people too.

Of a member with several lots or tasks it says whose every lot is (`lot_owners`, `lot_names`, of everybody's) and has an
entry for each of its own `tasks` (name, weights of all lots, payoff, value) and `lots` (linear, quadratic, cap), and
`shared_caps` (lots, by place among its own, and cap) if some of its lots share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from fedpact.federation import Cost, Linear, Log, Payoff, Quadratic, SharedCap
from fedpact.federation.lots import Ownership, check_shared_caps
from fedpact.federation.payoffs import FAMILIES
from fedpact.negotiation.agent import Agent
from fedpact.scenario.fields import check_keys
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr

MAX_NAME = 200
MAX_NUMBER = 1e300
REQUIRED = ("name", "index", "weights", "payoff", "value", "linear", "quadratic", "cap")
REQUIRED_OF_LOTS = ("name", "index", "n_agents", "lot_owners", "lot_names", "tasks", "lots")
# What may stand beside it; all but the first is for people (`fedpact.fitting.member.MemberNotes`).
OPTIONAL = ("least_gain", "agents", "known", "unit", "placeholder_cost")


def record_of_agent(agent: Agent) -> dict[str, Any]:
    """What one agent knows, as plain data; flat where everybody has one lot and one task."""
    tasks = [
        {"name": name, "weights": row.tolist(), "value": value} | _payoff_record(agent.payoff.take([task]))
        for task, (name, row, value) in enumerate(
            zip(agent.task_names, agent.weights, agent.values.tolist(), strict=True)
        )
    ]
    lots = [_cost_record(agent.costs.take([lot])) | {"cap": cap} for lot, cap in enumerate(agent.caps.tolist())]
    own = {"name": agent.name, "index": agent.index}
    if not agent.has_lots:
        return own | {
            key: part for key, part in (tasks[0] | lots[0] | {"least_gain": agent.least_gain}).items() if key != "name"
        }
    record = own | {
        "n_agents": agent.n_agents,
        "lot_owners": agent.lot_owners.tolist(),
        "lot_names": list(agent.lot_names),
        "tasks": tasks,
        "lots": lots,
        "least_gain": agent.least_gain,
    }
    if agent.shared_caps:
        record["shared_caps"] = [{"lots": list(each.lots), "cap": each.cap} for each in agent.shared_caps]
    return record


def _payoff_record(payoff: Payoff) -> dict[str, Any]:
    parameters = {name: float(np.ravel(number)[0]) for name, number in payoff.parameters.items()}
    return {"payoff": {"family": payoff.family} | parameters}


def _cost_record(cost: Cost) -> dict[str, Any]:
    return {"linear": float(np.ravel(cost.linear)[0]), "quadratic": float(np.ravel(cost.quadratic)[0])}


def agent_from_record(record: Mapping[str, Any]) -> Agent:
    """The agent that a private file describes; raises `InvalidInput` with the entry and the rule."""
    several = "lot_owners" in record
    missing = [key for key in (REQUIRED_OF_LOTS if several else REQUIRED) if key not in record]
    if missing:
        raise InvalidInput(f"this is no member's file: {', '.join(missing)} missing; `fedpact fit --member` writes one")
    check_keys(record, (*REQUIRED_OF_LOTS, "shared_caps", *OPTIONAL) if several else (*REQUIRED, *OPTIONAL))
    name, index = _name(record["name"]), record["index"]
    if several:
        count, owners, lot_names = _layout(record)
        tasks = _objects(record["tasks"], "tasks", ("weights", "payoff", "value"), ("name",))
        lots = _objects(record["lots"], "lots", ("linear", "quadratic", "cap"))
        if len(lots) != owners.count(index):
            raise InvalidInput(f"lots must describe its {owners.count(index)} lots by lot_owners, got {len(lots)}")
        if not tasks and not lots:
            raise InvalidInput(
                "tasks and lots must not both be empty: the member has nothing to give and nothing to gain"
            )
    else:
        count = _row(record["weights"]).size
        owners, lot_names, tasks, lots = list(range(count)), (), [record], [record]
        _check_index(index, count)
        own = record["weights"][index]
        if own < 0.0:
            raise InvalidInput(f"weights[{index}] must be at least 0, got {own:g}: its own data does not harm it")
        _check_names(record.get("agents"), name, index, count)
    rows = [_row(task["weights"], len(owners)) for task in tasks]
    return Agent(
        name=name,
        index=index,
        n_agents=count,
        weights=np.array(rows).reshape(len(rows), len(owners)),
        payoff=_joint_payoff([task["payoff"] for task in tasks]),
        values=np.array([_number(task, "value", low=np.finfo(float).tiny) for task in tasks]),
        costs=_cost(lots),
        caps=np.array([_cap(lot) for lot in lots]),
        lot_owners=np.array(owners, dtype=np.intp),
        lot_names=lot_names,
        task_names=tuple(str(task.get("name", f"task {place}")) for place, task in enumerate(tasks)),
        least_gain=_least_gain(record.get("least_gain", 0.0)),
        shared_caps=_shared_caps(record.get("shared_caps"), len(lots)),
    )


def _layout(record: Mapping[str, Any]) -> tuple[int, list[int], tuple[str, ...]]:
    """How many members there are, whose every lot is and what it is called."""
    count, owners, names = record["n_agents"], record["lot_owners"], record["lot_names"]
    if type(count) is not int or count < 1:
        raise InvalidInput(f"n_agents must be how many members there are, got {short_repr(count)}")
    _check_index(record["index"], count)
    if not isinstance(owners, list) or not all(type(owner) is int and 0 <= owner < count for owner in owners):
        raise InvalidInput(f"lot_owners must list a place from 0 to {count - 1} for each lot, got {short_repr(owners)}")
    if not isinstance(names, list) or len(names) != len(owners) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"lot_names must name each of the {len(owners)} lots, got {short_repr(names)}")
    return count, owners, tuple(names)


def _check_index(given: Any, count: int) -> None:
    if type(given) is not int or not 0 <= given < count:
        raise InvalidInput(f"index must be a place from 0 to {count - 1}, got {short_repr(given)}")


def _shared_caps(given: Any, n_own: int) -> tuple[SharedCap, ...]:
    places = tuple(str(place) for place in range(n_own))
    owners = np.zeros(n_own, dtype=np.intp)
    return check_shared_caps(given, Ownership(owners, owners, places, places), places, ("the member",))


def _objects(given: Any, key: str, wanted: tuple[str, ...], more: tuple[str, ...] = ()) -> list[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise InvalidInput(f"{key} must be a list of objects, got {short_repr(given)}")
    for place, entry in enumerate(given):
        missing = [part for part in wanted if part not in entry]
        if missing:
            raise InvalidInput(f"{key}[{place}] must have {', '.join(missing)}")
        with error_context(f"{key}[{place}]"):
            check_keys(entry, (*wanted, *more))
    return given


def _joint_payoff(given: list[Any]) -> Payoff:
    """The curves of all tasks, which must be of one family."""
    curves = [_payoff(each) for each in given]
    if len({type(curve) for curve in curves}) > 1:
        families = ", ".join(dict.fromkeys(curve.family for curve in curves))
        raise InvalidInput(f"payoff.family must be the same for all tasks of a member, got {families}")
    if not curves:
        return Log()
    names = curves[0].parameters
    return type(curves[0])(**{name: np.concatenate([np.ravel(c.parameters[name]) for c in curves]) for name in names})


def _cost(given: Sequence[Mapping[str, Any]]) -> Cost:
    linear, quadratic = ([_number(each, key, low=0.0) for each in given] for key in ("linear", "quadratic"))
    if any(not (rate or bend) for rate, bend in zip(linear, quadratic, strict=True)):
        raise InvalidInput("linear must be positive, got 0: contributing costs a member something")
    return Quadratic(np.array(linear), np.array(quadratic)) if any(quadratic) else Linear(np.array(linear))


def _cap(record: Mapping[str, Any]) -> float:
    return np.inf if record["cap"] in ("inf", np.inf) else _number(record, "cap", low=0.0)


def _least_gain(given: Any) -> float | None:
    if given is not None and not _is_number(given):
        raise InvalidInput(
            f"least_gain must be a finite number, or null to take any deal, got {short_repr(given)}: what the member "
            f"asks of a deal beyond training alone"
        )
    return None if given is None else float(given)


def _name(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_NAME:
        raise InvalidInput(f"name must be a text of 1 to {MAX_NAME} characters, got {short_repr(given)}")
    return given


def _check_names(given: Any, name: str, index: int, count: int) -> None:
    """Refuse names of all members, if there are any, that contradict the member's own name and place."""
    if given is None:
        return
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidInput(f"agents must be a list of names, got {short_repr(given)}")
    if len(given) != count or len(set(given)) != count:
        raise InvalidInput(f"agents must name each of the {count} members of weights once, got {short_repr(given)}")
    if given[index] != name:
        raise InvalidInput(
            f"agents[{index}] must be the member itself, {name!r} at index {index}, got {given[index]!r}"
        )


def _row(given: Any, n_lots: int | None = None) -> FloatArray:
    if not isinstance(given, list) or not given:
        raise InvalidInput(f"weights must be a list of finite numbers, one per member, got {short_repr(given)}")
    for place, weight in enumerate(given):
        if not _is_number(weight):
            raise InvalidInput(f"weights[{place}] must be a finite number, got {short_repr(weight)}")
    if n_lots is not None and len(given) != n_lots:
        raise InvalidInput(f"weights must have a number for each of the {n_lots} lots, got {len(given)}")
    return np.array(given, dtype=np.float64)


def _payoff(given: Any) -> Payoff:
    family = given.get("family") if isinstance(given, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidInput(f"payoff.family must be one of {', '.join(FAMILIES)}, got {short_repr(family)}")
    parameters = {name: number for name, number in given.items() if name != "family"}
    known = list(signature(FAMILIES[family]).parameters)
    with error_context("payoff"):
        check_keys(given, ["family", *known])
    for name in known:
        if name not in parameters:
            raise InvalidInput(f"payoff must have the parameters of {family}: {', '.join(known)}; {name} is missing")
        _number(given, name, low=0.0)
    return FAMILIES[family](**{name: np.array([number], dtype=np.float64) for name, number in parameters.items()})


def _number(record: Mapping[str, Any], key: str, *, low: float) -> float:
    given = record[key]
    if not _is_number(given) or given < low:
        rule = "at least 0" if low == 0.0 else "positive"
        raise InvalidInput(f"{key} must be a finite number, {rule}, got {short_repr(given)}")
    return float(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= MAX_NUMBER
