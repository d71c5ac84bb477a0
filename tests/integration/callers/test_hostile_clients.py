"""Clients with malformed or hostile HTTP: each is refused or disconnected, at no cost to the others."""

import asyncio
import contextlib
import errno
import gzip
import json
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx2
import pytest
from backports import zstd

from app.api.metrics import keep_metrics_current
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.limits.limits import Limits
from app.gateway.pipeline.load_shedding import LoadShedder
from app.process.telemetry import Telemetry
from app.settings import Settings
from app.store.configuration.snapshots import EMPTY
from providers.transport.transport import Transport
from tests.integration.conftest import MOST_BODY_BYTES, WORKERS
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import processor_s
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
REQUEST = json.dumps({"model": "scripted", "messages": HI}).encode()
STREAM_REQUEST = json.dumps({"model": "scripted", "messages": HI, "stream": True}).encode()


class RawConnection:
    """A client's connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a response with a content length."""
        async with asyncio.timeout(GENEROUS_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            return int(head[0].split(" ")[1]), headers, await self.reader.readexactly(int(headers["content-length"]))


@asynccontextmanager
async def raw_connection(service: Service) -> AsyncGenerator[RawConnection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rsplit(":", 1)[1]))
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.transport.abort()


def head(service: Service, length: int | None = len(REQUEST), *more: str) -> bytes:
    lines = [f"POST {CHAT} HTTP/1.1", "host: x", f"authorization: Bearer {service.key}", *more]
    return "\r\n".join([*lines, *([] if length is None else [f"content-length: {length}"]), "", ""]).encode()


def chat_requests(engine: ScriptedEngine) -> list[ReceivedRequest]:
    """The chats that it received, without the gateway's probes."""
    return [request for request in engine.requests if request.path == CHAT]


async def test_pipelined_requests_are_answered_in_order(service: Service, engine: ScriptedEngine):
    bodies = [json.dumps({"model": "scripted", "messages": HI, "seed": seed}).encode() for seed in range(3)]
    async with raw_connection(service) as caller:
        caller.send(b"".join(head(service, len(body)) + body for body in bodies))
        assert [(await caller.answer())[0] for _ in bodies] == [200, 200, 200]
    assert [request.body["seed"] for request in chat_requests(engine)] == [0, 1, 2]


async def test_disconnect_cancels_the_running_request_and_drops_pipelined_ones(service: Service, engine: ScriptedEngine):
    received: asyncio.Queue[ReceivedRequest] = asyncio.Queue()

    async def wait_until_disconnected(request: ReceivedRequest) -> None:
        received.put_nowait(request)
        await request.disconnected.wait()

    engine.script = wait_until_disconnected
    async with asyncio.timeout(GENEROUS_S):
        async with raw_connection(service) as caller:
            caller.send((head(service) + REQUEST) * 2)
            request = await received.get()
        await request.disconnected.wait()
    assert len(chat_requests(engine)) == 1


