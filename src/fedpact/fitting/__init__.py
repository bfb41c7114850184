"""From logs to a federation: weights and accuracy curves estimated from measured accuracies, and what follows.

May use: utils, federation, scenario, deals, mechanisms, stability, comparison.
"""

from fedpact.fitting.estimate import fit
from fedpact.fitting.observations import Observations
from fedpact.fitting.result import Draws, Fit, Outlier, Quality
from fedpact.fitting.suggestions import Suggestion, suggest

__all__ = ["Draws", "Fit", "Observations", "Outlier", "Quality", "Suggestion", "fit", "suggest"]
