"""narthex limits: overrides of limits and budgets, and limits that nothing matches."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import click
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import change_in_transaction, query_in_transaction
from app.cli.times import MomentParam, PastMomentParam, format_time
from app.domain.errors import BadConfiguration, InvalidKeyField
from app.process.plain_numbers import plain_number
from app.store.limits import limit_overrides as store
from app.store.limits.limit_matches import UnmatchedLimit, known_since, page_unmatched
from app.store.limits.limit_overrides import Override, OverrideChanges, OverrideExists, UnknownLimit
from app.store.postgres.audit_log import command_author
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.supervisor.machine.errors import OperatorError

T = TypeVar("T")


@click.group(cls=OrderedGroup)
def limits() -> None:
    """Override limits until a time, and find those that nothing matches.

    Limits themselves are set by `narthex apply`, budgets also by `narthex budgets`. docs/budgets.md is a guide.
    """


@limits.command("override")
@click.argument("limit")
@click.option(
    "--for",
    "subject",
    metavar="NAME=VALUE",
    multiple=True,
    help="Whose amount it is, of a limit for each team, key or value of a tag: team=search, key=nx-..., tag:NAME=VALUE. Can be repeated.",
)
@click.option("--amount", required=True, type=float, help="In place of the limit's, in its unit: US dollars of a budget.")
@click.option(
    "--until",
    "ends_at",
    required=True,
    type=MomentParam(),
    help="When it ends: 2d, 2026-12-31 (at the end of that day, UTC) or 2026-12-31T18:00Z.",
)
@click.option("--reason", required=True, help="Why; for people, and in the audit log.")
@json_option
def override(limit: str, subject: Sequence[str], amount: float, ends_at: datetime, reason: str, as_json: bool) -> None:
    """Give a subject of LIMIT (or a budget) another amount, until a time.

    Returns once every gateway process goes by it; they go by the limit's own amount again when it has ended, by themselves. What was used
    meanwhile counts.

    \b
    Examples:
      narthex limits override "search in a month" --amount 800 --until 2026-12-01 --reason "load test"
      narthex limits override "each key in a week" --for key=nx-0123456789ab --amount 50 --until 2d --reason "migration"

    With --json: the override: {"id", "limit", "subject", "amount", "reason", "author", "created_at", "ends_at", "ended_at", "in_force"}.
    """
    parsed = dict(_parse_subject(each) for each in subject)
    created = _change(lambda connection: store.create_override(connection, command_author(), limit, parsed, amount, ends_at, reason))
    _print(
        created,
        f"{created.limit}: {plain_number(created.amount)} until {format_time(created.ends_at)} UTC (override {created.id}).",
        as_json,
    )


@limits.command("overrides")
@click.argument("limit", required=False)
@click.option("--all", "show_ended", is_flag=True, help="Also those that have ended.")
@json_option
def list_overrides(limit: str | None, show_ended: bool, as_json: bool) -> None:
    """List overrides, the newest first; with LIMIT, of that one.

    \b
    Example:
      narthex limits overrides --all

    With --json: {"overrides": [{"id", "limit", "subject", "amount", "reason", "author", "created_at", "ends_at", "ended_at", "in_force"}]}.
    """

    async def read(connection: AsyncConnection) -> Sequence[Override]:
        return (await store.page_overrides(connection, _Newest(), limit, None if show_ended else "in_force")).data

    rows = query_in_transaction(read)
    if as_json:
        print_json({"overrides": rows})
    elif not rows:
        click.echo("There are no overrides.")
    else:
        print_table(("OVERRIDE", "LIMIT", "FOR", "AMOUNT", "UNTIL", "BY", "REASON"), [_cells(row) for row in rows])


@limits.command("change-override")
@click.argument("id")
@click.option("--amount", type=float, help="The new amount.")
@click.option("--until", "ends_at", type=MomentParam(), help="The new end.")
@click.option("--reason", help="The new reason.")
@json_option
def change_override(id: str, amount: float | None, ends_at: datetime | None, reason: str | None, as_json: bool) -> None:
    """Change the amount, end or reason of the override ID.

    \b
    Example:
      narthex limits change-override 019ab3c4-5d6e-7f80-9123-456789abcdef --until 7d

    With --json: the override.
    """
    changes = OverrideChanges(amount, ends_at, reason)
    if changes == OverrideChanges():
        raise click.UsageError("Nothing to change: give --amount, --until or --reason.")

    async def change(connection: AsyncConnection) -> Override:
        before = _found(await store.lock_override(connection, id), id)
        if not before.in_force:
            raise OperatorError("This override has ended; make another one with `narthex limits override`.")
        return await store.change_override(connection, command_author(), before, changes)

    changed = _change(change)
    _print(changed, f"{changed.limit}: {plain_number(changed.amount)} until {format_time(changed.ends_at)} UTC.", as_json)


@limits.command("end-override")
@click.argument("id")
@yes_option
@json_option
def end_override(id: str, yes: bool, as_json: bool) -> None:
    """End the override ID now: the limit's own amount is in force again.

    \b
    Example:
      narthex limits end-override 019ab3c4-5d6e-7f80-9123-456789abcdef

    With --json (which needs --yes): the override.
    """
    confirm("End this override now?", yes=yes, as_json=as_json)

    async def end(connection: AsyncConnection) -> Override:
        return await store.end_override(connection, command_author(), _found(await store.lock_override(connection, id), id))

    ended = _change(end)
    _print(ended, f"The override of {ended.limit} has ended.", as_json)


@limits.command("unmatched")
@click.option("--since", type=PastMomentParam(), help="Since then: 7d (ago), 2026-11-01 or 2026-11-01T08:00Z. Default: 30d.")
@json_option
def list_unmatched(since: datetime | None, as_json: bool) -> None:
    """List limits and budgets that no request has matched.

    Such a limit may name what does not exist any more, or a tag that nobody sends.

    \b
    Example:
      narthex limits unmatched --since 7d

    With --json: {"limits": [{"name", "scope", "resource", "per", "created_at", "last_matched_at"}], "known_since"}.
    """
    moment = datetime.now(UTC) - timedelta(days=30) if since is None else since

    async def read(connection: AsyncConnection) -> tuple[Sequence[UnmatchedLimit], datetime]:
        found: list[UnmatchedLimit] = []
        after: str | None = None
        while True:
            page = await page_unmatched(connection, _ByName(after=after), moment)
            found += page.data
            after = page.next
            if after is None:
                return found, await known_since(connection)

    rows, known = query_in_transaction(read)
    if as_json:
        print_json({"limits": rows, "known_since": known.isoformat()})
        return
    if rows:
        cells = [(row.name, _scope(row.scope), row.resource, format_time(row.created_at), format_time(row.last_matched_at)) for row in rows]
        print_table(("LIMIT", "SCOPE", "RESOURCE", "CREATED", "LAST MATCHED"), cells)
    else:
        click.echo("Requests have matched every limit.")
    if known > moment:
        click.echo(f"What was before {format_time(known.isoformat())} UTC is not known.", err=True)


class _ByName(Struct, frozen=True):
    limit: int = MAX_PAGE_ROWS
    after: str | None = None
    sort: str = "name"


class _Newest(Struct, frozen=True):
    """The page of the newest overrides."""

    limit: int = MAX_PAGE_ROWS
    after: str | None = None
    sort: str = "-created_at"


def _change(change: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    try:
        return change_in_transaction(change)
    except (UnknownLimit, OverrideExists, InvalidKeyField, BadConfiguration) as fault:
        raise OperatorError(str(fault)) from None


def _found(override: Override | None, id: str) -> Override:
    if override is None:
        raise OperatorError(f"There is no override {id!r}; `narthex limits overrides --all` lists them.")
    return override


def _parse_subject(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name or not value:
        raise click.BadParameter("it must be NAME=VALUE, such as team=search", param_hint="--for")
    return name, value


def _print(override: Override, message: str, as_json: bool) -> None:
    if as_json:
        print_json(override)
    else:
        click.echo(printable(message))


def _scope(scope: Mapping[str, str]) -> str:
    return ", ".join("all" if name == "all" else f"{name}={value}" for name, value in scope.items())


def _cells(row: Override) -> tuple[str, ...]:
    until = format_time(row.ended_at or row.ends_at) + ("" if row.in_force else " (ended)")
    return (row.id, row.limit, _scope(row.subject), plain_number(row.amount), until, row.author, row.reason)
