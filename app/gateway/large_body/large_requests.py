"""Large requests: a body is parsed in a thread, and only after it is known to keep to the caps; a small one is parsed at once.

Why a thread, and what it brings: docs/decisions/012-large-requests.md. How teams share it: 036-large-work-in-processes.md.
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

from app.gateway.large_body.body_size import LARGE_BYTES, SMALL_BYTES, is_large
from app.gateway.large_body.request_size import RequestCaps
from app.gateway.large_body.team_turns import TeamTurns, Turn
from app.gateway.large_work.pool import LargeWorkPool
from app.gateway.large_work.protocol import MaskStreamTask, MaskTask, Outcome, Task
from app.process.switch_interval import short_switch_interval
from app.recording.content.masking import MaskRules
from app.recording.content.stream_masking import StreamMasker
from app.settings import Settings
from providers.dialect import CallerDialect, InboundRequest
from providers.transport.loop_turns import LoopTurns

P = ParamSpec("P")
T = TypeVar("T")

# Caps are for bodies above this size.
_UNCOUNTED_BYTES = 64 * 1024
_LONG_CALL_S = 0.002
_MIN_PAUSE_S = 0.005  # enough to serve a request
# Which work at the same time, each in a thread; work of others waits until one of them is done.
_MAX_TEAMS = 16


class LargeRequests:
    """Work on large bodies, in one thread for each team, of which one computes at a time: with several, the event loop would wait for each
    of them in turn. A team whose work is short waits for a slice of another's, and not for all of it.

    What has to be done in the event loop goes through `loop_turns`.
    """

    def __init__(self, settings: Settings, loop_turns: LoopTurns) -> None:
        self.loop_turns = loop_turns
        self._caps = RequestCaps.of(settings)
        self._executor = ThreadPoolExecutor(_MAX_TEAMS, "large-requests")
        self._turns = TeamTurns()
        self.pool = LargeWorkPool(settings)
        self._busy_teams: set[str] = set()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by team, the next one first

    def of_team(self, team_id: str) -> "TeamLargeRequests":
        return TeamLargeRequests(self, team_id)

    async def run(self, team_id: str, work: Callable[[], T]) -> T:
        if team_id in self._busy_teams or len(self._busy_teams) == _MAX_TEAMS:
            await self._wait_for_turn(team_id)
        self._busy_teams.add(team_id)
        loop = asyncio.get_running_loop()
        try:
            running = self._executor.submit(_run_beside_loop, work, Turn(self._turns, team_id))
        except RuntimeError:  # the process ends
            self._start_next(team_id)
            raise
        # When the thread is done, which is later than the end of a request that is cancelled.
        running.add_done_callback(lambda _: _call_soon(loop, lambda: self._start_next(team_id)))
        return await asyncio.wrap_future(running)

    def check_and_parse(self, dialect: CallerDialect, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest."""
        if len(raw) > _UNCOUNTED_BYTES:
            self._caps.check(raw)
        return dialect.parse_request(raw)

    def start(self) -> None:
        self.pool.start()

    async def stop(self) -> None:
        await self.pool.stop()
        self.close()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _wait_for_turn(self, team_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(team_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._start_next(team_id)
            raise

    def _start_next(self, team_id: str) -> None:
        """The next work, once that of this team is done: of a team whose work has no thread, in turn."""
        self._busy_teams.discard(team_id)
        for waiting_id in [each for each in self._waiting if each not in self._busy_teams]:
            turns = self._waiting.pop(waiting_id)
            while turns and turns[0].done():  # its request was cancelled
                turns.popleft()
            if turns:
                self._busy_teams.add(waiting_id)
                turns.popleft().set_result(None)
                if turns:
                    self._waiting[waiting_id] = turns  # behind all others
                return


class TeamLargeRequests:
    """The large requests of one team."""

    __slots__ = ("_large_requests", "_team_id")

    def __init__(self, large_requests: LargeRequests, team_id: str) -> None:
        self._large_requests = large_requests
        self._team_id = team_id

    async def parse(self, dialect: CallerDialect, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest."""
        return await self.run(self._large_requests.check_and_parse, dialect, raw) if is_large(raw) else dialect.parse_request(raw)

    def for_body(self, raw: bytes) -> "TeamLargeRequests | None":
        """Returns where work on this body runs, or None if that is at once."""
        return self if is_large(raw) else None

    def for_text(self, text: str) -> "TeamLargeRequests | None":
        """Returns where work on this text runs, which is to become a part of a body, or None if that is where work on the body does."""
        return self if len(text) > LARGE_BYTES else None

    async def run_on_body(self, raw: bytes, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs work on this body: in the thread if it would hold up the event loop, and else at once."""
        return await self.run(work, *args, **kwargs) if is_large(raw) else work(*args, **kwargs)

    async def run_if_large(self, size_bytes: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the work in the thread if it is on more than 16 KiB, which may be a thousand objects, and else at once."""
        return await self.run(work, *args, **kwargs) if size_bytes > SMALL_BYTES else work(*args, **kwargs)

    async def mask(self, body: bytes, rules: MaskRules) -> bytes:
        """Masks a body in a process, as nobody knows what the rules of a team take for it.

        Raises WorkTooLarge.
        """
        return (await self.run_in_process(MaskTask(rules.config), body))[1]

    async def mask_stream(self, masker: StreamMasker, frames: bytes) -> tuple[StreamMasker, bytes]:
        """Masks frames of a stream, in a process, too. Raises WorkTooLarge."""
        outcome, masked = await self.run_in_process(MaskStreamTask(masker.encode()), frames)
        return StreamMasker.decode(outcome.state), masked

    async def run_in_process(self, task: Task, body: bytes) -> tuple[Outcome, bytes]:
        """Raises WorkTooLarge."""
        return await self._large_requests.pool.run(self._team_id, task, body)

    async def wait_for_loop_turn(self) -> None:
        await self._large_requests.loop_turns.wait()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._large_requests.run(self._team_id, lambda: work(*args, **kwargs))


def _run_beside_loop(work: Callable[[], T], turn: Turn) -> T:
    # By the thread, which may still run when the request that waits for it has been cancelled.
    with turn, short_switch_interval():
        if sys.version_info < (3, 12):  # later versions slow down the calls of all threads while one has a profiler
            sys.setprofile(_PauseAfterLongCalls(turn))
        try:
            return work()
        finally:
            sys.setprofile(None)


class _PauseAfterLongCalls:
    """A profiler of one thread, which is called before and after each of its calls: it pauses the thread after a long call into C, and
    lets other teams compute.

    Only between such calls can the event loop run, and it has to get the interpreter several times to serve one request: without a
    pause it would wait for the next long call each time. The pauses are never longer than what was computed before: on a busy machine a
    call is long because the thread waits in it.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._last_s = self._looked_s = time.perf_counter()
        self._computed_s = time.thread_time()

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        now_s = time.perf_counter()
        if (length_s := now_s - self._last_s) > _LONG_CALL_S:
            computed_s = time.thread_time()
            time.sleep(min(max(length_s, _MIN_PAUSE_S), computed_s - self._computed_s))
            self._computed_s = computed_s
            now_s = time.perf_counter()
        if now_s - self._looked_s > _LONG_CALL_S:
            self._turn.pass_on()
            now_s = self._looked_s = time.perf_counter()
        self._last_s = now_s


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)
