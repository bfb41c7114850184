"""A member's private file, written and read: its row, payoff, cost and cap, all checked. People write it too.

Of a member with several lots or tasks it says whose every lot is (`lot_owners`, `lot_names`, of everybody's) and has an
entry for each of its own `tasks` (name, weights of all lots, payoff, value) and `lots` (linear, quadratic, cap).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.federation import Cost, Linear, Log, Payoff, Quadratic
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.validation import Layout, read_layout
from fedpact.scenario.fields import INFINITY_TEXTS, check_keys, number, numbers
from fedpact.scenario.reading import read_payoff
from fedpact.utils.arrays import POSITIVE, checked_numbers, positive
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_text, replace_text
from fedpact.utils.jsonl import decode_line, encode_line

MAX_NAME = 200
REQUIRED = ("name", "index", "weights", "payoff", "value", "linear", "quadratic", "cap")
REQUIRED_OF_LOTS = ("name", "index", "n_agents", "lot_owners", "lot_names", "tasks", "lots")
# What may stand beside it; all but the first is for people (`fedpact.report.member_file.MemberNotes`).
OPTIONAL = ("least_gain", "agents", "known", "unit", "placeholder_cost")


def save_agent(agent: Agent, path: Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write what one agent knows, for nobody else to read: its row, payoff, cost and cap; notes are for people."""
    record = dict(notes or {}) | record_of_agent(agent)
    replace_text(path, encode_line(record) + "\n", private=True)


def load_agent(path: Path) -> Agent:
    """The agent of a file written by `save_agent`, checked."""
    with error_context(str(path)):
        return agent_from_record(read_private_file(path))


def read_private_file(path: Path) -> dict[str, Any]:
    """All that a private file says, notes included, unchecked."""
    return decode_line(read_text(path).encode(), constants=True)


def record_of_agent(agent: Agent) -> dict[str, Any]:
    """What one agent knows, as plain data; flat where everybody has one lot and one task."""

    def first(numbers: Any) -> float:
        return float(np.ravel(numbers)[0])

    tasks, lots = [], []
    for task, name in enumerate(agent.task_names):
        payoff = agent.payoff.take([task])
        curve = {"family": payoff.family, **{key: first(number) for key, number in payoff.parameters.items()}}
        tasks.append(
            {"name": name, "weights": agent.weights[task].tolist(), "value": float(agent.values[task]), "payoff": curve}
        )
    for lot, cap in enumerate(agent.caps.tolist()):
        cost = agent.costs.take([lot])
        lots.append({"linear": first(cost.linear), "quadratic": first(cost.quadratic), "cap": cap})
    if not agent.has_lots:
        flat = tasks[0] | lots[0]
        return flat | {"name": agent.name, "index": agent.index, "least_gain": agent.least_gain}
    return {
        "name": agent.name,
        "index": agent.index,
        "n_agents": agent.n_agents,
        "lot_owners": agent.lot_owners.tolist(),
        "lot_names": list(agent.lot_names),
        "tasks": tasks,
        "lots": lots,
        "least_gain": agent.least_gain,
    }


