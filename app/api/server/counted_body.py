"""The bodies of callers' requests that go through Litestar: they count in the memory for bodies as those of inferences do."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

from litestar import Request

from app.domain.callers import Caller
from app.gateway.memory.body_memory import UNCOUNTED_BYTES, BodyMemory


@asynccontextmanager
async def counted_body(request: Request[Any, Any, Any], memory: BodyMemory, caller: Caller) -> AsyncGenerator[bytes]:
    """The complete body, which counts until the block ends. Raises BodyMemoryExceeded and Unavailable as BodyClaim does."""
    content_length = request.headers.get("content-length", "")
    if content_length.isdigit() and int(content_length) <= UNCOUNTED_BYTES:
        yield await request.body()
        return
    claim = memory.claim(caller)
    try:
        claim.declare(int(content_length) if content_length.isdigit() else 0)
        body = BytesIO()
        async for block in request.stream():
            body.write(block)
            claim.grow_to(body.tell())
        yield body.getvalue()
    finally:
        claim.release()
