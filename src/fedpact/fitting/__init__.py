"""Fitting: weights and accuracy curves estimated from measured accuracies, and what follows.

`estimate` fits, `intervals` says how sure the estimates are, `result` is what comes of it, `suggestions` the runs worth
training next. May use: utils, federation, scenario, mechanisms, comparison.
"""

from fedpact.fitting.estimate import fit
from fedpact.fitting.observations import Observations
from fedpact.fitting.result import Draws, Fit, FitQuality, Outlier
from fedpact.fitting.suggestions import Suggestion, suggest

__all__ = ["Draws", "Fit", "FitQuality", "Observations", "Outlier", "Suggestion", "fit", "suggest"]
