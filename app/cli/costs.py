"""narthex costs: what was charged, for finance: exports, and comparisons with providers' invoices."""

import sys
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import click

from app.billing.cost_lines import walk_cost_lines
from app.billing.focus import write_focus
from app.cli.errors import OrderedGroup
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.store.database import create_database_engine

_TIMEOUT_S = 300.0  # of one day


@click.group(cls=OrderedGroup)
def costs() -> None:
    """Export costs for finance, and compare them with what providers ask.

    docs/cost.md has the rules by which costs are computed.
    """


@costs.command("focus")
@click.option("--since", required=True, type=PastMomentParam(), metavar="DAY", help="The first day, in UTC: 2026-11-01.")
@click.option("--until", type=PastMomentParam(), metavar="DAY", help="The day after the last; without it, today is included.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="A file, in place of the terminal.")
def export_focus(since: datetime, until: datetime | None, output: Path | None) -> None:
    """Print costs as CSV in the form of FOCUS, the FinOps Open Cost and Usage Specification.

    A row for each UTC day, key, model and kind of token, with its price; the sums are those of the records. Requests whose cost is
    unknown have no row.

    \b
    Examples:
      narthex costs focus --since 2026-11-01 --until 2026-12-01 > november.csv
      narthex costs focus --since 2026-11-01 -o november.csv
    """
    first, last = parse_days(since, until)

    async def export(database_url: str) -> None:
        database = create_database_engine(database_url, command_timeout_s=_TIMEOUT_S)
        try:
            async with database.connect() as connection:
                await _write(write_focus(walk_cost_lines(connection, first, last)), output)
        finally:
            await database.dispose()

    query_store(export)


def parse_days(since: datetime, until: datetime | None) -> tuple[date, date]:
    """The first and the last day of a period."""
    end = datetime.now(UTC) if until is None else until
    for option, moment in (("--since", since), ("--until", until)):
        if moment is not None and moment.astimezone(UTC).time() != time():
            raise click.BadParameter("it must be a day, such as 2026-11-01", param_hint=option)
    first, last = since.astimezone(UTC).date(), (end.astimezone(UTC) - timedelta(microseconds=1)).date()
    if last < first:
        raise click.BadParameter("it must be before --until", param_hint="--since")
    return first, last


async def _write(pieces: AsyncIterator[bytes], output: Path | None) -> None:
    """A file is complete or not there."""
    if output is None:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    unfinished = output.with_name(output.name + ".part")
    with unfinished.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
    unfinished.replace(output)
