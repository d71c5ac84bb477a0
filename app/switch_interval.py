"""A short switch interval of the interpreter, while a thread beside the event loop computes for long."""

import contextlib
import sys
import threading
from collections.abc import Generator

# The event loop asks for the interpreter at each of its turns, and waits so long for it. Only while such a thread runs: other threads (a
# sync of the spool) would otherwise interrupt the event loop as often, which made each request dearer by 2 to 3 %.
_SHORT_S = 0.0005
_USUAL_S = sys.getswitchinterval()

_lock = threading.Lock()
_users = 0


@contextlib.contextmanager
def short_switch_interval() -> Generator[None]:
    """For the thread that computes. The interval is that of all threads, so it is short until the last of them has finished."""
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
