"""Nothing waits for ever, nothing is given up early, and a slow reader slows the engine instead of filling memory."""

import asyncio
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import pytest

from providers.transport.transport import SWEEP_S
from tests.laws.hostile import OK, NewLoop, Visit, always, ask, both_loops, engine, post, run, stream_of, transport

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@contextmanager
def ends_after(limit_s: float, kind: type[httpx.TimeoutException]) -> Generator[None]:
    """Never early; the seconds above the sweep are what a crowded machine may add."""
    began = time.monotonic()
    with pytest.raises(kind) as raised:
        yield
    assert type(raised.value) is kind
    assert limit_s - 0.002 <= time.monotonic() - began < limit_s + 3 * SWEEP_S + 3


@both_loops
def test_an_engine_that_does_not_accept_is_given_up(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            for filler in (first, second):  # the queue is full: whoever comes now is not answered at all
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            url = httpx.URL(f"http://127.0.0.1:{deaf.getsockname()[1]}/")
            async with transport() as via:
                with ends_after(0.1, httpx.ConnectTimeout):
                    await ask(via, post(url, connect=0.1))
                with ends_after(0.1, httpx.ConnectTimeout):
                    await ask(via, post(url, total=0.1))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"read": 0.1}, {"first": 0.1}, {"first": 0.1, "read": 9}, {"first": 9, "total": 0.1}])
def test_a_silent_engine_is_given_up(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        hung_up: list[bool] = []

        async def play(visit: Visit) -> None:
            await visit.request()
            hung_up.append(await visit.hung_up())

        async with engine(play) as served, transport() as via:
            with ends_after(0.1, httpx.ReadTimeout):
                await ask(via, post(served.url, b"{}", None, **timeout))
            await asyncio.sleep(0.02)
            assert hung_up == [True]

    run(new_loop, main())


@both_loops
def test_a_head_is_no_first_byte(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            await visit.request()
            await asyncio.sleep(0.1)
            await visit.send(_HEAD)
            await visit.hung_up()

        async with engine(play) as served, transport() as via:
            with ends_after(0.3, httpx.ReadTimeout):
                await ask(via, post(served.url, first=0.3, read=0.01))

    run(new_loop, main())


@both_loops
def test_silence_between_blocks_is_measured_from_the_last_one(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            await visit.request()
            await visit.send(_HEAD)
            for _ in range(4):
                await asyncio.sleep(0.1)
                await visit.send(b"x")
            await visit.hung_up()

        async with engine(play) as served, transport() as via:
            stream = stream_of(await via.handle_async_request(post(served.url, first=5, read=0.3)))
            for _ in range(4):
                assert await anext(stream) == b"x"
            with ends_after(0.3, httpx.ReadTimeout):
                await anext(stream)

    run(new_loop, main())


@both_loops
def test_all_of_it_has_an_end_however_busy_the_engine(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            await visit.request()
            await visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await visit.send(b"x")
                await asyncio.sleep(0.01)

        async with engine(play) as served, transport() as via:
            with ends_after(0.4, httpx.ReadTimeout):
                await ask(via, post(served.url, read=0.3, total=0.4))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("timeout", [{"write": 0.2}, {"write": 9, "total": 0.2}])
def test_an_engine_that_does_not_take_the_request_is_given_up(new_loop: NewLoop, timeout: dict[str, float | None]) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            visit.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(0.35)

        async with engine(play) as served, transport() as via:
            with ends_after(0.2, httpx.WriteTimeout):
                await ask(via, post(served.url, b"x" * 30_000_000, read=0.05, first=0.05, headers=None, **timeout))

    run(new_loop, main())


@both_loops
def test_a_slowly_taken_request_is_no_silent_engine(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            head = await visit.head()
            assert head
            for _ in range(10):
                await visit.reader.readexactly(2_400_000)
                await asyncio.sleep(0.06)
            await visit.send(OK)

        async with engine(play) as served, transport() as via:
            assert await ask(via, post(served.url, b"x" * 24_000_000, write=0.3, first=3, read=3)) == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_a_full_pool_is_waited_for_so_long_and_no_longer(new_loop: NewLoop) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def play(visit: Visit) -> None:
            while await visit.request():
                await gate.wait()
                await visit.send(OK)

        async with engine(play) as served, transport(connections_per_origin=2) as via:
            busy = [asyncio.create_task(ask(via, post(served.url))) for _ in range(2)]
            await asyncio.sleep(0.02)
            with ends_after(0.2, httpx.PoolTimeout):
                await ask(via, post(served.url, pool=0.2))
            with ends_after(0.2, httpx.PoolTimeout):
                await ask(via, post(served.url, total=0.2))
            waiting = [asyncio.create_task(ask(via, post(served.url, pool=5))) for _ in range(6)]
            await asyncio.sleep(0.02)
            gate.set()
            assert await asyncio.gather(*busy, *waiting) == [(200, b"ok")] * 8
            assert len(served.visits) == 2

    run(new_loop, main())


def stall(for_s: float) -> None:
    time.sleep(for_s)


@both_loops
def test_a_stalled_loop_is_no_silent_engine(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            while await visit.request():
                await asyncio.sleep(0.15)
                await visit.send(OK)

        async with engine(play) as served, transport() as via:
            asked = asyncio.create_task(ask(via, post(served.url, read=0.25)))
            await asyncio.sleep(0.1)
            stall(0.3)
            assert await asked == (200, b"ok")

    run(new_loop, main())


@both_loops
def test_a_slow_reader_slows_the_engine(new_loop: NewLoop) -> None:
    size = 40_000_000

    async def main() -> None:
        sent = 0

        async def play(visit: Visit) -> None:
            nonlocal sent
            await visit.request()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while sent < size:
                visit.writer.write(b"x" * 100_000)
                await visit.writer.drain()
                sent += 100_000

        async with engine(play) as served, transport() as via:
            stream = stream_of(await via.handle_async_request(post(served.url, read=0.2)))
            await asyncio.sleep(0.35)  # longer than `read`: it is we who are silent
            assert stream.response.queued_bytes < 1_000_000
            assert sent < size // 2
            assert len(await stream.read_all(size)) == size
            assert via.stats().idle == 1

    run(new_loop, main())


@both_loops
def test_a_slow_reader_does_not_outlive_the_total(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            await visit.request()
            await visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await visit.send(b"x" * 100_000)

        async with engine(play) as served, transport() as via:
            stream = stream_of(await via.handle_async_request(post(served.url, total=0.2)))
            await asyncio.sleep(0.4)
            assert via.stats().busy == 0
            with pytest.raises(httpx.ReadTimeout):
                async for _ in stream:
                    pass

    run(new_loop, main())


@both_loops
def test_the_sweep_rests_when_nothing_is_busy(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK)) as served, transport() as via:
            for _ in range(2):
                assert await ask(via, post(served.url, read=0.05)) == (200, b"ok")
                await asyncio.sleep(3 * SWEEP_S)
                assert via._sweep_timer is None  # pyright: ignore[reportPrivateUsage]
            assert len(served.visits) == 1

    run(new_loop, main())
