"""The supervisor: keeps this machine's processes alive, and ends them in order when it is told to."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from app.local.log import Log
from app.local.member import Member
from app.local.trouble import Trouble

_LOOK_S = 0.1
_LONG_ENOUGH_S = 2.0  # a process that lived this long and died is started again at once
_LONGEST_PAUSE_S = 5.0
_HURRIED_S = 1.0


@dataclass(slots=True)
class _Watch:
    """One member and how it has fared."""

    member: Member
    log: Log
    patience_s: float
    launched_at: float = 0.0
    pause_s: float = 0.0
    due_at: float | None = None


class Supervisor:
    """Used in order: start() and wait() for each group of members, run(), stop().

    Until run() is called, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that a start can be broken off anywhere.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._groups: list[list[_Watch]] = []
        self._running = False
        self._asked = 0
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._hear)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants this to outlive its terminal
            signal.signal(signal.SIGHUP, self._hear)

    def start(self, members: Sequence[Member], *, patience_s: float) -> None:
        """Starts a group and returns at once. `patience_s`: how long each may take to end, later."""
        group = [_Watch(member, Log(member.child.log), patience_s) for member in members]
        self._groups.append(group)
        for watch in group:
            watch.log.rotate()
            watch.launched_at = time.monotonic()
            watch.member.launch()

    def wait(self) -> None:
        """Until every member that was started answers. Raises Trouble if one does not come up."""
        for group in self._groups:
            for watch in group:
                watch.member.wait()

    def run(self) -> None:
        """Returns once it was told to end (Ctrl-C, SIGTERM, a closed terminal); stop() is to be called then."""
        self._running = True
        while not self._asked:
            for group in self._groups:
                for watch in group:
                    self._look_after(watch)
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Ends every member, the group started last first. Told once more meanwhile, it waits for nobody any longer."""
        self._running = True
        asked_before = self._asked
        for group in reversed(self._groups):
            for watch in group:
                watch.member.child.ask_to_end()
            deadline = time.monotonic() + max(watch.patience_s for watch in group)
            while any(watch.member.pid is not None for watch in group) and time.monotonic() < deadline:
                if self._asked > asked_before:
                    deadline = min(deadline, time.monotonic() + _HURRIED_S)
                time.sleep(0.02)
            for watch in group:
                if watch.member.pid is not None:
                    self._say(f"{watch.member.name} has not ended in time; it is killed.")
                watch.member.stop(0.0)
        self._groups.clear()

    def _look_after(self, watch: _Watch) -> None:
        for line in watch.log.complaints():
            self._say(f"{watch.member.name}: {line}")
        now = time.monotonic()
        if watch.member.pid is not None:
            return
        if watch.due_at is None:
            lived_s = now - watch.launched_at
            watch.pause_s = 0.0 if lived_s >= _LONG_ENOUGH_S else min(max(0.25, watch.pause_s * 2), _LONGEST_PAUSE_S)
            watch.due_at = now + watch.pause_s
            self._say(
                f"{watch.member.name} {_how(watch.member)}; it is started again{f' in {watch.pause_s:g} s' if watch.pause_s > 1 else ''}."
            )
        if now >= watch.due_at:
            watch.due_at = None
            watch.launched_at = time.monotonic()
            try:
                watch.member.launch()
            except (Trouble, OSError) as trouble:  # a full disk is no reason to let go of the others
                self._say(str(trouble))

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        if not self._running:
            raise KeyboardInterrupt


def _how(member: Member) -> str:
    status = member.child.status
    if status is None:
        return "could not be started"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    words = member.child.last_words(3)
    return f"ended with status {status}" + (f" (its last words: {words})" if words else "")
