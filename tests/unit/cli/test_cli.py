"""The command line without a service: help texts, argument errors, times, and text that cannot control a terminal."""

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
from app.cli.times import format_duration, parse_duration_s, parse_moment, parse_past_moment

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DAY_S = 86400


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="narthex", env=environment)


def commands(group: click.Group = main, *above: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*above, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


ALL_COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


def test_cli_manual_contains_the_help_of_every_command() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    assert commands_manual() in manual, "regenerate docs/cli.md: `python -m app.cli.manual` prints this part"


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    result = run(*path, "-h")
    assert result.exit_code == 0
    assert command.short_help or (command.help or "").split("\n")[0].endswith(".")
    if not isinstance(command, click.Group):
        assert re.search(rf"^ +(\S+=\S+ )*(.*\| )?(KEY=\$\()?narthex {' '.join(path)}", result.stdout, re.MULTILINE), result.stdout
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path}: {parameter.opts} has no help"


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_help_examples_name_existing_commands(path: tuple[str, ...], command: click.Command) -> None:
    for line in re.findall(r"^ +(?:\S+=\S+ )*(narthex [^|>#)]*)", command.help or "", re.MULTILINE):
        words = re.findall(r'"[^"]*"|\S+', line.split("        ")[0])[1:]
        assert any(tuple(words[: len(known)]) == known for known, _ in commands()), line


def test_top_level_help_shows_where_to_begin() -> None:
    help_text = run("-h").stdout
    for phrase in ("narthex up", "narthex chat", "narthex doctor", "Run it:", "Access:", "NARTHEX_HOME"):
        assert phrase in help_text
    assert [name for (name, *_), _ in commands() if not re.search(rf"^  {name} +[A-Z]", help_text, re.MULTILINE)] == []
    assert "..." not in help_text.partition("Run it:")[2], "a first line is too long to be shown whole"