@pytest.mark.parametrize("body", [REQUEST, STREAM_REQUEST], ids=["whole", "streamed"])
async def test_closed_connection_cancels_the_request_and_half_a_one_does_not(service: Service, engine: ScriptedEngine, body: bytes):
    received: asyncio.Queue[ReceivedRequest] = asyncio.Queue()
    may_respond = asyncio.Event()

    async def begin_and_wait(request: ReceivedRequest) -> None:
        if request.body.get("stream"):
            request.begin_stream()
            request.send_event(chunk({"content": "Hel"}))
        received.put_nowait(request)
        waits = [asyncio.create_task(each.wait()) for each in (may_respond, request.disconnected)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if request.disconnected.is_set():
            return
        if not request.body.get("stream"):
            await request.respond_completion("Hello.")
            return
        request.send_event(chunk({"content": "lo."}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = begin_and_wait
    async with asyncio.timeout(GENEROUS_S):
        async with raw_connection(service) as caller:
            caller.send(head(service, len(body)) + body)
            request = await received.get()
            if body == STREAM_REQUEST:
                await caller.reader.readuntil(b"Hel")
            caller.writer.close()  # a FIN, as of one who only shuts down the sending side
            await request.disconnected.wait()

        async with raw_connection(service) as caller:
            caller.send(head(service, len(body)) + body)
            caller.writer.write_eof()
            request = await received.get()
            if body == STREAM_REQUEST:
                await caller.reader.readuntil(b"Hel")
            await asyncio.sleep(0.2)  # longer than it takes to notice one who has gone
            assert not request.disconnected.is_set()
            may_respond.set()
            answer = await caller.reader.read()
    assert b"lo." in answer and answer.endswith(b"0\r\n\r\n" if body == STREAM_REQUEST else b"}")


async def test_good_requests_before_a_bad_one_are_answered(service: Service, engine: ScriptedEngine):
    models = f"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.key}\r\n\r\n".encode()
    async with raw_connection(service) as caller:
        caller.send(head(service) + REQUEST + models + head(service) + REQUEST + b"nonsense\r\n\r\n")
        assert [(await caller.answer())[0] for _ in range(4)] == [200, 200, 200, 400]
        assert await caller.reader.read() == b""


async def test_large_response_reaches_a_caller_who_has_closed_its_side(service: Service, engine: ScriptedEngine):
    text = "word " * 600_000
    engine.script = lambda request: request.respond_completion(text)
    async with raw_connection(service) as caller:
        caller.send(head(service) + REQUEST)
        async with asyncio.timeout(GENEROUS_S):
            received = await caller.reader.readexactly(50_000)
            caller.writer.write_eof()
            received += await caller.reader.read()
    fields, _, body = received.partition(b"\r\n\r\n")
    while fields.startswith(b"HTTP/1.1 1"):
        fields, _, body = body.partition(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(body) in fields + b"\r\n"
    assert json.loads(body)["choices"][0]["message"]["content"] == text


async def test_http_1_0_stream_ends_by_closing_the_connection(service: Service, engine: ScriptedEngine):
    async with raw_connection(service) as caller:
        caller.send(head(service, len(STREAM_REQUEST)).replace(b"HTTP/1.1", b"HTTP/1.0") + STREAM_REQUEST)
        async with asyncio.timeout(GENEROUS_S):
            answer = await caller.reader.read()
    fields, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in fields
    assert b"connection: close" in fields
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("path", ["/admin%2Fv1/keys", "/admin%2fv1%2fkeys", "//admin/v1/keys", "/%61dmin/v1/keys", "/admin/v1%2Fkeys"])
async def test_admin_routes_have_one_spelling_which_a_proxy_can_compare(service: Service, path: str):
    fields = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin_key}\r\n\r\n".encode()
    async with raw_connection(service) as caller:
        caller.send(fields.replace(path.encode(), b"/admin/v1/keys"))
        assert (await caller.answer())[0] == 200
        caller.send(fields)
        assert (await caller.answer())[0] == 404


async def test_expect_100_continue_is_answered_before_the_body(service: Service, engine: ScriptedEngine):
    async with raw_connection(service) as caller:
        caller.send(head(service, len(REQUEST), "expect: 100-continue"))
        async with asyncio.timeout(GENEROUS_S):
            assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        caller.send(REQUEST)
        assert (await caller.answer())[0] == 200


async def test_expect_100_continue_without_a_valid_key_is_401(service: Service):
    async with raw_connection(service) as caller:
        caller.send(head(service, len(REQUEST), "expect: 100-continue").replace(service.key.encode(), b"nobodys"))
        assert (await caller.answer())[0] == 401


@pytest.mark.parametrize(("path", "length"), [(CHAT, 20), (CHAT, 900_000), ("/v1/feedback", 900_000)])
async def test_body_without_a_valid_key_is_refused_before_it_comes(service: Service, path: str, length: int):
    """The refusal does not wait for the body, and the connection does not for long."""
    async with raw_connection(service) as caller:
        caller.send(head(service, length).replace(service.key.encode(), b"nobodys").replace(CHAT.encode(), path.encode()))
        assert (await caller.answer())[0] == 401
        async with asyncio.timeout(GENEROUS_S):
            assert await caller.reader.read() == b""


async def test_body_beyond_the_limit_is_a_413_before_it_comes(service: Service):
    async with raw_connection(service) as caller:
        caller.send(head(service, MOST_BODY_BYTES + 1))
        assert (await caller.answer())[0] == 413


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/feedback"])
async def test_body_that_stays_away_is_a_408_in_the_shape_of_the_api(service: Service, path: str):
    async with raw_connection(service) as caller:
        caller.send(head(service, 70_000).replace(CHAT.encode(), path.encode()) + b"{")
        status, headers, body = await caller.answer()
        content: Any = json.loads(body)
        assert (status, headers.get("connection"), content["error"]["type"]) == (408, "close", "timeout_error")
        assert "too slowly: 1 bytes" in content["error"]["message"]
        assert content.get("type") == ("error" if path == "/v1/messages" else None)
        assert await caller.reader.read() == b""


async def test_open_uploads_of_a_key_are_bounded_and_freed_by_a_disconnect(service: Service, engine: ScriptedEngine):
    """Each upload declares the largest body, and sends a byte of it."""
    large = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "x" * 500_000}]}).encode()
    created = service.run("keys", "create", "--team", "other uploads", "--quiet")
    assert created.returncode == 0, created.stderr
    of_other_team = {"authorization": f"Bearer {created.stdout.strip()}"}
    refusals: list[tuple[int, dict[str, str], bytes]] = []

    async def status_of(path: str, content: bytes, **headers: str) -> int:
        async with service.client() as client:  # a new connection, to any of the workers
            return (await client.post(path, content=content, headers=headers)).status_code

    async with AsyncExitStack() as connections:
        for _ in range(WORKERS * 20 + 10):
            caller = await connections.enter_async_context(raw_connection(service))
            caller.send(head(service, MOST_BODY_BYTES) + b" ")
            refusal = asyncio.create_task(caller.answer())
            refusal.add_done_callback(lambda done: None if done.cancelled() or done.exception() else refusals.append(done.result()))
            connections.callback(refusal.cancel)
        await wait_until(lambda: len(refusals) >= 10)
        for status, headers, body in refusals:
            assert (status, headers["retry-after"]) == (429, "1")
            assert json.loads(body)["error"]["code"] == "body_memory_exceeded"
        for path in (CHAT, "/v1/limits/preview"):
            async with asyncio.timeout(GENEROUS_S):
                while await status_of(path, large) != 429:
                    pass
        for _ in range(2 * WORKERS):
            assert await status_of(CHAT, REQUEST) == 200
            assert await status_of(CHAT, large, **of_other_team) == 200
        await wait_until(lambda: len(refusals) == WORKERS * 20 + 10)  # those that were accepted come too slowly
        assert {status for status, _, _ in refusals} == {408, 429}
    async with asyncio.timeout(GENEROUS_S):
        for _ in range(2 * WORKERS):
            while await status_of(CHAT, large) != 200:
                await asyncio.sleep(0.02)


