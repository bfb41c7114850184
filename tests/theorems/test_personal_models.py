"""With personal models every theorem for weights of at least zero holds, whatever the signs of the weights."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from random_cases import cases
from strategies import random_federation, random_lots


def test_the_externality_mechanism_is_in_the_core_whatever_the_signs() -> None:
    rng, rose = np.random.default_rng(0), 0
    for case in range(cases(500, few=30)):
        shared = random_lots(rng, harm=True) if case % 3 == 2 else random_federation(rng, harm=True)
        if case % 5 == 4:
            shared = shared.replace(home=np.minimum(shared.caps, 5.0))
        personal = shared.with_personal_models()
        assert not personal.has_harm
        np.testing.assert_array_equal(personal.weights, np.where(shared.weights > 0, shared.weights, 0.0))
        outcome = fp.ExternalityMechanism().solve(personal)
        assert {"individual-rationality", "core"} <= set(fp.ExternalityMechanism().promises(personal))
        for claim in ("individual-rationality", "core"):
            assert outcome.certificates[claim].holds, (case, claim, outcome.certificates[claim])
        with_one_model = fp.social_optimum(shared).welfare
        assert outcome.welfare >= with_one_model - 1e-9 * max(1.0, abs(with_one_model))
        rose += outcome.welfare > with_one_model + 1e-6
    assert rose > 0


def test_without_harm_nothing_changes() -> None:
    federation = random_federation(np.random.default_rng(1), harm=False)
    assert federation.with_personal_models() == federation
