"""Callers who speak HTTP badly, or well and with ill intent: each is told so or let go, and costs the others nothing."""

import asyncio
import contextlib
import errno
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.api.health import keep_metrics_current
from app.telemetry import Telemetry
from tests.stories.scripted import Asked, ScriptedEngine, chunk
from tests.stories.service import Service

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
ASK = json.dumps({"model": "scripted", "messages": HI}).encode()
STREAM = json.dumps({"model": "scripted", "messages": HI, "stream": True}).encode()


class Wire:
    """A caller's connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer with a length."""
        async with asyncio.timeout(5):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            return int(head[0].split(" ")[1]), headers, await self.reader.readexactly(int(headers["content-length"]))


@asynccontextmanager
async def wire(service: Service) -> AsyncGenerator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rsplit(":", 1)[1]))
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


def head(service: Service, length: int | None = len(ASK), *more: str) -> bytes:
    lines = [f"POST {CHAT} HTTP/1.1", "host: x", f"authorization: Bearer {service.key}", *more]
    return "\r\n".join([*lines, *([] if length is None else [f"content-length: {length}"]), "", ""]).encode()


def chats(engine: ScriptedEngine) -> list[Asked]:
    """What was asked of it, apart from probes of what it is."""
    return [asked for asked in engine.asked if asked.path == CHAT]


async def test_requests_sent_at_once_are_answered_in_their_order(service: Service, engine: ScriptedEngine):
    asks = [json.dumps({"model": "scripted", "messages": HI, "seed": seed}).encode() for seed in range(3)]
    async with wire(service) as caller:
        caller.send(b"".join(head(service, len(ask)) + ask for ask in asks))
        assert [(await caller.answer())[0] for _ in asks] == [200, 200, 200]
    assert [asked.body["seed"] for asked in chats(engine)] == [0, 1, 2]


async def test_who_hangs_up_with_requests_waiting_stops_the_one_that_runs(service: Service, engine: ScriptedEngine):
    asked_for_ever: asyncio.Queue[Asked] = asyncio.Queue()

    async def never(asked: Asked) -> None:
        asked_for_ever.put_nowait(asked)
        await asked.left.wait()

    engine.script = never
    async with asyncio.timeout(5):
        async with wire(service) as caller:
            caller.send((head(service) + ASK) * 2)
            asked = await asked_for_ever.get()
        await asked.left.wait()
    assert len(chats(engine)) == 1


async def test_a_stream_to_a_caller_of_http_1_0_ends_with_the_connection(service: Service, engine: ScriptedEngine):
    async with wire(service) as caller:
        caller.send(head(service, len(STREAM)).replace(b"HTTP/1.1", b"HTTP/1.0") + STREAM)
        async with asyncio.timeout(5):
            answer = await caller.reader.read()
    fields, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in fields
    assert b"connection: close" in fields
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_body_is_waited_for_once_it_is_asked_for(service: Service):
    async with wire(service) as caller:
        caller.send(head(service, len(ASK), "expect: 100-continue"))
        async with asyncio.timeout(5):
            assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        caller.send(ASK)
        assert (await caller.answer())[0] == 200


async def test_a_body_of_a_stranger_is_not_asked_for(service: Service):
    async with wire(service) as caller:
        caller.send(head(service, len(ASK), "expect: 100-continue").replace(service.key.encode(), b"nobodys"))
        assert (await caller.answer())[0] == 401


async def test_a_large_body_of_a_stranger_is_not_read_on(service: Service):
    """It is refused when a part of it is there, not when all of it is."""
    async with wire(service) as caller:
        caller.send(head(service, 900_000).replace(service.key.encode(), b"nobodys") + b" " * 100_000)
        assert (await caller.answer())[0] == 401


async def test_a_trailer_does_not_pass_for_a_header(service: Service, engine: ScriptedEngine):
    trailers = b"authorization: Bearer nx-somebody-else\r\nx-narthex-tags: nonsense\r\n"
    async with wire(service) as caller:
        caller.send(head(service, None, "transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(ASK), ASK, trailers))
        assert (await caller.answer())[0] == 200


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_an_offer_of_another_protocol_is_declined_by_answering_in_this_one(service: Service, engine: ScriptedEngine, in_pieces: bool):
    """Java's HttpClient makes this offer with the first request of each connection."""
    offer = head(service, len(ASK), "connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAB")
    async with wire(service) as caller:
        caller.send(offer)
        if in_pieces:
            await asyncio.sleep(0.05)
        caller.send(ASK)
        assert (await caller.answer())[0] == 200
        caller.send(head(service) + ASK)
        assert (await caller.answer())[0] == 200
    assert [asked.body["messages"] for asked in chats(engine)] == [HI, HI]


@pytest.mark.parametrize("endless", [b"GET /", b"POST /v1/models HTTP/1.1\r\nx: "], ids=["path", "header"])
async def test_a_head_without_end_is_cut_off_and_holds_nobody_up(service: Service, endless: bytes):
    async with wire(service) as caller:
        caller.send(endless)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                caller.send(b"a" * 1_000_000)
                await caller.writer.drain()
        with contextlib.suppress(ConnectionError):
            assert b" 431 " in await asyncio.wait_for(caller.reader.readuntil(b"\r\n"), 5)
    async with service.client() as others:
        for _ in range(4):
            assert (await others.get("/health/live")).status_code == 200
    assert time.monotonic() - began < 3


async def test_a_head_full_of_names_holds_nobody_up(service: Service):
    """As many as fit, one of them twice; from a stranger."""
    names = b"".join(b"%x:\r\n" % (0xA000 + at) for at in range(8000)) + b"a000:\r\n"
    asked = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 0\r\n" + names + b"\r\n"
    async with wire(service) as caller:
        began = time.monotonic()
        for _ in range(6):
            caller.send(asked)
            assert (await caller.answer())[0] == 401
        assert time.monotonic() - began < 1.5


@pytest.mark.parametrize(
    "bytes_of_it",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT other:443 HTTP/1.1\r\nhost: other\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    ],
    ids=["tls", "http2", "proxy", "two framings", "two lengths"],
)
async def test_what_is_no_request_is_told_so_in_the_same_envelope(service: Service, bytes_of_it: bytes):
    async with wire(service) as caller:
        caller.send(bytes_of_it)
        status, _, body = await caller.answer()
        assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
        assert await caller.reader.read() == b""


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "x-narthex-tags", "x-narthex-drop", "x-narthex-episode-id"])
async def test_a_header_of_ours_sent_twice_is_refused_and_not_chosen_from(service: Service, client: httpx.AsyncClient, name: str):
    answer = await client.post(CHAT, content=ASK, headers=[(name, "a"), (name, "b")])
    assert (answer.status_code, name in answer.json()["error"]["message"]) == (400, True)


