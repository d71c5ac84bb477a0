"""narthex analytics: requests, tokens, cost and latency by time and group, and counting of what an earlier version recorded."""

import re
from datetime import UTC, date, datetime
from typing import get_args

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, pluralize, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.domain.errors import InvalidKeyField
from app.recording.writer.rollup_backfill import count_all_uncounted
from app.settings import Settings
from app.store.postgres.database import transaction
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import DIMENSIONS, MAX_GROUPS, Interval, Order, make_query
from app.store.usage.analytics_rows import Analytics, AnalyticsRow


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.option("--by", "group_by", metavar="NAMES", default="", help=f"Group by these, with commas: {', '.join(DIMENSIONS)}, tag:NAME.")
@click.option(
    "--where",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only of this team, key, model, tag:NAME ...; NAME!=VALUE: all but that one (no tag). May be repeated.",
)
@click.option(
    "--since", type=PastMomentParam(), help="From then on: 7d (ago), 2026-11-01 or 2026-11-01T08:00Z. Default: 30d, with hours 1d."
)
@click.option("--until", type=PastMomentParam(), help="Until before then; now, if it is left out.")
@click.option("--interval", type=click.Choice(get_args(Interval)), help="A row for each of these.")
@click.option("--order-by", type=click.Choice(get_args(Order)), default="requests", show_default=True, help="Most of it first.")
@click.option("--limit", type=click.IntRange(1, MAX_GROUPS), default=20, show_default=True, help="Most groups.")
@click.option("--time-zone", metavar="ZONE", default="UTC", show_default=True, help="Of days, weeks and months.")
@click.option("--quantiles", is_flag=True, help="Show the median and the 95th percentile of latency and of the time to the first token.")
@json_option
@click.pass_context
def analytics(
    context: click.Context,
    group_by: str,
    where: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    interval: Interval | None,
    order_by: Order,
    limit: int,
    time_zone: str,
    quantiles: bool,
    as_json: bool,
) -> None:
    """Show what is used, by whom, and how fast it is.

    Requests, tokens, cost and latency by time and group, from sums that are kept as requests are recorded.

    \b
    Examples:
      narthex analytics --by team --order-by cost_microusd
      narthex analytics --by model --since 1d --order-by p95_duration_us --quantiles
      narthex analytics --by status --where team=search --interval hour
      narthex analytics --by model --where model!=sandbox

    With --json: what GET /admin/v1/analytics returns.
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"`narthex analytics {context.invoked_subcommand}` takes none of the options of `narthex analytics`.")
        return
    settings = Settings.read()
    filters, excluded = _parse_filters(where)
    try:
        query = make_query(
            since=since,
            until=until,
            now=datetime.now(UTC),
            keep_minutes_days=settings.keep_minutes_days,
            keep_hours_days=settings.keep_hours_days,
            interval=interval,
            time_zone=time_zone,
            group_by=group_by,
            filters=filters,
            excluded=excluded,
            order_by=order_by,
            limit=limit,
            quantiles=quantiles,
        )
    except InvalidKeyField as fault:
        raise click.UsageError(_with_options(str(fault))) from None

    async def read(database_url: str) -> Analytics:
        async with transaction(database_url) as connection:
            return await read_analytics(connection, query)

    found = query_store(read)
    if as_json:
        print_json(found)
    elif not found.data and not found.uncounted:
        click.echo("There were no requests in that time.")
    else:
        _print_rows(found, quantiles=quantiles)


@analytics.command("backfill")
@json_option
def backfill(as_json: bool) -> None:
    """Count the requests that a version from before analytics recorded.

    Hour by hour, from the newest back, while everything runs; each is counted once, also when this is interrupted and run again. What
    retention has deleted cannot be counted. Give this command the writers' settings, which say what sums are kept.

    \b
    Example:
      narthex analytics backfill

    With --json: {"requests": how many were counted, "since": the hour of the first, null if there are none}.
    """
    settings = Settings.read()

    async def count(database_url: str) -> tuple[int, datetime | None]:
        total, since = 0, None
        day, of_day = None, 0
        async for counted in count_all_uncounted(database_url, settings):
            if counted.begin.date() != day:
                _report_day(day, of_day)
                day, of_day = counted.begin.date(), 0
            of_day += counted.requests
            total += counted.requests
            since = counted.begin if counted.requests else since
        _report_day(day, of_day)
        return total, since

    requests, since = query_store(count)
    if as_json:
        print_json({"requests": requests, "since": since})
    elif since is None:
        click.echo("Nothing is missing in analytics.")
    else:
        click.echo(f"{pluralize(requests, 'request')} from {since:%Y-%m-%d} on are in analytics now.")


def _report_day(day: date | None, requests: int) -> None:
    if requests:
        click.echo(f"{day}: {requests:,}", err=True)


def _with_options(message: str) -> str:
    """A message about parameters of the admin API, with the names of this command's options."""
    return re.sub(r"`(\w+)`", lambda name: "--by" if name[1] == "group_by" else f"--{name[1].replace('_', '-')}", message)


