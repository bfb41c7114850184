"""What every member reaches alone, with its own data only: v_i* = max over its own lots of a_i - c_i.

Each member is a group of one (`fedpact.solvers.groups`), and all are solved side by side, each at its own scale.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.solvers.groups import sub_federations
from fedpact.solvers.welfare import welfare_optima
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged


def standalone_optimum(federation: Federation) -> tuple[FloatArray, FloatArray]:
    """Contributions (lots) and utilities v_i* (members) of members that train alone, equation (6) of the paper.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, caps=[400.0, 0.0], payoff=PowerLaw(beta=0.1))
    >>> contributions, utilities = standalone_optimum(pair)
    >>> contributions.round(4).tolist(), utilities.round(4).tolist()
    ([7.1113, 0.0], [0.1178, 0.0])
    """
    contributions, utilities = standalone_optima(federation.arrays)
    if np.isnan(utilities).any():
        name = federation.names[int(np.argmax(np.isnan(utilities)))]
        raise NotConverged(f'no optimum was found for what "{name}" reaches alone', result=contributions)
    return read_only_copy(contributions), read_only_copy(utilities)


def standalone_optima(arrays: FederationArrays) -> tuple[FloatArray, FloatArray]:
    """Contributions (..., lots) and utilities (..., members) of members that train alone; NaN where not converged."""
    contributions = np.zeros((*arrays.shape, arrays.n_lots))
    alone, lots, has_lot = sub_federations(arrays, np.eye(arrays.n_agents, dtype=np.bool_))
    contributions[..., lots[has_lot]] = welfare_optima(alone)[0][..., has_lot]
    payoffs = sum_by(arrays.task_owners, arrays.worth(arrays.own_data(contributions)), arrays.n_agents)
    return contributions, payoffs - arrays.spending(contributions)
