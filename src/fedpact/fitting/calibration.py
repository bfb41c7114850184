"""What everybody's data is worth to whom under one training procedure: the numbers that delivery is judged by.

Weights, curves, floors and ceilings come from a scenario, or are fitted to models made of subsets of the updates of
earlier rounds or runs of the same procedure, in which all delivered (or in comparison with which they are judged).

Members may agree to be paid by a calibration: their deal's entry in a ledger holds it. With it, and with what members
measured of subset models, anybody can work out what arrived and what is due for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals import Deal
from fedpact.deals.delivered import agreed_transfers
from fedpact.federation import Federation
from fedpact.federation.lots import require_single_lots
from fedpact.federation.payoffs import FAMILIES
from fedpact.fitting.accuracy_curves import checked_range
from fedpact.fitting.delivery import AGREED_DOUBT, checked_subset_tests, leave_out_shares, precision_of
from fedpact.fitting.logs import subset_table
from fedpact.fitting.subset_models import Curves, SubsetModels
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable

SHARE_DECIMALS = 6  # machines differ in the last digits of an estimate, and none in these
SAME_SHARE = 2e-4  # by which two machines' estimates of a share may differ
PARTS = ("agents", "weights", "payoff", "floors", "ceilings")
MAX_CALIBRATED = 12  # members: 144 weights are measured along with the shares
FIRST_END_DOUBT, FIRST_PARAMETER_DOUBT, FIRST_WEIGHT_DOUBT = 0.1, 0.3, 3.0  # before models say more; of the mean weight


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What data is worth under one training procedure.

    Attributes
    ----------
    names
        The members.
    curves
        Weights, floors, ceilings and payoff.
    precision
        How sure these were before the earlier models: R of `fedpact.fitting.subset_models`.
    earlier
        The models of earlier rounds or runs, if there are any: what `SubsetModels` takes of them.
    """

    names: tuple[str, ...]
    curves: Curves
    precision: FloatArray
    earlier: Mapping[str, FloatArray] | None = None

    @classmethod
    def of(cls, federation: Federation, floor: ArrayLike = 0.0, ceiling: ArrayLike = 1.0) -> Calibration:
        """That of a scenario's federation, as members agree on it."""
        require_single_lots(federation, "verifying what was delivered")
        curves = Curves(federation.weights, *_ends(floor, ceiling, federation), federation.payoff)
        return cls(
            names=federation.names,
            curves=curves,
            precision=precision_of(federation.n_agents, AGREED_DOUBT, AGREED_DOUBT),
        )

    @classmethod
    def of_record(cls, record: Any) -> Calibration:
        """The calibration that a ledger or a message holds.

        Raises
        ------
        InvalidInput
            If it is none.
        """
        if not isinstance(record, Mapping) or any(part not in record for part in PARTS):
            raise InvalidInput(f"a calibration must say its {', '.join(PARTS)}, got {short_repr(record)}")
        try:
            stated = dict(record["payoff"])
            payoff = FAMILIES[stated.pop("family")](**{name: np.asarray(number) for name, number in stated.items()})
            weights = np.asarray(record["weights"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a calibration must hold weights and a payoff: {error!r:.120}") from error
        federation = Federation(weights=weights, costs=1.0, payoff=payoff, names=record["agents"])
        return cls.of(federation, record["floors"], record["ceilings"])

    def record(self) -> dict[str, Any]:
        """It as plain data."""
        weights, floors, ceilings, payoff = self.curves
        plain = {
            "agents": self.names,
            "weights": weights,
            "payoff": {"family": payoff.family} | dict(payoff.parameters),
            "floors": floors,
            "ceilings": ceilings,
        }
        return dict(jsonable(plain))

    @property
    def federation(self) -> Federation:
        """Members, weights and payoff as a federation, whose costs say nothing."""
        return Federation(weights=self.curves.weights, costs=1.0, payoff=self.curves.payoff, names=self.names)

    def models(self, tests: Mapping[str, FloatArray]) -> SubsetModels:
        """Models to be judged, beside the earlier ones."""
        earlier = {name: part[:0] for name, part in tests.items()} if self.earlier is None else self.earlier
        both = {name: np.vstack([earlier[name], part]) for name, part in tests.items()}
        return SubsetModels(**both, curves=self.curves, precision=self.precision, n_earlier=len(earlier["given"]))

    def check_agents(self, names: Sequence[str]) -> None:
        """Raise `InvalidInput` unless it is of these members, in this order."""
        if self.names != tuple(names):
            raise InvalidInput(
                f"the calibration must be of the same members, in their order ({', '.join(names)}), got "
                f"{', '.join(self.names)}"
            )

    def check_settles(self, deal: Deal) -> None:
        """That a deal can be settled by what was delivered: it has prices, and everybody's data a third beneficiary.

        Raises
        ------
        InvalidInput
            If not, with whose data.
        """
        self.check_agents(deal.agents)
        if deal.prices is None:
            raise InvalidInput(
                "settling by delivery needs a deal with prices: the externality mechanism, negotiated by price "
                "discovery; this one has none"
            )
        uses = self.curves.weights != 0.0
        inside = np.zeros(len(deal.agents), dtype=bool)
        inside[deal.members] = True
        for payer, payee in np.argwhere(agreed_transfers(deal, deal.prices) != 0.0).tolist():
            third = uses[:, payee] & inside
            third[[payer, payee]] = False
            if not third.any():
                one, other = deal.agents[payer], deal.agents[payee]
                raise InvalidInput(
                    f'settling by delivery needs a third beneficiary: besides "{one}", who pays, and "{other}", who is '
                    f'paid, nobody in the deal has a use for the data of "{other}"; settle by samples '
                    f'(settle-by = "samples")'
                )

    def paid_shares(
        self, deal: Deal, models: Sequence[Mapping[str, Any]], delivered: Mapping[str, float]
    ) -> list[list[float | None]]:
        """The share of the column's contribution that the row's member pays for; None if it pays nothing.

        It is the share that arrived in effect, estimated without the reports of the two. Where the models say too
        little for that, it is the share by the samples that were counted.

        Parameters
        ----------
        models
            As a ledger's entry of the verification lists them.
        delivered
            What members have delivered by the samples they signed, in units of contribution.
        """
        self.check_agents(deal.agents)
        assert deal.prices is not None
        agreed, wanted = _given(deal), agreed_transfers(deal, deal.prices) != 0.0
        counts = np.array([delivered.get(name, own) for name, own in zip(deal.agents, agreed, strict=True)])
        shares = np.full(wanted.shape, np.nan)
        table = subset_table(deal.agents, models)
        if np.isfinite(table.accuracies).any():
            tests = checked_subset_tests(self.federation, agreed, table.given, table.accuracies, table.test_sizes)
            # All have signed the calibration: whoever sends what fits no curve is not to be judged more gently.
            shares = leave_out_shares(self.models(tests), wanted)
        counted = np.divide(counts, agreed, out=np.zeros_like(counts), where=agreed > 0.0)
        shares = np.where(np.isnan(shares), counted, shares).round(SHARE_DECIMALS)
        rows = np.where(wanted, shares, np.nan).tolist()
        return [[None if np.isnan(share) else share for share in row] for row in rows]


def calibrate_delivery(  # noqa: PLR0917 - as `estimate_delivery`
    federation: Federation,
    contributions: ArrayLike,
    subsets: ArrayLike,
    accuracies: ArrayLike,
    test_sizes: ArrayLike | None = None,
    floor: ArrayLike = 0.0,
    ceiling: ArrayLike = 1.0,
) -> Calibration:
    """Measure what data is worth under a training procedure, by subset models of earlier rounds or runs.

    Parameters
    ----------
    federation
        The members and the family of payoffs. Its weights are where the search begins, and hardly matter.
    contributions, subsets, accuracies, test_sizes, floor, ceiling
        As `estimate_delivery` takes them, of rounds or runs in which everybody delivered.

    Raises
    ------
    InvalidInput
        If an argument breaks a rule.
    NotConverged
        If the fit did not settle.
    """
    if federation.n_agents > MAX_CALIBRATED:
        raise InvalidInput(
            f"a calibration takes at most {MAX_CALIBRATED} members, got {federation.n_agents}: every pair has a weight "
            f"to measure; verify without one, or members in groups"
        )
    agreed = federation.checked_contributions(contributions)
    tests = checked_subset_tests(federation, agreed, subsets, accuracies, test_sizes)
    weights = federation.weights
    curves = Curves(weights, *_ends(floor, ceiling, federation), federation.payoff)
    doubt = FIRST_WEIGHT_DOUBT * float(np.abs(weights).mean())
    first = np.concatenate(
        [
            np.diag(precision_of(federation.n_agents, FIRST_END_DOUBT, FIRST_PARAMETER_DOUBT)),
            np.full(weights.size, 1.0 / doubt),
        ]
    )
    return Calibration(names=federation.names, curves=curves, precision=np.diag(first), earlier=tests)


def share_matrix(shares: Sequence[Sequence[float | None]]) -> FloatArray:
    """(n, n): shares as plain data holds them; NaN where nothing is paid."""
    return np.array([[np.nan if share is None else share for share in row] for row in shares], dtype=np.float64)


def same_shares(stated: Any, due: Sequence[Sequence[float | None]]) -> bool:
    """Whether shares that somebody states are those due, as far as machines agree."""
    try:
        one, other = share_matrix(stated), share_matrix(due)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=0.0, atol=SAME_SHARE, equal_nan=True)


def _ends(floor: ArrayLike, ceiling: ArrayLike, federation: Federation) -> tuple[FloatArray, FloatArray]:
    return checked_range(floor, ceiling, federation, labels=("floor", "ceiling"))


def _given(deal: Deal) -> FloatArray:
    given = np.zeros(len(deal.agents))
    given[deal.members] = deal.contributions[deal.members]
    return given
