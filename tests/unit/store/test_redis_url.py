"""REDIS_URL in its three forms, and the slots of keys."""

import pytest

from app.store.redis.redis_url import parse_redis_url
from app.store.redis.slots import key_slot


def test_address_of_sentinels_has_their_ports_the_service_and_how_to_log_in_to_each():
    url = parse_redis_url("rediss+sentinel://ada:s%3Acret@a:1,b,[::1]:3/orders/2?sentinel_password=o%40h&ssl_cert_reqs=none")
    assert (url.mode, url.service) == ("sentinel", "orders")
    assert [(seed.host, seed.port) for seed in url.seeds] == [("a", 1), ("b", 26379), ("::1", 3)]
    assert {seed.handshake_commands for seed in url.seeds} == {((b"AUTH", b"o@h"),)} and all(seed.tls for seed in url.seeds)
    primary = url.node_at("c", 7)
    assert (primary.host, primary.port) == ("c", 7) and primary.tls is not None
    assert primary.handshake_commands == ((b"AUTH", b"ada", b"s:cret"), (b"SELECT", b"2"))


def test_address_of_a_cluster_has_some_of_its_nodes():
    url = parse_redis_url("redis+cluster://:secret@a,b:2")
    assert (url.mode, [(seed.host, seed.port) for seed in url.seeds]) == ("cluster", [("a", 6379), ("b", 2)])
    assert url.node_at("c", 3).handshake_commands == ((b"AUTH", b"secret"),)


def test_address_of_one_server_is_what_it_was():
    url = parse_redis_url("redis://ada:secret@a:1/3")
    assert (url.mode, url.node, url.seeds) == ("server", url.seeds[0], (url.node,))
    assert url.node.handshake_commands == ((b"AUTH", b"ada", b"secret"), (b"SELECT", b"3"))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("redis+sentinel://a,b", "ends with /SERVICE"),
        ("redis+sentinel://a/orders/x", "ends with /SERVICE"),
        ("redis+sentinel://a/orders/1/2", "ends with /SERVICE"),
        ("redis+sentinel:///orders", "needs host:port"),
        ("redis+cluster://a,,b", "needs host:port"),
        ("redis+cluster://a/1", "no databases with numbers"),
        ("http://a", "scheme"),
    ],
)
def test_invalid_address_is_refused_with_what_is_wrong(address: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        parse_redis_url(address)


def test_slots_are_those_of_the_specification():
    assert key_slot(b"123456789") == 0x31C3  # https://valkey.io/topics/cluster-spec/
    assert key_slot(b"{user1000}.following") == key_slot(b"{user1000}.followers") == key_slot(b"user1000")
    assert key_slot(b"foo{}{bar}") == key_slot(b"foo{}{bar}") != key_slot(b"bar") and key_slot(b"foo{{bar}}zap") == key_slot(b"{bar")
