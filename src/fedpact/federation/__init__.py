"""The instance: who takes part, how useful data is to whom, what it costs and what accuracy is worth.

One `Federation`, a `Batch` of many alike, or a `Population` of agents of few kinds; payoff families, costs, the rules
their numbers obey, and bounds on what anybody would contribute. May use: utils.
"""

from fedpact.federation.batch import Batch
from fedpact.federation.costs import Cost, Linear, Quadratic
from fedpact.federation.federation import Federation
from fedpact.federation.lots import SharedCap
from fedpact.federation.payoffs import Exponential, Log, Michaelis, Payoff, PowerLaw
from fedpact.federation.population import Population
from fedpact.federation.validation import federation_errors, require_federation

__all__ = [
    "Batch",
    "Cost",
    "Exponential",
    "Federation",
    "Linear",
    "Log",
    "Michaelis",
    "Payoff",
    "Population",
    "PowerLaw",
    "Quadratic",
    "SharedCap",
    "federation_errors",
    "require_federation",
]
