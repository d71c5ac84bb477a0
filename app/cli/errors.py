"""How every command ends: errors as a sentence on standard error (as JSON with --json), and an exit status for scripts."""

import importlib
import keyword
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from app.domain.errors import BadConfiguration, BoundReached, InvalidKeyField
from app.settings import BadSetting
from app.supervisor.machine.errors import OperatorError

MADE = ""  # of no module: made of operations
INTERRUPTED = 128 + 2  # as a shell reports a program that SIGINT ended


class CommandError(click.ClickException):
    """An error with details for programs: with --json they are fields beside the message."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class OrderedGroup(click.Group):
    """A group whose help lists commands in the order of their definition, each with its complete first line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_section(self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Sequence[str]) -> None:
        with formatter.section(title):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            formatter.write_dl([(name, each.get_short_help_str(100)) for name, each in commands if each is not None], col_max=16)


class RootGroup(OrderedGroup):
    """The group of all commands, listed in sections. `sections` leads from a title to commands, and from each to the module of app.cli that
    defines it, or MADE.

    A module is imported when its command is run or its help is shown: all of them together take a second of processor time. What the list
    shows of a command comes from the manifest.

    Exit status: 1 for expected errors, 2 for an invalid command line or setting, 130 for Ctrl-C. With --json an error is {"error":
    {"message": ...}}, still on standard error: standard output holds a complete document or nothing.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in self._all_sections().values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        make = importlib.import_module("app.cli.operations.make")
        # A TAB parses what is there of a line, for which names are enough.
        by_hand = make.outline(cmd_name) if ctx.resilient_parsing else self.hand_written(cmd_name)
        return make.add_made_commands(cmd_name, by_hand)

    def hand_written(self, name: str) -> click.Command | None:
        """The command without what is made of operations; None: all of it is."""
        module = next((commands[name] for commands in self.sections.values() if name in commands), MADE)
        if module == MADE:
            return None
        function = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
        return getattr(importlib.import_module(f"app.cli.{module}"), function)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands at the root, without making them."""
        summaries = _manifest().summaries
        found = [CompletionItem(name, help=summaries[name]) for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _all_sections(self) -> Mapping[str, Mapping[str, str]]:
        """The sections, with a last one for operations whose noun is new."""
        known = {name for commands in self.sections.values() for name in commands}
        nouns = {each.name.partition(" ")[0]: MADE for each in _manifest().commands}
        others = {noun: module for noun, module in nouns.items() if noun not in known}
        return {**self.sections, "Others": others} if others else self.sections

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        summaries = _manifest().summaries
        for title, commands in self._all_sections().items():
            with formatter.section(title):
                formatter.write_dl([(name, summaries[name]) for name in commands], col_max=16)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except (BadSetting, InvalidKeyField) as fault:
            raise click.UsageError(str(fault)) from fault
        except BrokenPipeError:
            raise
        # OSError: such as a full disk or a missing permission; its message names the file.
        except (OperatorError, BadConfiguration, BoundReached, OSError) as fault:
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
            # The reader has closed the pipe (`| head`). Flushing the rest at exit must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 1
        sys.exit(status or 0)


def _manifest() -> Any:
    """Returns the manifest: names and help of commands, without their modules."""
    return importlib.import_module("app.cli.operations.manifest").load_manifest()


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether --json is among the arguments; looked up before they are parsed, because parsing may be what fails."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def _print_error(error: click.ClickException, *, as_json: bool) -> None:
    if not as_json:
        error.show()
        return
    details = error.details if isinstance(error, CommandError) else {}
    click.echo(msgspec.json.encode({"error": {"message": error.format_message(), **details}}).decode(), err=True)
