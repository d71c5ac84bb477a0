"""Weighted rendezvous: arms get their share of units, and a change of one weight moves units into or out of that arm alone."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.experiments.weighted_rendezvous import order_arms
from tests.support.strategies.chat_strategies import bounded

UNITS = 20_000
# The 99.9 % quantile of chi-square by degrees of freedom. The units are fixed, so a test passes always or never.
CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52}

weights = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=6)


def order(weights: Sequence[float], unit: int | str, salt: bytes = b"salt") -> list[int]:
    return order_arms([(b"arm %d" % at, weight) for at, weight in enumerate(weights)], salt, str(unit).encode())


def chi_square(counts: Sequence[int], shares: Sequence[float]) -> float:
    expected = [sum(counts) * share / sum(shares) for share in shares]
    return sum((count - each) ** 2 / each for count, each in zip(counts, expected, strict=True))


@bounded
@given(weights, st.text())
def test_order_has_each_arm_with_a_weight_once(weights: list[float], unit: str) -> None:
    arms = [(b"%d" % at, weight) for at, weight in enumerate(weights)]
    drawn = order_arms(arms, b"salt", unit.encode())
    assert sorted(drawn) == [at for at, weight in enumerate(weights) if weight > 0]
    assert drawn == order_arms(arms, b"salt", unit.encode())


@bounded
@given(weights, st.text(), st.permutations(range(6)))
def test_order_does_not_depend_on_how_arms_are_listed(weights: list[float], unit: str, shuffled: list[int]) -> None:
    arms = [(b"%d" % at, weight) for at, weight in enumerate(weights)]
    other = [arms[at] for at in shuffled if at < len(arms)]
    names = [arms[at][0] for at in order_arms(arms, b"salt", unit.encode())]
    assert [other[at][0] for at in order_arms(other, b"salt", unit.encode())] == names


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (0.9, 0.1), (0.5, 0.3, 0.2), (1, 2, 3, 4, 5, 6), (1e-6, 1e-6)], ids=str)
def test_first_arm_has_its_share_of_units(weights: tuple[float, ...]) -> None:
    counts = Counter(order(weights, unit)[0] for unit in range(UNITS))
    assert chi_square([counts[at] for at in range(len(weights))], weights) < CRITICAL[len(weights) - 1]


def test_second_arm_has_its_share_of_the_rest() -> None:
    weights = (8.0, 3.0, 1.0)
    orders = [order(weights, unit) for unit in range(UNITS)]
    second = Counter(each[1] for each in orders if each[0] == 0)
    assert chi_square([second[1], second[2]], [3.0, 1.0]) < CRITICAL[1]


@bounded
@given(weights.filter(any), st.data(), st.floats(1.0, 1000.0))
def test_raising_a_weight_moves_units_into_that_arm_alone(weights: list[float], data: st.DataObject, factor: float) -> None:
    at = data.draw(st.integers(0, len(weights) - 1))
    raised = [*weights[:at], (weights[at] or 0.5) * factor, *weights[at + 1 :]]
    for unit in range(50):
        before, after = order(weights, unit)[0], order(raised, unit)[0]
        assert after in (before, at)


def test_raising_a_weight_moves_as_few_units_as_can_be() -> None:
    before = [order((0.5, 0.3, 0.2), unit)[0] for unit in range(UNITS)]
    after = [order((0.8, 0.3, 0.2), unit)[0] for unit in range(UNITS)]
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {0}
    least = 0.8 / 1.3 - 0.5
    assert abs(len(moved) / UNITS - least) < 5 * (least * (1 - least) / UNITS) ** 0.5


def test_new_arm_takes_units_from_all_and_moves_no_other() -> None:
    before = [order((1.0, 1.0), unit)[0] for unit in range(2000)]
    after = [order((1.0, 1.0, 0.5), unit)[0] for unit in range(2000)]
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {2}


def test_draws_with_different_salts_are_independent() -> None:
    pairs = Counter((order((1.0, 1.0), unit)[0], order((1.0, 1.0), unit, b"other")[0]) for unit in range(UNITS))
    assert chi_square([pairs[pair] for pair in ((0, 0), (0, 1), (1, 0), (1, 1))], [1, 1, 1, 1]) < CRITICAL[3]


def test_salt_and_unit_together_are_not_those_of_another_pair() -> None:
    arms = [(b"%d" % at, 1.0) for at in range(100)]
    assert order_arms(arms, b"ab", b"c") != order_arms(arms, b"a", b"bc")
