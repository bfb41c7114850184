"""A million agents with ten neighbours each, minutes: the welfare optimum and its payments, in sparse products W s."""

import json
import subprocess
import sys

import numpy as np

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.scaling import GIB, _peak_memory
from benchmarks.timing import best_of, once
from fedpact.utils.progress import listen_to_progress

N_AGENTS = 1_000_000
PRODUCTS_BEFORE, TIME_BEFORE = 4_099, 4_622.0  # of version 0.1 on this federation, counted and timed in one run


def run():
    code = f"from benchmarks.million import report; report({N_AGENTS})"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    what = f"welfare optimum and payments, ten neighbours each, n = {N_AGENTS:,}"
    yield Figure(
        what=f"{what} ({found['products']} products with the weights)",
        against="one product with the weights, W s",
        ratio=found["seconds"] / found["product"],
        unit="times as long",
        before=TIME_BEFORE,
    )
    yield Figure(
        what=f"products with the weights: {what}",
        against=f"those that version 0.1 took, {PRODUCTS_BEFORE:,}",
        ratio=found["products"] / PRODUCTS_BEFORE,
        unit="times as many",
        at_most=0.2,
        before=1.0,
    )
    yield Figure(
        what=f"peak memory: {what}", against="1 GiB", ratio=found["peak"] / GIB, unit="times as much", at_most=2.0
    )
    assert found["told"], "no progress was reported"


def report(n_agents):
    """Print what it took; called in a process of its own."""
    federation, _ = games.sparse(n_agents)
    ones = np.ones(n_agents)
    product, _ = best_of(lambda: federation.weights @ ones, repeats=5)
    told: list[str] = []
    with counted_products(n_agents) as count, listen_to_progress(told.append):
        seconds, outcome = once(lambda: fp.ExternalityMechanism().solve(federation))
        balance = float(outcome.payments.sum())
    assert abs(balance) <= 1e-9 * float(outcome.payoffs.sum()), balance
    figures = {"seconds": seconds, "product": product, "products": count[0], "peak": _peak_memory(), "told": len(told)}
    print(json.dumps(figures))


class counted_products:  # noqa: N801 - used as a function
    """Within the block, how often a sparse matrix with so many rows is multiplied by a vector."""

    def __init__(self, n_rows):
        self._n_rows, self._count = n_rows, [0]

    def __enter__(self):
        from scipy.sparse import _compressed

        self._kind = _compressed._cs_matrix
        self._plain = plain = self._kind._matmul_vector

        def multiply(matrix, vector):
            self._count[0] += matrix.shape[0] == self._n_rows
            return plain(matrix, vector)

        self._kind._matmul_vector = multiply
        return self._count

    def __exit__(self, *error):
        self._kind._matmul_vector = self._plain
