"""What the report says in plain words of mechanisms, claims, assumptions and evidence."""

from __future__ import annotations

from collections.abc import Mapping

from fedpact.certificates import Claim

# Heads of tables of properties, one per claim.
PROPERTY_HEADS: Mapping[Claim, str] = {
    Claim.NASH: "stable",
    Claim.BUDGET_BALANCE: "balanced",
    Claim.SOCIAL_OPTIMALITY: "optimal",
    Claim.INDIVIDUAL_RATIONALITY: "all gain",
    Claim.RECIPROCITY: "fair",
    Claim.CORE: "groups stay",
    Claim.SPLIT_PROOF: "split proof",
    Claim.FAIR_GAINS: "fair gains",
}

CLAIMS: Mapping[Claim, str] = {
    Claim.NASH: (
        "Paid for the data it delivers, at the prices or by the rule of the deal, no single member would do better "
        "with another contribution while the others keep to theirs. A sum paid whatever is delivered does not have "
        "this effect."
    ),
    Claim.BUDGET_BALANCE: "What is paid in is paid out: no outside money is needed and none is left over.",
    Claim.SOCIAL_OPTIMALITY: "No other contributions would leave the members better off in total.",
    Claim.INDIVIDUAL_RATIONALITY: "No member has a reason to leave the federation and train by itself.",
    Claim.RECIPROCITY: "Each member gets at least its Shapley share of what the federation achieves.",
    Claim.CORE: ("No group of members would have more in total in a federation of its own, with its own data."),
    Claim.SPLIT_PROOF: (
        "A member that enters under two names, each with half of its data and of what the model is worth to it, does "
        "no better than under one."
    ),
    Claim.FAIR_GAINS: (
        "Everybody has its fair share of the gain: what it adds to what groups of members can gain, averaged over all "
        "orders of joining. Where some group would then do better by itself, or somebody cannot pay as much, gains are "
        "as close to that as can be."
    ),
}

# What plots call the fields of an outcome; margins are called by their claims.
METRIC_NAMES: Mapping[str, str] = {
    "ir_gaps": "gain against standing alone",
    "utilities": "net benefit",
    "standalone": "net benefit alone",
    "endowments": "what would keep the member",
    "shapley_values": "Shapley share",
    "reciprocity_ratios": "part of the Shapley share returned",
    "reciprocity": "lowest part of a Shapley share returned",
    "lowest_fair_part": "lowest part of a Shapley share above zero returned",
    "gain_shares": "part of the fair gain",
    "lowest_gain_share": "lowest part of a fair gain",
    "net_externality": "worth of one more sample to the others",
    **{claim.value: f"margin of {head!r}" for claim, head in PROPERTY_HEADS.items() if claim is not Claim.RECIPROCITY},
}


def metric_name(metric: str) -> str:
    """What people call a metric of a sweep."""
    return METRIC_NAMES.get(metric, metric.replace("_", " "))


NOT_CERTIFIED = (
    "Not certified: that members deliver the data they agreed to, and that they told the truth about their costs and "
    "about what the model is worth to them. Pay for data that was delivered: a member that is paid in any case may do "
    "better to deliver less."
)

SHAPLEY_METHODS: Mapping[str, str] = {
    "enumeration": "going through all groups of members",
    "quadrature": "an exact integral, evaluated numerically",
}

GLOSSARY: Mapping[str, str] = {
    "Member": "Whoever takes part in the federation; also called an agent.",
    "Contribution": "How much data a member puts in, in the unit in which the federation was described.",
    "Cap": "The most a member could contribute.",
    "Payoff": "What the trained model is worth to a member.",
    "Payment": "Money a member receives (+) or pays (−) under the deal. Payments only pass between members.",
    "Net benefit": "Payoff, minus the costs of contributing and of joining, plus the payment. Also called utility.",
    "Welfare": "The net benefits of all members added up.",
    "Standing alone": "What a member could do by itself, with its own data only.",
    "Gain": "Net benefit in the federation minus net benefit alone. Below zero the member would rather leave.",
    "Fair gain": (
        "What a member adds to what groups of members can gain by federating, averaged over all orders in which they "
        "could have joined. The lowest share of a fair gain is the smallest part of its own that anybody gets."
    ),
    "Endowment": "The subsidy that would just keep a member who would otherwise leave.",
    "Shapley share": (
        "A member's share of everything achieved together, including what it would have had alone: what it adds when "
        "it joins, averaged over all orders in which the members could have joined."
    ),
    "Benefit": "Payoff plus payment: what a member gets out of the federation, before its own costs.",
    "Mechanism": "The rules of the deal: who contributes how much and who pays whom.",
    "Equilibrium": (
        "A state in which no single member, paid for what it delivers by the rules of the deal, gains by contributing "
        "more or less."
    ),
    "Certificate": "A check of one claim, computed apart from the method that found the deal, with its evidence.",
}
