"""The exact test of a difference of rates: its promise is computed, not simulated, for everything that can happen to a few units."""

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analytics.statistics.count_difference import (
    Cell,
    cells_of,
    log_e_above,
    log_e_below,
    lower_bound,
    upper_bound,
)
from app.analytics.statistics.sums import Stratum, UnitSums

CASES = ("arm_ones", "arm_zeros", "control_ones", "control_zeros")
counts = st.integers(0, 2_000)
cells = st.builds(Cell, st.floats(0.01, 0.99), counts, counts, counts, counts)
rates = st.floats(0, 1)


def probability(case: str, p: float, arm_rate: float, control_rate: float) -> float:
    of_arm = case.startswith("arm")
    rate = arm_rate if of_arm else control_rate
    return (p if of_arm else 1 - p) * (rate if case.endswith("ones") else 1 - rate)


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.lists(rates, min_size=2, max_size=2), st.floats(-0.5, 0.5))
def test_expected_evidence_is_at_most_one_if_the_arm_is_not_worse_while_rate_and_split_change(
    p: float, later_p: float, base: list[float], margin: float
):
    """The supermartingale itself: two units of one version and one of another, each at a base rate of its own."""
    worst = [min(1.0, max(0.0, rate + margin)) for rate in base]
    pairs = [(min(arm, control + margin), control) for arm, control in zip(worst, base, strict=True) if control + margin >= 0]
    if len(pairs) < 2:
        return
    expected = 0.0
    for first, second, third in product(CASES, repeat=3):
        chance = probability(first, p, *pairs[0]) * probability(second, p, *pairs[1]) * probability(third, later_p, *pairs[1])
        early = [Cell(p, *[[first, second].count(case) for case in CASES]), Cell(later_p, *[int(third == case) for case in CASES])]
        expected += chance * math.exp(log_e_above(early, margin))
    assert expected <= 1 + 1e-9


@given(st.lists(cells, min_size=1, max_size=4), st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_evidence_falls_with_the_margin_so_bounds_can_be_searched(of_strata: list[Cell], one: float, other: float):
    low, high = sorted((one, other))
    assert log_e_above(of_strata, low) >= log_e_above(of_strata, high) - 1e-9
    assert log_e_below(of_strata, low) <= log_e_below(of_strata, high) + 1e-9


@given(st.lists(cells, min_size=1, max_size=4), st.floats(0.001, 0.4))
def test_bounds_contain_each_other_and_say_what_the_evidence_says(of_strata: list[Cell], alpha: float):
    lower, upper = lower_bound(of_strata, alpha), upper_bound(of_strata, alpha)
    assert lower >= -1 and upper <= 1
    if lower > -1:
        assert log_e_above(of_strata, lower - 1e-6) >= -math.log(alpha) - 1e-6
    if upper < 1:
        assert log_e_below(of_strata, upper + 1e-6) >= -math.log(alpha) - 1e-6


@given(st.permutations([Cell(0.5, 3, 40, 1, 50), Cell(0.1, 0, 5, 9, 70), Cell(0.9, 30, 5, 1, 2)]))
def test_order_of_versions_does_not_matter(of_strata: list[Cell]):
    assert log_e_above(of_strata, 0.01) == pytest.approx(log_e_above(sorted(of_strata, key=lambda cell: cell.p), 0.01))


def test_arm_that_always_fails_is_found_after_some_units_without_any_error_of_the_control():
    # 1/1000 is the part of a guardrail among ten guardrails and five arms.
    assert log_e_above([Cell(0.5, 20, 0, 0, 20)], 0.05) > math.log(1000)


def test_equal_arms_without_any_error_are_known_to_be_equal():
    assert upper_bound([Cell(0.5, 0, 2_000, 0, 2_000)], 0.05) < 0.01


def test_cells_leave_out_versions_in_which_only_one_of_both_was_possible():
    sums = {"a": UnitSums(10, 1, 1, 9, 1), "b": UnitSums(20, 4, 4, 16, 4), "c": UnitSums(7, 7, 7, 0, 7)}
    strata = [Stratum(1, None, {"a": 0.2, "b": 0.3, "c": 0.5}, sums), Stratum(2, None, {"b": 1.0, "a": 0.0}, sums)]
    assert cells_of(strata, "a", "b") == [Cell(0.4, 1, 9, 4, 16)]
    assert cells_of(strata, "a", "b", counts="zeros") == [Cell(0.4, 9, 1, 16, 4)]
    assert cells_of(strata, "a", "none") == []


@pytest.mark.parametrize(("arm_rate", "control_rate", "p"), [(0.03, 0.02, 0.5), (0.51, 0.5, 0.5), (0.06, 0.05, 0.1)])
def test_arm_at_the_margin_is_rarely_found_however_often_it_is_looked_at(arm_rate: float, control_rate: float, p: float):
    crossed = 0
    for seed in range(40):
        source, counted = random.Random(seed), [0, 0, 0, 0]
        for unit in range(2_000):
            of_arm = source.random() < p
            one = source.random() < (arm_rate if of_arm else control_rate)
            counted[(0 if of_arm else 2) + (0 if one else 1)] += 1
            if unit % 20 == 0 and log_e_above([Cell(p, *counted)], 0.01) >= math.log(20):
                crossed += 1
                break
    assert crossed <= 4  # of 40: more than that happens less than once in 50 times, even at a rate of 0.05
