"""Makes a forked process what a fresh interpreter would be: its command line, environment, folder, streams, signals and descriptors.

What differs: modules are imported already, and strings have the same hashes in all processes.
"""

import contextlib
import ctypes
import gc
import inspect
import io
import itertools
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from app.supervisor.processes import launch
from tests.support import guards

_SITECUSTOMIZE = str(Path(guards.__file__).with_name("guarded_processes") / "sitecustomize.py")
# Of /proc/PID/stat, after the name of the program; source: proc(5), read 2026-11.
_STAT_FIELDS_BEFORE_ARGUMENTS = 45
_OPTIONS = frozenset(("-P", "-I", "-S"))
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_real_execv = os.execv


class Program(NamedTuple):
    """The choices of a parent for a program. `command` begins with a script, or with sys.executable."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    start_new_session: bool


def run_program(program: Program, streams: Sequence[int], kept_descriptors: Iterable[int] = ()) -> None:
    """Takes over everything that the parent chooses, and runs the program to its end, which may be SystemExit."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    _close_other_descriptors(kept_descriptors)
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    os.chdir(program.folder)
    if program.start_new_session:
        os.setsid()
    _show_in_proc(program.command, program.environment)
    _open_streams()
    subprocess.Popen = _ForkingPopen
    _run_python(program.command)


def _close_other_descriptors(kept: Iterable[int]) -> None:
    first = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, descriptor)
        first = descriptor + 1


def _show_in_proc(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Writes the command line and the environment where the kernel reads those of /proc: doctor and the supervisor look at them."""
    fields = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[_STAT_FIELDS_BEFORE_ARGUMENTS:]
    arguments_start, arguments_end, environment_start, environment_end = (int(field) for field in fields[:4])
    shown = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    assert len(shown) <= environment_end - environment_start, "the fork server was started with too little room for this environment"
    ctypes.memmove(environment_start, shown.ljust(environment_end - environment_start, b"\0"), environment_end - environment_start)
    room = arguments_end - arguments_start
    shown = b"".join(os.fsencode(argument) + b"\0" for argument in command)[: room - 1]
    ctypes.memmove(arguments_start, shown.ljust(room, b"\0"), room)


def _open_streams() -> None:
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)  # pyright: ignore[reportArgumentType]
    else:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _run_python(command: Sequence[str]) -> None:
    """Does what Python does with this command line."""
    arguments = list(command[1:] if command[0] == sys.executable else command)
    options = list(itertools.takewhile(_OPTIONS.__contains__, arguments))
    del arguments[: len(options)]
    sys.orig_argv[:] = command
    if "-S" not in options and guards.REPORT in os.environ:
        runpy.run_path(_SITECUSTOMIZE)
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.modules.pop(arguments[1], None)  # runpy warns of a module that is imported already
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


class _ForkingPopen(subprocess.Popen[bytes]):
    """Forks this process where a supervisor starts one of its own, which has its imports and is its child as ever.

    Any other program is started for real: checkers of templates, for example, whose memory is limited.
    """

    def _execute_child(self, *values: Any) -> None:
        given = inspect.signature(_real_execute_child).bind(self, *values).arguments
        if launch.__file__ not in given["args"]:
            return _real_execute_child(self, *values)
        program = Program(given["args"], given["env"] or os.environ, given["cwd"] or os.getcwd(), given["start_new_session"])
        streams = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        with _blocked_signals() as former_mask:
            self.pid = os.fork()
            if self.pid == 0:
                _be_forked(program, streams, given["pass_fds"], former_mask)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # pyright: ignore


_RealPopen = subprocess.Popen
_real_execute_child: Callable[..., None] = subprocess.Popen._execute_child  # pyright: ignore


@contextlib.contextmanager
def _blocked_signals() -> Generator[Iterable[int]]:
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield former
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _be_forked(program: Program, streams: Sequence[int], kept: Iterable[int], signal_mask: Iterable[int]) -> NoReturn:
    """Runs the program in a process that was just forked from a running supervisor, whose frames and objects stay as they are."""
    status = 1
    try:
        gc.freeze()  # a file of the supervisor that is found unused would close a descriptor of this process
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
        os.execv = _run_python_or_exec
        run_program(program, streams, kept)
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if status and not isinstance(ending.code, int):
            sys.stderr.write(f"{ending.code}\n")
    except BaseException as fault:
        sys.excepthook(type(fault), fault, fault.__traceback__)
    finally:
        threading._shutdown()  # pyright: ignore
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(status)


def _run_python_or_exec(path: str, arguments: Sequence[str]) -> None:
    """Stands in for os.execv in launch.py, which becomes the program that the supervisor wants."""
    if path != sys.executable:
        _real_execv(path, list(arguments))
    os.execv = _real_execv
    _show_in_proc(arguments, os.environ)
    # From here on this process has threads, and must not fork without exec.
    subprocess.Popen = _RealPopen
    _run_python(arguments)
    sys.exit()
