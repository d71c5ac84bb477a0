"""Runs narthex commands in processes of their own, forked from one that has imported them: the imports take more than a second."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.cli import main

_COMMANDS = Path(__file__).parents[3] / "app" / "cli"

_context = multiprocessing.get_context("forkserver")
_modules = (".".join(("app.cli", *file.relative_to(_COMMANDS).with_suffix("").parts)) for file in _COMMANDS.rglob("[a-z]*.py"))
_context.set_forkserver_preload([__name__, *_modules])


def run_command(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command as subprocess.run() would run the program `narthex`, with captured output. Raises TimeoutExpired."""
    command = [program, *arguments]
    with tempfile.TemporaryDirectory(prefix="narthex-command-") as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin)
        process = _context.Process(target=_run, args=(command, dict(environment), [str(stream) for stream in streams]))
        process.start()
        try:
            process.join(timeout_s)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(command, timeout_s)
            return subprocess.CompletedProcess(command, process.exitcode, streams[1].read_text(), streams[2].read_text())
        finally:
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()


def _run(command: Sequence[str], environment: Mapping[str, str], streams: Sequence[str]) -> None:
    """Takes over the environment and the three streams in the forked process, and runs the command to its exit status."""
    os.environ.clear()
    os.environ.update(environment)
    for number, (stream, flags) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        descriptor = os.open(stream, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.argv[:] = command
    main()
