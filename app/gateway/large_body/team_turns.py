"""Turns of teams: of all threads that work on large bodies, one computes at a time, and the team that has computed least is next.

A thread passes the turn on where it says that it can, after a slice; a call into C is never interrupted.
"""

import threading
import time
from collections.abc import Hashable

_SLICE_S = 0.003


class TeamTurns:
    """Shared by the threads. Each begins its work with a Turn, and ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing: Turn | None = None
        self._waiting: list[Turn] = []
        # Of the teams that have work: how long they have computed, each beginning with as much as the one that has least.
        self._used_s: dict[Hashable, float] = {}

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def enter(self, turn: "Turn") -> bool:
        """Whether it may compute at once; if not, its event will be set."""
        with self._lock:
            self._used_s.setdefault(turn.team, min(self._used_s.values(), default=0.0))
            if self._computing is None:
                self._computing = turn
                return True
            self._waiting.append(turn)
            return False

    def leave(self, turn: "Turn", used_s: float, *, is_done: bool) -> None:
        """Passes the turn on to another thread; without one, if the work is not done, back to itself."""
        with self._lock:
            self._used_s[turn.team] += used_s
            if not is_done:
                self._waiting.append(turn)
            elif all(each.team != turn.team for each in self._waiting):
                del self._used_s[turn.team]
            following = min(self._waiting, key=lambda each: self._used_s[each.team], default=None)
            self._computing = following
            if following is not None:
                self._waiting.remove(following)
                following.event.set()


class Turn:
    """One piece of work of a team, in its thread: `with turn:` around all of it, and pass_on() in between."""

    __slots__ = ("_began_s", "_turns", "event", "team")

    def __init__(self, turns: TeamTurns, team: Hashable) -> None:
        self._turns = turns
        self.team = team
        self.event = threading.Event()
        self._began_s = 0.0

    def __enter__(self) -> "Turn":
        if not self._turns.enter(self):
            self.event.wait()
        self._began_s = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._turns.leave(self, time.thread_time() - self._began_s, is_done=True)

    def pass_on(self) -> None:
        """Lets another team compute, if one waits and this one has computed for a slice."""
        if not self._turns.has_waiting or (used_s := time.thread_time() - self._began_s) < _SLICE_S:
            return
        self.event.clear()
        self._turns.leave(self, used_s, is_done=False)
        self.event.wait()
        self._began_s = time.thread_time()
