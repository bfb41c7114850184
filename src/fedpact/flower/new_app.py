"""A ready Flower app for a scenario, and the private files of its agents beside it."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from fedpact.deals.settlement import currency_decimals
from fedpact.federation.lots import require_single_lots
from fedpact.negotiation import agents_of
from fedpact.negotiation.agent_file import save_agent
from fedpact.scenario import Money, Scenario
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import replace_files

TEMPLATE = {
    "app/pyproject.toml": "app.toml",
    "app/deal/__init__.py": "deal/__init__.py",
    "app/deal/client_app.py": "deal/client_app.py",
    "app/deal/server_app.py": "deal/server_app.py",
    "README.md": "README.md",
}
NO_MONEY = """# The scenario says nothing of money: payments are units of payoff. For money say both:
# currency = "EUR"
# per-payoff = 1000.0"""


def write_app(folder: Path, scenario: Scenario, *, rounds: int = 3, samples_per_unit: float = 1.0) -> list[Path]:
    """Write an app, and private files outside of it, into a new folder; the files that were written.

    The app's folder is all that Flower sends to nodes, so nothing private may be in it.
    """
    require_single_lots(scenario.federation, "a Flower app")
    with error_context(str(folder)):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput("this is not an empty folder; name a new one")
        _make(folder / "app" / "deal")
        _make(folder / "agents")
    values = _values(folder.absolute(), scenario, rounds, samples_per_unit)
    texts = {folder / path: _fill_template(name, values) for path, name in TEMPLATE.items()}
    replace_files({path: text.encode() for path, text in texts.items()})
    private = [folder / "agents" / f"{place}.json" for place in range(scenario.federation.n_agents)]
    for place, path in enumerate(private):
        write_private_file(path, scenario, place)
    return [*texts, *private]


def write_private_file(path: Path, scenario: Scenario, place: int) -> None:
    """Write a member's private file, which nobody else may read; one that is there stays."""
    with error_context(str(path)):
        if path.exists():
            raise InvalidInput("there is such a file already; name another one")
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no such folder: {path.parent}")
    names, unit = list(scenario.federation.names), scenario.unit
    save_agent(agents_of(scenario.federation)[place], path, notes={"agents": names} | ({"unit": unit} if unit else {}))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder cannot be made: {error.strerror}") from error


def _values(folder: Path, scenario: Scenario, rounds: int, samples_per_unit: float) -> dict[str, str]:
    """What goes in place of @key@; texts are quoted as TOML and JSON both do."""
    money, federation = scenario.money, scenario.federation
    return {
        "heading": scenario.title or "A deal",
        "title": json.dumps(scenario.title),
        "scenario": json.dumps(federation.fingerprint),
        "record": json.dumps(str(folder / "record")),
        "agents": json.dumps(str(folder / "agents")),
        "num_agents": str(federation.n_agents),
        "names": json.dumps(json.dumps(list(federation.names))),
        "rounds": str(rounds),
        "models": json.dumps(scenario.models),
        "samples_per_unit": repr(float(samples_per_unit)),
        "money": NO_MONEY if money is None else _money_lines(money),
    }


def _money_lines(money: Money) -> str:
    return "\n".join(
        [
            "# Money: one unit of payoff is worth so much.",
            f"currency = {json.dumps(money.currency)}",
            f"per-payoff = {money.per_payoff!r}",
            f"decimals = {currency_decimals(money.currency)}",
        ]
    )


def _fill_template(name: str, values: dict[str, str]) -> str:
    text = files("fedpact.flower").joinpath("template", name).read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)
