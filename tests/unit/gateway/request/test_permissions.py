"""The models, routes and networks that a key may use, and the client's address behind trusted proxies."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.server.client_ip import client_address
from app.domain.callers import Caller
from app.gateway.routing.permissions import may_come_from, may_use, may_use_route
from app.settings import BadSetting, Settings

NAMES = st.text("abc/-.:*", min_size=1, max_size=8)
V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)
TRUSTED_PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def caller(**terms: Any) -> Caller:
    return Caller("k", "t", "team", "full", **terms)


@given(NAMES)
def test_unrestricted_key_may_use_everything(name: str):
    assert may_use(caller(), name) and may_use_route(caller(), name) and may_come_from(caller(), None)


@given(NAMES, st.lists(NAMES, max_size=4))
def test_model_pattern_matches_an_exact_name_or_a_starred_prefix(name: str, others: list[str]):
    restricted = caller(models=tuple(others))
    allowed = any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in others)
    assert may_use(restricted, name) == allowed
    for end in range(len(name) + 1):
        assert may_use(caller(models=(*others, f"{name[:end]}*")), name)
    assert may_use(caller(models=(name,)), name) and not may_use(caller(models=(f"{name}x", f"{name}x*")), name)


@given(V4, st.integers(0, 32), V4)
def test_network_contains_its_addresses_in_ipv4_and_mapped_ipv6_form(inside: IPv4Address, bits: int, other: IPv4Address):
    network = ip_network((inside, bits), strict=False)
    restricted = caller(networks=(str(network),))
    assert may_come_from(restricted, inside) and may_come_from(restricted, IPv6Address(f"::ffff:{inside}"))
    assert may_come_from(restricted, other) == (other in network)
    assert not may_come_from(restricted, None) and not may_come_from(restricted, IPv6Address("2001:db8::1"))


def client_and_headers(client: str | None, *forwarded: str) -> tuple[str | None, list[tuple[bytes, bytes]]]:
    return client, [(b"x-forwarded-for", each.encode()) for each in forwarded]


@given(V4 | V6, st.lists(st.text(max_size=8), max_size=3))
def test_forwarded_for_from_an_untrusted_client_is_ignored(address: IPv4Address | IPv6Address, forwarded: list[str]):
    headers = [each.encode("latin-1", "replace").decode("latin-1") for each in forwarded]
    assert client_address(*client_and_headers(str(address), *headers), ()) == address
    if not any(address in network for network in TRUSTED_PROXIES):
        assert client_address(*client_and_headers(str(address), *headers), TRUSTED_PROXIES) == address


@given(
    st.lists(st.sampled_from(["10.1.2.3", "10.9.9.9:443", "fd00::7", "[fd00::8]:80"]), max_size=4), st.text("0123456789.,: ax", max_size=20)
)
def test_client_ip_is_the_last_hop_that_is_not_a_trusted_proxy(proxies: list[str], forged: str):
    hops = [forged, "192.0.2.7", *proxies]
    assert client_address(*client_and_headers("10.0.0.1", ", ".join(hops)), TRUSTED_PROXIES) == ip_address("192.0.2.7")
    assert client_address(*client_and_headers("10.0.0.1", *hops), TRUSTED_PROXIES) == ip_address("192.0.2.7"), (
        "the header may be there several times"
    )


def test_missing_or_unparsable_address_gives_no_client_ip():
    assert client_address(*client_and_headers(None), TRUSTED_PROXIES) is None
    assert client_address(*client_and_headers("10.0.0.1", "192.0.2.7, unknown"), TRUSTED_PROXIES) is None
    assert client_address(*client_and_headers("10.0.0.1", ""), TRUSTED_PROXIES) == ip_address("10.0.0.1")


def test_too_many_forwarded_hops_give_no_client_ip():
    for count, known in ((64, True), (65, False), (7000, False)):
        hops = ", ".join(["[2001:db8::1]:1", *["10.0.0.2"] * count])
        assert client_address(*client_and_headers("10.0.0.1", hops), TRUSTED_PROXIES) == (ip_address("2001:db8::1") if known else None)


def test_trusted_proxies_must_be_networks():
    read = Settings.read({"NARTHEX_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8"})
    assert read.trusted_proxies.parsed == TRUSTED_PROXIES and Settings.read({}).trusted_proxies.parsed == ()
    with pytest.raises(BadSetting, match="NARTHEX_TRUSTED_PROXIES"):
        Settings.read({"NARTHEX_TRUSTED_PROXIES": "10.0.0.0/8, proxy.internal"})
