"""A page as bytes for each address that clients use for this server: made once, plain and compressed, and kept for the newest few.

Anybody may read these pages, with any Host. So what a new address costs is bounded, and what a page costs is that of sending bytes.
"""

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

_MAX_KEPT = 8
# So many new addresses at once, and one more each second; what is beyond gets the page with the default address.
_MAX_NEW = 8
_COMPRESSION_LEVEL = 6


class PageBytes(NamedTuple):
    """A page in both codings, under one ETag."""

    etag: str  # without quotes
    plain: bytes
    compressed: bytes


class AddressedPages:
    """Makes a page for each address that clients use, and keeps a few.

    `make` gives the page for an address; it runs in a thread. Addresses that get no page of their own get the one for `default`.
    """

    def __init__(self, make: Callable[[str], bytes], default: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._default = default
        self._clock = clock
        self._kept: OrderedDict[str, asyncio.Future[PageBytes]] = OrderedDict()
        self._of_default: asyncio.Future[PageBytes] | None = None
        self._may_make, self._since_s = float(_MAX_NEW), clock()

    async def page(self, address: str) -> PageBytes:
        if address == self._default:
            return await self._default_page()
        made = self._kept.get(address)
        if made is None:
            if not self._takes_new():
                return await self._default_page()
            made = self._kept[address] = self._begin(address)
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(address)
        return await asyncio.shield(made)  # a reader who leaves ends its own wait alone

    async def _default_page(self) -> PageBytes:
        if self._of_default is None:
            self._of_default = self._begin(self._default)
        return await asyncio.shield(self._of_default)

    def _takes_new(self) -> bool:
        now_s = self._clock()
        self._may_make = min(self._may_make + now_s - self._since_s, float(_MAX_NEW))
        self._since_s = now_s
        if self._may_make < 1:
            return False
        self._may_make -= 1
        return True

    def _begin(self, address: str) -> asyncio.Future[PageBytes]:
        return asyncio.ensure_future(asyncio.to_thread(self._make_bytes, address))

    def _make_bytes(self, address: str) -> PageBytes:
        plain = self._make(address)
        return PageBytes(hashlib.sha256(plain).hexdigest()[:20], plain, gzip.compress(plain, _COMPRESSION_LEVEL, mtime=0))
