"""The hostile team's side of HTTP: bytes that were made beforehand, so that an attack costs the machine little but in the gateway."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

_READ_BYTES = 1 << 20


@dataclass
class HostileTeam:
    """Its key for the gateway, and how often its requests got each status; `closed` counts those that got none.

    The other two keys are of other teams on its side, whose content is recorded so.
    """

    port: int
    key: str
    redacted_key: str
    masked_key: str
    statuses: Counter[str] = field(default_factory=lambda: Counter())

    def head(self, path: str, length: int, *, method: str = "POST", key: str | None = None, resumes: bool = False) -> bytes:
        return (
            f"{method} {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key or self.key}\r\n"
            f"x-narthex-resume: {str(resumes).lower()}\r\n"
            f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        ).encode()

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=_READ_BYTES)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def send(
        self, path: str, body: bytes = b"", *, method: str = "POST", key: str | None = None, resumes: bool = False
    ) -> tuple[int, bytes]:
        """Sends one request on a connection of its own. The status is 0 if the connection is closed without a response."""
        try:
            async with self.connect() as (reader, writer):
                writer.write(self.head(path, len(body), method=method, key=key, resumes=resumes))
                sending = asyncio.create_task(self._send_body(writer, body))
                try:
                    status, received = await read_response(reader)
                finally:
                    sending.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            status, received = 0, b""
        self.statuses[str(status) if status else "closed"] += 1
        return status, received

    async def _send_body(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(body), _READ_BYTES):
                writer.write(body[start : start + _READ_BYTES])
                await writer.drain()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    if "transfer-encoding: chunked" in head:
        last = b""  # of the response, which may be long
        while not last.endswith(b"0\r\n\r\n"):
            read = await reader.read(_READ_BYTES)
            if not read:
                raise asyncio.IncompleteReadError(last, None)
            last = (last + read)[-1000:]
        return status, last
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return status, await reader.readexactly(length)


def chat(model: Any = "hostile", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello!"}], **fields}).encode()
