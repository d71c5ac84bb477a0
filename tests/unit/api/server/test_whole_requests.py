"""A request that comes in one read begins the call that the parser of HTTP would begin, and leaves the connection as that does."""

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from app.api.server.http_call import HttpCall
from app.api.server.http_protocol import RequestTimes, http_protocol_class
from providers import wire
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher
from tests.unit.api.test_http_call import WrittenTransport

PATH = "/v1/chat/completions"


def request(*fields: str, line: str = f"POST {PATH} HTTP/1.1", body: str = '{"a": 1}') -> bytes:
    return "\r\n".join([line, "Host: a", *fields, f"Content-Length: {len(body)}", "", body]).encode()


class Transport(WrittenTransport):
    closed = False

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name in ("peername", "sockname") else default

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


_NO_APP: Any = object


def _unsure(data: bytes) -> None:
    return None


class Played:
    """A connection, and what its calls were."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        config = Config(_NO_APP, log_config=None)
        config.load()
        times = RequestTimes(60.0, 60.0, 60.0, 1.0)
        protocol_class = http_protocol_class(WriteBatcher(), LoopTurns(), times, {PATH: self._handle})
        self.transport: Any = Transport()
        self.protocol: Any = protocol_class(config, ServerState(), {}, asyncio.get_running_loop())
        self.protocol.connection_made(self.transport)
        self.parsed_bytes = 0
        feed = self.protocol.parser.feed_data
        self.protocol.parser = self
        self._feed = feed

    def feed_data(self, data: bytes) -> None:
        self.parsed_bytes += len(data)
        self._feed(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed.__self__, name)

    async def _handle(self, call: HttpCall) -> None:
        body = await call.read(1_000_000)
        self.calls.append((call.method, call.path, call.headers, call.peer, call.keep_alive, call.speaks_http_1_1, body))
        await call.send_response(200, b"", b"done")

    async def receive(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.data_received(piece)
            for _ in range(5):
                await asyncio.sleep(0)

    @property
    def state(self) -> tuple[Any, ...]:
        protocol = self.protocol
        waits = protocol._in_request, protocol._in_head, protocol._head_bytes, protocol.url, protocol._read_timer is None
        return self.calls, b"".join(self.transport.written), protocol.server_state.total_requests, *waits


FIRST = request("Authorization: Bearer k", "X-Api-Key: 1")
_CHUNKED = request("Transfer-Encoding: chunked").replace(b"Content-Length: 8\r\n", b"").replace(b"{", b"8\r\n{")
CASES = {
    "one": [FIRST],
    "three": [FIRST, request("Connection: keep-alive", body="{}"), FIRST],
    "pipelined": [FIRST + FIRST, FIRST],
    "in two reads": [FIRST[:40], FIRST[40:], FIRST],
    "with a part of the next one": [FIRST + FIRST[:9], FIRST[9:], FIRST],
    "expects": [request("Expect: 100-continue"), FIRST],
    "closes": [request("Connection: close")],
    "chunked": [_CHUNKED + b"\r\n0\r\n\r\n", FIRST],
    "two hosts": [request("Host: b")],
    "HTTP/1.0": [request(line=f"POST {PATH} HTTP/1.0")],
    "offers an upgrade": [request("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"), FIRST],
}


@pytest.mark.parametrize("case", CASES)
async def test_calls_and_connection_are_the_same_as_with_the_parser(case: str, monkeypatch: pytest.MonkeyPatch):
    played = Played()
    await played.receive(*CASES[case])
    with monkeypatch.context() as patched:
        patched.setattr(wire, "parse_request", _unsure)
        by_parser = Played()
        await by_parser.receive(*CASES[case])
    assert played.state == by_parser.state
    assert by_parser.transport.written


async def test_usual_requests_need_no_parser_and_others_do():
    played = Played()
    await played.receive(FIRST, FIRST)
    assert len(played.calls) == 2 and played.parsed_bytes == 0
    await played.receive(request("Expect: 100-continue"), FIRST)
    assert len(played.calls) == 4 and played.parsed_bytes == len(request("Expect: 100-continue"))
