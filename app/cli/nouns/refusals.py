"""narthex refusals: who was refused, and why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam, format_time
from app.settings import Settings
from app.store.keys.key_format import parse_prefix
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.database import create_database_engine
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.store.records.refusal_queries import Refusal, RefusalFilter, list_refusals
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import AnalyticsQuery, make_query
from app.store.usage.analytics_rows import Analytics, AnalyticsRow
from app.store.usage.rollups import REFUSED

_STATEMENT_TIMEOUT_S = 30.0
_DEFAULT_DAYS = 1
_GROUPED_BY = "team,key,error,rule"
_COUNTED_BY = ("team", "key", "model", "route", "status", "error", "rule")


@click.command()
@click.option("--team", help="Only of this team; (unknown) for requests without a known key.")
@click.option("--key", help="Only of the key with this public part.")
@click.option("--status", type=click.IntRange(400, 599), help="Only with this status.")
@click.option("--rule", help="Only what this limit refused.")
@click.option("--error", help="Only with this error, such as LimitExceeded.")
@click.option("--model", help="Only of requests for this model.")
@click.option("--route", help="Only of this route, such as openai_chat.")
@click.option("--request-id", metavar="ID", help="Only the sample with this x-request-id, as the response had it.")
@click.option("--since", type=PastMomentParam(), help="From then on: 7d (ago), 2026-11-01 or a time. Default: 1d.")
@click.option("--until", type=PastMomentParam(), help="Until before then.")
@click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=20, show_default=True, help="Most groups, and most samples.")
@json_option
def refusals(limit: int, as_json: bool, since: datetime | None, until: datetime | None, key: str | None, **filters: Any) -> None:
    """Show who was refused, and why.

    How many requests of each team, key, error and limit the gateway refused itself (in whole hours), then the newest of a sample of
    them.

    \b
    Examples:
      narthex refusals
      narthex refusals --team search --status 429 --since 7d
      narthex refusals --request-id order-17

    With --json: {"counts": what GET /admin/v1/analytics returns (null with --request-id), "sample": [...]}; the fields of the sample
    are those of GET /admin/v1/refusals.
    """
    prefix = None if key is None else parse_prefix(key)
    if key is not None and prefix is None:
        raise click.BadParameter("it is not the public part of a key, such as nx-0123456789ab", param_hint="--key")
    now = datetime.now(UTC)
    since = since or (until or now) - timedelta(days=_DEFAULT_DAYS)
    counted = {**filters, "key": prefix and f"nx-{prefix}"}
    query = _counts_query(now, since, until, {name: str(counted[name]) for name in _COUNTED_BY if counted[name] is not None}, limit)
    wanted = RefusalFilter(key=prefix, since=since, until=until, **filters)

    async def read(url: str) -> tuple[Analytics | None, list[Refusal]]:
        engine = create_database_engine(url)
        try:
            async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
                counted = None if wanted.request_id else await read_analytics(connection, query)  # sums know no request
                return counted, await list_refusals(connection, wanted, before=None, limit=limit)
        finally:
            await engine.dispose()

    counts, sample = query_store(read)
    if as_json:
        print_json({"counts": counts, "sample": sample})
        return
    has_counts = counts is not None and bool(counts.data)
    if counts is not None and counts.data:
        print_table(("TEAM", "KEY", "ERROR", "RULE", "REFUSED"), [_count_cells(row) for row in counts.data])
    if counts is not None and counts.has_more:
        click.echo("There are more groups: --limit shows more.", err=True)
    if not sample:
        click.echo("No refused request matches." if not has_counts else "No sample of them is kept any more.")
    else:
        click.echo("\nThe newest of a sample:" if has_counts else "A sample of those that match:")
        print_table(("RECEIVED", "ID", "TEAM", "KEY", "MODEL", "STATUS", "WHY"), [_sample_cells(each) for each in sample])


def _counts_query(now: datetime, since: datetime, until: datetime | None, filters: dict[str, str], limit: int) -> AnalyticsQuery:
    settings = Settings.read()
    return make_query(
        since=since,
        until=until,
        now=now,
        keep_minutes_days=settings.keep_minutes_days,
        keep_hours_days=settings.keep_hours_days,
        group_by=_GROUPED_BY,
        filters={**filters, "outcome": REFUSED},
        order_by="refused",
        limit=limit,
    )


def _count_cells(row: AnalyticsRow) -> list[str]:
    return [*(row.group[name] or "" for name in _GROUPED_BY.split(",")), f"{row.refused:,}"]


def _sample_cells(refusal: Refusal) -> list[str]:
    why = refusal.message or f"{refusal.error} {refusal.param or ''}".strip()
    return [
        *(format_time(refusal.received_at), refusal.id, refusal.team or "", refusal.key or refusal.unknown_key or "", refusal.model),
        *(str(refusal.status), why),
    ]
