"""From logs to a federation: weights and accuracy curves estimated from measured accuracies, and what follows."""

from fedpact.fitting.estimating import fit
from fedpact.fitting.observations import Observations
from fedpact.fitting.outlook import Outlook, outlooks
from fedpact.fitting.result import Draws, Fit, Outlier, Quality
from fedpact.fitting.suggesting import Suggestion, suggest

__all__ = ["Draws", "Fit", "Observations", "Outlier", "Outlook", "Quality", "Suggestion", "fit", "outlooks", "suggest"]
