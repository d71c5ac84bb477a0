"""Positions of limits: always in the wanted order, and most stay as they are."""

from hypothesis import given
from hypothesis import strategies as st

from app.store.configuration.limit_positions import place_limits

NAMES = [f"rule {number}" for number in range(12)]
ORDERS = st.lists(st.sampled_from(NAMES), unique=True)


def in_order(positions: dict[str, int]) -> list[str]:
    return sorted(positions, key=positions.__getitem__)


@given(st.lists(ORDERS, max_size=30), st.dictionaries(st.sampled_from(NAMES), st.integers(-20, 20)))
def test_positions_are_distinct_and_in_the_wanted_order_after_any_changes(orders: list[list[str]], stored: dict[str, int]) -> None:
    for names in orders:
        stored = place_limits(names, stored)
        assert in_order(stored) == names and len(set(stored.values())) == len(names)
        assert all(abs(position) < 2**31 for position in stored.values())


@given(ORDERS)
def test_the_same_order_changes_nothing(names: list[str]) -> None:
    stored = place_limits(names, {})
    assert place_limits(names, stored) == stored


def test_one_limit_among_ten_thousand_moves_alone() -> None:
    names = [f"rule {number}" for number in range(10_000)]
    stored = place_limits(names, {})
    for wanted in (["new", *names], [*names[:500], "new", *names[500:]], [*names, "new"], [names[-1], *names[:-1]], names[1:]):
        placed = place_limits(wanted, stored)
        assert in_order(placed) == wanted
        assert sum(stored.get(name) != position for name, position in placed.items()) <= 1


def test_positions_without_gaps_get_some_once() -> None:
    names = [f"rule {number}" for number in range(100)]
    dense = {name: number for number, name in enumerate(names)}
    assert place_limits(names, dense) == dense
    placed = place_limits([names[0], "new", *names[1:]], dense)
    again = place_limits([names[0], "newer", "new", *names[1:]], placed)
    assert sum(placed.get(name) != position for name, position in again.items()) == 1


def test_positions_at_the_end_of_their_range_are_given_anew() -> None:
    assert place_limits(["a", "b"], {"a": 2**31 - 2}) == {"a": 0, "b": 4096}
    assert place_limits(["b", "a"], {"a": -(2**31) + 5}) == {"b": 0, "a": 4096}
