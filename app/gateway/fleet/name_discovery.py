"""Name discovery: the addresses behind a DNS name, such as a Kubernetes headless service, each of which is an endpoint."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

import httpx2

from providers.transport.resolver import Resolver, look_up

log = logging.getLogger(__name__)

PREFIX = "dns+"
_TIMEOUT_S = 5.0
_MAX_ADDRESSES = 1_000


def is_name(address: str) -> bool:
    """Whether a configured address stands for all addresses of its host name: dns+http://engines.svc:8000."""
    return address.startswith(PREFIX)


def resolve_now(name: str) -> tuple[str, ...]:
    """The addresses behind a name, of a configuration that is new. Blocks: for threads. Empty if it cannot be resolved."""
    url = _url_of(name)
    try:
        return _addresses(url, look_up(url.host, url.port or 80))
    except (OSError, UnicodeError) as fault:
        log.warning("the name of endpoints cannot be resolved", extra={"endpoint": name, "fault": repr(fault)})
        return ()


async def resolve_names(resolver: Resolver, names: Collection[str], known: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """The addresses behind each name. Where one cannot be resolved now, those that are known: its endpoints are probed anyway."""
    found = await asyncio.gather(*(_resolve(resolver, name, known.get(name, ())) for name in names))
    return dict(zip(names, found, strict=True))


async def _resolve(resolver: Resolver, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    url = _url_of(name)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return _addresses(url, await resolver.resolve(url.host, url.port or 80))
    except (OSError, UnicodeError):  # a TimeoutError is an OSError
        return known


def _url_of(name: str) -> httpx2.URL:
    return httpx2.URL(name.removeprefix(PREFIX))


def _addresses(url: httpx2.URL, hosts: Iterable[str]) -> tuple[str, ...]:
    """Returns the addresses in an order of their own, as that of the name server differs with each answer."""
    return tuple(str(url.copy_with(host=host)) for host in sorted(set(hosts))[:_MAX_ADDRESSES])