async def test_an_encoded_body_is_told_so(client: httpx.AsyncClient):
    answer = await client.post(CHAT, content=ASK, headers={"content-encoding": "gzip"})
    assert answer.status_code == 400 and "gzip" in answer.json()["error"]["message"]


async def test_an_empty_episode_header_is_no_episode(client: httpx.AsyncClient):
    answer = await client.post(CHAT, content=ASK, headers={"x-narthex-episode-id": ""})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "episode_id")


async def test_what_is_checked_is_what_is_sent_where_a_key_is_there_twice(client: httpx.AsyncClient, engine: ScriptedEngine):
    twice = (
        b'{"model":"nobody","model":"scripted","messages":[{"role":"user"}],"messages":%b,"seed":1,"\\u0073eed":2}'
        % json.dumps(HI).encode()
    )
    assert (await client.post(CHAT, content=twice)).status_code == 200
    [asked] = chats(engine)
    assert (asked.body["seed"], asked.body["messages"]) == (2, HI)
    sent = asked.raw
    assert sent.count(b"seed") == sent.count(b'"messages"') == sent.count(b'"model"') == 1


async def test_an_escaped_name_is_the_same_field(client: httpx.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, content=ASK[:-1] + b', "guided\\u005fregex": "[0-9]+"}')
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "guided_regex") and not chats(engine)


async def test_a_caller_who_stays_and_never_reads_is_hung_up_on(service: Service, engine: ScriptedEngine):
    async def flood(asked: Asked) -> None:
        asked.begin_stream()
        with contextlib.suppress(ConnectionError):
            while not asked.left.is_set():
                asked.frame(chunk({"content": "x" * 50_000}))
                await asyncio.wait([asyncio.create_task(asked.writer.drain()), left], return_when=asyncio.FIRST_COMPLETED)

    async def script(asked: Asked) -> None:
        nonlocal left
        left = asyncio.create_task(asked.left.wait())
        await flood(asked)

    left: asyncio.Task[Any] = asyncio.create_task(asyncio.sleep(0))
    engine.script = script
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) as deaf:
        deaf.sendall(head(service, len(STREAM)) + STREAM)
        while not chats(engine):
            await asyncio.sleep(0.01)
        await asyncio.wait_for(chats(engine)[0].left.wait(), 5)


async def test_hanging_up_at_any_moment_leaves_nothing_behind(service: Service, engine: ScriptedEngine):
    async def slow(asked: Asked) -> None:
        asked.begin_stream()
        for _ in range(20):
            asked.frame(chunk({"content": "word "}))
            await asyncio.sleep(0.005)
        asked.frame(chunk({}, "stop"))
        asked.frame(b"[DONE]")
        asked.end_stream()

    async def leave(turn: int) -> None:
        async with wire(service) as caller:
            whole = head(service, len(STREAM)) + STREAM
            caller.send(whole[: len(whole) * turn // 10])
            await asyncio.sleep(0.004 * (turn % 25))
            if turn % 2:  # a reset instead of a farewell
                caller.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def stay(client: httpx.AsyncClient) -> str:
        return (await client.post(CHAT, content=STREAM)).text

    engine.script = slow
    async with service.client() as client:
        said = await asyncio.gather(*(stay(client) for _ in range(20)), *(leave(turn) for turn in range(60)))
        assert all(text.endswith("data: [DONE]\n\n") and text.count("word ") == 20 for text in said if text is not None)
        async with asyncio.timeout(5):
            while "narthex_requests_in_flight 0.0" not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.05)
    for log in (service.home / "logs").glob("gateway-*.log"):
        assert "ASGI" not in log.read_text()


async def test_a_worker_without_a_file_left_goes_on_counting_what_has_ended():
    class Exhausted:
        """A spool that cannot be looked at, as when callers hold every file that the process may open."""

        def stats(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    @dataclass
    class Worker:
        telemetry: Telemetry
        spool: Exhausted

    worker: Any = Worker(Telemetry(), Exhausted())
    counting = asyncio.create_task(keep_metrics_current(worker))
    await asyncio.sleep(1.1)
    worker.telemetry.in_flight = 7
    await asyncio.sleep(1.1)
    assert not counting.done()
    counting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await counting
    assert b"narthex_requests_in_flight 7.0" in worker.telemetry.page()


def test_as_many_callers_are_held_as_the_machine_allows():
    script = """
import resource
from app.main import open_many_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
open_many_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "(128, 128)\n"