def agent_from_record(record: Mapping[str, Any]) -> Agent:
    """The agent that a private file describes; an error names the entry and the rule."""
    is_flat = "lot_owners" not in record
    required = REQUIRED if is_flat else REQUIRED_OF_LOTS
    missing = [key for key in required if key not in record]
    if missing:
        raise InvalidInput(f"this is no member's file: {', '.join(missing)} missing; `fedpact fit --member` writes one")
    check_keys(record, (*required, *OPTIONAL))
    name, index = record["name"], record["index"]
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise InvalidInput(f"name must be a text of 1 to {MAX_NAME} characters, got {short_repr(name)}")
    count = len(_weights(record)) if is_flat else record["n_agents"]
    if type(count) is not int or count < 1:
        raise InvalidInput(f"n_agents must be how many members there are, got {short_repr(count)}")
    if type(index) is not int or not 0 <= index < count:
        raise InvalidInput(f"index must be a number from 0 to {count - 1}, got {short_repr(index)}")
    if is_flat:
        layout, tasks, lots = Layout(tuple(range(count))), [record], [record]
        if (own := record["weights"][index]) < 0.0:
            raise InvalidInput(f"weights[{index}] must be at least 0, got {own:g}: its own data does not harm it")
        _check_names(record.get("agents"), name, index, count)
    else:
        layout = read_layout(record, count)
        tasks = _objects(record["tasks"], "tasks", ("weights", "payoff", "value"), ("name",))
        lots = _objects(record["lots"], "lots", ("linear", "quadratic", "cap"))
        n_own = layout.lot_owners.count(index)
        if len(lots) != n_own:
            raise InvalidInput(f"lots must describe its {n_own} lots by lot_owners, got {len(lots)}")
        if not tasks and not lots:
            raise InvalidInput("tasks and lots must not both be empty: nothing to give and nothing to gain")
    rows, n_lots = [_weights(task) for task in tasks], len(layout.lot_owners)
    if any(len(row) != n_lots for row in rows):
        raise InvalidInput(f"weights must have a number for each of the {n_lots} lots, got {list(map(len, rows))}")
    least_gain = record.get("least_gain", 0.0)
    if least_gain is not None:
        stated = number("least_gain", least_gain, "a finite number, or null to take any deal")
        least_gain = float(checked_numbers("least_gain", stated, np.isfinite, "finite, or null to take any deal"))
    return Agent(
        name=name,
        index=index,
        n_agents=count,
        weights=np.array(rows).reshape(len(rows), n_lots),
        payoff=_joint_payoff([read_payoff("payoff", task["payoff"]) for task in tasks]),
        values=np.array(
            [checked_numbers("value", number("value", task["value"]), positive, POSITIVE) for task in tasks]
        ),
        costs=_cost(lots),
        caps=np.array([_cap(lot["cap"]) for lot in lots]),
        lot_owners=np.array(layout.lot_owners, dtype=np.intp),
        lot_names=layout.lot_names,
        task_names=tuple(str(task.get("name", f"task {place}")) for place, task in enumerate(tasks)),
        least_gain=least_gain,
    )


def _objects(given: Any, key: str, wanted: tuple[str, ...], more: tuple[str, ...] = ()) -> list[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise InvalidInput(f"{key} must be a list of objects, got {short_repr(given)}")
    for index, entry in enumerate(given):
        missing = [part for part in wanted if part not in entry]
        if missing:
            raise InvalidInput(f"{key}[{index}] must have {', '.join(missing)}")
        with error_context(f"{key}[{index}]"):
            check_keys(entry, (*wanted, *more))
    return given


def _weights(task: Mapping[str, Any]) -> list[float]:
    given = task["weights"]
    if not isinstance(given, list) or not given:
        raise InvalidInput(f"weights must be a list of finite numbers, one per member, got {short_repr(given)}")
    return checked_numbers("weights", numbers("weights", given), np.isfinite, "finite").tolist()


def _joint_payoff(curves: Sequence[Payoff]) -> Payoff:
    """The curves of all tasks, which must be of one family."""
    if len({type(curve) for curve in curves}) > 1:
        families = ", ".join(dict.fromkeys(curve.family for curve in curves))
        raise InvalidInput(f"payoff.family must be the same for all tasks of a member, got {families}")
    if not curves:
        return Log()
    names = curves[0].parameters
    return type(curves[0])(**{name: np.concatenate([np.ravel(c.parameters[name]) for c in curves]) for name in names})


def _cost(lots: Sequence[Mapping[str, Any]]) -> Cost:
    linear, quadratic = ([number(key, lot[key]) for lot in lots] for key in ("linear", "quadratic"))
    if not all(map(any, zip(linear, quadratic, strict=True))):
        raise InvalidInput("linear must be positive, got 0: contributing costs a member something")
    return Quadratic(np.array(linear), np.array(quadratic)) if any(quadratic) else Linear(np.array(linear))


def _cap(given: Any) -> float:
    cap = np.inf if given in INFINITY_TEXTS else number("cap", given)
    return float(checked_numbers("cap", cap, lambda caps: caps >= 0.0, "at least zero"))


def _check_names(given: Any, name: str, index: int, count: int) -> None:
    """Refuse names of all members, if there are any, that contradict the member's own name and index."""
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