async def test_http_trailers_are_not_headers(service: Service, engine: ScriptedEngine):
    trailers = b"authorization: Bearer nx-somebody-else\r\nx-narthex-tags: nonsense\r\n"
    async with raw_connection(service) as caller:
        caller.send(head(service, None, "transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(REQUEST), REQUEST, trailers))
        assert (await caller.answer())[0] == 200


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_h2c_upgrade_offer_is_declined_and_served_over_http_1_1(service: Service, engine: ScriptedEngine, in_pieces: bool):
    """Java's HttpClient makes this offer with the first request of each connection."""
    offer = head(service, len(REQUEST), "connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAB")
    async with raw_connection(service) as caller:
        caller.send(offer)
        if in_pieces:
            await asyncio.sleep(0.05)
        caller.send(REQUEST)
        assert (await caller.answer())[0] == 200
        caller.send(head(service) + REQUEST)
        assert (await caller.answer())[0] == 200
    assert [request.body["messages"] for request in chat_requests(engine)] == [HI, HI]


@pytest.mark.parametrize("connection", ["Upgrade", "keep-alive, Upgrade"])
async def test_websocket_at_responses_is_a_426_and_an_ordinary_get_a_405(service: Service, connection: str):
    """The Codex CLI goes on by HTTP at once after a 426 alone."""
    offer = f"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\nupgrade: websocket\r\n".encode()
    handshake = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    async with raw_connection(service) as caller:
        for _ in range(2):  # the connection stays open
            caller.send(offer + handshake)
            status, headers, body = await caller.answer()
            error = json.loads(body)["error"]
            assert (status, error["code"], "upgrade" in headers) == (426, "upgrade_refused", False)
            assert "WebSocket" in error["message"] and "POST" in error["message"]
        caller.send(b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await caller.answer())[0] == 405
        caller.send(head(service) + REQUEST)
        assert (await caller.answer())[0] == 200


@pytest.mark.parametrize("endless", [b"GET /", b"POST /v1/models HTTP/1.1\r\nx: "], ids=["path", "header"])
async def test_endless_request_head_is_431_and_does_not_block_others(service: Service, endless: bytes):
    async with raw_connection(service) as caller:
        caller.send(endless)
        began = time.monotonic()
        began_processor_s = gateway_processor_s(service)
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                caller.send(b"a" * 1_000_000)
                await caller.writer.drain()
        with contextlib.suppress(ConnectionError):
            assert b" 431 " in await asyncio.wait_for(caller.reader.readuntil(b"\r\n"), GENEROUS_S)
    async with service.client() as others:
        for _ in range(4):
            assert (await others.get("/health/live")).status_code == 200
    assert gateway_processor_s(service) - began_processor_s < 3
    assert time.monotonic() - began < GENEROUS_S


def gateway_processor_s(service: Service) -> float:
    """The processor time of the workers: unlike wall time, it does not depend on what else the machine does."""
    return processor_s(service.pid("gateway-0"), service.pid("gateway-1"))


async def test_thousands_of_header_names_are_refused_quickly(service: Service):
    """The request has as many names as fit, one of them twice, and comes from a client without a key."""
    names = b"".join(b"%x:\r\n" % (0xA000 + at) for at in range(8000)) + b"a000:\r\n"
    raw_request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n" + names + b"\r\n"
    began_s = gateway_processor_s(service)
    for _ in range(6):
        async with raw_connection(service) as caller:
            caller.send(raw_request)
            assert (await caller.answer())[0] == 431
    assert gateway_processor_s(service) - began_s < 0.5


async def test_thousands_of_pipelined_requests_without_a_key_do_not_hold_up_others(service: Service):
    """Twenty connections send what fits in one read, and read nothing: each of the requests would be made ready at once."""
    async with AsyncExitStack() as open_connections, service.client() as others:
        for _ in range(20):
            caller = await open_connections.enter_async_context(raw_connection(service))
            caller.send(b"GET / HTTP/1.1\r\nhost:\r\n\r\n" * 2_700)
        slowest_s = 0.0
        for _ in range(30):
            began_s = time.monotonic()
            assert (await others.get("/health/live")).status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - began_s)
        assert slowest_s < 1


async def test_numbers_that_take_long_to_decode_are_a_400_in_the_shape_of_the_api(service: Service, engine: ScriptedEngine):
    """Each `1e300` takes the decoder 12 microseconds, in which nothing else runs."""
    numbers = b"[" + b",".join([b"1e300"] * 36_000) + b"]"
    messages = b'"messages":[{"role":"user","content":"a"}]'
    sent = {
        CHAT: b'{"model":"scripted",%b,"zzz":%b}' % (messages, numbers),
        "/v1/messages": b'{"model":"scripted","max_tokens":5,%b,"zzz":%b}' % (messages, numbers),
        "/v1/responses": b'{"model":"scripted","input":"a","zzz":%b}' % numbers,
        "/v1/feedback": b'{"metric":"rating","inference_id":"%b","value":%b}' % (b"0" * 36, numbers),
    }
    began_s = gateway_processor_s(service)
    async with service.client() as caller:
        for path, body in sent.items():
            response = await caller.post(path, content=body)
            assert response.status_code == 400, response.text
            assert "take long to read" in response.json()["error"]["message"]
            assert ("type" in response.json()) == (path == "/v1/messages")
        lines = [b'{"metric":"rating","value":[%b]}' % b",".join([b"1e300"] * 90)] * 900
        response = await caller.post("/v1/feedback/batch", content=b"\n".join(lines))
        refused = [each["error"]["message"] for each in response.json()["data"]]
        assert response.status_code == 200 and sum("take long to read" in each for each in refused) == 899
    assert gateway_processor_s(service) - began_s < 0.5
    assert not chat_requests(engine)


async def test_response_of_numbers_that_take_long_to_decode_is_a_502(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        await request.respond(200, b'{"choices":[],"zzz":[%b]}' % b",".join([b"1e300"] * 36_000))

    engine.script = respond
    response = await client.post(CHAT, json={"model": "scripted", "messages": HI})
    assert response.status_code == 502 and "take long to read" in response.text


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT other:443 HTTP/1.1\r\nhost: other\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    ],
    ids=["tls", "http2", "proxy", "two framings", "two lengths"],
)
async def test_malformed_http_is_a_400_in_the_error_envelope(service: Service, data: bytes):
    async with raw_connection(service) as caller:
        caller.send(data)
        status, _, body = await caller.answer()
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        assert await caller.reader.read() == b""


