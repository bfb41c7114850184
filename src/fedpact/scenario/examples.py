"""Federations that come with fedpact, as scenario files in the folder `built_in`."""

from __future__ import annotations

import difflib
from importlib.resources import files

import numpy as np

from fedpact.federation import Quadratic
from fedpact.scenario.reading import parse_scenario
from fedpact.scenario.scenario import Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import DECODERS

EXAMPLES = ("hospitals", "hospitals-lots", "hospitals-privacy", "paper-w1", "paper-w2", "paper-w3")


def example(name: str) -> Scenario:
    """A built-in scenario by name."""
    if name not in EXAMPLES:
        near = difflib.get_close_matches(name, EXAMPLES, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(EXAMPLES)}"
        raise InvalidInput(f"there is no built-in federation {name!r}; {hint}")
    content = files("fedpact.scenario").joinpath("built_in", f"{name}.toml").read_text("utf-8")
    return parse_scenario(DECODERS[".toml"](content), where=name)


def hospitals() -> Scenario:
    """Five hospitals of different size, speciality and privacy noise, in thousands of patient records and EUR."""
    return example("hospitals")


def hospitals_with_privacy(privacy_price: float = 1000.0) -> Scenario:
    """Three hospitals that share each record raw or with noise; a thousand raw ones cost EUR `privacy_price` more."""
    made = example("hospitals-privacy")
    costs, raw = made.federation.costs, np.array([name == "raw" for name in made.federation.lot_names])
    dearer = Quadratic(np.where(raw, costs.linear[~raw][0] + privacy_price, costs.linear), costs.quadratic)
    return made.replace_federation(made.federation.replace(costs=dearer))
