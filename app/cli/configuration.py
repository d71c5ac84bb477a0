"""Commands of the configuration: apply, export, history, rollback."""

import contextlib
import sys
import tomllib
from collections.abc import Generator, Sequence
from typing import Any, TextIO

import click
import msgspec
from msgspec import Struct

from app.cli.applied_endpoints import find_wrong_addresses
from app.cli.changes import format_changes
from app.cli.output import json_option, print_json, print_table, printable, progress
from app.cli.store_query import query_store
from app.cli.times import format_time
from app.settings import Settings
from app.store.configuration import apply_file, configuration, roll_back
from app.store.configuration import history as configuration_history
from app.store.configuration.difference import EntryChange, display_name
from app.store.configuration.history import VersionRow
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import transaction
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError


class _VersionParam(click.IntRange):
    """The number of a version of the configuration."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not the number of a version, such as 41; `narthex history` lists them.", param, ctx)


_VERSION = _VersionParam(0, configuration_history.MAX_VERSION)
_PREVIOUS = "previous"


class _EarlierVersionParam(_VersionParam):
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
@click.argument("version", type=_VERSION, required=False)
@click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=20, show_default=True, help="Most versions to list.")
@json_option
def history(version: int | None, limit: int, as_json: bool) -> None:
    """List versions of the configuration; with VERSION, show what that one changed.

    The newest come first. Every change of what a file can set is a version, whether by `apply`, another command or the admin API.

    \b
    Examples:
      narthex history
      narthex history 41

    With --json: {"versions": [{"version", "at", "author_kind", "author_id", "author", "via", "restores", "changed"}]}; with VERSION the
    version itself, with "changes": [{"section", "name", "before", "after"}].
    """
    if version is not None:
        _show_version(version, as_json=as_json)
        return
    rows = query_store(lambda url: _list_versions(url, limit))
    if as_json:
        print_json({"versions": rows})
    elif not rows:
        click.echo("The configuration has not been changed yet.")
    else:
        cells = [(str(row.version), format_time(row.at), printable(row.author), row.via, _summary(row)) for row in rows]
        print_table(("VERSION", "AT", "WHO", "VIA", "CHANGED"), cells)


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


def _show_version(version: int, *, as_json: bool) -> None:
    row, changes = query_store(lambda url: _find_version(url, version))
    if as_json:
        print_json({**msgspec.structs.asdict(row), "changes": changes})
        return
    restores = "" if row.restores is None else f", which restored version {row.restores}"
    click.echo(f"Version {row.version} of {format_time(row.at)}, by {printable(row.author)} ({row.via}){restores}")
    for change in changes:
        verb = "new" if change.before is None else "removed" if change.after is None else "changed"
        click.echo(printable(f"\n{change.section} {change.name}: {verb}").lstrip())
        for line in format_changes(change.before, change.after):
            click.echo(f"  {line}")


def _summary(row: VersionRow) -> str:
    counts = ", ".join(f"{count} of {section}" for section, count in row.changed.items())
    return counts if row.restores is None else f"{counts} (restores {row.restores})"


async def _list_versions(url: str, limit: int) -> Sequence[VersionRow]:
    async with transaction(url) as connection:
        return (await configuration_history.page_versions(connection, _Newest(limit))).data


async def _version_before_the_newest(url: str) -> int:
    async with transaction(url) as connection:
        known = await configuration_history.read_range(connection)
    if known is None:
        raise OperatorError("The history of the configuration is empty: there is no change to go back from.")
    return known[1] - 1


async def _find_version(url: str, version: int) -> tuple[VersionRow, Sequence[EntryChange]]:
    async with transaction(url) as connection:
        row = await configuration_history.find_version(connection, version)
        if row is None:
            known = await configuration_history.read_range(connection)
            between = "is empty" if known is None else f"has versions from {known[0]} to {known[1]}, which `narthex history` lists"
            raise OperatorError(f"There is no change of the configuration with version {version}. The history {between}.")
        changes: list[EntryChange] = []
        after: str | None = None
        while True:
            page = await configuration_history.page_changes(connection, version, after=after, limit=MAX_PAGE_ROWS)
            changes += (EntryChange(each.section, display_name(each), each.before, each.after) for each in page.data)
            if page.next is None:
                return row, changes
            after = page.next


class _Newest(Struct, frozen=True):
    """The page of the newest versions."""

    limit: int
    after: str | None = None
    sort: str = "-version"


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