AMBIGUOUS_HEADS = {
    "no host": (b"", "no Host header"),
    "two hosts": (b"host: a\r\nHost: b\r\n", "more than one Host"),
    "one host twice": (b"host: a\r\nhost: a\r\n", "more than one Host"),
    "two codings": (b"host: a\r\ntransfer-encoding: identity, chunked\r\n", "Transfer-Encoding"),
    "two fields of codings": (b"host: a\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n", "Transfer-Encoding"),
    "chunked twice": (b"host: a\r\ntransfer-encoding: chunked, chunked\r\n", "HTTP/1.1 request"),
    "an empty coding": (b"host: a\r\ntransfer-encoding: , chunked\r\n", "Transfer-Encoding"),
}
ROUTES = [b"POST /v1/chat/completions", b"POST /v1/feedback", b"GET /admin/v1/teams", b"GET /health/live"]


@pytest.mark.parametrize("route", ROUTES, ids=["inference", "feedback", "admin", "health"])
@pytest.mark.parametrize("fields", AMBIGUOUS_HEADS)
async def test_head_that_others_may_read_differently_is_a_400_on_every_route(service: Service, route: bytes, fields: str):
    head, expected = AMBIGUOUS_HEADS[fields]
    async with raw_connection(service) as caller:
        caller.send(route + b" HTTP/1.1\r\n" + head + b"\r\n" + b"0\r\n\r\n")
        status, _, body = await caller.answer()
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        assert expected in json.loads(body)["error"]["message"]
        assert await caller.reader.read() == b""


