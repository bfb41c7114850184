"""fedpact: the deal behind a federated model.

How much data each member contributes, who pays whom, who would walk away, and how fair it is: computed by mechanism
design, and certified.
"""

from fedpact.utils.threads import set_threads, thread_count  # isort: skip - speaks to libraries not yet imported

from fedpact.certificates import Assumption, Certificate, Claim, Verdict
from fedpact.comparison import BatchOutcome, Comparison, Outlook, Recommendation, Sweep, compare, solve_batch, sweep
from fedpact.deals import Deal, Equilibria, Messages, Outcome, Settlement, Transfer, load_deal, settle
from fedpact.federation import (
    Batch,
    Cost,
    Exponential,
    Federation,
    Linear,
    Log,
    Michaelis,
    Payoff,
    Population,
    PowerLaw,
    Quadratic,
)
from fedpact.fitting import Delivery, Fit, Observations, estimate_delivery, fit, suggest
from fedpact.mechanisms import (
    CostSharing,
    EqualSplit,
    ExternalityMechanism,
    FairMechanism,
    LeaveOneOut,
    Mechanism,
    MessageGame,
    NashBargaining,
    Nucleolus,
    SemivalueMechanism,
    ShapleyMechanism,
    Standalone,
    VCGMechanism,
    Voluntary,
    best_response_dynamics,
    personal_prices,
)
from fedpact.negotiation import negotiate
from fedpact.programs.social_optimum import SocialOptimum, social_optimum
from fedpact.scenario import Money, Scenario, Uncertainty, load_scenario, save_scenario
from fedpact.shapley import CoalitionCache, ShapleyValues, sample_game, shapley_values
from fedpact.stability import (
    BlockingGroup,
    StableFederation,
    blocking_group,
    merging_gain,
    splitting_gain,
    stable_federation,
)
from fedpact.utils.errors import (
    FedpactError,
    InvalidInput,
    MechanismError,
    MissingExtra,
    NoFairDeal,
    NotConverged,
    OutsideDomain,
)

__version__ = "0.1.0"

__all__ = [
    "Assumption",
    "Batch",
    "BatchOutcome",
    "BlockingGroup",
    "Certificate",
    "Claim",
    "CoalitionCache",
    "Comparison",
    "Cost",
    "CostSharing",
    "Deal",
    "Delivery",
    "EqualSplit",
    "Equilibria",
    "Exponential",
    "ExternalityMechanism",
    "FairMechanism",
    "Federation",
    "FedpactError",
    "Fit",
    "InvalidInput",
    "LeaveOneOut",
    "Linear",
    "Log",
    "Mechanism",
    "MechanismError",
    "MessageGame",
    "Messages",
    "Michaelis",
    "MissingExtra",
    "Money",
    "NashBargaining",
    "NoFairDeal",
    "NotConverged",
    "Nucleolus",
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
    "SemivalueMechanism",
    "Settlement",
    "ShapleyMechanism",
    "ShapleyValues",
    "SocialOptimum",
    "StableFederation",
    "Standalone",
    "Sweep",
    "Transfer",
    "Uncertainty",
    "VCGMechanism",
    "Verdict",
    "Voluntary",
    "best_response_dynamics",
    "blocking_group",
    "compare",
    "estimate_delivery",
    "fit",
    "load_deal",
    "load_scenario",
    "merging_gain",
    "negotiate",
    "personal_prices",
    "sample_game",
    "save_scenario",
    "set_threads",
    "settle",
    "shapley_values",
    "social_optimum",
    "solve_batch",
    "splitting_gain",
    "stable_federation",
    "suggest",
    "sweep",
    "thread_count",
]
