"""Nothing waits for ever, nothing is given up early, and a slow reader slows the engine instead of filling memory."""

import asyncio
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx
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
)

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@contextmanager
def times_out_after(limit_s: float, kind: type[httpx.TimeoutException]) -> Generator[None]:
    """Never early; the seconds above the sweep are what a crowded machine may add."""
    began = time.monotonic()
    with pytest.raises(kind) as raised:
        yield
    assert type(raised.value) is kind
    assert limit_s - 0.002 <= time.monotonic() - began < limit_s + 3 * SWEEP_S + 3


@both_loops
def test_connect_times_out_when_the_engine_does_not_accept(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as unresponsive, socket.socket() as first, socket.socket() as second:
            unresponsive.bind(("127.0.0.1", 0))
            unresponsive.listen(0)
            for filler in (first, second):  # the queue is full: whoever comes now is not answered at all
                filler.setblocking(False)
                filler.connect_ex(unresponsive.getsockname())
            url = httpx.URL(f"http://127.0.0.1:{unresponsive.getsockname()[1]}/")
            async with open_transport() as via:
                with times_out_after(0.1, httpx.ConnectTimeout):
                    await fetch(via, post_request(url, connect=0.1))
                with times_out_after(0.1, httpx.ConnectTimeout):
                    await fetch(via, post_request(url, total=0.1))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"read": 0.1}, {"first": 0.1}, {"first": 0.1, "read": 9}, {"first": 9, "total": 0.1}])
def test_silent_engine_times_out_and_is_disconnected(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            disconnects.append(await visit.sees_disconnect())

        async with start_engine(play) as served, open_transport() as via:
            with times_out_after(0.1, httpx.ReadTimeout):
                await fetch(via, post_request(served.url, b"{}", None, **timeout))
            await asyncio.sleep(0.02)
            assert disconnects == [True]

    run(new_loop, main())


@both_loops
def test_response_head_alone_does_not_meet_the_first_byte_timeout(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await asyncio.sleep(0.1)
            await visit.send(_HEAD)
            await visit.sees_disconnect()

        async with start_engine(play) as served, open_transport() as via:
            with times_out_after(0.3, httpx.ReadTimeout):
                await fetch(via, post_request(served.url, first=0.3, read=0.01))

    run(new_loop, main())


@both_loops
def test_read_timeout_is_measured_from_the_last_block(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(_HEAD)
            for _ in range(4):
                await asyncio.sleep(0.1)
                await visit.send(b"x")
            await visit.sees_disconnect()

        async with start_engine(play) as served, open_transport() as via:
            stream = response_stream(await via.handle_async_request(post_request(served.url, first=5, read=0.3)))
            for _ in range(4):
                assert await anext(stream) == b"x"
            with times_out_after(0.3, httpx.ReadTimeout):
                await anext(stream)

    run(new_loop, main())


@both_loops
def test_total_timeout_ends_a_response_that_keeps_sending(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await visit.send(b"x")
                await asyncio.sleep(0.01)

        async with start_engine(play) as served, open_transport() as via:
            with times_out_after(0.4, httpx.ReadTimeout):
                await fetch(via, post_request(served.url, read=0.3, total=0.4))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"write": 0.2}, {"write": 9, "total": 0.2}])
def test_write_times_out_when_the_engine_does_not_read_the_request(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(0.35)

        async with start_engine(play) as served, open_transport() as via:
            with times_out_after(0.2, httpx.WriteTimeout):
                await fetch(via, post_request(served.url, b"x" * 30_000_000, read=0.05, first=0.05, headers=None, **timeout))

    run(new_loop, main())


@both_loops
def test_slow_upload_that_makes_progress_does_not_time_out(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            head = await visit.read_head()
            assert head
            for _ in range(10):
                await visit.reader.readexactly(2_400_000)
                await asyncio.sleep(0.06)
            await visit.send(OK)

        async with start_engine(play) as served, open_transport() as via:
            assert await fetch(via, post_request(served.url, b"x" * 24_000_000, write=0.3, first=3, read=3)) == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_waiting_for_a_full_pool_times_out(new_loop: NewLoop) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def play(visit: EngineConnection) -> None:
            while await visit.read_request():
                await gate.wait()
                await visit.send(OK)

        async with start_engine(play) as served, open_transport(connections_per_origin=2) as via:
            busy = [asyncio.create_task(fetch(via, post_request(served.url))) for _ in range(2)]
            await asyncio.sleep(0.02)
            with times_out_after(0.2, httpx.PoolTimeout):
                await fetch(via, post_request(served.url, pool=0.2))
            with times_out_after(0.2, httpx.PoolTimeout):
                await fetch(via, post_request(served.url, total=0.2))
            waiting = [asyncio.create_task(fetch(via, post_request(served.url, pool=5))) for _ in range(6)]
            await asyncio.sleep(0.02)
            gate.set()
            assert await asyncio.gather(*busy, *waiting) == [(200, b"ok")] * 8
            assert len(served.connections) == 2

    run(new_loop, main())


def block_event_loop(for_s: float) -> None:
    time.sleep(for_s)


@both_loops
def test_stalled_event_loop_is_not_taken_for_a_silent_engine(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            while await visit.read_request():
                await asyncio.sleep(0.15)
                await visit.send(OK)

        async with start_engine(play) as served, open_transport() as via:
            pending_request = asyncio.create_task(fetch(via, post_request(served.url, read=0.25)))
            await asyncio.sleep(0.1)
            block_event_loop(0.3)
            assert await pending_request == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_slow_reader_applies_backpressure_to_the_engine(new_loop: NewLoop) -> None:
    size = 40_000_000

    async def main() -> None:
        sent = 0

        async def play(visit: EngineConnection) -> None:
            nonlocal sent
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent < size:
                visit.writer.write(b"x" * 100_000)
                await visit.writer.drain()
                sent += 100_000

        async with start_engine(play) as served, open_transport() as via:
            stream = response_stream(await via.handle_async_request(post_request(served.url, read=0.2)))
            await asyncio.sleep(0.35)  # longer than `read`: it is we who are silent
            assert stream.response.queued_bytes < 1_000_000
            assert sent < size // 2
            assert len(await stream.read_all(size)) == size
            assert via.stats().idle == 1

    run(new_loop, main())


@both_loops
def test_total_timeout_ends_a_response_nobody_reads(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await visit.send(b"x" * 100_000)

        async with start_engine(play) as served, open_transport() as via:
            stream = response_stream(await via.handle_async_request(post_request(served.url, total=0.2)))
            await asyncio.sleep(0.4)
            assert via.stats().busy == 0
            with pytest.raises(httpx.ReadTimeout):
                async for _ in stream:
                    pass

    run(new_loop, main())


@both_loops
def test_timeout_sweep_stops_while_no_connection_is_busy(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as served, open_transport() as via:
            for _ in range(2):
                assert await fetch(via, post_request(served.url, read=0.05)) == (200, b"ok")
                await asyncio.sleep(3 * SWEEP_S)
                assert via._sweep_timer is None  # pyright: ignore[reportPrivateUsage]
            assert len(served.connections) == 1

    run(new_loop, main())
