"""Who a node is: its private file, the key it signs with, whose keys it knows, and the receipt it keeps.

    flower-supernode ... --node-config 'agent="/secure/university.json" keys="/secure/keys"'

| node-config                                           | if not given                                              |
|-------------------------------------------------------|-----------------------------------------------------------|
| `agent`: its private file                             | in a simulation, `k.json` of the run's folder `agents`    |
| `key`: its private key                                | `university.key` beside its private file, made if need be |
|                                                       | (one for this run alone if it has no private file)        |
| `keys`: public keys of the others, a folder or a file | the keys are those that the coordinator states            |
| `record`: the folder of its receipt                   | `university-record` beside its private file, if it has one |

The key may be the one the node proves itself to the SuperLink with.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.agent_file import load_agent
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import replace_files

logger = logging.getLogger("flwr.fedpact")  # below Flower's own, so that it is shown beside it

RECEIPT = "receipt.json"
STATE = "fedpact"  # the record of what a node remembers


def node_state(context: Context) -> dict[str, Any]:
    """What a node remembers from one message of a run to the next, as plain data."""
    kept = context.state.get(STATE)
    return json.loads(str(kept["json"])) if isinstance(kept, ConfigRecord) else {}


def remember(context: Context, **parts: Any) -> None:
    """Put parts into what a node remembers, in place of those of the same names."""
    context.state[STATE] = ConfigRecord({"json": json.dumps(node_state(context) | parts)})


def private_file(context: Context) -> Path:
    """Where a node's private file is."""
    path = _private_file(context)
    if path is None:
        raise InvalidInput("the node's configuration must name its private file: --node-config 'agent=\"FILE\"'")
    return path


def _private_file(context: Context) -> Path | None:
    path = context.node_config.get("agent")
    if path is None and "agents" in context.run_config and "partition-id" in context.node_config:
        path = str(Path(str(context.run_config["agents"])) / f"{context.node_config['partition-id']}.json")
    return Path(path).expanduser() if isinstance(path, str) else None


def own_agent(context: Context) -> Agent:
    """The agent of a node's private file; what is wrong with it is for the node's own log, not for the coordinator."""
    path = private_file(context)
    try:
        return load_agent(path)
    except InvalidInput as error:
        if not path.is_file():
            raise
        logger.error("%s", error)
        raise InvalidInput("its private file cannot be used; the node's own log says why") from None


def own_key(context: Context) -> SigningKey:
    """The key a node signs with, made when it is first needed where none is named."""
    named = context.node_config.get("key")
    if named is not None:
        return read_signing_key(Path(str(named)).expanduser())
    private = _private_file(context)
    if private is None:
        return _key_for_this_run(context)
    path = private.with_suffix(".key")
    return read_signing_key(path) if path.exists() else write_signing_key(path, name=own_agent(context).name)


def _key_for_this_run(context: Context) -> SigningKey:
    """A key that lives in the node's state, as in a simulation."""
    kept = node_state(context).get("key")
    if kept is not None:
        return parse_signing_key(kept.encode())
    key = new_signing_key()
    remember(context, key=key.private_bytes().decode())
    return key


def keys_of_others(context: Context) -> KnownKeys:
    """Whose keys a node knows from elsewhere than the coordinator."""
    named = context.node_config.get("keys")
    return read_known_keys(Path(str(named)).expanduser()) if named else KnownKeys()


def samples_per_unit(context: Context) -> float:
    """Samples in a unit of contribution, as the node or else the run has it."""
    given = context.node_config.get("samples-per-unit", context.run_config.get("samples-per-unit", 1.0))
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise InvalidInput(f"samples-per-unit must be a positive number, got {short_repr(given)}")
    return float(given)


def least_gain(context: Context) -> float | None:
    """What the node wants beyond training alone; nothing less than that if its configuration does not say."""
    given = context.node_config.get("least-gain", 0.0)
    if given == "none":
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        rule = 'must be a number in units of payoff, or "none" to take any deal'
        raise InvalidInput(f"least-gain {rule}, got {short_repr(given)}")
    return float(given)


def _receipt_folder(context: Context) -> Path | None:
    named, private = context.node_config.get("record"), _private_file(context)
    if named is None and private is None:
        return None
    return Path(str(named)).expanduser() if private is None or named else private.with_name(f"{private.stem}-record")


def last_receipt(context: Context, run: str) -> dict[str, Any]:
    """What a node has written down last in a run; empty if it has not, or has no place for it."""
    folder = _receipt_folder(context)
    if folder is None:
        return {}
    own, last = folder / _receipt_of(run), folder / RECEIPT
    if own.exists():
        return read_receipt(own)
    found = read_receipt(last) if last.exists() else {}
    return found if found.get("run") == run else {}


def _receipt_of(run: str) -> str:
    """The file of the last receipt of a run; `RECEIPT` is that of all runs."""
    return f"receipt-{run[:16]}.json"


def keep_receipt(context: Context, name: str, document: Mapping[str, Any], **more: Any) -> None:
    """Write down what a node has signed last, and the hash the ledger ended in then; if it has a place for that."""
    folder = _receipt_folder(context)
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
    with error_context(str(folder)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"the folder for the receipt cannot be made: {error.strerror}") from error
        text = (json.dumps(receipt, indent=2, ensure_ascii=False) + "\n").encode()
        replace_files({folder / RECEIPT: text, folder / _receipt_of(document["run"]): text})
