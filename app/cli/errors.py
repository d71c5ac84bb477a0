"""How every command ends: trouble in a sentence on standard error (as JSON, if JSON was asked for), and a status for scripts."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from app.settings import BadSetting
from app.store.config_file import BadConfiguration
from app.store.key_validation import InvalidKeyField
from app.supervisor.errors import OperatorError

INTERRUPTED = 128 + 2  # as a shell tells of a program that SIGINT ended


class CommandError(click.ClickException):
    """Trouble with more to it, for a program: `details` stand beside the message where that is told as JSON."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class OrderedGroup(click.Group):
    """A group whose help lists commands in the order of their making, each with the whole of its first line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_section(formatter, "Commands", list(self.commands.values()))

    def write_section(self, formatter: click.HelpFormatter, title: str, commands: Sequence[click.Command]) -> None:
        with formatter.section(title):
            formatter.write_dl([(each.name or "", each.get_short_help_str(100)) for each in commands], col_max=12)


class RootGroup(OrderedGroup):
    """The group of all commands, listed in sections.

    Expected trouble is status 1; a bad command line, like a bad setting, 2; Ctrl-C 130. With --json the sentence is
    {"error": {"message": ...}}, still on standard error: standard output holds a whole document or nothing.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sections: list[tuple[str, Sequence[click.Command]]] = []

    def add_section(self, title: str, commands: Sequence[click.Command]) -> None:
        self._sections.append((title, commands))
        for command in commands:
            self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in self._sections:
            self.write_section(formatter, title, commands)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except BadSetting as fault:
            raise click.UsageError(str(fault)) from fault
        except BrokenPipeError:
            raise
        except (
            OperatorError,
            BadConfiguration,
            InvalidKeyField,
            OSError,
        ) as fault:  # OSError: a full disk, a missing right; it names the file
            raise click.ClickException(str(fault)) from fault

    def main(self, args: Sequence[str] | None = None, *more_args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        if not standalone_mode:
            return super().main(args, *more_args, standalone_mode=False, **options)
        arguments = sys.argv[1:] if args is None else list(args)
        try:
            status = super().main(arguments, *more_args, standalone_mode=False, **options)
            sys.stdout.flush()
        except click.ClickException as fault:
            _print_error(fault, as_json=wants_json(arguments))
            status = fault.exit_code
        except click.Abort:
            status = INTERRUPTED
        except BrokenPipeError:
            # Whoever read this has enough (`| head`). What is still buffered must not complain at the exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 1
        sys.exit(status or 0)


def wants_json(arguments: Sequence[str]) -> bool:
    """Before the command line is understood, for that may be what the trouble is."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _print_error(error: click.ClickException, *, as_json: bool) -> None:
    if not as_json:
        error.show()
        return
    details = error.details if isinstance(error, CommandError) else {}
    click.echo(msgspec.json.encode({"error": {"message": error.format_message(), **details}}).decode(), err=True)
