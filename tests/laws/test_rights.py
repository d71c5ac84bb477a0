"""What a key may: laws of patterns, networks and hops."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.client_ip import client_address
from app.domain import Caller
from app.gateway.permissions import may_come_from, may_use, may_use_route
from app.settings import BadSetting, Settings

NAMES = st.text("abc/-.:*", min_size=1, max_size=8)
V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)
TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def caller(**terms: Any) -> Caller:
    return Caller("k", "t", "team", "full", **terms)


@given(NAMES)
def test_without_restrictions_a_key_may_all(name: str):
    assert may_use(caller(), name) and may_use_route(caller(), name) and may_come_from(caller(), None)


@given(NAMES, st.lists(NAMES, max_size=4))
def test_a_name_is_meant_by_itself_and_by_each_of_its_beginnings_with_a_star(name: str, others: list[str]):
    restricted = caller(models=tuple(others))
    meant = any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in others)
    assert may_use(restricted, name) == meant
    for end in range(len(name) + 1):
        assert may_use(caller(models=(*others, f"{name[:end]}*")), name)
    assert may_use(caller(models=(name,)), name) and not may_use(caller(models=(f"{name}x", f"{name}x*")), name)


@given(V4, st.integers(0, 32), V4)
def test_a_network_holds_its_addresses_however_they_are_written(inside: IPv4Address, bits: int, other: IPv4Address):
    network = ip_network((inside, bits), strict=False)
    restricted = caller(networks=(str(network),))
    assert may_come_from(restricted, inside) and may_come_from(restricted, IPv6Address(f"::ffff:{inside}"))
    assert may_come_from(restricted, other) == (other in network)
    assert not may_come_from(restricted, None) and not may_come_from(restricted, IPv6Address("2001:db8::1"))


def asked(client: str | None, *forwarded: str) -> tuple[str | None, list[tuple[bytes, bytes]]]:
    return client, [(b"x-forwarded-for", each.encode()) for each in forwarded]


@given(V4 | V6, st.lists(st.text(max_size=8), max_size=3))
def test_what_a_stranger_says_of_himself_is_not_believed(address: IPv4Address | IPv6Address, said: list[str]):
    headers = [each.encode("latin-1", "replace").decode("latin-1") for each in said]
    assert client_address(*asked(str(address), *headers), ()) == address
    if not any(address in network for network in TRUSTED):
        assert client_address(*asked(str(address), *headers), TRUSTED) == address


@given(
    st.lists(st.sampled_from(["10.1.2.3", "10.9.9.9:443", "fd00::7", "[fd00::8]:80"]), max_size=4), st.text("0123456789.,: ax", max_size=20)
)
def test_behind_trusted_proxies_the_last_hop_that_is_none_of_them_counts(proxies: list[str], forged: str):
    hops = [forged, "192.0.2.7", *proxies]
    assert client_address(*asked("10.0.0.1", ", ".join(hops)), TRUSTED) == ip_address("192.0.2.7")
    assert client_address(*asked("10.0.0.1", *hops), TRUSTED) == ip_address("192.0.2.7"), "the header may be there several times"


def test_where_nobody_knows_it_is_nobody():
    assert client_address(*asked(None), TRUSTED) is None
    assert client_address(*asked("10.0.0.1", "192.0.2.7, unknown"), TRUSTED) is None
    assert client_address(*asked("10.0.0.1", ""), TRUSTED) == ip_address("10.0.0.1")


def test_hops_without_end_are_nobody():
    for count, known in ((64, True), (65, False), (7000, False)):
        hops = ", ".join(["[2001:db8::1]:1", *["10.0.0.2"] * count])
        assert client_address(*asked("10.0.0.1", hops), TRUSTED) == (ip_address("2001:db8::1") if known else None)


def test_trusted_proxies_are_networks():
    read = Settings.read({"NARTHEX_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8"})
    assert read.trusted_proxies.parsed == TRUSTED and Settings.read({}).trusted_proxies.parsed == ()
    with pytest.raises(BadSetting, match="NARTHEX_TRUSTED_PROXIES"):
        Settings.read({"NARTHEX_TRUSTED_PROXIES": "10.0.0.0/8, proxy.internal"})
