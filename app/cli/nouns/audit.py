"""narthex audit: who changed what, when, and what it was before."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast, get_args

import click
import msgspec

from app.cli.changes import format_changes
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam, format_time
from app.domain import uuid7
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import Via
from app.store.postgres.conditions import OpenTransaction
from app.store.postgres.database import create_database_engine
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.store.records import audit_queries
from app.store.records.audit_export import ExportFormat, export_events, export_head
from app.store.records.audit_queries import AuditFilter, RecordedEvent
from app.supervisor.machine.errors import OperatorError

_STATEMENT_TIMEOUT_S = 30.0
_SHOWN_CHARACTERS = 60


@click.command()
@click.argument("id", required=False)
@click.option("--actor", metavar="NAME", help="Only changes by this admin key, service account or user, of the gateway or of this machine.")
@click.option("--action", metavar="ACTION", help="Only this: create, update, delete, revoke ...")
@click.option("--resource", metavar="KIND", help="Only changes of this kind of thing: key, team, model, provider ...")
@click.option("--name", metavar="NAME", help="Only changes of the thing of this name.")
@click.option("--team", metavar="TEAM", help="Only changes of what belongs to this team.")
@click.option("--since", type=PastMomentParam(), help="Only changes from then on: 7d (ago), 2026-11-01 or 2026-11-01T08:00Z.")
@click.option("--until", type=PastMomentParam(), help="Only changes before then.")
@click.option(
    "--via", type=click.Choice(get_args(Via)), help="Only changes over the admin API, by commands, by signing in, or by the gateway itself."
)
@click.option("--search", metavar="TEXT", help="Only changes with this text in names or in what was changed, in any case.")
@click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=50, show_default=True, help="Most changes to list.")
@click.option("--export", "format", type=click.Choice(get_args(ExportFormat)), help="Print all that match, however many, in this format.")
@json_option
def audit(id: str | None, limit: int, format: ExportFormat | None, as_json: bool, via: str | None, **filters: Any) -> None:
    """List changes: who changed what, when, and what it was before; with ID, show one.

    The newest come first. Every change is logged, whether by the admin API or a command. The log is append-only. Secrets are
    masked.

    \b
    Examples:
      narthex audit --since 7d --resource key
      narthex audit 019a2c3d-0000-7000-8000-000000000000
      narthex audit --since 2026-01-01 --export csv > audit.csv

    With --json: {"events": [{"id", "at", "actor", "via", "ip", "user_agent", "action", "resource", "name", "team", "before", "after",
    "request_id", "version"}]}; with ID the event itself.
    """
    wanted = AuditFilter(via=cast("Via | None", via), **filters)
    if id is not None:
        if format is not None or wanted != AuditFilter():
            raise click.UsageError("ID shows one change: give it without filters.")
        _show(id, as_json=as_json)
    elif format is not None:
        if as_json:
            raise click.UsageError("Give --export or --json, not both.")
        query_store(lambda url: _export(url, wanted, format))
    else:
        events = query_store(lambda url: _list(url, wanted, limit))
        if as_json:
            print_json({"events": events})
        else:
            _print_events(events, limit)


def _show(id: str, *, as_json: bool) -> None:
    event = query_store(lambda url: _find(url, id)) if uuid7.is_uuid7(id) else None
    if event is None:
        raise OperatorError(f"There is no change {id!r:.60}; `narthex audit --json` shows ids.")
    if as_json:
        print_json(event)
        return
    for name, value in msgspec.to_builtins(event).items():
        if value is not None and name not in ("before", "after", "actor"):
            click.echo(f"{name}: {printable(str(value))}")
    click.echo(f"actor: {printable(_actor(event))}")
    for change in format_changes(event.before, event.after):
        click.echo(f"  {change}")


def _print_events(events: Sequence[RecordedEvent], limit: int) -> None:
    if not events:
        click.echo("No change matches.")
        return
    cells = [(format_time(each.at), _actor(each), each.via, each.action, f"{each.resource} {each.name}", _summary(each)) for each in events]
    print_table(("AT", "WHO", "VIA", "ACTION", "WHAT", "CHANGE"), cells)
    if len(events) == limit:
        click.echo(f"\nThe newest {limit}; --limit and --until show more, --export prints all.")


def _actor(event: RecordedEvent) -> str:
    return f"{event.actor.kind.replace('_', ' ')} {event.actor.name}"


def _summary(event: RecordedEvent) -> str:
    text = "; ".join(format_changes(event.before, event.after))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "\u2026"


async def _list(url: str, wanted: AuditFilter, limit: int) -> list[RecordedEvent]:
    async with _transactions(url) as open_transaction, open_transaction() as connection:
        return await audit_queries.list_events(connection, wanted, before=None, limit=limit)


async def _find(url: str, id: str) -> RecordedEvent | None:
    async with _transactions(url) as open_transaction, open_transaction() as connection:
        return await audit_queries.find_event(connection, id.lower(), teams=None)


async def _export(url: str, wanted: AuditFilter, format: ExportFormat) -> None:
    async with _transactions(url) as open_transaction:
        sys.stdout.buffer.write(export_head(format))
        async for events in audit_queries.walk_events(open_transaction, wanted):
            sys.stdout.buffer.write(export_events(events, format))
    sys.stdout.buffer.flush()


@contextlib.asynccontextmanager
async def _transactions(url: str) -> AsyncGenerator[OpenTransaction]:
    engine = create_database_engine(url)
    try:
        yield lambda: admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True)
    finally:
        await engine.dispose()
