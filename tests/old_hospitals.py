"""The hospitals of version 0.2, which pay for using their own data: their answers are recorded and known to many tests.

The built-in ones have their data at home. `example` reads these in their place, and the paper's federations as they
are.
"""

from __future__ import annotations

from pathlib import Path

import fedpact as fp
from fedpact.scenario import EXAMPLES

FILES = {name: Path(__file__).parent / "golden" / f"{name}-0.2.toml" for name in EXAMPLES if "paper" not in name}
HOSPITALS = str(FILES["hospitals"])


def example(name: str) -> fp.Scenario:
    """A scenario of version 0.2 by the name of a built-in one."""
    return fp.load_scenario(FILES[name]) if name in FILES else fp.load_scenario(name)


def hospitals() -> fp.Scenario:
    """Five hospitals, without data at home."""
    return example("hospitals")


def hospitals_with_privacy() -> fp.Scenario:
    """Three hospitals that bring each record raw or with noise, without data at home."""
    return example("hospitals-privacy")
