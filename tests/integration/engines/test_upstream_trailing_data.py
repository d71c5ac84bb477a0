"""Bytes that a host sends after the end of its stream do not reach the caller."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine
from tests.support.strategies import aws_event_frames as frames

HI: list[Any] = [{"role": "user", "content": "Hi"}]
KEYS = json.dumps({"access_key_id": "AKIDEXAMPLE", "secret_access_key": "a-secret-of-this-test-1", "region": "eu-west-1"})
STREAM = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in HELLO) + b"data: [DONE]\n\n"


class SageMakerContainer:
    """A host that frames its streams. `trailing_bytes`: sent after the end of a response."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.server.script = self._answer
        self.trailing_bytes = b""

    async def _answer(self, request: ReceivedRequest) -> None:
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
        request.send_chunk(frames.event("PayloadPart", STREAM))
        await request.writer.drain()
        await asyncio.sleep(0.05)
        request.send_chunk(self.trailing_bytes)
        request.end_stream()
        await request.writer.drain()


@pytest.fixture(scope="module")
async def container(service: Service, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[SageMakerContainer]:
    container = SageMakerContainer()
    await container.server.start()
    file = tmp_path_factory.mktemp("trailing") / "credential"
    file.write_text(KEYS)
    service.apply(f"""
        [providers]
        container = {{ adapter = "sagemaker", base_url = "http://127.0.0.1:{container.server.port}", credential = "file:{file}" }}
        [models]
        container = {{ targets = [{{ provider = "container", model = "e" }}] }}
    """)
    yield container
    await container.server.stop()


@pytest.mark.parametrize(
    "trailing_bytes",
    [frames.exception("InternalStreamFailure", b'{"Message":"late"}'), b"not an event frame", b"\0\0"],
    ids=str,
)
async def test_upstream_bytes_after_the_end_of_the_stream_are_not_forwarded(
    container: SageMakerContainer, service: Service, client: httpx2.AsyncClient, trailing_bytes: bytes
):
    container.trailing_bytes = trailing_bytes
    body = json.dumps({"model": "container", "messages": HI, "stream": True}).encode()
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    try:
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: {client.headers['authorization']}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        received = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert b"[DONE]" in received and b"late" not in received
        with pytest.raises(TimeoutError):  # more bytes would be read as the beginning of the next response
            unexpected = await asyncio.wait_for(reader.read(1000), 0.3)
            pytest.fail(f"sent after the end: {unexpected}")
    finally:
        writer.close()
        await writer.wait_closed()
