"""Sweeps: one or two parameters of a federation varied over a range, and what becomes of its outcomes."""

from fedpact.sweeps.axes import Axis, parse_axis
from fedpact.sweeps.result import Sweep
from fedpact.sweeps.running import sweep

__all__ = ["Axis", "Sweep", "parse_axis", "sweep"]
