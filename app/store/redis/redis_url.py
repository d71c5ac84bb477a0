"""REDIS_URL: one server, a primary whose address Sentinel knows, or a cluster.

    redis://[user:password@]host[:port][/db]                                     one server; also unix://path
    redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]   the primary of `service`; the hosts are Sentinels
    redis+cluster://[user:password@]host[:port][,host[:port]...]                 a cluster; the hosts are some of its nodes

With rediss instead of redis all of these use TLS. Options follow after a question mark: those of redis-py for TLS (`ssl_ca_certs`, ...),
and `sentinel_username` and `sentinel_password` where the Sentinels want a password of their own.
"""

import re
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
from msgspec import Struct

from app.store.redis.address import Address, parse_address

_SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss", "redis+cluster": "redis", "rediss+cluster": "rediss"}
_SENTINEL_PORT, _PORT = 26379, 6379
_HAS_PORT = re.compile(r":\d+$")


class RedisUrl(Struct, frozen=True):
    """The place of Redis, and how to log in."""

    mode: Literal["server", "sentinel", "cluster"]
    seeds: tuple[Address, ...]  # the server, the Sentinels, or some nodes of the cluster
    node: Address  # how to reach the servers that are found, but for their hosts and ports
    service: str = ""  # the name by which Sentinels know the primary

    def node_at(self, host: str, port: int) -> Address:
        return msgspec.structs.replace(self.node, host=host, port=port)


def parse_redis_url(url: str) -> RedisUrl:
    """Raises ValueError for an invalid address."""
    kind = url.partition("://")[0].lower()
    if kind not in _SCHEMES:
        address = parse_address(url)
        return RedisUrl("server", (address,), address)
    split = urlsplit(url)
    user, _, hosts = split.netloc.rpartition("@")
    if not all(host.strip(":") for host in hosts.split(",")):
        raise ValueError(f"The address {kind}:// needs host:port, or several of them with commas between.")
    path = [part for part in split.path.split("/") if part]
    scheme, options = _SCHEMES[kind], f"?{split.query}" if split.query else ""

    def addresses(user: str, default_port: int, database: str = "") -> tuple[Address, ...]:
        named = [host if _HAS_PORT.search(host) else f"{host}:{default_port}" for host in hosts.split(",")]
        return tuple(parse_address(f"{scheme}://{user}{'@' if user else ''}{host}{database}{options}") for host in named)

    if kind.endswith("cluster"):
        if path:
            raise ValueError(f"The address {kind}:// has nothing after its hosts: a cluster has no databases with numbers.")
        seeds = addresses(user, _PORT)
        return RedisUrl("cluster", seeds, seeds[0])
    if not 1 <= len(path) <= 2 or (len(path) == 2 and not path[1].isdecimal()):
        raise ValueError(f"The address {kind}:// ends with /SERVICE or /SERVICE/DATABASE, such as /mymaster or /mymaster/0.")
    nodes = addresses(user, _PORT, f"/{path[1]}" if len(path) == 2 else "")
    return RedisUrl("sentinel", addresses(_sentinel_user(split.query), _SENTINEL_PORT), nodes[0], path[0])


def _sentinel_user(query: str) -> str:
    """The user and the password of the Sentinels, as they stand in an address."""
    options = parse_qs(query)
    user, password = (options.get(f"sentinel_{name}", [""])[0] for name in ("username", "password"))
    return f"{quote(user, safe='')}:{quote(password, safe='')}" if password else ""
