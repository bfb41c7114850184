"""Record the answers of the installed version: `PYTHONPATH=tests python tests/golden/record.py`.

The recorded ones are version 0.2's. Recording them anew with a later version would leave nothing to compare with.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import fedpact as fp
from golden.commands import all_key_paths
from golden.federations import all_specs
from golden.recorded import (
    ANSWERS,
    JSON_KEYS,
    MAX_BLOCKING,
    Spec,
    build,
    interior_profile,
    mechanisms_for,
    outcome_answers,
    plain,
    shapley_answers,
    solve,
)


def answers_for(spec: Spec) -> dict[str, Any]:
    """All that is recorded of one federation."""
    federation = build(spec)
    outcomes = {name: solve(federation, name) for name in mechanisms_for(spec)}
    profile = interior_profile(spec)
    blocking = {
        name: {"group": found.group, "gain": found.gain}
        for name in ("externality", "shapley")
        if federation.n_agents <= MAX_BLOCKING and not isinstance(outcomes[name], str)
        for found in [fp.blocking_group(outcomes[name])]
    }
    return {
        "federation": spec,
        "profile": profile,
        "shapley_at_profile": shapley_answers(federation, profile),
        "optimal_welfare": fp.social_optimum(federation).welfare,
        "standalone": fp.Standalone().solve(federation).utilities,
        "blocking_groups": blocking,
        "outcomes": {
            name: {"error": outcome} if isinstance(outcome, str) else outcome_answers(outcome)
            for name, outcome in outcomes.items()
        },
    }


def text_of(record: dict[str, Any]) -> str:
    """JSON with a line for each number or list, so that a change shows where it is."""

    def write(entry: Any, indent: str) -> str:
        if not isinstance(entry, dict) or not any(isinstance(each, dict | list) for each in entry.values()):
            return json.dumps(entry)
        deeper = indent + " "
        lines = [f"{deeper}{json.dumps(key)}: {write(each, deeper)}" for key, each in entry.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"

    return write(record, "") + "\n"


def main() -> None:
    """Write all records."""
    ANSWERS.mkdir(exist_ok=True)
    for name, spec in all_specs().items():
        record = plain(answers_for(plain(spec)))
        (ANSWERS / f"{name}.json").write_text(text_of(record), encoding="utf-8")
        print(name)
    with tempfile.TemporaryDirectory() as folder:
        keys = {command: sorted(paths) for command, paths in all_key_paths(Path(folder)).items()}
    JSON_KEYS.write_text(json.dumps(keys, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
