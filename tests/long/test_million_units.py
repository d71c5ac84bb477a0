"""A million units of two experiments: uniform and independent. Ids and salts are fixed: these pass always or never.

The bounds are the 99.9th percentiles of chi-square with the degrees of freedom in their names.
"""

from collections import Counter

import pytest

from tests.support.assigned_units import assigned, chi_square, episode_born, experiment, version

UNITS = 1_000_000
BINS = 1000
CHI_SQUARE_9, CHI_SQUARE_1, CHI_SQUARE_19, CHI_SQUARE_999 = 27.88, 10.83, 43.82, 1142.8
TEN = dict.fromkeys("abcdefghij", 1.0)
TWO = {"x": 1.0, "y": 3.0}


@pytest.mark.parametrize("unit", ["episode", "user"])
def test_million_units_are_uniform_and_independent_between_two_experiments(unit: str) -> None:
    """The units' ids differ in their last digits only, as those of one moment or of an application's counter do."""
    one = experiment(version(1, TEN), unit=unit)
    other = experiment(version(1, TWO), unit=unit, salt="another salt")
    together: Counter[tuple[str, str]] = Counter()
    drawn: Counter[int] = Counter()
    for number in range(UNITS):
        episode, user = episode_born(1, number), f"user {number}"
        first, second = assigned(one, episode=episode, user=user), assigned(other, episode=episode, user=user)
        together[first.arm, second.arm] += 1
        assert first.unit is not None
        drawn[int(first.unit, 16) * BINS >> 64] += 1
    of_ten = [sum(together[arm, each] for each in TWO) for arm in TEN]
    of_two = [sum(together[each, arm] for each in TEN) for arm in TWO]
    assert chi_square(of_ten, [UNITS / 10] * 10) < CHI_SQUARE_9
    assert chi_square(of_two, [UNITS / 4, UNITS * 3 / 4]) < CHI_SQUARE_1
    pairs = [(arm, other_arm) for arm in TEN for other_arm in TWO]
    expected = [UNITS / 10 * TWO[other_arm] / 4 for _, other_arm in pairs]
    assert chi_square([together[pair] for pair in pairs], expected) < CHI_SQUARE_19
    assert chi_square([drawn[each] for each in range(BINS)], [UNITS / BINS] * BINS) < CHI_SQUARE_999, "what decides on enrolment"
