"""Fitting: weights and accuracy curves estimated from measured accuracies, and what follows.

`estimate` fits, `lack_of_fit` says whether the curves predict what they were not fitted to, `result` is what comes of
it, with how sure it is, `suggestions` the runs worth training next. `delivery` turns the question round: weights and
curves known, was the data delivered that was agreed, and what is due for it? `logs` reads what runs leave behind,
`pilots` measures whether sharing pays on members' tables.

May use: utils, federation, scenario, deals, mechanisms, comparison, negotiation.
"""

from fedpact.fitting.delivery import Calibration, Delivery, calibrate_delivery, estimate_delivery
from fedpact.fitting.estimate import fit
from fedpact.fitting.lack_of_fit import FamilyComparison, LackOfFit
from fedpact.fitting.observations import Observations
from fedpact.fitting.result import Fit, FitQuality, Outlier
from fedpact.fitting.suggestions import Suggestion, suggest

__all__ = [
    "Calibration",
    "Delivery",
    "FamilyComparison",
    "Fit",
    "FitQuality",
    "LackOfFit",
    "Observations",
    "Outlier",
    "Suggestion",
    "calibrate_delivery",
    "estimate_delivery",
    "fit",
    "suggest",
]
