"""The pilot: from members' data to a deal that was measured to pay, or is not recommended."""

from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS
from fedpact.fitting.pilots.records import PilotData
from fedpact.fitting.pilots.study import PilotStudy, pilot

__all__ = ["BUILT_IN_PILOTS", "PilotData", "PilotStudy", "pilot"]
