"""Large requests: a body is parsed in a thread, and only after it is known to keep to the caps; a small one is parsed at once.

Why a thread, and what it brings: docs/decisions/012-large-requests.md.
"""

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import ParamSpec, TypeVar

from app.gateway.large_body.request_size import RequestCaps
from app.settings import Settings
from app.switch_interval import short_switch_interval
from providers.dialect import CallerDialect, InboundRequest
from providers.transport.loop_turns import LoopTurns

P = ParamSpec("P")
T = TypeVar("T")

# A body up to the first size is parsed at once, whatever is in it; above the last one it is large; between them, if it has many
# objects. Caps are for those above the second size.
SMALL_BYTES = 16 * 1024
_UNCOUNTED_BYTES = 64 * 1024
LARGE_BYTES = 256 * 1024
_LARGE_OBJECTS = 1_000
_LONG_CALL_S = 0.002
_MIN_PAUSE_S = 0.005  # enough to serve a request


class LargeRequests:
    """Work on large bodies, in one thread of its own: with several, the event loop would wait for each of them in turn.

    Teams take turns, so that each piece of work waits for at most two of each other team. `loop_turns`: for what has to be done in
    the event loop.
    """

    def __init__(self, settings: Settings, loop_turns: LoopTurns) -> None:
        self.loop_turns = loop_turns
        self._caps = RequestCaps.of(settings)
        self._executor = ThreadPoolExecutor(1, "large-requests")
        self._is_busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by team, the next one first

    def of_team(self, team_id: str) -> "TeamLargeRequests":
        return TeamLargeRequests(self, team_id)

    async def run(self, team_id: str, work: Callable[[], T]) -> T:
        if self._is_busy:
            await self._wait_for_turn(team_id)
        self._is_busy = True
        loop = asyncio.get_running_loop()
        try:
            running = self._executor.submit(_run_beside_loop, work)
        except RuntimeError:  # the process ends
            self._start_next()
            raise
        # When the thread is done, which is later than the end of a request that is cancelled.
        running.add_done_callback(lambda _: _call_soon(loop, self._start_next))
        return await asyncio.wrap_future(running)

    def check_and_parse(self, dialect: CallerDialect, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest."""
        if len(raw) > _UNCOUNTED_BYTES:
            self._caps.check(raw)
        return dialect.parse_request(raw)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _wait_for_turn(self, team_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(team_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._start_next()
            raise

    def _start_next(self) -> None:
        while self._waiting:
            team_id = next(iter(self._waiting))
            turns = self._waiting.pop(team_id)
            while turns and turns[0].done():  # its request was cancelled
                turns.popleft()
            if turns:
                turns.popleft().set_result(None)
                self._waiting[team_id] = turns  # behind all others
                return
        self._is_busy = False


class TeamLargeRequests:
    """The large requests of one team."""

    __slots__ = ("_large_requests", "_team_id")

    def __init__(self, large_requests: LargeRequests, team_id: str) -> None:
        self._large_requests = large_requests
        self._team_id = team_id

    async def parse(self, dialect: CallerDialect, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest."""
        return await self.run(self._large_requests.check_and_parse, dialect, raw) if is_large(raw) else dialect.parse_request(raw)

    async def run_if_large(self, size_bytes: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In the thread if the work is on more than 16 KiB, which may be a thousand objects; else at once."""
        return await self.run(work, *args, **kwargs) if size_bytes > SMALL_BYTES else work(*args, **kwargs)

    async def wait_for_loop_turn(self) -> None:
        await self._large_requests.loop_turns.wait()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._large_requests.run(self._team_id, lambda: work(*args, **kwargs))


def _run_beside_loop(work: Callable[[], T]) -> T:
    # By the thread, which may still run when the request that waits for it has been cancelled.
    with short_switch_interval():
        if sys.version_info < (3, 12):  # later versions slow down the calls of all threads while one has a profiler
            sys.setprofile(_PauseAfterLongCalls())
        try:
            return work()
        finally:
            sys.setprofile(None)


class _PauseAfterLongCalls:
    """A profiler of one thread, which is called before and after each of its calls: it pauses the thread after a long call into C.

    Only between such calls can the event loop run, and it has to get the interpreter several times to serve one request: without a
    pause it would wait for the next long call each time.
    """

    def __init__(self) -> None:
        self._last_s = time.perf_counter()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        now_s = time.perf_counter()
        if (length_s := now_s - self._last_s) > _LONG_CALL_S:
            time.sleep(max(length_s, _MIN_PAUSE_S))
            now_s = time.perf_counter()
        self._last_s = now_s


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)


def is_large(raw: bytes) -> bool:
    """Whether work on this body would hold up the event loop."""
    size_bytes = len(raw)
    return size_bytes > SMALL_BYTES and (size_bytes > LARGE_BYTES or raw.count(b"{") > _LARGE_OBJECTS)
