"""The connection pool: connections are shared without mixing responses, and closed at once when nobody wants the response."""

import asyncio
import gzip
import random
import re
import socket
import time

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.transport.transport import AddressConnections, Stats
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


async def echo(connection: EngineConnection) -> None:
    """Responds with the request's own body, in pieces, after a while."""
    while request := await connection.read_request():
        body = request.partition(b"\r\n\r\n")[2]
        await asyncio.sleep(random.random() * 0.004)
        half = len(body) // 2
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body[:half], body[half:])


@both_loops
def test_two_hundred_concurrent_requests_each_get_their_own_response(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(echo) as engine, open_transport(connections_per_origin=50) as transport:

            async def send_numbered(number: int) -> None:
                for turn in range(3):
                    body = b"%d.%d " % (number, turn) * random.randint(1, 300)
                    assert await fetch(transport, post_request(engine.url, body, pool=30, first=30, read=30)) == (200, body)

            await asyncio.gather(*(send_numbered(number) for number in range(200)))
            assert transport.stats() == Stats(idle=50, busy=0, opened=50, reused=550)
            assert len(engine.connections) == 50

    run(new_loop, main())


@both_loops
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(0, 0.012), min_size=8, max_size=8), st.booleans())
def test_cancelling_a_request_at_any_moment_does_not_affect_others(new_loop: NewLoop, after_s: list[float], crowded: bool) -> None:
    async def main() -> None:
        disconnects = 0

        async def script(connection: EngineConnection) -> None:
            nonlocal disconnects
            try:
                while request := await connection.read_request():
                    body = request.partition(b"\r\n\r\n")[2]
                    await asyncio.sleep(0.003)
                    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body[:5])
                    await asyncio.sleep(0.003)
                    await connection.send(body[5:])
            finally:
                disconnects += 1

        async with start_engine(script) as engine, open_transport(connections_per_origin=3 if crowded else 100) as transport:

            async def send_numbered(number: int) -> bool:
                body = b"number %d" % number * 100
                return await fetch(transport, post_request(engine.url, body)) == (200, body)

            async def cancelled(number: int, after_s: float) -> bool:
                task = asyncio.create_task(send_numbered(number))
                await asyncio.sleep(after_s)
                if task.cancel():
                    await asyncio.wait([task])
                return task.cancelled() or task.result()

            results = await asyncio.gather(
                *(cancelled(number, s) for number, s in enumerate(after_s)), *(send_numbered(100 + n) for n in range(4))
            )
            assert all(results)
            assert transport.stats().busy == 0
            assert await send_numbered(1000)
            # The engine sees that every connection that is not kept is closed.
            await wait_until(lambda: disconnects == len(engine.connections) - transport.stats().idle)
        assert disconnects == len(engine.connections)

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("moment", ["sending", "sending pieces", "waiting", "reading"])
def test_cancelled_request_disconnects_from_the_engine_at_once(new_loop: NewLoop, moment: str) -> None:
    async def main() -> None:
        disconnected_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        ready = asyncio.Event()

        async def script(connection: EngineConnection) -> None:
            await connection.read_head()
            if moment == "waiting":
                await connection.reader.readexactly(2)
            if moment == "reading":
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
            ready.set()
            await asyncio.sleep(0.01)
            assert await connection.sees_disconnect()
            disconnected_at.set_result(time.monotonic())

        async def endless():
            while True:
                yield b"x" * 100_000

        async with start_engine(script) as engine, open_transport() as transport:
            request = post_request(engine.url, b"x" * 200_000_000 if moment == "sending" else b"{}")
            if moment == "sending pieces":
                request = httpx2.Request("POST", engine.url, content=endless())
            task = asyncio.create_task(fetch(transport, request))
            await ready.wait()
            task.cancel()
            cancelled_at = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert transport.stats() == Stats(idle=0, busy=0, opened=1, reused=0)
            assert await asyncio.wait_for(disconnected_at, 30) - cancelled_at < 10

    run(new_loop, main())


