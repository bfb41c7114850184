"""The instance: what it computes, what it refuses and how, and that nobody can change it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

import fedpact as fp
from cases import W2, table_1
from fedpact.utils.errors import InvalidInput, OutsideDomain
from random_cases import cases
from strategies import federations

NAMES = ["Anna", "Ben", "Cleo"]


def federation(**changes) -> fp.Federation:
    given = {"weights": W2, "costs": 0.001, "caps": 400.0, "payoff": fp.PowerLaw(0.02), "names": NAMES} | changes
    return fp.Federation(given.pop("weights"), **given)


class TestQuantities:
    def test_rows_receive_and_columns_give(self):
        fed = fp.Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.1, payoff=fp.Log())
        np.testing.assert_array_equal(fed.data([1.0, 2.0]), [2.0, 2.0])
        np.testing.assert_array_equal(fed.reach([1.0, 2.0]), [3.0, 3.0])

    def test_values_multiply_payoffs_and_marginal_payoffs(self):
        s = [1.0, 2.0, 3.0]
        plain, paid = federation(), federation(values=[2.0, 3.0, 4.0])
        np.testing.assert_allclose(paid.payoffs(s), [2.0, 3.0, 4.0] * plain.payoffs(s), rtol=1e-15)
        np.testing.assert_allclose(paid.marginal_payoffs(s), [2.0, 3.0, 4.0] * plain.marginal_payoffs(s), rtol=1e-15)

    def test_welfare_is_payoffs_less_costs(self):
        fed, s = federation(costs=fp.Quadratic(0.001, 0.01)), np.array([1.0, 2.0, 3.0])
        expected = sum(1.0 - (1.0 + row @ s) ** -0.02 for row in np.array(W2)) - sum(0.001 * s + 0.01 * s**2)
        np.testing.assert_allclose(fed.welfare(s), expected, rtol=1e-13)

    def test_net_externality_is_the_paper_s_up_to_beta(self):
        # T_i = sum over k != i of w_ki xi_k^(-beta - 1), equation (18).
        fed, s = federation(), np.array([1.0, 2.0, 3.0])
        falling = fed.reach(s) ** -1.02
        expected = [sum(W2[k][i] * falling[k] for k in range(3) if k != i) for i in range(3)]
        np.testing.assert_allclose(fed.net_externality(s), 0.02 * np.array(expected), rtol=1e-13)

    def test_a_sparse_matrix_is_kept_as_the_dense_one_it_stands_for(self):
        entries = ([1.0, 1.0, 0.25, 0.25], ([0, 1, 0, 0], [0, 1, 1, 1]))  # two of them in one place
        fed = fp.Federation(sp.coo_array(entries, shape=(2, 2)), costs=0.1, payoff=fp.Log())
        np.testing.assert_array_equal(fed.weights, [[1.0, 0.5], [0.0, 1.0]])
        assert fed == fp.Federation([[1.0, 0.5], [0.0, 1.0]], costs=0.1, payoff=fp.Log())

    def test_a_sparse_matrix_larger_than_memory_is_refused(self):
        with pytest.raises(
            InvalidInput, match=r"weights must be of at most 2,000 members, got a sparse matrix of shape"
        ):
            fp.Federation(sp.coo_array(([], ([], [])), shape=(10**9, 10**9)), costs=0.1, payoff=fp.Log())


class TestDomain:
    harmed = fp.Federation([[1.0, -0.5], [0.0, 1.0]], costs=0.1, payoff=fp.Log(), names=["Anna", "Ben"])

    def test_payoffs_outside_the_domain_are_refused(self):
        message = (
            'member "Anna" is harmed more than its payoff curve describes: helpful less harmful data, each times its '
            "weight, comes to -1.5 and must stay above -1; lower the contributions of those who harm it"
        )
        with pytest.raises(OutsideDomain, match=f"^{re.escape(message)}$"):
            self.harmed.payoffs([0.0, 3.0])

    def test_admits_tells_without_raising(self):
        assert self.harmed.admits([2.0, 3.0])
        assert not self.harmed.admits([0.0, 3.0])
        assert not self.harmed.admits([0.0, 2.0])

    def test_admits_refuses_infinite_losses(self):
        fed = fp.Federation([[1.0, -1.0], [0.0, 1.0]], costs=0.1, payoff=fp.Exponential(1.0))
        assert fed.admits([0.0, 100.0])
        assert not fed.admits([0.0, 1e6])


class TestContributions:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([1.0, 2.0, 401.0], 'contributions[2] must lie between 0 and the cap 400, got 401 (member "Cleo")'),
            ([1.0, -2.0, 0.0], 'contributions[1] must lie between 0 and the cap 400, got -2 (member "Ben")'),
            ([1.0, 2.0, np.nan], 'contributions[2] must be finite, got nan (member "Cleo")'),
            ([1.0, 2.0], "contributions must be a number or one number per member: 3 members, 2 numbers given"),
        ],
    )
    def test_refusals(self, given, message):
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            federation().checked_contributions(given)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"weights": [[1.0, 2.0]]}, "weights must be a square matrix with a row per member, got shape (1, 2)"),
            ({"weights": np.zeros((0, 0))}, "weights must be a square matrix with a row per member, got shape (0, 0)"),
            ({"weights": [[1.0, 2.0], [3.0]]}, "weights must be a square matrix of numbers, got [[1.0, 2.0], [3.0]]"),
            (
                {"weights": [[1.0, np.nan, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]},
                'weights[0, 1] must be finite, got nan (what "Ben" is worth to "Anna")',
            ),
            (
                {"weights": sp.csr_array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, np.inf, 1.0]])},
                'weights[2, 1] must be finite, got inf (what "Ben" is worth to "Cleo")',
            ),
            (
                {"weights": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -0.1]]},
                'weights[2, 2] must be at least zero, got -0.1: a member\'s own data does not harm it (member "Cleo")',
            ),
            ({"costs": [1.0, 2.0, -0.5]}, 'costs[2] must be positive, got -0.5 (member "Cleo")'),
            ({"costs": [1.0, 2.0]}, "costs must be a number or one number per member: 3 members, 2 numbers given"),
            ({"caps": [1.0, -1.0, 1.0]}, 'caps[1] must be at least zero, got -1 (member "Ben")'),
            ({"values": [0.0, 1.0, 1.0]}, 'values[0] must be positive, got 0 (member "Anna")'),
            (
                {"payoff": fp.PowerLaw([0.1, 0.2])},
                "payoff.beta must be a number or one number per member: 3 members, 2 numbers given",
            ),
            ({"payoff": 0.02}, "payoff must be a payoff family such as PowerLaw(beta=0.02), got 0.02"),
            ({"names": ["Anna", "Ben"]}, "names must have one entry per member: 3 rows of weights, 2 names given"),
            ({"names": ["Anna", "Ben", "Anna"]}, 'names[2] must differ from the others, "Anna" appears twice'),
            (
                {"names": ["Anna", " ", "Ben"]},
                "names must be non-empty strings, one per member, got ['Anna', ' ', 'Ben']",
            ),
            ({"names": "Ann"}, "names must be non-empty strings, one per member, got 'Ann'"),
            ({"names": 5}, "names must be non-empty strings, one per member, got 5"),
            ({"costs": np.inf}, "costs must be positive and finite, got inf"),
            ({"values": np.inf}, "values must be positive and finite, got inf"),
            ({"costs": [[1.0, 2.0]]}, "costs must be a number or one number per member, got an array of shape (1, 2)"),
            ({"costs": [1.0, [2.0]]}, "costs must be a number or one number per member, got [1.0, [2.0]]"),
        ],
    )
    def test_say_the_entry_the_rule_the_value_and_the_agent(self, changes, message):
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            federation(**changes)

    def test_are_value_errors_too(self):
        with pytest.raises(ValueError, match="costs"):
            federation(costs=-1.0)


class TestImmutability:
    @pytest.mark.parametrize("field", ["weights", "caps", "values"])
    def test_arrays_are_read_only(self, field):
        with pytest.raises(ValueError, match="read-only"):
            getattr(federation(), field)[0] = 5.0

    def test_cost_and_payoff_arrays_are_read_only(self):
        fed = federation(payoff=fp.PowerLaw([0.1, 0.2, 0.3]))
        for array in (fed.costs.linear, fed.payoff.beta):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 5.0

    def test_inputs_are_copied_and_left_alone(self):
        weights, costs, caps, values = np.array(W2), np.full(3, 0.001), np.full(3, 400.0), np.ones(3)
        fed = federation(weights=weights, costs=costs, caps=caps, values=values)
        same = federation(weights=weights, costs=costs, caps=caps, values=values)
        for array in (weights, costs, caps, values):
            assert array.flags.writeable
            array[0] = 7.0
        assert fed == same
        assert fed.weights[0, 0] == 1.0

    def test_solving_leaves_the_contributions_given_alone(self):
        fed, s = federation(), np.array([1.0, 2.0, 3.0])
        fp.shapley_values(fed, s)
        fp.best_response_dynamics(fed, start=s)
        np.testing.assert_array_equal(s, [1.0, 2.0, 3.0])


class TestTake:
    @given(federations(least_agents=2))
    @settings(max_examples=cases(12))
    def test_taking_everybody_in_another_order_permutes(self, fed):
        order = np.roll(np.arange(fed.n_agents), 1)
        moved = fed.take(order)
        s = np.where(np.isinf(fed.caps), 1.0, 0.5 * fed.caps)
        # Sums in another order: a few units in the last place of the largest term.
        np.testing.assert_allclose(moved.payoffs(s[order]), fed.payoffs(s)[order], rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(moved.costs.value(s[order]), fed.costs.value(s)[order])
        np.testing.assert_array_equal(moved.caps, fed.caps[order])
        assert moved.names == tuple(fed.names[agent] for agent in order)

    def test_a_part_keeps_its_mutual_weights(self):
        part = federation(payoff=fp.PowerLaw([0.1, 0.2, 0.3]), values=[1.0, 2.0, 3.0]).take([2, 0])
        np.testing.assert_array_equal(part.weights, [[1.0, 1.4], [0.4, 1.0]])
        np.testing.assert_array_equal(part.payoff.beta, [0.3, 0.1])
        np.testing.assert_array_equal(part.values, [3.0, 1.0])
        assert part.names == ("Cleo", "Anna")

    def test_a_mask_chooses(self):
        assert federation().take([True, False, True]).names == ("Anna", "Cleo")

    def test_a_mask_of_another_length_is_refused(self):
        for chosen in ([True, False], [7], [-1], [0.5], 1, ["Anna"]):
            with pytest.raises(
                InvalidInput, match=r"^agents must be numbers from 0 to 2, or true or false for each of 3"
            ):
                federation().take(chosen)


class TestReplace:
    @pytest.mark.parametrize(
        "changes",
        [
            {"weights": np.array(W2).T},
            {"weights": sp.csr_array(W2)},
            {"costs": fp.Quadratic(0.001, 0.001)},
            {"caps": [1.0, 2.0, 3.0]},
            {"values": 2.0},
            {"payoff": fp.Exponential(0.02)},
            {"names": ["Anna", "Ben", "Dora"]},
            {"caps": 7.0, "costs": 0.5},
            {},
        ],
    )
    def test_is_the_federation_made_with_the_changes(self, changes):
        assert federation().replace(**changes) == federation(**changes)


class TestIsolated:
    def test_keeps_only_own_data(self):
        alone = federation(weights=[[2.0, 1.0, 0.0], [0.5, 1.0, 3.0], [-0.1, 0.8, 0.5]]).without_sharing()
        np.testing.assert_array_equal(alone.weights, np.diag([2.0, 1.0, 0.5]))
        assert alone.names == tuple(NAMES)


class TestEquality:
    def test_same_numbers_are_equal(self):
        assert federation() == federation() and federation() != "federation"
        assert federation(costs=0.001) == federation(costs=fp.Linear([0.001] * 3))
        assert federation(payoff=fp.PowerLaw(0.02)) == federation(payoff=fp.PowerLaw([0.02] * 3))

    @pytest.mark.parametrize(
        "changes",
        [
            {"weights": np.array(W2).T},
            {"costs": 0.002},
            {"costs": fp.Quadratic(0.001, 0.001)},
            {"caps": np.inf},
            {"caps": np.nextafter(400.0, np.inf)},
            {"values": 2.0},
            {"payoff": fp.PowerLaw(0.03)},
            {"payoff": fp.Exponential(0.02)},
            {"names": ["Anna", "Ben", "Dora"]},
        ],
    )
    def test_any_difference_counts(self, changes):
        assert federation() != federation(**changes)
        assert federation().fingerprint != federation(**changes).fingerprint

    def test_default_names_count_from_zero(self):
        assert table_1(W2).names == ("agent 0", "agent 1", "agent 2")


@pytest.mark.parametrize(
    "other", ["City\u200b", " City", "City\u00ad", "Ｃity", "City\u3164", "City\x07", "City\ufe0f", "City\u2800"]
)
def test_names_that_look_alike_are_refused(other: str) -> None:
    with pytest.raises(fp.InvalidInput, match=r"names\[1\] must differ from the others, 'City' and .* look alike"):
        fp.Federation(np.eye(2), costs=0.1, payoff=fp.Log(), names=["City", other])


def test_one_letter_in_two_ways_of_writing_is_one_name() -> None:
    with pytest.raises(fp.InvalidInput, match=r"'K\\xf6ln' and 'Ko\\u0308ln' look alike"):
        fp.Federation(np.eye(2), costs=0.1, payoff=fp.Log(), names=["K\u00f6ln", "Ko\u0308ln"])
