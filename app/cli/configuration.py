"""Commands of the configuration: apply, export and rollback."""

import contextlib
import sys
import tomllib
from collections.abc import Generator
from typing import Any, TextIO

import click

from app.cli.applied_endpoints import find_wrong_addresses
from app.cli.configuration_history import VersionParam
from app.cli.output import json_option, print_json, printable, progress
from app.cli.store_query import query_store
from app.settings import Settings
from app.store.configuration import apply_file, configuration, roll_back
from app.store.configuration import history as configuration_history
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import transaction
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_PREVIOUS = "previous"


class _EarlierVersionParam(VersionParam):
    """The number of a version, or `previous`, which becomes None."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == _PREVIOUS else super().convert(value, param, ctx)


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
    file is checked completely first, also against running experiments; entries that it does not name stay as they are. Returns once every
    gateway process serves the new configuration, and says when experiments follow it. docs/configuration.md describes the file.

    \b
    Examples:
      narthex apply engines.toml
      narthex apply --dry-run engines.toml
      narthex export | sed s/10.0.0.5/10.0.0.7/ | narthex apply --yes -

    Then the gateway looks at the addresses of the file's providers, and what is no engine's address is told.

    With --json (which needs --yes or --dry-run): {"applied": true or false, "difference": text, "message": text, "warnings": [text]}.
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
            lambda url: apply_file.apply(
                url,
                text,
                prune=prune,
                confirm=confirm,
                wait_s=settings.apply_wait_s,
                output_tokens=settings.limits_output_tokens,
                guard=settings.address_guard,
                author=command_author(),
            ),
        )
    document: dict[str, Any] = tomllib.loads(text) if outcome.startswith("Applied") else {}
    providers: dict[str, Any] = document.get("providers", {})
    warnings = find_wrong_addresses(settings, providers) if providers else []
    if as_json:
        shown = {"applied": bool(confirm.difference) and not dry_run, "difference": confirm.difference, "message": outcome}
        print_json({**shown, "warnings": warnings})
    else:
        for line in (outcome, *(f"Warning: {each}" for each in warnings)):
            click.echo(printable(line))


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


@click.command()
@click.argument("version", type=_EarlierVersionParam(0, configuration_history.MAX_VERSION))
@click.option("--yes", is_flag=True, help="Do not prompt.")
@click.option("--dry-run", is_flag=True, help="Show the difference; change nothing.")
@json_option
def rollback(version: int | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Make the configuration what it was as of VERSION, which `narthex history` shows.

    `previous` stands for the version before the newest change. What it makes is a new version, equal to the old one: nothing is lost,
    and it can be rolled back in turn. Only what a file can set is restored. A revoked key, role or credential stays revoked, and teams
    stay, as do limits that keys were given over the admin API; the output says what was left. A running experiment cannot go back to
    before its start: end it first (`narthex experiments stop NAME`). Shows the difference and prompts before it changes anything, as
    `apply` does.

    \b
    Examples:
      narthex rollback previous
      narthex rollback 41 --dry-run
      narthex rollback 41

    With --json (which needs --yes or --dry-run): {"restored": true or false, "difference": text, "message": text}.
    """
    if as_json and not yes and not dry_run:
        raise click.UsageError("--json does not prompt, so it needs --yes (or --dry-run).")
    settings = server_addresses.resolve(Settings.read())
    restored = query_store(_version_before_the_newest) if version is None else version
    with contextlib.ExitStack() as stack:
        confirm = _Confirmation(stack, interactive=not yes and not dry_run, show=not as_json, approve=not dry_run)
        outcome = query_database(
            settings.database_url,
            lambda url: roll_back.restore(
                url,
                restored,
                confirm=confirm,
                wait_s=settings.apply_wait_s,
                output_tokens=settings.limits_output_tokens,
                guard=settings.address_guard,
                author=command_author(),
            ),
        )
    if as_json:
        print_json({"restored": bool(confirm.difference) and not dry_run, "difference": confirm.difference, "message": outcome})
    else:
        click.echo(outcome)


async def _version_before_the_newest(url: str) -> int:
    async with transaction(url) as connection:
        known = await configuration_history.read_range(connection)
    if known is None:
        raise OperatorError("The history of the configuration is empty: there is no change to go back from.")
    return known[1] - 1


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
