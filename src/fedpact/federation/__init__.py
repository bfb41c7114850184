"""The instance: who takes part, how useful data is to whom, what it costs and what accuracy is worth.

One `Federation`; its numbers as arrays with the quantities of the model
(`arrays`), payoff families, costs, and the rules that inputs obey. May use: utils.
"""

from fedpact.federation.costs import Cost, Linear, Quadratic
from fedpact.federation.federation import Federation
from fedpact.federation.lots import SharedCap
from fedpact.federation.payoffs import Exponential, Log, Michaelis, Payoff, PowerLaw
from fedpact.federation.validation import require_federation

__all__ = [
    "Cost",
    "Exponential",
    "Federation",
    "Linear",
    "Log",
    "Michaelis",
    "Payoff",
    "PowerLaw",
    "Quadratic",
    "SharedCap",
    "require_federation",
]
