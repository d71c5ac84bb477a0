"""The command line without a service: help that teaches, slips that are caught, times, and text that cannot move a terminal."""

import contextlib
import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from app.cli import main
from app.cli.manual import commands_manual
from app.cli.output import format_size, print_table, printable
from app.cli.times import format_duration, parse_duration_s, parse_moment

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAY_S = 86400


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="narthex", env=environment)


def commands(group: click.Group = main, *above: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*above, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


def test_the_manual_holds_the_help_of_every_command() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert commands_manual() in manual, "write docs/cli.md anew: python -m app.cli.manual tells its part"


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    told = run(*path, "-h")
    assert told.exit_code == 0
    assert command.short_help or (command.help or "").split("\n")[0].endswith(".")
    if not isinstance(command, click.Group):
        assert re.search(rf"^ +(\S+=\S+ )*(.*\| )?(KEY=\$\()?narthex {' '.join(path)}", told.stdout, re.MULTILINE), told.stdout
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path}: {parameter.opts} has no help"


@pytest.mark.parametrize(("path", "command"), ALL)
def test_examples_in_help_are_command_lines_that_can_be(path: tuple[str, ...], command: click.Command) -> None:
    for line in re.findall(r"^ +(?:\S+=\S+ )*(narthex [^|>#)]*)", command.help or "", re.MULTILINE):
        words = re.findall(r'"[^"]*"|\S+', line.split("        ")[0])[1:]
        assert any(tuple(words[: len(known)]) == known for known, _ in commands()), line


def test_a_new_user_sees_where_to_begin() -> None:
    told = run("-h").stdout
    for words in ("narthex up", "narthex chat", "narthex doctor", "Run it:", "Say who may ask:", "NARTHEX_HOME"):
        assert words in told
    assert [name for name in main.commands if not re.search(rf"^  {name} +[A-Z]", told, re.MULTILINE)] == []
    assert "..." not in told.partition("Run it:")[2], "a first line is too long to be read whole"


def test_no_command_is_a_usage_error_that_shows_the_help() -> None:
    told = run()
    assert told.exit_code == 2 and "Run it:" in told.stderr and told.stdout == ""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (("stauts",), "status"),
        (("key",), "keys"),
        (("keys", "creat"), "create"),
        (("doctor", "--jsno"), "--json"),
        (("aply", "x"), "apply"),
    ],
)
def test_a_slip_is_told_what_was_probably_meant(said: tuple[str, ...], meant: str) -> None:
    told = run(*said)
    assert told.exit_code == 2 and "Did you mean" in told.stderr and f"'{meant}'" in told.stderr


def test_trouble_under_json_is_json_on_standard_error() -> None:
    for said, status in ((("keys", "list", "--json"), 1), (("keys", "lst", "--json"), 2), (("status", "--json"), 2)):
        told = run(*said, NARTHEX_HOME="/nonexistent/home", NARTHEX_PORT="many" if status == 2 else "1", DATABASE_URL="")
        assert told.exit_code == status and told.stdout == ""
        assert json.loads(told.stderr)["error"]["message"]


def test_a_sandbox_whose_port_is_taken_is_told_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = run("sandbox", "--port", str(taken.getsockname()[1]))
    assert told.exit_code == 1 and "Address already in use" in told.stderr and "--port" in told.stderr


def test_a_sandbox_takes_no_port_that_cannot_be() -> None:
    assert run("sandbox", "--port", "99999").exit_code == 2


def test_json_after_two_dashes_is_no_option() -> None:
    told = run("chat", "sandbox", "--key", "nx-none", "--url", "http://127.0.0.1:9", "--", "--json")
    assert told.exit_code == 1 and told.stderr.startswith("Error: Nothing answers on http://127.0.0.1:9")