async def test_an_ambiguous_head_does_not_spoil_the_request_before_it(service: Service):
    async with raw_connection(service) as caller:
        caller.send(b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\nGET /health/live HTTP/1.1\r\n\r\n")
        assert [(await caller.answer())[0] for _ in range(2)] == [200, 400]
        assert await caller.reader.read() == b""


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health/live HTTP/1.0\r\n\r\n", 200),
        (b"GET /health/live HTTP/1.0\r\nhost: a\r\n\r\n", 200),
        (b"GET /health/live HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost:\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n", 401),
        (b"GET /health/live HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", 200),
    ],
    ids=["1.0 without a host", "1.0 with a host", "1.0 with two hosts", "1.0 with chunks", "an empty host", "an offer to upgrade"],
)
async def test_plain_heads_are_served(service: Service, head: bytes, status: int):
    async with raw_connection(service) as caller:
        caller.send(head)
        assert (await caller.answer())[0] == status


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "x-narthex-tags", "x-narthex-drop", "x-narthex-episode-id"])
async def test_duplicate_gateway_header_is_refused(service: Service, client: httpx2.AsyncClient, name: str):
    answer = await client.post(CHAT, content=REQUEST, headers=[(name, "a"), (name, "b")])
    assert (answer.status_code, name in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_content_coding_that_is_not_decoded_is_a_415_that_names_those_that_are(client: httpx2.AsyncClient, path: str):
    answer = await client.post(path, content=REQUEST, headers={"content-encoding": "br"})
    assert answer.status_code == 415 and answer.json()["error"]["type"] == "invalid_request_error"
    assert "gzip, deflate, zstd" in answer.json()["error"]["message"] and answer.headers["accept-encoding"] == "gzip, deflate, zstd"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
async def test_compressed_body_is_served_and_recorded_as_it_was_meant(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, coding: str
):
    compress = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[coding]
    answer = await client.post(CHAT, content=compress(REQUEST), headers={"content-encoding": coding.upper()})
    assert answer.status_code == 200 and engine.requests[-1].body["messages"] == json.loads(REQUEST)["messages"]
    assert "content-encoding" not in engine.requests[-1].headers
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert json.loads(row["content"]["request"]) == json.loads(REQUEST)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_body_that_decodes_to_too_much_is_a_413_in_little_time(client: httpx2.AsyncClient, engine: ScriptedEngine, coding: str):
    bomb = (gzip.compress if coding == "gzip" else zstd.compress)(b" " * 300_000_000)
    assert len(bomb) < 1_000_000
    answer = await client.post(CHAT, content=bomb, headers={"content-encoding": coding})
    assert answer.status_code == 413 and not engine.requests


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
async def test_body_that_is_not_of_its_coding_is_a_400(client: httpx2.AsyncClient, coding: str):
    for content in (REQUEST, b"x"):
        answer = await client.post(CHAT, content=content, headers={"content-encoding": coding})
        assert answer.status_code == 400 and coding in answer.json()["error"]["message"]


async def test_empty_episode_header_is_a_400(client: httpx2.AsyncClient):
    answer = await client.post(CHAT, content=REQUEST, headers={"x-narthex-episode-id": ""})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "episode_id")


