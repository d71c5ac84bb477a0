"""The checking process: reads orders from standard input, writes verdicts to standard output, and ends when its worker does.

Each order is evaluated in a fork, which the kernel kills when it exceeds its limits: whatever an order breaks is gone with the fork.
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

from app.gateway.structured_output.checker.evaluate import evaluate
from app.gateway.structured_output.checker.protocol import LENGTH_PREFIX_BYTES, CheckOrder, Verdict, encode_frame

MEMORY_BYTES = 100_000_000
"""Beyond the size of the process itself."""

# By the clock, for a fork that does not get on without using the processor, which no other limit would end.
_WALL_CLOCK_LIMIT_S = 5.0

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SIGNAL_REASONS: Mapping[int, str] = {signal.SIGPROF: "time", signal.SIGABRT: "memory", signal.SIGKILL: "memory", signal.SIGSEGV: "depth"}


_FIRST_INHERITED_DESCRIPTOR = 3


def main() -> None:
    # uvloop closes nothing in what it starts, and whatever an order takes over must not reach the worker's files and connections.
    os.closerange(_FIRST_INHERITED_DESCRIPTOR, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    # It ends at the end of its input only. Signals that a terminal sends to the process group are for the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    input_stream, output_fd = sys.stdin.buffer, sys.stdout.fileno()
    gc.collect()
    gc.freeze()
    gc.disable()
    while (check_order := _read_frame(input_stream)) is not None:
        child_pid = os.fork()
        if child_pid == 0:
            _run_in_fork(check_order, output_fd)
        _, status = os.waitpid(child_pid, 0)
        if status != 0:
            _write_frame(output_fd, _failed_verdict(status))


def _failed_verdict(status: int) -> Verdict:
    if not os.WIFSIGNALED(status):
        return Verdict("too_expensive")
    number = os.WTERMSIG(status)
    return Verdict("out_of_time") if number == signal.SIGALRM else Verdict("too_expensive", _SIGNAL_REASONS.get(number, ""))


def _run_in_fork(raw: bytes, output_fd: int) -> None:
    """Runs in the fork. The verdict is written last, so that the parent never adds a second one."""
    status = 1
    with contextlib.suppress(BaseException):  # whatever a library raises: the parent writes the verdict for a fork that failed
        check_order = msgspec.msgpack.decode(raw, type=CheckOrder)
        limit_bytes = _size_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        signal.setitimer(signal.ITIMER_PROF, check_order.processor_s)
        signal.setitimer(signal.ITIMER_REAL, _WALL_CLOCK_LIMIT_S)
        verdict = evaluate(check_order)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write_frame(output_fd, verdict)
        status = 0
    os._exit(status)


def _size_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * _PAGE_BYTES


def _read_frame(input_stream: BinaryIO) -> bytes | None:
    head = input_stream.read(LENGTH_PREFIX_BYTES)
    return input_stream.read(int.from_bytes(head, "big")) if len(head) == LENGTH_PREFIX_BYTES else None


def _write_frame(output_fd: int, verdict: Verdict) -> None:
    remaining = encode_frame(verdict)
    while remaining:
        remaining = remaining[os.write(output_fd, remaining) :]


if __name__ == "__main__":
    main()
