"""Commands that end or delete what no other command brings back ask first, and say so where nobody can be asked."""

import contextlib
import os
import pty
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from app.cli import main
from tests.unit.cli.test_cli import ALL_COMMANDS, commands

# What these do, another command of the same group undoes: enable, grant, resume.
_UNDONE = {"users disable", "service-accounts disable", "roles revoke", "views revoke", "replay cancel"}
_ENDING = {"stop", "promote", "revoke", "delete", "remove", "cancel", "disable", "erase", "end-override"}
# These show a difference first, and ask in their own way.
_SHOW_A_DIFFERENCE = {"apply", "rollback"}
_NEEDED: dict[str, list[str]] = {"erase start": ["--user", "ann"]}
_ASKING = [
    pytest.param(path, command, id=" ".join(path))
    for path, command in commands()
    if any("--yes" in option.opts for option in command.params) and " ".join(path) not in _SHOW_A_DIFFERENCE
]


def arguments_for(path: tuple[str, ...], command: click.Command) -> list[str]:
    given = ["1" for parameter in command.params if isinstance(parameter, click.Argument) and parameter.required]
    return [*path, *given, *_NEEDED.get(" ".join(path), [])]


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_every_command_that_ends_something_asks_or_is_undone_by_another(path: tuple[str, ...], command: click.Command) -> None:
    name = " ".join(path)
    if path[-1] in _ENDING and not isinstance(command, click.Group):
        asks = any("--yes" in option.opts for option in command.params)
        assert asks != (name in _UNDONE), f"{name}: let it ask (`asks` of its Command), or say what undoes it"


@pytest.mark.parametrize(("path", "command"), _ASKING)
def test_without_a_terminal_it_is_refused_in_words_before_anything_happens(path: tuple[str, ...], command: click.Command) -> None:
    arguments = arguments_for(path, command)
    refused = CliRunner().invoke(main, arguments, input="y\n", env={"DATABASE_URL": "postgresql://127.0.0.1:1/none"})
    assert refused.exit_code == 1 and "no terminal for the prompt. `--yes` goes on without one" in refused.stderr
    if any("--json" in option.opts for option in command.params):
        as_json = CliRunner().invoke(main, [*arguments, "--json"], input="y\n")
        assert as_json.exit_code == 2 and "--json does not prompt, so it needs --yes" in as_json.stderr


@pytest.mark.parametrize(("answer", "status"), [("y", 1), ("n", 130), ("", 130)], ids=["yes", "no", "nothing"])
def test_on_a_terminal_the_answer_decides(answer: str, status: int) -> None:
    """Yes goes on, to a database that is not there."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "DATABASE_URL": "postgresql://127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1"}
    command = [sys.executable, "-m", "app.cli", "experiments", "stop", "size", "--winner", "small"]
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment)
    os.close(end)
    os.write(terminal, f"{answer}\n".encode())
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while block := os.read(terminal, 65536):
            shown += block
    os.close(terminal)
    assert process.wait(60) == status, shown.decode()
    assert b"End the experiment size for good, and serve small to everybody? [y/N]" in shown