def test_missing_command_is_a_usage_error_that_shows_the_help() -> None:
    result = run()
    assert result.exit_code == 2 and "Run it:" in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("stauts",), "status"),
        (("key",), "keys"),
        (("keys", "creat"), "create"),
        (("doctor", "--jsno"), "--json"),
        (("aply", "x"), "apply"),
    ],
)
def test_mistyped_command_or_option_suggests_the_right_one(arguments: tuple[str, ...], suggestion: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and "Did you mean" in result.stderr and f"'{suggestion}'" in result.stderr


def test_errors_with_json_flag_are_json_on_stderr() -> None:
    for arguments, status in ((("keys", "list", "--json"), 1), (("keys", "lst", "--json"), 2), (("status", "--json"), 2)):
        result = run(*arguments, NARTHEX_HOME="/nonexistent/home", NARTHEX_PORT="many" if status == 2 else "1", DATABASE_URL="")
        assert result.exit_code == status and result.stdout == ""
        assert json.loads(result.stderr)["error"]["message"]


def test_sandbox_on_a_taken_port_fails_with_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("sandbox", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1 and "Address already in use" in result.stderr and "--port" in result.stderr


def test_sandbox_with_an_invalid_port_is_a_usage_error() -> None:
    assert run("sandbox", "--port", "99999").exit_code == 2


def test_json_after_double_dash_is_an_argument() -> None:
    result = run("chat", "sandbox", "--key", "nx-none", "--url", "http://127.0.0.1:9", "--", "--json")
    assert result.exit_code == 1 and result.stderr.startswith("Error: Nothing answers on http://127.0.0.1:9")


def test_invalid_arguments_are_refused_before_anything_happens() -> None:
    for arguments, expected in (
        (("apply", "--json", "-"), "--yes"),
        (("chat", "sandbox", "--json", " "), "empty"),
        (("chat", "sandbox", "--max-tokens", "0", "hi"), "max-tokens"),
        (("keys", "create", "--team", " "), "must not be empty"),
        (("keys", "create", "--team", "t", "--expires", "2020-01-01"), "past"),
        (("keys", "create", "--team", "t", "--expires", "soon"), "2026-12-31"),
        (("keys", "create", "--team", "t", "--network", "10.0.0.1/8"), "host bits"),
        (("keys", "rotate", "nx-0", "--overlap", "-1h"), "duration"),
        (("keys", "change", "nx-0"), "Nothing to change"),
        (("keys", "change", "nx-0", "--model", "m", "--any-model"), "exclude"),
        (("teams", "set", "t", "--content", "some"), "redacted"),
        (("teams", "set", "t"), "Nothing to set: give at least one of the options"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and expected in result.stderr, (arguments, result.stderr)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("1h30m", 5400), ("30d", 30 * DAY_S), ("2W", 14 * DAY_S), ("0s", 0)]
)
def test_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1h x", "1 year", "-1h", "1e9d", "1h-"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|hundred years"):
        parse_duration_s(text)


@given(st.integers(0, 10**7), st.sampled_from("smhdw"))
def test_duration_equals_number_times_unit(number: int, unit: str) -> None:
    length_s = number * {"s": 1, "m": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}[unit]
    if length_s <= 100 * 366 * DAY_S:
        assert parse_duration_s(f"{number}{unit}") == length_s


def test_date_without_a_time_means_the_end_of_that_day() -> None:
    assert parse_moment("2026-12-31", NOW) == datetime(2027, 1, 1, tzinfo=UTC)
    assert parse_moment("2026-11-21", NOW) == datetime(2026, 11, 22, tzinfo=UTC)
    assert parse_moment("2026-12-31T18:00+01:00", NOW) == datetime(2026, 12, 31, 17, tzinfo=UTC)
    assert parse_moment("2026-12-31T18:00", NOW) == datetime(2026, 12, 31, 18, tzinfo=UTC)
    assert parse_moment("30d", NOW) == NOW + timedelta(days=30)
    for past in ("2026-11-20", "0s", "2026-11-21T11:59Z", "9999-12-31"):
        with pytest.raises(ValueError):
            parse_moment(past, NOW)


@pytest.mark.parametrize("far", ["0001-01-01", "0001-01-01T00:00:00+14:00", "9000-01-01", "9999-12-30T23:59"])
def test_moments_from_which_periods_would_leave_the_calendar_are_refused(far: str) -> None:
    for parse in (parse_moment, parse_past_moment):
        with pytest.raises(ValueError, match="must be after 1970 and before 9000"):
            parse(far, NOW)


def test_durations_and_sizes_are_formatted_in_one_unit() -> None:
    assert [format_duration(length) for length in (0.31, 45, 300, 7300, 400000)] == ["0.3 s", "45 s", "5 min", "2 h", "5 d"]
    assert [format_size(number) for number in (0, 999, 1500, 2_500_000, 3 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2.5 MB",
        "3.0 TB",
    ]


@given(st.text())
def test_control_characters_are_replaced_in_printed_text(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert [after for before, after in zip(text, shown, strict=True) if before.isprintable()] == [
        each for each in text if each.isprintable()
    ]


@pytest.mark.parametrize("columns", [40, 78, 80, 200])
def test_table_never_wraps_the_first_column(columns: int) -> None:
    shown = render_in_terminal(columns)
    assert "nx-0123456789ab" in shown
    assert ("─" in shown) == (columns >= 80)  # no frame where it would only break words


def test_no_color_disables_escape_codes() -> None:
    assert "\x1b" in render_in_terminal(80) and "\x1b" not in render_in_terminal(80, NO_COLOR="1")


def render_in_terminal(columns: int, **environment: str) -> str:
    """Returns what a terminal of this width receives for a table of keys."""
    script = """
from app.cli.output import print_table, progress
with progress("Looking"):
    row = ("nx-0123456789ab", "search", "nightly job", "2026-11-21 06:43", "until 2026-12-21 06:56", "models sandbox-*")
    print_table(("KEY", "TEAM", "NAME", "CREATED", "STATE", "PERMISSIONS"), [row])
"""
    terminal, end = pty.openpty()
    inherited = {name: os.environ[name] for name in os.environ if name not in ("NO_COLOR", "COLUMNS")}
    environment = {**inherited, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=end, stderr=end, env=environment)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while block := os.read(terminal, 65536):
            shown += block
    os.close(terminal)
    assert process.wait(60) == 0, shown.decode()
    return shown.decode()


def test_table_without_a_terminal_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "MADE"), [("long name", "today"), ("x\x1b[31m", "")])
    assert capsys.readouterr().out == "NAME       MADE\nlong name  today\nx\ufffd[31m     -\n"
