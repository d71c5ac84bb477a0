"""How the interpreter runs while a thread beside the event loop computes for long: it changes threads more often, or collects nothing."""

import contextlib
import gc
import sys
import threading
from collections.abc import Generator

# The event loop asks for the interpreter at each of its turns, and waits so long for it. Only while such a thread runs: other threads (a
# sync of the spool) would otherwise interrupt the event loop as often, which made each request dearer by 2 to 3 %.
_SHORT_S = 0.0005
_USUAL_S = sys.getswitchinterval()

_lock = threading.Lock()
_users = 0
_pauses = 0


@contextlib.contextmanager
def short_switch_interval() -> Generator[None]:
    """Shortens the interval between switches of threads while the calling thread computes.

    The interval is that of all threads, so it stays short until the last such thread has finished.
    """
    global _users
    with _lock:
        _users += 1
        sys.setswitchinterval(_SHORT_S)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setswitchinterval(_USUAL_S)


@contextlib.contextmanager
def paused_collector() -> Generator[None]:
    """Pauses the garbage collector for a second of work.

    The many objects of that work are gone at its end, without cycles. The collector takes 20 ms to look at
    50,000 of them, in which no thread runs. Until the last of such work has ended, cycles of other code are
    not collected either.
    """
    global _pauses
    with _lock:
        _pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses:
                gc.enable()