def test_what_cannot_be_asked_for_is_refused_before_anything_happens() -> None:
    for said, words in (
        (("apply", "--json", "-"), "--yes"),
        (("chat", "sandbox", "--json", " "), "empty"),
        (("chat", "sandbox", "--max-tokens", "0", "hi"), "max-tokens"),
        (("keys", "create", "--team", " "), "needs a name"),
        (("keys", "create", "--team", "t", "--expires", "2020-01-01"), "past"),
        (("keys", "create", "--team", "t", "--expires", "soon"), "2026-12-31"),
        (("keys", "create", "--team", "t", "--network", "10.0.0.1/8"), "host bits"),
        (("keys", "rotate", "nx-0", "--overlap", "-1h"), "length of time"),
        (("keys", "change", "nx-0"), "Nothing to change"),
        (("keys", "change", "nx-0", "--model", "m", "--any-model"), "exclude"),
        (("teams", "set", "t", "--content", "some"), "redacted"),
    ):
        told = run(*said)
        assert told.exit_code == 2 and words in told.stderr, (said, told.stderr)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("1h30m", 5400), ("30d", 30 * DAY_S), ("2W", 14 * DAY_S), ("0s", 0)]
)
def test_lengths_of_time_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1h x", "1 year", "-1h", "1e9d", "1h-"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"length of time|hundred years"):
        parse_duration_s(text)


@given(st.integers(0, 10**7), st.sampled_from("smhdw"))
def test_a_length_of_time_is_what_its_unit_says(number: int, unit: str) -> None:
    length_s = number * {"s": 1, "m": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}[unit]
    if length_s <= 100 * 366 * DAY_S:
        assert parse_duration_s(f"{number}{unit}") == length_s


def test_a_day_is_good_until_it_ends() -> None:
    assert parse_moment("2026-12-31", NOW) == datetime(2027, 1, 1, tzinfo=UTC)
    assert parse_moment("2026-11-21", NOW) == datetime(2026, 11, 22, tzinfo=UTC)
    assert parse_moment("2026-12-31T18:00+01:00", NOW) == datetime(2026, 12, 31, 17, tzinfo=UTC)
    assert parse_moment("2026-12-31T18:00", NOW) == datetime(2026, 12, 31, 18, tzinfo=UTC)
    assert parse_moment("30d", NOW) == NOW + timedelta(days=30)
    for past in ("2026-11-20", "0s", "2026-11-21T11:59Z", "9999-12-31"):
        with pytest.raises(ValueError):
            parse_moment(past, NOW)


def test_lengths_and_sizes_are_told_in_one_unit() -> None:
    assert [format_duration(length) for length in (0.31, 45, 300, 7300, 400000)] == ["0.3 s", "45 s", "5 min", "2 h", "5 d"]
    assert [format_size(number) for number in (0, 999, 1500, 2_500_000, 3 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2.5 MB",
        "3.0 TB",
    ]


@given(st.text())
def test_nothing_that_others_wrote_can_move_a_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert [after for before, after in zip(text, shown, strict=True) if before.isprintable()] == [
        each for each in text if each.isprintable()
    ]


@pytest.mark.parametrize("columns", [40, 78, 80, 200])
def test_the_name_of_a_thing_is_never_broken(columns: int) -> None:
    shown = on_a_terminal(columns)
    assert "nx-0123456789ab" in shown
    assert ("─" in shown) == (columns >= 80)  # no frame where it would only break words


def test_no_color_means_no_escape_code() -> None:
    assert "\x1b" in on_a_terminal(80) and "\x1b" not in on_a_terminal(80, NO_COLOR="1")


def on_a_terminal(columns: int, **environment: str) -> str:
    """A table of keys, as a terminal so wide is told it."""
    told = """
from app.cli.output import print_table, progress
with progress("Looking"):
    row = ("nx-0123456789ab", "search", "nightly job", "2026-11-21 06:43", "until 2026-12-21 06:56", "models sandbox-*")
    print_table(("KEY", "TEAM", "NAME", "MADE", "STATE", "MAY"), [row])
"""
    terminal, end = pty.openpty()
    kept = {name: os.environ[name] for name in os.environ if name not in ("NO_COLOR", "COLUMNS")}
    environment = {**kept, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    ran = subprocess.Popen([sys.executable, "-c", told], stdout=end, stderr=end, env=environment)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while block := os.read(terminal, 65536):
            shown += block
    os.close(terminal)
    assert ran.wait(10) == 0, shown.decode()
    return shown.decode()


def test_a_table_without_a_terminal_is_columns_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "MADE"), [("long name", "today"), ("x\x1b[31m", "")])
    assert capsys.readouterr().out == "NAME       MADE\nlong name  today\nx\ufffd[31m     -\n"
