"""Commands of the configuration: apply, export."""

import contextlib
import sys
import tomllib
from collections.abc import Generator
from typing import TextIO

import click

from app.cli.output import json_option, print_json, progress
from app.cli.store_query import query_store
from app.settings import Settings
from app.store import configuration
from app.supervisor import server_addresses
from app.supervisor.database_query import query_database
from app.supervisor.errors import OperatorError

_APPLY_TIMEOUT_S = 30.0


class _Confirmation:
    """Shows the difference and, if `interactive`, prompts the user; then shows progress while the gateway takes up the change."""

    def __init__(self, stack: contextlib.ExitStack, *, interactive: bool, show: bool, approve: bool) -> None:
        self.difference = ""
        self._stack = stack
        self._interactive, self._show, self._approve = interactive, show, approve

    def __call__(self, difference: str) -> bool:
        self.difference = difference
        if self._show:
            click.echo(difference)
        if self._approve and self._interactive and not _confirm():
            return False
        if self._approve:
            self._stack.enter_context(progress("Waiting until every gateway process serves it"))
        return self._approve


@click.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--yes", is_flag=True, help="Do not prompt.")
@click.option("--prune", is_flag=True, help="Also remove entries that the file lacks, in the sections that it has.")
@click.option("--dry-run", is_flag=True, help="Check the file and show the difference; change nothing.")
@json_option
def apply(file: TextIO, yes: bool, prune: bool, dry_run: bool, as_json: bool) -> None:
    """Apply a configuration FILE (- is standard input).

    Shows the difference to the configuration in force, with warnings about likely mistakes, and prompts before it changes anything. The
    file is checked completely first; entries that it does not name stay as they are. Returns once every gateway process serves the new
    configuration. docs/configuration.md describes the file.

    \b
    Examples:
      narthex apply engines.toml
      narthex apply --dry-run engines.toml
      narthex export | sed s/10.0.0.5/10.0.0.7/ | narthex apply --yes -

    With --json (which needs --yes or --dry-run): {"applied": true or false, "difference": text, "message": text}.
    """
    if as_json and not yes and not dry_run:
        raise click.UsageError("--json does not prompt, so it needs --yes (or --dry-run).")
    try:
        text = file.read()
    except UnicodeDecodeError:
        raise OperatorError(f"{file.name} is not UTF-8 text, as TOML must be.") from None
    settings = server_addresses.resolve(Settings.read())
    interactive = not yes and not dry_run
    with contextlib.ExitStack() as stack:
        if file.name == "<stdin>" and interactive:
            stack.enter_context(_stdin_from_terminal())
        confirm = _Confirmation(stack, interactive=interactive, show=not as_json, approve=not dry_run)
        outcome = query_database(
            settings.database_url,
            lambda url: configuration.apply(
                url, text, prune=prune, confirm=confirm, wait_s=_APPLY_TIMEOUT_S, output_tokens=settings.limits_output_tokens
            ),
        )
    if as_json:
        print_json({"applied": bool(confirm.difference) and not dry_run, "difference": confirm.difference, "message": outcome})
    else:
        click.echo(outcome)


@click.command()
@json_option
def export(as_json: bool) -> None:
    """Print the configuration as a file that `apply` takes.

    \b
    Examples:
      narthex export > all.toml
      narthex apply --prune all.toml        restores that state

    With --json: the same sections as one object.
    """
    text = query_store(configuration.export)
    if as_json:
        print_json(tomllib.loads(text))
    else:
        click.echo(text, nl=False)


def _confirm() -> bool:
    try:
        return click.confirm("Apply this?")
    except click.Abort:
        click.echo()  # ends the prompt's line
        raise OperatorError("Nothing was changed: nobody answered the prompt. `--yes` applies without one.") from None


@contextlib.contextmanager
def _stdin_from_terminal() -> Generator[None]:
    """Reads the prompt's answer from the terminal, because standard input is the file. Raises OperatorError without a terminal."""
    try:
        terminal = open("/dev/tty")  # noqa: SIM115
    except OSError:
        raise OperatorError("There is no terminal for the prompt; add --yes to apply without one.") from None
    previous_stdin, sys.stdin = sys.stdin, terminal
    try:
        yield
    finally:
        sys.stdin = previous_stdin
        terminal.close()
