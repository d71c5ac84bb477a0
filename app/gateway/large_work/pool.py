"""The pool of working processes: as many compute at a time as the settings say, for the teams that have computed least.

A team has one task at a time in a process. Where more teams have one than may compute, a process is stopped after a slice, and goes on when
it is its team's turn again: what takes long delays only its own team. Why: docs/decisions/036-large-work-in-processes.md.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field, fields
from typing import Any

from app.gateway.large_work.protocol import Outcome, Task, WriteTask
from app.gateway.large_work.worker import Worker, WorkerEnded
from app.settings import Settings, environment_name
from providers.canonical.errors import NarthexError, Unavailable, WorkTooLarge

_SLICE_S = 0.02
# Processes beside those that compute, which are stopped in the midst of a task.
_MAX_STOPPED = 3
_SETTING_NAMES = {each.name: environment_name(each) for each in fields(Settings)}


class _Piece:
    """A task on a body, from the time when it is requested until its result is known."""

    def __init__(self, task: Task, body: bytes) -> None:
        self.task = task
        self.body = body
        self.result: asyncio.Future[tuple[Outcome, bytes]] = asyncio.get_running_loop().create_future()
        self.worker: Worker | None = None
        self.running: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None
        self.since_s: float | None = None  # since when it computes; None: its process is stopped


@dataclass
class _Team:
    """The work of one team, and how much it has used."""

    used_s: float  # how long it has computed, beginning with as much as the team that has used least
    waiting: deque[_Piece] = field(default_factory=deque[_Piece])
    piece: _Piece | None = None


class LargeWorkPool:
    def __init__(self, settings: Settings) -> None:
        self._processes = settings.large_work_processes
        self._memory_bytes = settings.large_work_memory_bytes
        self._processor_s = settings.large_work_processor_s
        self._teams: dict[str, _Team] = {}
        self._idle: list[Worker] = []
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Future[Any] | None = None

    async def run(self, team_id: str, task: Task, body: bytes) -> tuple[Outcome, bytes]:
        """Raises WorkTooLarge for what breaks a bound, Unavailable if no process can work. Ends the work if it is cancelled."""
        if self._is_closed:
            raise Unavailable("The gateway is shutting down.")
        piece = _Piece(task, body)
        least_s = min((team.used_s for team in self._teams.values()), default=0.0)
        self._teams.setdefault(team_id, _Team(least_s)).waiting.append(piece)
        self._balance()
        try:
            return await piece.result
        except asyncio.CancelledError:
            if piece.running is not None and piece.worker is not None and not self._is_closed:
                piece.ending = asyncio.create_task(piece.worker.end_task(piece.running))
            raise

    def start(self) -> None:
        """Starts the processes that compute at once, in the background: later, the event loop would wait for their start."""
        self._idle = [Worker(self._memory_bytes, self._processor_s) for _ in range(self._processes)]
        self._starting = asyncio.gather(*[worker.start() for worker in self._idle], return_exceptions=True)

    async def stop(self) -> None:
        self._is_closed = True
        if self._starting is not None:
            await self._starting
        if self._timer is not None:
            self._timer.cancel()
        pieces = [piece for team in self._teams.values() for piece in (team.piece, *team.waiting) if piece is not None]
        workers = [*self._idle, *[piece.worker for piece in pieces if piece.worker is not None]]
        for piece in pieces:
            piece.result.cancel()
        await asyncio.gather(*[worker.kill() for worker in workers])
        running = [task for piece in pieces for task in (piece.running, piece.ending) if task is not None]
        await asyncio.gather(*running, return_exceptions=True)

    @property
    def pids(self) -> list[int]:
        """The ids of the processes, for tests."""
        workers = [*self._idle, *[team.piece.worker for team in self._teams.values() if team.piece is not None and team.piece.worker]]
        return [worker.pid for worker in workers if worker.pid is not None]

    def _balance(self) -> None:
        """Begins, stops and continues tasks so that the teams compute that have computed least."""
        for team_id, team in list(self._teams.items()):
            while team.waiting and team.waiting[0].result.done():  # its request was cancelled
                team.waiting.popleft()
            if team.piece is None and not team.waiting:
                del self._teams[team_id]
            else:
                _charge(team)
        by_use = sorted(self._teams.values(), key=lambda team: team.used_s)
        may_begin = self._processes + _MAX_STOPPED - sum(team.piece is not None for team in by_use)
        computing: list[_Team] = []
        for team in by_use:
            if len(computing) < self._processes and (team.piece is not None or may_begin > 0):
                computing.append(team)
                if team.piece is None:
                    may_begin -= 1
                    self._begin(team)
                elif team.piece.worker is not None and team.piece.since_s is None:
                    team.piece.since_s = time.monotonic()
                    team.piece.worker.go_on()
            elif team.piece is not None and team.piece.worker is not None and team.piece.ending is None:
                team.piece.since_s = None
                team.piece.worker.stop()
        if len(by_use) > self._processes and self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(_SLICE_S, self._end_slice)

    def _end_slice(self) -> None:
        self._timer = None
        self._balance()

    def _begin(self, team: _Team) -> None:
        piece = team.piece = team.waiting.popleft()
        piece.worker = self._idle.pop() if self._idle else Worker(self._memory_bytes, self._processor_s)
        piece.since_s = time.monotonic()
        piece.running = asyncio.create_task(self._work(team, piece))

    async def _work(self, team: _Team, piece: _Piece) -> None:
        try:
            result = await self._try_twice(piece)
            if not piece.result.done():
                piece.result.set_result(result)
        except NarthexError as fault:
            if not piece.result.done():
                piece.result.set_exception(fault)
        finally:
            _charge(team)
            team.piece = None
            if piece.worker is not None and piece.worker.is_alive and not self._is_closed:
                piece.worker.go_on()
                self._idle.append(piece.worker)
            if not self._is_closed:
                self._balance()

    async def _try_twice(self, piece: _Piece) -> tuple[Outcome, bytes]:
        """The process may have ended before the task, or for another reason than that."""
        for _ in range(2):
            assert piece.worker is not None
            try:
                outcome, written = await piece.worker.run(piece.task, piece.body)
            except (WorkerEnded, OSError):
                if piece.result.done() or self._is_closed:
                    break
                piece.worker = Worker(self._memory_bytes, self._processor_s)
                continue
            if outcome.bound in ("processor", "memory"):
                raise self._too_large(piece, outcome.bound == "processor")
            if outcome.bound is None:
                return outcome, written
            break
        raise Unavailable("The process for large work of this gateway cannot work: try again.")

    def _too_large(self, piece: _Piece, is_time: bool) -> WorkTooLarge:
        size_bytes = len(piece.body)
        work = "render the templates of its function" if isinstance(piece.task, WriteTask) else "mask what is recorded of it"
        bound = f"{self._processor_s:g} s of processor time" if is_time else f"{self._memory_bytes >> 20} MiB of memory"
        setting = _SETTING_NAMES["large_work_processor_s" if is_time else "large_work_memory_bytes"]
        return WorkTooLarge(
            f"The request has {size_bytes} bytes, and to {work} takes more than {bound}, the most that this gateway has for it."
            f" Half as much, {size_bytes // 2} bytes, may fit; its operator can set {setting}."
        )


def _charge(team: _Team) -> None:
    if team.piece is not None and team.piece.since_s is not None:
        now_s = time.monotonic()
        team.used_s += now_s - team.piece.since_s
        team.piece.since_s = now_s
