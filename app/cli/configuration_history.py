"""narthex history: the versions of the configuration, and what each of them changed."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from app.cli.changes import format_changes
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.cli.times import format_time
from app.store.configuration import history as configuration_history
from app.store.configuration.difference import EntryChange, display_name
from app.store.configuration.history import VersionRow
from app.store.postgres.database import transaction
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.supervisor.machine.errors import OperatorError


class VersionParam(click.IntRange):
    """The number of a version of the configuration."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not the number of a version, such as 41; `narthex history` lists them.", param, ctx)


_VERSION = VersionParam(0, configuration_history.MAX_VERSION)


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
