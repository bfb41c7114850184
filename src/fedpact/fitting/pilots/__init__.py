"""From data to a deal: models of coalitions trained on members' tables, a fit, and the deal with its uncertainty.

It trains with scikit-learn: `pip install "fedpact[pilot]"`; any other library by a function of one's own.
"""

from fedpact.fitting.pilots.built_in import BUILT_IN_PILOTS, built_in_pilot
from fedpact.fitting.pilots.coalitions import CoalitionRecords
from fedpact.fitting.pilots.records import PilotData, Records
from fedpact.fitting.pilots.search import PilotStudy, pilot

__all__ = ["BUILT_IN_PILOTS", "CoalitionRecords", "PilotData", "PilotStudy", "Records", "built_in_pilot", "pilot"]
