"""Linear programs in units about one, solved to the last digits that HiGHS gives."""

from __future__ import annotations

from typing import Any

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

LP_TOLERANCE = 1e-10  # the smallest HiGHS takes
INFEASIBLE = 2  # SciPy's word for it


def minimise_linear(objective: FloatArray, name: str, **constraints: Any) -> Any:
    """SciPy's answer, or None where nothing is feasible; `name` says whose program it is."""
    from scipy.optimize import linprog  # noqa: PLC0415 - loaded where it is used

    options = {"primal_feasibility_tolerance": LP_TOLERANCE, "dual_feasibility_tolerance": LP_TOLERANCE}
    answer = linprog(objective, method="highs-ds", options=options, **constraints)
    if answer.status == INFEASIBLE:
        return None
    if answer.status != 0:
        raise NotConverged(f"the linear program of {name} was not solved: {answer.message}")
    return answer
