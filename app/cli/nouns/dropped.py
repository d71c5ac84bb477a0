"""narthex dropped: which callers lose which fields."""

from datetime import UTC, datetime, timedelta

import click

from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import DurationParam, format_time
from app.store.keys.key_format import parse_prefix
from app.store.postgres.database import create_database_engine
from app.store.records import drop_summary
from app.store.records.drop_summary import DropRow
from app.supervisor.machine.errors import OperatorError

_TIMEOUT_S = 300.0  # an operator may wait for longer than a caller of the admin API


@click.command()
@click.option("--last", type=DurationParam(), default=f"{drop_summary.DEFAULT_DAYS}d", show_default=True, help="Of requests this recent.")
@click.option("--team", help="Only of this team.")
@click.option("--key", help="Only of the key with this public part.")
@click.option("--model", help="Only of requests for this model.")
@click.option(
    "--limit",
    type=click.IntRange(1, drop_summary.MAX_ROWS),
    default=100,
    show_default=True,
    help="Maximum number of rows, the most frequent.",
)
@json_option
def dropped(last: float, team: str | None, key: str | None, model: str | None, limit: int, as_json: bool) -> None:
    """Show which callers lose which fields: what was dropped from requests, by team, key and model.

    A field is dropped where a target cannot honour it and the caller or the option `drop` lets it go, or because it is a hint.
    `narthex models show MODEL` shows whose option that may be. It reads the records of the time, at most 31 days: about a second for
    each million.

    \b
    Examples:
      narthex dropped
      narthex dropped --team search --last 24h

    With --json: {"since", "until", "dropped": [{"team", "key", "model", "field", "requests", "first_at", "last_at"}], "more": whether
    there are more rows}; "team" and "key" are null once they are removed from the database.
    """
    if not 0 < last <= drop_summary.MAX_DAYS * 86400:
        raise click.BadParameter(f"from 1s to {drop_summary.MAX_DAYS}d", param_hint="--last")
    if key is not None and parse_prefix(key) is None:
        raise click.BadParameter("it is not the public part of a key, such as nx-0123456789ab", param_hint="--key")
    scope = {name: value for name, value in (("team", team), ("key", key and parse_prefix(key)), ("model", model)) if value is not None}
    until = datetime.now(UTC)
    since = until - timedelta(seconds=last)

    async def summarize(database_url: str) -> list[DropRow]:
        database = create_database_engine(database_url, command_timeout_s=_TIMEOUT_S)
        try:
            async with database.connect() as connection:
                return await drop_summary.summarize_drops(connection, since, until, scope, limit + 1)
        except TimeoutError:
            raise OperatorError(f"The records were not summed up within {_TIMEOUT_S:.0f} s: choose a shorter time with --last.") from None
        finally:
            await database.dispose()

    fetched = query_store(summarize)
    rows, has_more = fetched[:limit], len(fetched) > limit
    if as_json:
        print_json({"since": since, "until": until, "dropped": rows, "more": has_more})
    elif not rows:
        click.echo("No field was dropped from a request in that time.")
    else:
        cells = [
            (row.team or "", row.key or "", row.model, row.field, f"{row.requests:,}", format_time(row.first_at), format_time(row.last_at))
            for row in rows
        ]
        print_table(("TEAM", "KEY", "MODEL", "FIELD", "REQUESTS", "FIRST", "LAST"), cells)
        if has_more:
            click.echo(f"There are more than {limit} rows: --team, --key, --model or --limit shows others.", err=True)
