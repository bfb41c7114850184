"""Scenario files: a federation as a coordinator writes it down, in TOML or JSON.

Reading with errors that name the place, writing that reads back bit for bit, the JSON Schema, a template to fill in,
built-in examples, and how sure the numbers are. May use: utils, federation.
"""

from fedpact.scenario.measured import Measured
from fedpact.scenario.reading import EXAMPLES, example, load_scenario, parse_scenario, schema
from fedpact.scenario.scenario import Money, Scenario
from fedpact.scenario.template import template
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.scenario.writing import save_scenario, scenario_to_dict

__all__ = [
    "EXAMPLES",
    "Measured",
    "Money",
    "Scenario",
    "Uncertainty",
    "example",
    "load_scenario",
    "parse_scenario",
    "save_scenario",
    "scenario_to_dict",
    "schema",
    "template",
]
