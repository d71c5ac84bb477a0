"""A forked program sees what a fresh interpreter would see, ends as it would, and random numbers differ."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.fork_server import ForkedProgram

SEEN = """
import json, os, random, signal, sys, threading, asyncio
from pathlib import Path
own = Path("/proc/self")
seen = {
    "arguments": sys.argv,
    "name": __name__,
    "environment": dict(os.environ),
    "shown environment": sorted(filter(None, (own / "environ").read_bytes().decode().split("\\0"))),
    "shown arguments": [each for each in (own / "cmdline").read_bytes().decode().split("\\0") if each][-3:],
    "folder": os.getcwd(),
    "input": sys.stdin.read(),
    "descriptors": sorted(int(each) for each in os.listdir(own / "fd"))[:3],
    "number of descriptors": len(os.listdir(own / "fd")),
    "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)],
    "blocked signals": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "threads": threading.active_count(),
    "main thread": threading.current_thread() is threading.main_thread(),
    "leads its session": os.getsid(0) == os.getpid(),
    "loop runs": asyncio.run(asyncio.sleep(0, "yes")),
}
print(json.dumps(seen))
print(random.random(), file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "seen.py"
    path.write_text(SEEN)
    return path


def run_forked(folder: Path, command: list[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    given, output, errors = folder / "in", folder / "out", folder / "err"
    given.write_text("Hello!")
    with given.open() as stdin, output.open("w") as stdout, errors.open("w") as stderr:
        process = ForkedProgram(
            command,
            environment,
            stdin=stdin.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            folder=str(folder),
            start_new_session=True,
        )
        status = process.wait(60)
    return status, output.read_text(), errors.read_text()


def test_forked_program_sees_what_a_fresh_interpreter_sees(script: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "OF_THE_TEST": "ü", "LANG": "C.UTF-8"}
    fresh = subprocess.run(
        [sys.executable, str(script), "one", "two"],
        input="Hello!",
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    status, output, _ = run_forked(tmp_path, [str(script), "one", "two"], environment)
    seen: Any = json.loads(output)
    assert seen == json.loads(fresh.stdout)
    assert status == fresh.returncode == 7


def test_forked_programs_have_random_numbers_of_their_own(script: Path, tmp_path: Path) -> None:
    errors = {run_forked(tmp_path, [str(script)], {})[2] for _ in range(3)}
    assert len(errors) == 3


def test_forked_program_that_is_killed_has_its_signal_as_status(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import signal\nsignal.pause()\n")
    with Path(os.devnull).open("r+b") as nothing:
        process = ForkedProgram([str(script)], {}, stdin=nothing.fileno(), stdout=nothing.fileno(), stderr=nothing.fileno())
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL


def test_reason_that_a_forked_program_ends_with_is_in_its_errors(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('It cannot be.')\n")
    assert run_forked(tmp_path, [str(script)], {}) == (1, "", "It cannot be.\n")
