"""The process that checks: reads orders from its standard input, answers on its standard output, and ends when its worker does.

Each order is looked at in a fork, which the kernel ends when it takes more than it may: what an order breaks is gone with the fork, and
the next begins afresh.
"""

import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import BinaryIO

import msgspec

from app.gateway.checking.judge import judged
from app.gateway.checking.tasks import HEAD_BYTES, Order, Verdict, framed

MEMORY_BYTES = 100_000_000
"""Beyond what the process itself has."""

# Of the clock. The worker has given up by then: this ends a fork that hangs without computing, which nothing else would.
_LAST_S = 5.0

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DEATHS: Mapping[int, str] = {signal.SIGPROF: "time", signal.SIGABRT: "memory", signal.SIGKILL: "memory", signal.SIGSEGV: "depth"}


def main() -> None:
    # The end of its input ends it, and nothing else: what is sent to a terminal's whole group is for the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    orders, answers = sys.stdin.buffer, sys.stdout.fileno()
    gc.collect()
    gc.freeze()
    gc.disable()
    while (order := _read(orders)) is not None:
        fork = os.fork()
        if fork == 0:
            _obey(order, answers)
        _, status = os.waitpid(fork, 0)
        if status != 0:
            _write(answers, Verdict("heavy", _DEATHS.get(os.WTERMSIG(status), "") if os.WIFSIGNALED(status) else ""))


def _obey(raw: bytes, answers: int) -> None:
    """In the fork. Its verdict is written only when all is done, so that there is never a second."""
    status = 1
    with contextlib.suppress(BaseException):  # whatever a library raises: the parent says that there was no verdict
        order = msgspec.msgpack.decode(raw, type=Order)
        most = _size_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.setitimer(signal.ITIMER_PROF, order.processor_s)
        signal.setitimer(signal.ITIMER_REAL, _LAST_S)
        verdict = judged(order)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(answers, verdict)
        status = 0
    os._exit(status)


def _size_bytes() -> int:
    with open("/proc/self/statm", "rb") as told:
        return int(told.read().split()[0]) * _PAGE_BYTES


def _read(orders: BinaryIO) -> bytes | None:
    head = orders.read(HEAD_BYTES)
    return orders.read(int.from_bytes(head, "big")) if len(head) == HEAD_BYTES else None


def _write(answers: int, verdict: Verdict) -> None:
    left = framed(verdict)
    while left:
        left = left[os.write(answers, left) :]


if __name__ == "__main__":
    main()
