"""How a run is to go, as the configuration of a Flower app says (`[tool.flwr.app.config]` in its pyproject.toml).

`write_app` writes such an app for a scenario, and the private files of its agents beside it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedpact.deals.settlement import money_terms
from fedpact.federation.lots import require_single_lots
from fedpact.fitting.delivery import Calibration
from fedpact.flower.personal_models import check_personal
from fedpact.negotiation import NEGOTIABLE, PROTOCOLS, agents_of
from fedpact.negotiation.agent_file import save_agent
from fedpact.scenario import Money, Scenario, load_scenario
from fedpact.scenario.scenario import COMMON, MODELS, PERSONAL
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import make_folder, replace_files

SAMPLES, DELIVERY = "samples", "delivery"  # what is paid for

# What a setting may be, and the rule in words.
Rule = tuple[Callable[[Any], bool], str]


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and bool(given.strip())


def _are_names(given: Any) -> bool:
    try:
        names = json.loads(given)
    except (TypeError, ValueError):
        return False
    return isinstance(names, list) and all(map(_is_text, names)) and len(names) == len(set(names)) >= 2


def _is_end(given: Any) -> bool:
    """Whether it is an accuracy, or a JSON list of accuracies."""
    try:
        numbers = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return False
    listed = numbers if isinstance(numbers, list) else [numbers]
    return all(_is_number(number) and 0.0 <= number <= 1.0 for number in listed)


def _one_of(names: Sequence[str]) -> Rule:
    return lambda given: isinstance(given, str) and given in names, f"one of {', '.join(names)}"


def _at_least(least: int) -> Rule:
    return lambda given: type(given) is int and given >= least, f"a whole number of at least {least}"


TEXT: Rule = (lambda given: isinstance(given, str), "a text")
POSITIVE: Rule = (lambda given: _is_number(given) and given > 0, "a positive number")
END: Rule = (_is_end, "an accuracy from 0 to 1, or a JSON list of them")


def _setting(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """A run's settings, spelt with dashes in the configuration file: `template/app.toml` says what each is.

    `names` is a JSON list of the agents by index, `scenario` the fingerprint of the scenario where the coordinator
    knows it, `floor` and `ceiling` a number or a JSON list of one per agent.
    """

    record: str = _setting(None, (_is_text, "a folder"))
    names: str = _setting(None, (_are_names, "a JSON list of at least 2 names, all different"))
    title: str = _setting("", TEXT)
    scenario: str = _setting("", TEXT)
    mechanism: str = _setting("externality", _one_of(NEGOTIABLE))
    protocol: str = _setting("price-discovery", _one_of(tuple(PROTOCOLS)))
    rounds: int = _setting(3, _at_least(1))
    models: str = _setting(COMMON, _one_of(MODELS))
    samples_per_unit: float = _setting(1.0, POSITIVE)
    currency: str | None = _setting(None, (lambda given: given is None or _is_text(given), 'a text such as "EUR"'))
    per_payoff: float = _setting(1.0, POSITIVE)
    verify_subsets: int = _setting(0, _at_least(0))
    settle_by: str = _setting(SAMPLES, _one_of((SAMPLES, DELIVERY)))
    calibration: str = _setting("", TEXT)
    floor: float | str = _setting(0.0, END)
    ceiling: float | str = _setting(1.0, END)
    timeout: float = _setting(120.0, POSITIVE)
    patience: float = _setting(60.0, (lambda given: _is_number(given) and given >= 0, "a number of at least 0"))

    def __post_init__(self) -> None:
        for each in fields(self):
            (holds, rule), given = each.metadata["rule"], getattr(self, each.name)
            if not holds(given):
                raise InvalidInput(f"{_config_key(each.name)} must be {rule}, got {short_repr(given)}")
        if self.models == PERSONAL:
            check_personal(verify_subsets=self.verify_subsets)
        if self.settle_by == DELIVERY and not (self.verify_subsets and self.calibration):
            raise InvalidInput(
                'settle-by = "delivery" needs models to measure and a scenario to judge them by: say verify-subsets, '
                "such as 30, and calibration, the scenario's file"
            )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> AppSettings:
        """From a run's configuration; what it does not say stays as usual, and what is not ours is left alone."""
        for key in ("record", "names"):
            if key not in config:
                raise InvalidInput(f"the app's configuration must say {key}; `fedpact flower new` writes it")
        if ("currency" in config) != ("per-payoff" in config):
            raise InvalidInput("the app's configuration must say both currency and per-payoff, or neither")
        keys = {each.name: _config_key(each.name) for each in fields(cls)}
        return cls(**{name: config[key] for name, key in keys.items() if key in config})

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents' names."""
        return tuple(json.loads(self.names))

    @property
    def folder(self) -> Path:
        """Where the record is kept."""
        return Path(self.record).expanduser()

    @property
    def money(self) -> Money | None:
        """The exchange rate; None where amounts are units of payoff."""
        return Money(currency=self.currency, per_payoff=self.per_payoff) if self.currency else None

    @property
    def unit(self) -> dict[str, Any]:
        """What amounts are counted in, as members sign it."""
        return money_terms(self.money)

    def header(self) -> dict[str, Any]:
        """What must not change while a run goes on."""
        kept = ("title", "scenario", "agents", "protocol", "rounds", "samples_per_unit")
        verified = ("verify_subsets", "settle_by") if self.verify_subsets else ()
        personal = ("models",) if self.models == PERSONAL else ()
        return {name: getattr(self, name) for name in (*kept, *verified, *personal)} | self.unit

    def verification(self) -> dict[str, Any] | None:
        """How it is verified what arrived, as the deal's entry says it; None if it is not."""
        if not self.verify_subsets:
            return None
        found: dict[str, Any] = {"subsets": self.verify_subsets, "settles": False, "calibration": None}
        if self.settle_by == DELIVERY:
            with error_context("calibration"):
                scenario = load_scenario(Path(self.calibration).expanduser())
                ends = [json.loads(end) if isinstance(end, str) else end for end in (self.floor, self.ceiling)]
                found |= {"settles": True, "calibration": Calibration.of(scenario.federation, *ends).record()}
        return found


