"""The working process, which worker.py starts: each task is carried out in a fork, which its bounds end, or SIGTERM to the process.

Its arguments are the bounds of one task: bytes of memory, beyond what the process needs for itself, and seconds of processor time.
"""

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import sys
from functools import lru_cache

import msgspec
from msgspec import Raw

from app.domain.callers import MaskConfig
from app.domain.functions import FunctionConfig
from app.gateway.functions.function_request import edit_body, read_system_input
from app.gateway.functions.function_table import CompiledFunction, compile_function
from app.gateway.large_work.protocol import (
    LENGTHS_BYTES,
    Bound,
    MaskStreamTask,
    MaskTask,
    Outcome,
    Task,
    WriteTask,
    decode_lengths,
    encode_head,
)
from app.recording.content.masking import compile_rules
from app.recording.content.stream_masking import StreamMasker, mask
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body

_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = resource.getpagesize()
# How a process ends for which there is no memory: as C++ and Rust, and the kernel, say it.
_MEMORY_SIGNALS = frozenset({signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS})
_OUTPUT = 1
_OUT_OF_MEMORY = 2  # how a fork ends that can say so
_decode_task = msgspec.msgpack.Decoder(Task).decode


class _Fork:
    """The fork that carries out a task, as the handler of the signal sees it."""

    def __init__(self) -> None:
        self.pid = 0
        # The signal has come since the task did.
        self.is_unwanted = False
        # A byte that is shared with the fork, set once that writes its outcome: half of one is worse than one that
        # nobody wants.
        self.writes = mmap.mmap(-1, 1)

    def end(self, *_: object) -> None:
        self.is_unwanted = True
        if self.pid and self.writes[0] == 0:
            os.kill(self.pid, signal.SIGKILL)


def main() -> None:
    memory_bytes, processor_s = int(sys.argv[1]), float(sys.argv[2])
    _die_with(os.getppid())
    fork = _Fork()
    signal.signal(signal.SIGTERM, fork.end)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while lengths := sys.stdin.buffer.read(LENGTHS_BYTES):
        fork.is_unwanted = False
        head_bytes, body_bytes = decode_lengths(lengths)
        task, body = _decode_task(sys.stdin.buffer.read(head_bytes)), sys.stdin.buffer.read(body_bytes)
        bound = _run_in_fork(fork, task, body, memory_bytes, processor_s)
        del body
        if bound is not None:
            _write(encode_head(Outcome(bound), 0))


def _run_in_fork(fork: _Fork, task: Task, body: bytes, memory_bytes: int, processor_s: float) -> Bound | None:
    """Returns what ended the fork, or None if it has written its outcome itself."""
    if isinstance(task, WriteTask):
        _function(task.function, task.config)  # here, so that the next fork has it, too
    parent = os.getpid()
    fork.writes[0] = 0
    pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            _die_with(parent)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            limit_bytes = _size_bytes() + memory_bytes
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
            signal.setitimer(signal.ITIMER_PROF, processor_s)
            outcome, written = _carry_out(task, body)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if outcome.bound is None:
                fork.writes[0] = 1
                _write(encode_head(outcome, len(written)))
                _write(written)
                status = 0
            else:
                status = _OUT_OF_MEMORY
        os._exit(status)
    fork.pid = pid
    if fork.is_unwanted:
        fork.end()
    _, ended = os.waitpid(pid, 0)
    fork.pid = 0
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        if fork.is_unwanted:
            return "caller"
        return "processor" if number == signal.SIGPROF else "memory" if number in _MEMORY_SIGNALS else "fault"
    status = os.WEXITSTATUS(ended)
    return "memory" if status == _OUT_OF_MEMORY else "fault" if status else None


def _carry_out(task: Task, body: bytes) -> tuple[Outcome, bytes]:
    try:
        match task:
            case MaskTask():
                return Outcome(), mask(body, compile_rules(msgspec.json.decode(task.rules, type=MaskConfig)))
            case MaskStreamTask():
                masker = StreamMasker.decode(task.state)
                masked = masker.feed(body)
                return Outcome(state=masker.encode()), masked
            case WriteTask():
                system_input = read_system_input(None if task.input is None else Raw(task.input))
                function = _function(task.function, task.config)
                return Outcome(), edit_body(function, task.dialect, task.variant, Body.read(body), system_input).write()
    except InvalidRequest as refusal:
        return Outcome(refusal=refusal.message, param=refusal.param), b""
    except MemoryError:
        return Outcome("memory"), b""


@lru_cache(64)
def _function(name: str, config: bytes) -> CompiledFunction:
    return compile_function(name, msgspec.json.decode(config, type=FunctionConfig))


def _die_with(parent: int) -> None:
    """Ends this process with its parent, whichever way that ends; it may be stopped then, and would stay so for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _size_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * _PAGE_BYTES


def _write(data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(_OUTPUT, remaining) :]


if __name__ == "__main__":
    main()