def _parse_filters(where: tuple[str, ...]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The values that are wanted, and those that are left out, by dimension. Raises click.BadParameter."""
    filters: dict[str, str] = {}
    excluded: dict[str, tuple[str, ...]] = {}
    for each in where:
        name, separator, value = each.partition("=")
        if separator and name.endswith("!") and (left_out := name.removesuffix("!")) in DIMENSIONS:
            excluded[left_out] = (*excluded.get(left_out, ()), value)
            continue
        if not separator or not (name in DIMENSIONS or (name.startswith("tag:") and len(name) > len("tag:"))):
            raise click.BadParameter(f"NAME of NAME=VALUE may be {', '.join(DIMENSIONS)} or tag:NAME", param_hint="--where")
        if name in filters:
            raise click.BadParameter(f"{name} is given twice", param_hint="--where")
        filters[name] = value
    return filters, excluded


def _print_rows(found: Analytics, *, quantiles: bool) -> None:
    titles = [*(["TIME"] if found.interval else []), *(name.upper() for name in found.group_by)]
    titles += ["REQUESTS", "REFUSED", "FAILED", "INPUT", "OUTPUT", "COST USD", "MEAN S"]
    if quantiles:
        titles += ["P50 S", "P95 S", "FIRST TOKEN P50 S", "P95 S"]
    print_table(titles, [_cells(row, found) for row in found.data])
    unpriced = sum(row.unpriced for row in found.data)
    if unpriced:
        click.echo(f"{unpriced:,} of these have no known cost: they failed, or their model has no price (`narthex prices list`).", err=True)
    if found.has_more:
        click.echo("There are more groups: --limit shows more.", err=True)
    if found.uncounted:
        click.echo(
            f"{pluralize(found.uncounted, 'request')} of these days, recorded by an earlier version, are missing:"
            " `narthex analytics backfill` counts them.",
            err=True,
        )
    if found.complete_until is not None and found.complete_until < found.until:
        click.echo(f"Complete until {found.complete_until}.", err=True)


def _cells(row: AnalyticsRow, found: Analytics) -> list[str]:
    cells = [*([row.time or ""] if found.interval else []), *(row.group[name] or "" for name in found.group_by)]
    cells += [f"{row.requests:,}", f"{row.refused:,}", f"{row.failed:,}", f"{row.input_tokens:,}", f"{row.output_tokens:,}"]
    is_cost_unknown = 0 < row.requests == row.unpriced
    cells += ["-" if is_cost_unknown else f"{row.cost_microusd / 1_000_000:.6f}", _seconds(row.mean_duration_us)]
    for quantity in (row.duration, row.first_token):
        if quantity is not None:
            cells += [_seconds(quantity.p50), _seconds(quantity.p95)]
    return cells


def _seconds(microseconds: int | None) -> str:
    return "" if microseconds is None else f"{microseconds / 1_000_000:.3f}"
