"""fedpact: the deal behind a federated model.

How much data each member contributes, who pays whom, who would walk away, and how fair it is: computed by mechanism
design, and certified.

Describe who there is
    Federation, SharedCap; payoffs PowerLaw, Exponential, Log, Michaelis; costs Linear, Quadratic;
    load_scenario, save_scenario, Scenario, Money, Uncertainty
Make a deal
    ExternalityMechanism, ShapleyMechanism, FairMechanism; baselines Voluntary, Standalone; of the literature
    NashBargaining, Nucleolus, VCGMechanism, LeaveOneOut, EqualSplit, CostSharing, ProportionalSharing,
    AccuracyShaping, SemivalueMechanism; solve_batch; Mechanism, to write another; MessageGame, personal_prices,
    best_response_dynamics, social_optimum
Judge it
    compare, sweep, study; Outcome.certificates; shapley_values, blocking_group, best_members, stable_federation,
    splitting_gain, least_core
Agree on it, train under it, settle it
    negotiate, load_deal, settle, Deal
Learn the numbers from data
    pilot, fit, suggest, calibrate_delivery, estimate_delivery, sample_game
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fedpact.utils.threads  # noqa: F401 - speaks to libraries not yet imported

if TYPE_CHECKING:  # each is imported at its first use; `_home_modules` reads where from
    from fedpact.certificates import Assumption, Certificate, Claim, Verdict
    from fedpact.comparison import (
        BestMembers,
        BlockingGroup,
        Comparison,
        FieldStudy,
        LeastCore,
        Outlook,
        Recommendation,
        Sensitivity,
        StableFederation,
        Sweep,
        best_members,
        blocking_group,
        compare,
        least_core,
        solve_batch,
        splitting_gain,
        stable_federation,
        study,
        sweep,
    )
    from fedpact.deals import Deal, Equilibria, Messages, Outcome, Outcomes, Settlement, Transfer, load_deal, settle
    from fedpact.federation import (
        Cost,
        Exponential,
        Federation,
        Linear,
        Log,
        Michaelis,
        Payoff,
        PowerLaw,
        Quadratic,
        SharedCap,
    )
    from fedpact.fitting import (
        Calibration,
        Delivery,
        Fit,
        Observations,
        calibrate_delivery,
        estimate_delivery,
        fit,
        suggest,
    )
    from fedpact.fitting.pilots import PilotData, PilotStudy, pilot
    from fedpact.mechanisms import (
        AccuracyShaping,
        CostSharing,
        EqualSplit,
        ExternalityMechanism,
        FairMechanism,
        LeaveOneOut,
        Mechanism,
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
    from fedpact.negotiation import MessageGame, negotiate
    from fedpact.scenario import Money, Scenario, Uncertainty, load_scenario, save_scenario
    from fedpact.shapley import ShapleyValues, sample_game, shapley_values
    from fedpact.solvers.welfare import SocialOptimum, social_optimum
    from fedpact.utils.errors import (
        FedpactError,
        InvalidInput,
        MechanismError,
        MissingExtra,
        NoFairDeal,
        NotConverged,
        OutsideDomain,
    )
    from fedpact.utils.threads import set_threads, thread_count

__version__ = "0.3.0"

__all__ = [
    "AccuracyShaping",
    "Assumption",
    "BestMembers",
    "BlockingGroup",
    "Calibration",
    "Certificate",
    "Claim",
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
    "NoFairDeal",
    "NotConverged",
    "Nucleolus",
    "Observations",
    "Outcome",
    "Outcomes",
    "Outlook",
    "OutsideDomain",
    "Payoff",
    "PilotData",
    "PilotStudy",
    "PowerLaw",
    "ProportionalSharing",
    "Quadratic",
    "Recommendation",
    "Scenario",
    "SemivalueMechanism",
    "Sensitivity",
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
    "best_members",
    "best_response_dynamics",
    "blocking_group",
    "calibrate_delivery",
    "compare",
    "estimate_delivery",
    "fit",
    "least_core",
    "load_deal",
    "load_scenario",
    "negotiate",
    "personal_prices",
    "pilot",
    "sample_game",
    "save_scenario",
    "set_threads",
    "settle",
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


if not TYPE_CHECKING:  # a type checker reads the imports above, and knows no other names

    def _home_modules():
        """The module in which each public name lives, as the imports above say."""
        import ast  # noqa: PLC0415 - at the first use of a name
        import pkgutil  # noqa: PLC0415

        source = pkgutil.get_data(__name__, "__init__.py") or b""
        imports = [line for line in ast.walk(ast.parse(source)) if isinstance(line, ast.ImportFrom)]
        return {alias.name: line.module for line in imports for alias in line.names}

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - at the first use of a name

        homes = globals().setdefault("_homes", None) or _home_modules()
        globals()["_homes"] = homes
        value = globals()[name] = getattr(import_module(homes[name]), name)
        return value

    def __dir__():
        return sorted([*__all__, "__version__"])
