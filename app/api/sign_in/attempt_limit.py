"""The limits on sign-in requests.

These routes need no key, and each may make the gateway send something to the issuer.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_network

from app.gateway.routing.permissions import Address
from providers.canonical.errors import LimitExceeded, Unavailable

_PER_MINUTE = 120  # of one address: a command asks every five seconds, and an office has one address
_MAX_ADDRESSES = 10_000
_MAX_AT_ONCE = 16


class AttemptLimit:
    """The limits on sign-in requests in each gateway process.

    The requests of one address are limited by a bucket that fills evenly, and there is a limit on those in
    progress.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address -> what is left, and when that was
        self._in_progress = 0

    @asynccontextmanager
    async def attempt(self, address: Address | None) -> AsyncGenerator[None]:
        """Raises LimitExceeded and Unavailable."""
        self._take(_network_of(address))
        if self._in_progress >= _MAX_AT_ONCE:
            raise Unavailable("Too many people are signing in at this moment: try again.", retry_after_s=2)
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1

    def _take(self, network: str) -> None:
        now = self._clock()
        left, since = self._buckets.pop(network, (float(_PER_MINUTE), now))
        left = min(left + (now - since) * _PER_MINUTE / 60, float(_PER_MINUTE))
        self._buckets[network] = (max(left - 1, 0), now)
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        if left < 1:
            message = f"Too many sign-ins were tried from your address: at most {_PER_MINUTE} requests a minute are served."
            raise LimitExceeded(message, code="too_many_sign_ins", details={}, retry_after_s=(1 - left) * 60 / _PER_MINUTE, headers=())


def _network_of(address: Address | None) -> str:
    """Whoever has one address of IPv6 usually has the 2^64 beside it."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
