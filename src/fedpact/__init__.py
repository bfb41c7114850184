"""fedpact: the deal behind a federated model.

How much data each member contributes, who pays whom, who would walk away, and how fair it is: computed by mechanism
design, and certified.
"""

import ast
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import fedpact.utils.threads  # noqa: F401 - speaks to libraries not yet imported

if TYPE_CHECKING:  # read by `_read_homes` too: each is imported at its first use
    from fedpact.certificates import Assumption, Certificate, Claim, Verdict
    from fedpact.comparison import (
        BatchOutcome,
        Comparison,
        FieldStudy,
        Outlook,
        Recommendation,
        Sweep,
        compare,
        solve_batch,
        study,
        sweep,
    )
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
        SharedCap,
    )
    from fedpact.fitting import (
        Delivery,
        DeliverySettlement,
        Fit,
        Observations,
        estimate_delivery,
        fit,
        settle_delivery,
        suggest,
    )
    from fedpact.fitting.pilots import CoalitionRecords, PilotData, PilotStudy, pilot
    from fedpact.mechanisms import (
        AccuracyShaping,
        CostSharing,
        EqualSplit,
        ExternalityMechanism,
        FairMechanism,
        LeaveOneOut,
        Mechanism,
        MessageGame,
        NashBargaining,
        Nucleolus,
        ProportionalSharing,
        SemivalueMechanism,
        ShapleyMechanism,
        Standalone,
        VCGMechanism,
        Voluntary,
        best_response_dynamics,
        personal_prices,
    )
    from fedpact.negotiation import negotiate
    from fedpact.solvers.welfare import SocialOptimum, social_optimum
    from fedpact.scenario import Money, Scenario, Uncertainty, load_scenario, save_scenario
    from fedpact.shapley import CoalitionCache, ShapleyValues, sample_game, shapley_values
    from fedpact.comparison import StableFederation, merging_gain, splitting_gain, stable_federation
    from fedpact.comparison.blocking_group import BlockingGroup, blocking_group
    from fedpact.comparison.least_core import LeastCore, least_core
    from fedpact.utils.errors import (
        FedpactError,
        InvalidInput,
        MechanismError,
        MissingExtra,
        NoEquilibrium,
        NoFairDeal,
        NotConverged,
        OutsideDomain,
    )
    from fedpact.utils.threads import set_threads, thread_count

__version__ = "0.2.1"

__all__ = [
    "AccuracyShaping",
    "Assumption",
    "Batch",
    "BatchOutcome",
    "BlockingGroup",
    "Certificate",
    "Claim",
    "CoalitionCache",
    "CoalitionRecords",
    "Comparison",
    "Cost",
    "CostSharing",
    "Deal",
    "Delivery",
    "DeliverySettlement",
    "EqualSplit",
    "Equilibria",
    "Exponential",
    "ExternalityMechanism",
    "FairMechanism",
    "Federation",
    "FedpactError",
    "FieldStudy",
    "Fit",
    "InvalidInput",
    "LeastCore",
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
    "NoEquilibrium",
    "NoFairDeal",
    "NotConverged",
    "Nucleolus",
    "Observations",
    "Outcome",
    "Outlook",
    "OutsideDomain",
    "Payoff",
    "PilotData",
    "PilotStudy",
    "Population",
    "PowerLaw",
    "ProportionalSharing",
    "Quadratic",
    "Recommendation",
    "Scenario",
    "SemivalueMechanism",
    "Settlement",
    "ShapleyMechanism",
    "ShapleyValues",
    "SharedCap",
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
    "least_core",
    "load_deal",
    "load_scenario",
    "merging_gain",
    "negotiate",
    "personal_prices",
    "pilot",
    "sample_game",
    "save_scenario",
    "set_threads",
    "settle",
    "settle_delivery",
    "shapley_values",
    "social_optimum",
    "solve_batch",
    "splitting_gain",
    "stable_federation",
    "study",
    "suggest",
    "sweep",
    "thread_count",
]


def _read_homes() -> dict[str, str]:
    """The module in which each public name lives, as the imports above say."""
    source = pkgutil.get_data(__name__, "__init__.py") or b""
    imports = [line for line in ast.walk(ast.parse(source)) if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in imports for alias in line.names}


_HOMES = _read_homes()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
