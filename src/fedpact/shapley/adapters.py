"""A federation at a profile as a cooperative game: on its own, and in the shapes that other packages work with.

Coalition X is worth A(s[X]), the total payoff when those outside X contribute nothing; the empty coalition is worth
nothing. `CoalitionGame` is the game as a plain function, `as_shapiq_game` a game of shapiq (interaction indices,
approximators, plots) and `as_pydvl_utility` a utility of pyDVL (semivalues, least core, samplers, stopping rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra, OutsideDomain
from fedpact.utils.words import MAX_NAMES, join_names


@dataclass(frozen=True, kw_only=True, eq=False)
class CoalitionGame:
    """The game of a federation at a profile; made by `coalition_game`."""

    federation: Federation
    contributions: FloatArray

    @property
    def n_players(self) -> int:
        """How many players there are: the federation's agents."""
        return self.federation.n_agents

    def __call__(self, coalition: Iterable[int]) -> float:
        """What a coalition, a collection of agents counted from 0, is worth."""
        members = self._members([coalition])
        if self.federation.is_sparse:
            return float(self.values(members)[0])
        chosen = np.flatnonzero(self._brought(members)[0])  # one coalition at a time costs no more than its members
        return float(self._worth(members, (self.federation.weights[:, chosen] @ self.contributions[chosen])[None])[0])

    def values(self, coalitions: NDArray[Any] | Sequence[Iterable[int]]) -> FloatArray:
        """What each coalition is worth; given as rows of a boolean matrix or as a list of collections of agents.

        Raises
        ------
        OutsideDomain
            If a coalition takes an agent's reach out of the domain of its payoff.
        """
        members = self._members(coalitions)
        brought = self._brought(members) * self.contributions
        return self._worth(members, np.asarray(self.federation.weights @ brought.T).T)

    def _brought(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which lots the members bring."""
        return members[:, self.federation.lot_owners] if self.federation.has_lots else members

    def _worth(self, members: NDArray[np.bool_], data: FloatArray) -> FloatArray:
        federation = self.federation
        outside = np.argwhere(data <= np.broadcast_to(federation.payoff.floor, data.shape))
        if outside.size:
            row, task = outside[0]
            group = join_names([federation.names[agent] for agent in np.flatnonzero(members[row])], most=MAX_NAMES)
            by = f" in the group of {group}"
            said = federation.payoff.harm_text(federation.task_labels, int(task), float(data[row, task]), by=by)
            raise OutsideDomain(f"{said}; lower the contributions of those who harm it")
        return np.asarray(federation.payoff.value(data) @ federation.values)

    def _members(self, coalitions: NDArray[Any] | Sequence[Iterable[int]]) -> NDArray[np.bool_]:
        if isinstance(coalitions, np.ndarray) and coalitions.ndim == 2:
            if coalitions.shape[1] != self.n_players:
                raise InvalidInput(
                    f"coalitions must have a column for each of the {self.n_players} members, got {coalitions.shape[1]}"
                )
            return coalitions.astype(np.bool_)
        members = np.zeros((len(coalitions), self.n_players), dtype=np.bool_)
        for row, coalition in enumerate(coalitions):
            agents = np.fromiter(coalition, dtype=np.intp)
            if agents.size and not 0 <= agents.min() <= agents.max() < self.n_players:
                raise InvalidInput(
                    f"coalitions[{row}] must hold members between 0 and {self.n_players - 1}, got {agents.tolist()}"
                )
            members[row, agents] = True
        return members


def coalition_game(federation: Federation, contributions: ArrayLike) -> CoalitionGame:
    """The game in which a coalition is worth its total payoff at a profile.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.01, payoff=PowerLaw(beta=1.0))
    >>> game = coalition_game(federation, [1.0, 1.0])
    >>> game([0]), game([0, 1])
    (0.5, 1.1)
    >>> game.values([(), (1,)]).round(6).tolist()
    [0.0, 0.833333]
    """
    return CoalitionGame(federation=federation, contributions=federation.checked_contributions(contributions))


def as_shapiq_game(federation: Federation, contributions: ArrayLike) -> Any:
    """The game as a `shapiq.Game`, its players named after the agents.

    Give it to shapiq's `ExactComputer`, approximators or plots.

    Raises
    ------
    MissingExtra
        If shapiq is not installed.
    """
    try:
        from shapiq import Game  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("shapiq", "peers") from error
    game = coalition_game(federation, contributions)

    class FederationGame(Game):  # type: ignore[misc]
        """A federation at a profile, as a game of shapiq."""

        def __init__(self) -> None:
            super().__init__(game.n_players, normalize=False, player_names=list(federation.names))

        def value_function(self, coalitions: NDArray[np.bool_]) -> FloatArray:
            """What the coalitions in the rows of a matrix are worth."""
            return game.values(np.asarray(coalitions))

    return FederationGame()


def as_pydvl_utility(federation: Federation, contributions: ArrayLike) -> Any:
    """The game as a utility of pyDVL, with a data set of one entry per agent.

    Fit any of pyDVL's valuation methods on it: ``method.fit(utility.training_data)``.

    Raises
    ------
    MissingExtra
        If pyDVL, with its `pydvl.valuation` (version 0.10), is not installed.
    """
    try:
        from pydvl.valuation.dataset import Dataset  # type: ignore[import-not-found]  # noqa: PLC0415
        from pydvl.valuation.utility.base import UtilityBase  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("pyDVL 0.10", "peers", how='pip install "pyDVL==0.10.0"') from error
    game = coalition_game(federation, contributions)

    class FederationUtility(UtilityBase):  # type: ignore[misc]
        """A federation at a profile, as a utility of pyDVL."""

        def __call__(self, sample: Any) -> float:
            """What the agents of a sample are worth together."""
            return 0.0 if sample is None else game(sample.subset)

    numbers = np.arange(game.n_players)
    agents = Dataset(numbers[:, None], np.zeros(game.n_players), data_names=list(federation.names))
    return FederationUtility().with_dataset(agents, copy=False)
