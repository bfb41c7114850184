"""Who a node is: its private file, the key it signs with, whose keys it knows, and the receipt it keeps.

    flower-supernode ... --node-config 'agent="/secure/university.json" keys="/secure/keys"'

| node-config                                           | if not given                                              |
|-------------------------------------------------------|-----------------------------------------------------------|
| `agent`: its private file                             | in a simulation, `k.json` of the run's folder `agents`    |
| `key`: its private key                                | `university.key` beside its private file, made if need be |
| `keys`: public keys of the others, a folder or a file | the keys are those that the coordinator states            |
| `record`: the folder of its receipt                   | `university-record` beside its private file               |

The key may be the one the node proves itself to the SuperLink with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.app import Context

from fedpact.deals.signatures import (
    KnownKeys,
    SigningKey,
    document_digest,
    read_known_keys,
    read_signing_key,
    write_signing_key,
)
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.processes import load_agent
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import replace_text

RECEIPT = "receipt.json"


def private_file(context: Context) -> Path:
    """Where a node's private file is."""
    path = context.node_config.get("agent")
    if path is None and "agents" in context.run_config and "partition-id" in context.node_config:
        path = str(Path(str(context.run_config["agents"])) / f"{context.node_config['partition-id']}.json")
    if not isinstance(path, str):
        raise InvalidInput("the node's configuration must name its private file: --node-config 'agent=\"FILE\"'")
    return Path(path).expanduser()


def own_agent(context: Context) -> Agent:
    """The agent of a node's private file."""
    return load_agent(private_file(context))


def own_key(context: Context) -> SigningKey:
    """The key a node signs with; where none is named, one beside its private file, made when it is first needed."""
    named = context.node_config.get("key")
    if named is not None:
        return read_signing_key(Path(str(named)).expanduser())
    path = private_file(context).with_suffix(".key")
    return read_signing_key(path) if path.exists() else write_signing_key(path, name=own_agent(context).name)


def keys_of_others(context: Context) -> KnownKeys:
    """Whose keys a node knows from elsewhere than the coordinator."""
    named = context.node_config.get("keys")
    return read_known_keys(Path(str(named)).expanduser()) if named else KnownKeys()


def keep_receipt(context: Context, document: Mapping[str, Any], **more: Any) -> None:
    """Write down what a node has signed last, and the hash the ledger ended in then."""
    named = context.node_config.get("record")
    private = private_file(context)
    folder = Path(str(named)).expanduser() if named else private.with_name(f"{private.stem}-record")
    receipt = {
        "receipt": 1,
        "name": own_agent(context).name,
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
        replace_text(folder / RECEIPT, json.dumps(receipt, indent=2, ensure_ascii=False) + "\n")
