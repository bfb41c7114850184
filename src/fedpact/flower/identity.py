"""Who a node is: its private file, the key it signs with, whose keys it knows, what it remembers, and its receipts.

    flower-supernode ... --node-config 'agent="/secure/university.json" keys="/secure/keys"'

| node-config                                           | if not given                                              |
|-------------------------------------------------------|-----------------------------------------------------------|
| `agent`: its private file                             | in a simulation, `k.json` of the run's folder `agents`    |
| `agent-name`: its name, without a private file        | in a simulation, its partition's place among the members  |
| `key`: its private key                                | `university.key` beside its private file, made if need be |
|                                                       | (one for this run alone if it has no private file)        |
| `keys`: public keys of the others, a folder or a file | the keys are those that the coordinator states            |
| `record`: the folder of its receipts                  | `university-record` beside its private file, if it has one |
| `calibration`: the scenario's file it is judged by    | it takes the one that the deal states                     |

The key may be the one the node proves itself to the SuperLink with.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import ConfigRecord, Context

from fedpact.deals.signatures import (
    KnownKeys,
    SigningKey,
    document_digest,
    new_signing_key,
    parse_signing_key,
    read_known_keys,
    read_receipt,
    read_signing_key,
    write_signing_key,
)
from fedpact.fitting.delivery import Calibration
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.agent_file import load_agent
from fedpact.scenario import load_scenario
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import make_folder, replace_files

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that it is shown beside it

RECEIPT = "receipt.json"
STATE = "fedpact"  # the record of what a node remembers

T = TypeVar("T")


@dataclass(frozen=True)
class Seat:
    """Who a node is among the agents of a deal: its name and index, and how many these are."""

    name: str
    index: int
    size: int


class OwnNode:
    """Who a node is, by its own configuration and state, in the context of a message.

    `usual_unit` is how many samples a unit of contribution has where neither the node nor the run says it; None for as
    many as the deal says.
    """

    def __init__(self, context: Context, *, usual_unit: float | None = None) -> None:
        self.context, self.config, self._usual_unit = context, context.node_config, usual_unit

    # What it remembers from one message of a run to the next, as plain data

    @property
    def state(self) -> dict[str, Any]:
        """All that it remembers."""
        kept = self.context.state.get(STATE)
        return json.loads(str(kept["json"])) if isinstance(kept, ConfigRecord) else {}

    def remember(self, **parts: Any) -> None:
        """Put parts into what it remembers, in place of those of the same names."""
        self.context.state[STATE] = ConfigRecord({"json": json.dumps(self.state | parts)})

    # What its configuration names

    def _named_path(self, key: str) -> Path | None:
        named = self.config.get(key)
        return Path(str(named)).expanduser() if named else None

    @property
    def private_file(self) -> Path | None:
        """Where its private file is; None if it has none."""
        folder, partition = self.context.run_config.get("agents"), self.config.get("partition-id")
        if "agent" not in self.config and folder is not None and partition is not None:
            return Path(str(folder)).expanduser() / f"{partition}.json"
        return self._named_path("agent")

    @cached_property
    def agent(self) -> Agent | None:
        """The agent of its private file."""
        return _read_own(self.private_file, load_agent, "its private file")

    def required_agent(self) -> Agent:
        """The agent of its private file, which it must have."""
        if self.agent is None:
            raise InvalidInput("the node's configuration must name its private file: --node-config 'agent=\"FILE\"'")
        return self.agent

    def seat(self, names: Any) -> Seat:
        """Its seat among the members that it is told: by its private file, its `agent-name` or its partition."""
        if "agent-name" not in self.config and self.agent is not None:
            return Seat(self.agent.name, self.agent.index, self.agent.n_agents)
        if not isinstance(names, list):
            raise InvalidInput(f"a node must be told the members of the deal, got {short_repr(names)}")
        name, index = self.config.get("agent-name"), self.config.get("partition-id")
        if name is None and isinstance(index, int) and 0 <= index < len(names):
            name = names[index]
        if name is None:
            raise InvalidInput("the node's configuration must say who it is: --node-config 'agent-name=\"NAME\"'")
        if name not in names:
            raise InvalidInput(f'"{name}" is not part of the deal')
        return Seat(str(name), names.index(name), len(names))

    @cached_property
    def key(self) -> SigningKey:
        """The key it signs with, made when it is first needed where none is named."""
        named, private = self._named_path("key"), self.private_file
        beside = None if private is None else private.with_suffix(".key")
        if named is None and beside is not None and not beside.exists():
            return write_signing_key(beside, name=self.required_agent().name)
        own = _read_own(named or beside, read_signing_key, "its key")
        if own is not None:
            return own
        kept = self.state.get("key")  # as in a simulation
        if kept is not None:
            return parse_signing_key(kept.encode())
        made = new_signing_key()
        self.remember(key=made.private_bytes().decode())
        return made

    @cached_property
    def known_keys(self) -> KnownKeys:
        """Whose keys it knows from elsewhere than the coordinator."""
        return _read_own(self._named_path("keys"), read_known_keys, "what it knows of others' keys") or KnownKeys()

    @property
    def calibration(self) -> Calibration | None:
        """The calibration that it knows from elsewhere than the coordinator."""
        scenario = _read_own(self._named_path("calibration"), load_scenario, "its calibration")
        return None if scenario is None else Calibration.of(scenario.federation)

    @property
    def samples_per_unit(self) -> float | None:
        """Samples in a unit of contribution, as the node or else the run has it."""
        given = self.config.get("samples-per-unit", self.context.run_config.get("samples-per-unit", self._usual_unit))
        if given is not None and (isinstance(given, bool) or not isinstance(given, int | float) or not given > 0):
            raise InvalidInput(f"samples-per-unit must be a positive number, got {short_repr(given)}")
        return None if given is None else float(given)

    @property
    def least_gain(self) -> float | None:
        """What it wants beyond training alone; nothing less than that if its configuration does not say."""
        given = self.config.get("least-gain", 0.0)
        if given == "none":
            return None
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            rule = 'must be a number in units of payoff, or "none" to take any deal'
            raise InvalidInput(f"least-gain {rule}, got {short_repr(given)}")
        return float(given)

    # Receipts: one of every run, and `RECEIPT` of the last

    @property
    def _receipts(self) -> Path | None:
        private = self.private_file
        return self._named_path("record") or (private and private.with_name(f"{private.stem}-record"))

    def last_receipt(self, run: str) -> dict[str, Any]:
        """What it has written down last in a run; empty if it has not, or has no place for it."""
        path = self._receipts and self._receipts / _receipt_of(run)
        return read_receipt(path) if path is not None and path.exists() else {}

    def keep_receipt(self, name: str, document: Mapping[str, Any], **more: Any) -> None:
        """Write down what it has signed last, and the hash the ledger ended in then; if it has a place for that."""
        folder = self._receipts
        if folder is None:
            return
        receipt = {
            "receipt": 1,
            "name": name,
            "run": document["run"],
            "head": document.get("head"),
            "about": document["about"],
            "digest": document_digest(document),
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **more,
        }
        text = (json.dumps(receipt, indent=2, ensure_ascii=False) + "\n").encode()
        try:
            with error_context(str(folder)):
                make_folder(folder)
                replace_files({folder / RECEIPT: text, folder / _receipt_of(document["run"]): text})
        except InvalidInput as error:
            logger.error("%s", error)
            raise InvalidInput("its receipt cannot be written; the node's own log says why") from None


def _read_own(path: Path | None, read: Callable[[Path], T], what: str) -> T | None:
    """What one of the node's own files says; what is wrong with it is for its own log, not for the coordinator."""
    if path is None:
        return None
    try:
        return read(path)
    except InvalidInput as error:
        if not path.exists():
            raise
        logger.error("%s", error)
        raise InvalidInput(f"{what} cannot be used; the node's own log says why") from None


def _receipt_of(run: str) -> str:
    return f"receipt-{run}.json"
