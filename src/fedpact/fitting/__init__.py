"""Fitting: weights and accuracy curves estimated from measured accuracies, and what follows.

`estimate` fits, `posterior` and `intervals` say how sure the estimates are, `lack_of_fit` whether the curves fit at
all, `cross_validation` which family suits best, `result` is what comes of it, `suggestions` the runs worth training
next. `delivery` turns the question round: weights and curves known, was the data delivered that was agreed?
`delivery_settlement` pays for what was. `logs` reads what runs leave behind, `pilots` trains
them on members' tables. May use: utils, federation, scenario,
deals, mechanisms, comparison, negotiation.
"""

from fedpact.fitting.calibration import Calibration, calibrate_delivery
from fedpact.fitting.cross_validation import FamilyComparison
from fedpact.fitting.delivery import Delivery, estimate_delivery
from fedpact.fitting.delivery_settlement import DeliverySettlement, settle_delivery
from fedpact.fitting.estimate import fit
from fedpact.fitting.lack_of_fit import LackOfFit
from fedpact.fitting.observations import Observations
from fedpact.fitting.result import Draws, Fit, FitQuality, Outlier
from fedpact.fitting.suggestions import Suggestion, suggest

__all__ = [
    "Calibration",
    "Delivery",
    "DeliverySettlement",
    "Draws",
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
    "settle_delivery",
    "suggest",
]
