"""fedpact: the deal behind a federated model.

How much data each member contributes, who pays whom, who would walk away, and how fair it is: computed by mechanism
design, and certified.
"""

from fedpact.threads import set_threads, thread_count  # isort: skip - speaks to libraries not yet imported

from fedpact.batch import Batch, BatchOutcome, solve_batch
from fedpact.comparison import Comparison, Recommendation, compare
from fedpact.costs import Cost, Linear, Quadratic
from fedpact.errors import FedpactError, InvalidInput, MissingExtra, NotConverged, OutsideDomain
from fedpact.federation import Federation
from fedpact.fitting import Fit, Observations, Outlook, fit, suggest
from fedpact.mechanisms import (
    ExternalityMechanism,
    Mechanism,
    ShapleyMechanism,
    Standalone,
    Voluntary,
    best_response_dynamics,
    personal_prices,
)
from fedpact.message_game import MessageGame, Messages
from fedpact.negotiation import Deal, negotiate
from fedpact.outcome import Equilibria, Outcome
from fedpact.participation import StableFederation, stable_federation
from fedpact.payoffs import Exponential, Log, Michaelis, Payoff, PowerLaw
from fedpact.population import Population
from fedpact.programs.optimum import SocialOptimum, social_optimum
from fedpact.properties import Assumption, Certificate, Claim, Verdict
from fedpact.scenario import Money, Scenario, Uncertainty, load_scenario, save_scenario
from fedpact.settlement import Settlement, Transfer, settle
from fedpact.shapley import CoalitionCache, ShapleyValues, sample_game, shapley_values
from fedpact.sweeps import Sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "Assumption",
    "Batch",
    "BatchOutcome",
    "Certificate",
    "Claim",
    "CoalitionCache",
    "Comparison",
    "Cost",
    "Deal",
    "Equilibria",
    "Exponential",
    "ExternalityMechanism",
    "Federation",
    "FedpactError",
    "Fit",
    "InvalidInput",
    "Linear",
    "Log",
    "Mechanism",
    "MessageGame",
    "Messages",
    "Michaelis",
    "MissingExtra",
    "Money",
    "NotConverged",
    "Observations",
    "Outcome",
    "Outlook",
    "OutsideDomain",
    "Payoff",
    "Population",
    "PowerLaw",
    "Quadratic",
    "Recommendation",
    "Scenario",
    "Settlement",
    "ShapleyMechanism",
    "ShapleyValues",
    "SocialOptimum",
    "StableFederation",
    "Standalone",
    "Sweep",
    "Transfer",
    "Uncertainty",
    "Verdict",
    "Voluntary",
    "best_response_dynamics",
    "compare",
    "fit",
    "load_scenario",
    "negotiate",
    "personal_prices",
    "sample_game",
    "save_scenario",
    "set_threads",
    "settle",
    "shapley_values",
    "social_optimum",
    "solve_batch",
    "stable_federation",
    "suggest",
    "sweep",
    "thread_count",
]
