"""Masks cancel in the sum of all, and in nothing less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpact.negotiation import masks
from fedpact.utils.errors import InvalidInput

SECRETS = [bytes([place]) * 32 for place in range(1, 6)]
KEYS = [masks.public_key(secret) for secret in SECRETS]
ROUNDING = 2.0**-masks.FRACTION_BITS
numbers = st.lists(st.floats(-(2.0**39), 2.0**39, allow_subnormal=False), min_size=1, max_size=8)


def masked(place: int, terms: list[float], members: list[int], digest: bytes) -> masks.Residues:
    seeds = {peer: masks.pair_seed(SECRETS[place], KEYS[peer], digest) for peer in members if peer != place}
    residues = masks.to_residues(terms)
    return (residues + masks.own_mask(place, seeds, len(residues))) % masks.MODULUS


@given(numbers)
def test_numbers_come_back_to_the_last_bit_that_fits(given_numbers: list[float]) -> None:
    found = masks.to_floats(masks.to_residues(given_numbers))
    np.testing.assert_allclose(found, given_numbers, rtol=1e-15, atol=ROUNDING)


def test_the_sum_of_all_is_read_and_nothing_else() -> None:
    members, digest = [0, 1, 3, 4], b"round 1"
    terms = {place: [float(place), -2.5 * place, 1e-6] for place in members}
    answers = [masked(place, terms[place], members, digest) for place in members]
    np.testing.assert_allclose(masks.to_floats(sum(answers) % masks.MODULUS), [8.0, -20.0, 4e-6], atol=1e-18)
    for count in (1, 2, 3):
        partial = masks.to_floats(sum(answers[:count]) % masks.MODULUS)
        assert (np.abs(partial) > 1e3).all()  # at random in +-2^47


def test_every_question_has_masks_of_its_own() -> None:
    question = {"number": 1, "kind": "sums", "points": [[0.0, 1.0]], "members": [0, 1, 2]}
    again = question | {"number": 7}
    assert masks.question_digest(question) == masks.question_digest(again)
    for change in ({"members": [0, 1, 3]}, {"points": [[0.0, 1.0 + 1e-16, 2.0]]}, {"round": 2}):
        other = masks.question_digest(question | change)
        assert other != masks.question_digest(question)
        seeds = [masks.pair_seed(SECRETS[0], KEYS[1], digest) for digest in (other, masks.question_digest(question))]
        assert seeds[0] != seeds[1]
    digest = masks.question_digest(question)
    assert masks.pair_seed(SECRETS[0], KEYS[1], digest) == masks.pair_seed(SECRETS[1], KEYS[0], digest)
    assert masks.pair_seed(SECRETS[0], KEYS[2], digest) != masks.pair_seed(SECRETS[0], KEYS[1], digest)


@pytest.mark.parametrize("number", [np.inf, np.nan, 1e13])
def test_numbers_that_do_not_fit_are_refused(number: float) -> None:
    with pytest.raises(InvalidInput, match="numbers in sums must lie within"):
        masks.to_residues([1.0, number])
