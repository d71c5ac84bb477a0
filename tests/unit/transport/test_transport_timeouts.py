"""Timeouts: nothing waits for ever, nothing is given up early, and a slow reader slows the engine down instead of filling memory."""

import asyncio
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx2
import pytest

from providers.transport.transport import SWEEP_S
from tests.support.raw_engine import (
    OK,
    EngineConnection,
    NewLoop,
    both_loops,
    fetch,
    open_transport,
    post_request,
    respond_always,
    response_stream,
    run,
    start_engine,
    wait_until,
)

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@contextmanager
def times_out_after(limit_s: float, kind: type[httpx2.TimeoutException]) -> Generator[None]:
    """Asserts that a timeout is never early. A busy machine may add up to 30 s; timeouts that must not fire are longer."""
    began = time.monotonic()
    with pytest.raises(kind) as raised:
        yield
    assert type(raised.value) is kind
    assert limit_s - 0.002 <= time.monotonic() - began < limit_s + 3 * SWEEP_S + 30


@both_loops
def test_connect_times_out_when_the_engine_does_not_accept(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as unresponsive, socket.socket() as first, socket.socket() as second:
            unresponsive.bind(("127.0.0.1", 0))
            unresponsive.listen(0)
            for filler in (first, second):  # the queue is full, so the next connect gets no reply
                filler.setblocking(False)
                filler.connect_ex(unresponsive.getsockname())
            url = httpx2.URL(f"http://127.0.0.1:{unresponsive.getsockname()[1]}/")
            async with open_transport() as transport:
                with times_out_after(0.1, httpx2.ConnectTimeout):
                    await fetch(transport, post_request(url, connect=0.1))
                with times_out_after(0.1, httpx2.ConnectTimeout):
                    await fetch(transport, post_request(url, total=0.1))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"read": 0.1}, {"first": 0.1}, {"first": 0.1, "read": 90}, {"first": 90, "total": 0.1}])
def test_silent_engine_times_out_and_is_disconnected(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            disconnects.append(await connection.sees_disconnect())

        async with start_engine(script) as engine, open_transport() as transport:
            with times_out_after(0.1, httpx2.ReadTimeout):
                await fetch(transport, post_request(engine.url, b"{}", None, **timeout))
            await wait_until(lambda: disconnects == [True])

    run(new_loop, main())


@both_loops
def test_response_head_alone_does_not_meet_the_first_byte_timeout(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await asyncio.sleep(0.1)
            await connection.send(_HEAD)
            await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            with times_out_after(0.3, httpx2.ReadTimeout):
                await fetch(transport, post_request(engine.url, first=0.3, read=0.01))

    run(new_loop, main())


@both_loops
def test_read_timeout_is_measured_from_the_last_block(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(_HEAD)
            for _ in range(4):
                await asyncio.sleep(0.15)
                await connection.send(b"x")
            await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(post_request(engine.url, first=30, read=0.5)))
            for _ in range(4):
                assert await anext(stream) == b"x"
            with times_out_after(0.5, httpx2.ReadTimeout):
                await anext(stream)

    run(new_loop, main())


@both_loops
def test_total_timeout_ends_a_response_that_keeps_sending(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await connection.send(b"x")
                await asyncio.sleep(0.01)

        async with start_engine(script) as engine, open_transport() as transport:
            with times_out_after(0.4, httpx2.ReadTimeout):
                await fetch(transport, post_request(engine.url, read=60, total=0.4))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"write": 0.2}, {"write": 90, "total": 0.2}])
def test_write_times_out_when_the_engine_does_not_read_the_request(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        timed_out = asyncio.Event()

        async def script(connection: EngineConnection) -> None:
            connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await timed_out.wait()

        async with start_engine(script) as engine, open_transport() as transport:
            with times_out_after(0.2, httpx2.WriteTimeout):
                await fetch(transport, post_request(engine.url, b"x" * 30_000_000, read=0.05, first=0.05, headers=None, **timeout))
            timed_out.set()

    run(new_loop, main())


@both_loops
def test_slow_upload_that_makes_progress_does_not_time_out(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            head = await connection.read_head()
            assert head
            for _ in range(10):
                await connection.reader.readexactly(2_400_000)
                await asyncio.sleep(0.12)
            await connection.send(OK)

        async with start_engine(script) as engine, open_transport() as transport:
            assert await fetch(transport, post_request(engine.url, b"x" * 24_000_000, write=1.0, first=30, read=30)) == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_waiting_for_a_full_pool_times_out(new_loop: NewLoop) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await gate.wait()
                await connection.send(OK)

        async with start_engine(script) as engine, open_transport(connections_per_origin=2) as transport:
            busy = [asyncio.create_task(fetch(transport, post_request(engine.url))) for _ in range(2)]
            await wait_until(lambda: transport.stats().busy == 2)
            with times_out_after(0.2, httpx2.PoolTimeout):
                await fetch(transport, post_request(engine.url, pool=0.2))
            with times_out_after(0.2, httpx2.PoolTimeout):
                await fetch(transport, post_request(engine.url, total=0.2))
            waiting = [asyncio.create_task(fetch(transport, post_request(engine.url, pool=60))) for _ in range(6)]
            await asyncio.sleep(0.02)
            gate.set()
            assert await asyncio.gather(*busy, *waiting) == [(200, b"ok")] * 8
            assert len(engine.connections) == 2

    run(new_loop, main())


def block_event_loop(for_s: float) -> None:
    time.sleep(for_s)


@both_loops
def test_stalled_event_loop_is_not_taken_for_a_silent_engine(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await asyncio.sleep(0.3)
                await connection.send(OK)

        async with start_engine(script) as engine, open_transport() as transport:
            pending_request = asyncio.create_task(fetch(transport, post_request(engine.url, read=0.6)))
            await asyncio.sleep(0.1)
            block_event_loop(0.8)
            assert await pending_request == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_slow_reader_applies_backpressure_to_the_engine(new_loop: NewLoop) -> None:
    size = 40_000_000

    async def main() -> None:
        sent = 0

        async def script(connection: EngineConnection) -> None:
            nonlocal sent
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent < size:
                connection.writer.write(b"x" * 100_000)
                await connection.writer.drain()
                sent += 100_000
            await connection.read_head()  # an engine that closed the connection would leave none that is idle

        async with start_engine(script) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(post_request(engine.url, read=0.5)))
            await asyncio.sleep(0.7)  # longer than `read`: the reader is silent, not the engine
            assert stream.response.queued_bytes < 1_000_000
            assert sent < size // 2
            assert len(await stream.read_all(size)) == size
            assert transport.stats().idle == 1

    run(new_loop, main())


@both_loops
def test_total_timeout_ends_a_response_nobody_reads(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await connection.send(b"x" * 100_000)

        async with start_engine(script) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(post_request(engine.url, total=1.5)))
            await wait_until(lambda: transport.stats().busy == 0)
            with pytest.raises(httpx2.ReadTimeout):
                async for _ in stream:
                    pass

    run(new_loop, main())


@both_loops
def test_timeout_sweep_stops_while_no_connection_is_busy(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            for _ in range(2):
                assert await fetch(transport, post_request(engine.url, read=30)) == (200, b"ok")
                await wait_until(lambda: transport._sweep_timer is None)  # pyright: ignore[reportPrivateUsage]
            assert len(engine.connections) == 1

    run(new_loop, main())
