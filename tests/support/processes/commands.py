"""Runs narthex commands in processes of their own, which are forked from one that has imported them."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from tests.support.processes.fork_server import ForkedProgram


def run_command(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command as subprocess.run() would run the program `narthex`, with captured output. Raises TimeoutExpired."""
    command = [program, *arguments]
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        given.write(stdin)
        given.seek(0)
        process = ForkedProgram(command, environment, stdin=given.fileno(), stdout=output.fileno(), stderr=errors.fileno())
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), errors.read())
