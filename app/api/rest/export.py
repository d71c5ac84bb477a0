"""Exports: files that are streamed for as long as whoever reads them takes, and no longer than they may."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from app.api.rest.operation import Answer, Call
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.errors import NarthexError, Unavailable

log = logging.getLogger(__name__)

_CHECK_ACCESS_S = 5.0
# While access cannot be checked, nothing is sent, and then the export ends.
_RETRY_S, _MAX_UNCHECKED_S = 1.0, 30.0


def export_answer(call: Call[Any, Any], pieces: AsyncGenerator[bytes], filename: str, media_type: str) -> Answer:
    """A file to download. It breaks off once the access ends of whoever reads it, or they may see less than at its beginning."""
    headers = {"content-disposition": f'attachment; filename="{filename}"'}
    return Answer(_to_the_end(call, _while_permitted(call, pieces)), headers=headers, media_type=media_type)


async def _to_the_end(call: Call[Any, Any], pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Closes the connection where an export fails: whoever reads it sees that it is not complete, and the log has one line."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except Exception as fault:
            if call.break_off is None:
                raise
            author, is_known = call.author, isinstance(fault, (NarthexError, *DB_UNAVAILABLE_ERRORS))
            who = {"kind": author.kind, "id": author.id, "request": author.request_id}
            reason = fault.message if isinstance(fault, NarthexError) else repr(fault)
            log.warning("an export was broken off", extra={**who, "reason": reason}, exc_info=None if is_known else fault)
            call.break_off()
            await asyncio.get_running_loop().create_future()  # cancelled once the connection is closed


async def _while_permitted(call: Call[Any, Any], pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    checked_s = time.monotonic()
    async with aclosing(pieces):
        async for piece in pieces:
            if time.monotonic() - checked_s >= _CHECK_ACCESS_S:
                await _check_access(call)
                checked_s = time.monotonic()
            yield piece


async def _check_access(call: Call[Any, Any]) -> None:
    ends_s = time.monotonic() + _MAX_UNCHECKED_S
    while True:
        try:
            await call.check_access()
        except NarthexError as fault:
            if isinstance(fault, Unavailable) and time.monotonic() < ends_s:
                await asyncio.sleep(_RETRY_S)
                continue
            raise
        return