@pytest.mark.parametrize("letter", ["k", "\u9375", "\U0001f511"], ids=["ascii", "kanji", "emoji"])
async def test_head_of_a_response_is_short_whatever_was_dropped(client: httpx2.AsyncClient, engine: ScriptedEngine, letter: str):
    """Proxies take a server for broken whose heads are longer than they accept: all gateways behind one, for all teams."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello."}]}
    end = {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2}}

    async def answer(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps({**message, **end}).encode())

    engine.script = answer
    fields = {f"{number}{letter * 3_000}": 1 for number in range(20)}  # a letter outside ASCII is written with up to ten
    body = {"model": "claude", "messages": HI, "max_tokens": 9, **fields}
    response = await client.post(CHAT, json=body, headers={"x-narthex-drop": "all"})
    assert response.status_code == 200, response.text
    assert response.headers["x-narthex-dropped"].startswith("0") and len(response.headers["x-narthex-dropped"]) < 1_600


async def test_duplicate_json_keys_are_sent_as_they_were_checked(client: httpx2.AsyncClient, engine: ScriptedEngine):
    twice = (
        b'{"model":"nobody","model":"scripted","messages":[{"role":"user"}],"messages":%b,"seed":1,"\\u0073eed":2}'
        % json.dumps(HI).encode()
    )
    assert (await client.post(CHAT, content=twice)).status_code == 200
    [request] = chat_requests(engine)
    assert (request.body["seed"], request.body["messages"]) == (2, HI)
    sent = request.raw
    assert sent.count(b"seed") == sent.count(b'"messages"') == sent.count(b'"model"') == 1


async def test_json_escaped_field_name_is_the_same_field(client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, content=REQUEST[:-1] + b', "chat\\u005ftemplate": "x"}')
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "chat_template") and not chat_requests(engine)


async def test_client_that_never_reads_is_disconnected(service: Service, engine: ScriptedEngine):
    async def flood(request: ReceivedRequest) -> None:
        request.begin_stream()
        with contextlib.suppress(ConnectionError):
            while not request.disconnected.is_set():
                request.send_event(chunk({"content": "x" * 50_000}))
                await asyncio.wait([asyncio.create_task(request.writer.drain()), disconnected], return_when=asyncio.FIRST_COMPLETED)

    async def script(request: ReceivedRequest) -> None:
        nonlocal disconnected
        disconnected = asyncio.create_task(request.disconnected.wait())
        await flood(request)

    disconnected: asyncio.Task[Any] = asyncio.create_task(asyncio.sleep(0))
    engine.script = script
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) as deaf:
        deaf.sendall(head(service, len(STREAM_REQUEST)) + STREAM_REQUEST)
        await wait_until(lambda: chat_requests(engine) != [])
        await asyncio.wait_for(chat_requests(engine)[0].disconnected.wait(), GENEROUS_S)


async def test_disconnects_at_any_moment_leave_no_request_in_flight(service: Service, engine: ScriptedEngine):
    async def slow(request: ReceivedRequest) -> None:
        request.begin_stream()
        for _ in range(20):
            request.send_event(chunk({"content": "word "}))
            await asyncio.sleep(0.005)
        request.send_event(chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    async def disconnect_after(number: int) -> None:
        async with raw_connection(service) as caller:
            raw_request = head(service, len(STREAM_REQUEST)) + STREAM_REQUEST
            caller.send(raw_request[: len(raw_request) * number // 10])
            await asyncio.sleep(0.004 * (number % 25))
            if number % 2:  # a reset instead of an orderly close
                caller.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def stream_to_the_end(client: httpx2.AsyncClient) -> str:
        return (await client.post(CHAT, content=STREAM_REQUEST)).text

    engine.script = slow
    async with service.client() as client:
        texts = await asyncio.gather(*(stream_to_the_end(client) for _ in range(20)), *(disconnect_after(number) for number in range(60)))
        assert all(text.endswith("data: [DONE]\n\n") and text.count("word ") == 20 for text in texts if text is not None)

        async def is_nothing_in_flight() -> bool:
            return "narthex_requests_in_flight 0.0" in (await client.get("/metrics")).text

        await wait_until(is_nothing_in_flight)
    for log in (service.home / "logs").glob("gateway-*.log"):
        assert "ASGI" not in log.read_text()


async def test_worker_out_of_file_descriptors_keeps_updating_metrics():
    class Exhausted:
        """A spool that cannot be read, as when clients hold every file descriptor of the process."""

        calls = 0

        def stats(self) -> Any:
            self.calls += 1
            raise OSError(errno.EMFILE, "Too many open files")

    class CurrentKeys:
        revocation_lag_s = 0.0
        snapshot = EMPTY

    class NoEndpoints:
        endpoints = ()

    class NoLimits:
        def report(self) -> None:
            pass

    @dataclass
    class Worker:
        telemetry: Telemetry
        spool: Exhausted
        snapshot_cache: CurrentKeys
        transport: Transport
        load_shedder: LoadShedder
        target_queues: TargetQueues
        fleet: NoEndpoints
        limits: NoLimits
        background_tasks: tuple[()] = ()

    settings = Settings()
    queues = TargetQueues(settings, cast(Limits, None))
    worker: Any = Worker(Telemetry(), Exhausted(), CurrentKeys(), Transport(), LoadShedder(settings), queues, NoEndpoints(), NoLimits())
    updating = asyncio.create_task(keep_metrics_current(worker))
    await wait_until(lambda: worker.spool.calls == 1)
    worker.telemetry.in_flight = 7
    await wait_until(lambda: worker.spool.calls == 2)
    assert not updating.done()
    updating.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await updating
    assert b"narthex_requests_in_flight 7.0" in worker.telemetry.render()


def test_open_file_limit_is_raised_to_the_hard_limit():
    script = """
import resource
from app.process.open_files import raise_open_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
raise_open_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S, check=True)
    assert done.stdout == "(128, 128)\n"
