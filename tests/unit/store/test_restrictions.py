"""A key narrows what its team has: both together permit what each of them permits, of names and of networks."""

import time
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.routing.permissions import is_in, matches
from app.store.keys.restrictions import find_wider_network, find_wider_pattern, narrow_networks, narrow_patterns, permits

names = st.text("ab", max_size=4)
patterns = st.lists(st.builds(str.__add__, names, st.sampled_from(["", "*"])).filter(bool), min_size=1, max_size=3).map(tuple)
networks = st.lists(
    st.tuples(st.integers(0, 15), st.integers(28, 32)).map(
        lambda drawn: str(ip_network((drawn[0] << 28 >> drawn[1] << drawn[1], 32 - drawn[1])))
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(patterns, patterns, names)
def test_a_name_is_permitted_by_both_if_it_is_by_each(team: tuple[str, ...], key: tuple[str, ...], name: str):
    both = narrow_patterns(team, key)
    assert both is not None and matches(both, name) == (matches(team, name) and matches(key, name))


@given(networks, networks, st.integers(0, 2**32 - 1))
def test_an_address_is_permitted_by_both_if_it_is_by_each(team: tuple[str, ...], key: tuple[str, ...], number: int):
    both, address = narrow_networks(team, key), ip_address(number)
    permitted = [is_in(address, [ip_network(each) for each in allowed]) for allowed in (both or (), team, key)]
    assert permitted[0] == (permitted[1] and permitted[2])


@given(patterns, patterns, names)
def test_a_key_is_wider_than_its_team_if_it_permits_a_name_that_its_team_does_not(team: tuple[str, ...], key: tuple[str, ...], name: str):
    if find_wider_pattern(team, key) is None:
        assert matches(team, name) or not matches(key, name)


@given(patterns, names)
def test_names_are_permitted_as_requests_are(permitted: tuple[str, ...], name: str):
    assert permits(permitted)(name) == matches(permitted, name) and permits(None)(name)


def test_without_a_restriction_of_one_that_of_the_other_holds():
    assert narrow_patterns(None, ("a",)) == narrow_patterns(("a",), None) == ("a",) and narrow_patterns(None, None) is None
    assert narrow_networks(None, ("10.0.0.0/8",)) == narrow_networks(("10.0.0.0/8",), None) == ("10.0.0.0/8",)
    assert narrow_patterns(("a",), ("b",)) == () and narrow_networks(("10.0.0.0/8",), ("11.0.0.0/8", "::/0")) == ()


def test_what_is_wider_is_named():
    assert find_wider_pattern(("a*",), ("ab", "*")) == "*" and find_wider_pattern(("a*", "c"), ("ab*", "c")) is None
    assert find_wider_network(("10.0.0.0/8",), ("10.1.0.0/16", "0.0.0.0/0")) == "0.0.0.0/0"
    assert find_wider_pattern(None, ("a",)) is None and find_wider_network(None, ("::/0",)) is None


@pytest.mark.parametrize("lengths", [range(24, 25), range(8, 33)], ids=["of one length", "of many lengths"])
def test_a_thousand_networks_of_each_are_joined_in_the_time_of_some_requests(lengths: range):
    """The networks would take half a minute of the event loop if they were compared in pairs."""
    of_key = tuple(str(ip_network((number << 12 >> 32 - length << 32 - length, length))) for number in range(500) for length in lengths)[
        :1_000
    ]
    of_team = tuple(f"10.{number // 256}.{number % 256}.0/24" for number in range(1_000))
    began_s = time.process_time()
    narrow_networks(of_team, of_key)
    find_wider_network(of_team, of_key)
    assert time.process_time() - began_s < 2


def test_a_thousand_patterns_of_each_are_joined_in_the_time_of_some_requests():
    of_key = tuple(f"{'m' * (number % 100)}{number}*" for number in range(1_000))
    of_team = tuple(f"{'m' * (number % 90)}{number}*" for number in range(1_000))
    began_s = time.process_time()
    narrow_patterns(of_team, of_key)
    find_wider_pattern(of_team, of_key)
    assert time.process_time() - began_s < 1