def _config_key(name: str) -> str:
    return name.replace("_", "-")


# An app for a scenario

TEMPLATE = {
    "app/pyproject.toml": "app.toml",
    "app/deal/__init__.py": "deal/__init__.py",
    "app/deal/client_app.py": "deal/client_app.py",
    "app/deal/server_app.py": "deal/server_app.py",
    "README.md": "README.md",
}
MONEY = """# Money: one unit of payoff is worth so much.
currency = {}
per-payoff = {!r}"""
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
        for part in ("app/deal", "agents"):
            make_folder(folder / part)
    values = _values(folder.absolute(), scenario, rounds, samples_per_unit)
    texts = {folder / path: _fill_template(name, values) for path, name in TEMPLATE.items()}
    replace_files({path: text.encode() for path, text in texts.items()})
    private = [folder / "agents" / f"{index}.json" for index in range(scenario.federation.n_agents)]
    for index, path in enumerate(private):
        write_private_file(path, scenario, index)
    return [*texts, *private]


def write_private_file(path: Path, scenario: Scenario, index: int) -> None:
    """Write a member's private file, which nobody else may read; one that is there stays."""
    with error_context(str(path)):
        if path.exists():
            raise InvalidInput("there is such a file already; name another one")
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no such folder: {path.parent}")
    names, unit = list(scenario.federation.names), scenario.unit
    save_agent(agents_of(scenario.federation)[index], path, notes={"agents": names} | ({"unit": unit} if unit else {}))


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
        "money": NO_MONEY if money is None else MONEY.format(json.dumps(money.currency), money.per_payoff),
    }


def _fill_template(name: str, values: dict[str, str]) -> str:
    text = files("fedpact.flower").joinpath("template", name).read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)