@both_loops
def test_cancelling_a_waiter_passes_the_connection_to_the_next_one(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(echo) as engine, open_transport(connections_per_origin=1) as transport:
            for _ in range(30):
                tasks = [asyncio.create_task(fetch(transport, post_request(engine.url, b"%d" % number))) for number in range(4)]
                await asyncio.sleep(random.random() * 0.006)
                for task in tasks[1:3]:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert (results[0], results[3]) == ((200, b"0"), (200, b"3"))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("response_count", [1, 2])
def test_engine_disconnect_after_a_response_costs_no_request(new_loop: NewLoop, response_count: int) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            for _ in range(response_count):  # each response promises to keep the connection
                if not await connection.read_request():
                    return
                connection.writer.write(OK)

        async with start_engine(script) as engine, open_transport(connections_per_origin=2) as transport:
            pending_requests = [fetch(transport, post_request(engine.url, first=30)) for _ in range(60)]
            assert await asyncio.gather(*pending_requests) == [(200, b"ok")] * 60
            assert 60 <= len(engine.requests) <= 120

    run(new_loop, main())


@both_loops
def test_waits_for_a_connection_are_counted_and_shown(new_loop: NewLoop) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        waits: list[tuple[str, float]] = []

        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await gate.wait()
                await connection.send(OK)

        def count_wait(address: str, waited_s: float) -> None:
            waits.append((address, waited_s))

        async with start_engine(script) as engine, open_transport(connections_per_origin=2, on_wait=count_wait) as transport:
            address = f"http://{engine.url.netloc.decode()}"
            sent = [asyncio.create_task(fetch(transport, post_request(engine.url, pool=60))) for _ in range(5)]
            await wait_until(lambda: len(engine.requests) == 2)
            assert transport.connections() == {address: AddressConnections(busy=2, idle=0, waiting=3, max_busy=2)} and not waits
            sent.pop().cancel()
            gate.set()
            assert await asyncio.gather(*sent) == [(200, b"ok")] * 4
            assert transport.connections() == {address: AddressConnections(busy=0, idle=2, waiting=0, max_busy=2)}
            assert [waited for waited, _ in waits] == [address] * 3 and all(0 < waited_s < 60 for _, waited_s in waits)
            await fetch(transport, post_request(engine.url))
            assert len(waits) == 3  # one that found a connection at once has not waited

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("freed", ["a connection", "a free slot", "a lost connection", "a connection of a closed transport"])
def test_connection_handed_to_a_waiter_at_the_last_moment_is_not_lost(new_loop: NewLoop, freed: str) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while request := await connection.read_request():
                await go.wait()
                await connection.send(OK if b"whole" in request else OK[:-1])

        go = asyncio.Event()

        async with start_engine(script) as engine, open_transport(connections_per_origin=1) as transport:

            async def first() -> None:
                """Disturbs `second` at the moment when it has been given what became free, and has not run yet."""
                response = await transport.handle_async_request(post_request(engine.url, b"half" if freed == "a free slot" else b"whole"))
                await anext(response_stream(response))
                match freed:
                    case "a connection":
                        second.cancel()
                    case "a free slot":
                        await response.aclose()
                        second.cancel()
                    case "a lost connection":
                        connection.abort()
                    case _:
                        await transport.aclose()

            first_request = asyncio.create_task(first())
            await wait_until(lambda: len(engine.requests) == 1)
            [connection] = transport._busy  # pyright: ignore[reportPrivateUsage]
            second = asyncio.create_task(fetch(transport, post_request(engine.url, b"whole", pool=30)))
            await asyncio.sleep(0.01)
            go.set()
            await first_request
            await asyncio.wait([second])
            if freed == "a connection of a closed transport":
                assert isinstance(second.exception(), httpx2.ConnectError)
                assert connection.closed
            else:
                assert second.cancelled() or second.result() == (200, b"ok")
                assert await fetch(transport, post_request(engine.url, b"whole", pool=30)) == (200, b"ok")
                assert len(engine.connections) == (1 if freed == "a connection" else 2)

    run(new_loop, main())


@both_loops
def test_cancelling_during_connect_leaves_no_connection(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as unresponsive, socket.socket() as first, socket.socket() as second:
            unresponsive.bind(("127.0.0.1", 0))
            unresponsive.listen(0)
            for filler in (first, second):
                filler.setblocking(False)
                filler.connect_ex(unresponsive.getsockname())
            url = httpx2.URL(f"http://127.0.0.1:{unresponsive.getsockname()[1]}/")
            async with open_transport(connections_per_origin=1) as transport:
                tasks = [asyncio.create_task(fetch(transport, post_request(url))) for _ in range(3)]
                await asyncio.sleep(0.02)
                for task in tasks:
                    task.cancel()
                assert all(isinstance(ended, asyncio.CancelledError) for ended in await asyncio.gather(*tasks, return_exceptions=True))
                assert not transport._origins  # pyright: ignore[reportPrivateUsage]

    run(new_loop, main())


@both_loops
def test_closing_a_stream_midway_disconnects_at_once(new_loop: NewLoop) -> None:
    async def main() -> None:
        disconnected_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            assert await connection.sees_disconnect()
            disconnected_at.set_result(time.monotonic())

        async with start_engine(script) as engine, open_transport() as transport:
            response = await transport.handle_async_request(post_request(engine.url))
            assert await anext(response_stream(response)) == b"hello"
            closed_at = time.monotonic()
            await response.aclose()
            await response.aclose()
            assert await asyncio.wait_for(disconnected_at, 30) - closed_at < 10
            with pytest.raises(httpx2.StreamClosed):
                await anext(response_stream(response))
            assert transport.stats().busy == transport.stats().idle == 0

    run(new_loop, main())


@both_loops
def test_closing_a_response_ends_its_concurrent_reader(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            assert await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            response = await transport.handle_async_request(post_request(engine.url))
            reader = asyncio.create_task(response_stream(response).read_all(100))
            await asyncio.sleep(0.01)
            await response.aclose()
            with pytest.raises(httpx2.StreamClosed):
                await reader

    run(new_loop, main())


@both_loops
def test_closing_a_fully_received_response_keeps_the_connection(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            for _ in range(3):
                response = await transport.handle_async_request(post_request(engine.url))
                await response.aclose()  # not a byte was read, but all have arrived
            assert len(engine.connections) == 1

    run(new_loop, main())


@both_loops
def test_last_used_connection_is_reused_first_and_idle_ones_expire(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(echo) as engine, open_transport(idle_s=0.6) as transport:
            await asyncio.gather(*(fetch(transport, post_request(engine.url)) for _ in range(5)))
            assert transport.stats().idle == 5
            for _ in range(5):
                await fetch(transport, post_request(engine.url, b"late"))
                await asyncio.sleep(0.15)
            await wait_until(lambda: transport.stats().idle <= 1)
            assert transport.stats() == Stats(idle=1, busy=0, opened=5, reused=5)
            assert sorted(len(connection.requests) for connection in engine.connections) == [1, 1, 1, 1, 6]
            await wait_until(lambda: transport.stats().idle == 0)
            assert not transport._origins  # pyright: ignore[reportPrivateUsage]

    run(new_loop, main())


@both_loops
def test_closing_the_transport_fails_running_and_waiting_requests(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            request = await connection.read_request()
            if b"kept" in request:
                await connection.send(OK)
            assert await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport(connections_per_origin=2) as transport:
            await fetch(transport, post_request(engine.url, b"kept"))
            pending_requests = [asyncio.create_task(fetch(transport, post_request(engine.url))) for _ in range(4)]
            await wait_until(lambda: transport.stats().busy == 2 and len(engine.connections) == 2)
            await asyncio.sleep(0.02)
            await transport.aclose()
            ended = await asyncio.gather(*pending_requests, return_exceptions=True)
            assert [type(one) for one in ended] == [httpx2.ReadError, httpx2.ReadError, httpx2.ConnectError, httpx2.ConnectError]
            with pytest.raises(httpx2.ConnectError):
                await fetch(transport, post_request(engine.url))

    run(new_loop, main())


@both_loops
def test_closing_the_transport_fails_a_pending_connect(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as unresponsive, socket.socket() as first, socket.socket() as second:
            unresponsive.bind(("127.0.0.1", 0))
            unresponsive.listen(0)
            for filler in (first, second):
                filler.setblocking(False)
                filler.connect_ex(unresponsive.getsockname())
            async with open_transport() as transport:
                task = asyncio.create_task(fetch(transport, post_request(httpx2.URL(f"http://127.0.0.1:{unresponsive.getsockname()[1]}/"))))
                await asyncio.sleep(0.02)
                await transport.aclose()
                with pytest.raises(httpx2.ConnectError, match="closed"):
                    await task

    run(new_loop, main())


@both_loops
def test_refused_connect_is_an_error_and_frees_its_pool_slot(new_loop: NewLoop) -> None:
    async def main() -> None:
        with socket.socket() as not_listening:
            not_listening.bind(("127.0.0.1", 0))  # bound, and not listening
            url = httpx2.URL(f"http://127.0.0.1:{not_listening.getsockname()[1]}/")
            async with open_transport(connections_per_origin=1) as transport:
                for _ in range(3):
                    with pytest.raises(httpx2.ConnectError):
                        await fetch(transport, post_request(url, pool=30))

    run(new_loop, main())


@both_loops
def test_tcp_nodelay_is_set(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            pending_request = asyncio.create_task(fetch(transport, post_request(engine.url)))
            await wait_until(lambda: len(engine.requests) == 1)
            [connection] = transport._busy  # pyright: ignore[reportPrivateUsage]
            assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            pending_request.cancel()
            await asyncio.wait([pending_request])

    run(new_loop, main())


@both_loops
def test_transport_works_under_an_httpx_client(new_loop: NewLoop) -> None:
    packed = gzip.compress(b'{"packed": true}')

    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while request := await connection.read_request():
                if b"/packed" in request:
                    head = b"HTTP/1.1 200 Fine\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
                    await connection.send(head % len(packed) + packed)
                elif b"/moved" in request:
                    await connection.send(b"HTTP/1.1 307 Moved\r\nLocation: /packed\r\nContent-Length: 0\r\n\r\n")
                elif b"/broken" in request:
                    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
                    return
                else:
                    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n")

        async with (
            start_engine(script) as engine,
            open_transport() as transport,
            httpx2.AsyncClient(transport=transport, base_url=engine.url.join("/")) as client,
        ):
            moved = await client.post("/moved", json={"a": 1}, follow_redirects=True)
            assert moved.json() == {"packed": True}
            assert (moved.reason_phrase, moved.http_version) == ("Fine", "HTTP/1.1")
            async with client.stream("GET", "/stream") as response:
                assert b"".join([block async for block in response.aiter_raw()]) == b"onetwo"
            async with client.stream("GET", "/stream") as response:
                pass
            with pytest.raises(httpx2.RemoteProtocolError) as raised:
                await client.get("/broken")
            assert raised.value.request.url.path == "/broken"
            assert transport.stats().busy == 0

    run(new_loop, main())


@both_loops
def test_transport_error_names_the_origin_and_shows_no_secret(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(b"nonsense")) as engine, open_transport() as transport:
            request = post_request(engine.url.copy_with(query=b"key=secret"), headers={"Authorization": "Bearer secret"})
            with pytest.raises(httpx2.RemoteProtocolError) as raised:
                await fetch(transport, request)
            assert re.search(rf"http://127.0.0.1:{engine.port}", str(raised.value))
            assert "secret" not in str(raised.value)
            assert raised.value.request is request

    run(new_loop, main())
