"""narthex inferences: search of recorded requests."""

import asyncio
import re
import sys
from datetime import datetime
from typing import Any, get_args

import click
import msgspec

from app.cli.errors import CommandError, OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.renderers.assigned_arms import experiment_text, variant_text
from app.cli.store_query import query_store
from app.cli.times import DurationParam, PastMomentParam, format_time
from app.domain.errors import InvalidKeyField
from app.domain.exchange import OriginKind, Outcome
from app.settings import Settings
from app.store.formats.parquet_lines import MISSING, ParquetFile, can_write
from app.store.keys.key_format import parse_prefix
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.database import create_database_engine
from app.store.records.episode_lookup import check_episode
from app.store.records.inference_filter import InferenceFilter, matches, named_filters
from app.store.records.inference_queries import InferencePage, page_inferences, walk_inferences
from app.store.records.inference_tail import current_position, read_stored
from app.store.records.search_words import read_search
from app.store.usage.named_filters import check_named

_STATEMENT_TIMEOUT_S = 30.0
_MAX_SHOWN = 1000
_FOLLOW_S = 1.0
_FOLLOWED_ROWS = 500
_TITLES = (*("RECEIVED", "ID", "TEAM", "MODEL", "VARIANT", "EXPERIMENT", "SERVED BY", "STATUS", "ERROR", "TOKENS", "COST USD", "S"),)
_TRACE_ID = re.compile("[0-9a-fA-F]{32}")


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.option("--team", help="Only of this team.")
@click.option("--key", help="Only of the key with this public part.")
@click.option("--model", help="Only of requests for this model.")
@click.option("--function", help="Only of requests for this function.")
@click.option("--variant", help="Only assigned to this variant or arm.")
@click.option("--experiment", help="Only assigned by the experiment of this name.")
@click.option("--user", "end_user", help="Only of this end user.")
@click.option("--tag", metavar="NAME=VALUE", help="Only with this tag.")
@click.option("--episode", help="Only of this episode: its UUID, or the text its caller named it.")
@click.option("--provider", help="Only served by this provider.")
@click.option("--outcome", type=click.Choice(get_args(Outcome)), help="Only with this outcome.")
@click.option("--status", type=click.IntRange(100, 599), help="Only with this status.")
@click.option("--error", help="Only with this error.")
@click.option("--min-cost", "min_cost_usd", type=click.FloatRange(0), metavar="USD", help="Only what cost at least this.")
@click.option("--min-duration", "min_duration_s", type=DurationParam(), help="Only what took at least this: 30s, 2m.")
@click.option("--trace", "trace_id", metavar="ID", help="Only of this trace, in hexadecimal.")
@click.option("--request-id", metavar="ID", help="Only with this x-request-id, as the response had it.")
@click.option("--origin", type=click.Choice(("caller", *get_args(OriginKind))), help="Only made by callers, or by the gateway itself.")
@click.option("--text", metavar="WORDS", help='Only where this was written: words, "phrases", or, and - before what must not be there.')
@click.option("--shadow", metavar="NAME", help="Only of the shadow of this function or model.")
@click.option("--since", type=PastMomentParam(), help="From then on: 7d (ago), 2026-11-01 or a time.")
@click.option("--until", type=PastMomentParam(), help="Until before then.")
@click.option("--limit", type=click.IntRange(1, _MAX_SHOWN), default=20, show_default=True, help="Most requests to list.")
@click.option("--follow", "-f", "is_follow", is_flag=True, help="Print new requests as they are stored, until Ctrl-C.")
@click.option("--export", "is_export", is_flag=True, help="Print all that match, however many, one JSON document a line.")
@click.option(
    "--parquet",
    "parquet_file",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write all that match into a Parquet file; takes the extra narthex[parquet].",
)
@json_option
@click.pass_context
def inferences(
    context: click.Context, limit: int, is_follow: bool, is_export: bool, parquet_file: str | None, as_json: bool, **options: Any
) -> None:
    """Search recorded requests, the newest first; or show one.

    \b
    Examples:
      narthex inferences show 019a2c3d-0000-7000-8000-000000000000
      narthex inferences --user ann --since 7d
      narthex inferences --tag tenant=acme --outcome failed
      narthex inferences --team support --text 'refund "late delivery" -test'
      narthex inferences --min-cost 1 --export > expensive.jsonl
      narthex inferences --team search --outcome failed --follow
      narthex inferences --experiment fast --variant gpt-5-mini

    VARIANT is the variant or arm that a request was assigned to and, after an arrow, the one that answered if it is another; EXPERIMENT
    is NAME@VERSION. --text finds requests of teams with full-text search (narthex teams set NAME --search).

    With --json: {"inferences": [...], "more": whether there may be more}; the fields are those of GET /admin/v1/inferences.
    With --follow and --json, one document a line.
    """
    if context.invoked_subcommand is not None:
        if any(each not in (None, False) for each in (*options.values(), is_follow, is_export, parquet_file, as_json)):
            raise click.UsageError(f"Put options after the command: narthex inferences {context.invoked_subcommand} ...")
        return
    filters, keep_hours_days = _parse_filters(**options), Settings.read().keep_hours_days
    if is_follow:
        if is_export:
            raise click.UsageError("Give --follow or --export, not both.")
        if filters.text is not None:
            raise click.UsageError("New requests cannot be followed by their --text.")
        query_store(lambda url: _follow(url, filters, as_json=as_json))
        return
    if parquet_file is not None:
        if is_export or as_json:
            raise click.UsageError("Give one of --parquet, --export and --json.")
        if not can_write():
            raise CommandError(MISSING)
        query_store(lambda url: _write_parquet(url, filters, keep_hours_days, parquet_file))
        return
    if is_export:
        if as_json:
            raise click.UsageError("Give --export or --json, not both.")
        query_store(lambda url: _export(url, filters, keep_hours_days))
        return

    async def read(url: str) -> InferencePage:
        engine = create_database_engine(url)
        try:
            async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
                return await page_inferences(connection, filters, keep_hours_days=keep_hours_days, before=None, limit=limit)
        finally:
            await engine.dispose()

    page = query_store(read)
    rows = page.rows
    if as_json:
        print_json({"inferences": rows, "more": page.next is not None})
    elif not rows:
        click.echo("No request matches.")
        if filters.request_id is not None:
            click.echo("One that was refused before it reached a model is in `narthex refusals --request-id`, if it was sampled.", err=True)
    else:
        cells = [_cells(row) for row in rows]
        # Most gateways have no variants: two empty columns would be in the way.
        shown = [at for at, title in enumerate(_TITLES) if title not in ("VARIANT", "EXPERIMENT") or any(row[at] for row in cells)]
        print_table([_TITLES[at] for at in shown], [[row[at] for at in shown] for row in cells])
        if page.next is not None and page.searched_to is None:
            click.echo(f"There are more than {limit}: --limit and --until show others, --export prints all.", err=True)
    if page.searched_to is not None:
        click.echo(f"Searched back to {page.searched_to:%Y-%m-%dT%H:%M:%SZ}: --until goes on from there, --export searches all.", err=True)


def _parse_filters(
    *,
    key: str | None,
    tag: str | None,
    episode: str | None,
    min_cost_usd: float | None,
    min_duration_s: float | None,
    trace_id: str | None,
    since: datetime | None,
    until: datetime | None,
    text: str | None,
    **equal: Any,
) -> InferenceFilter:
    prefix = None if key is None else parse_prefix(key)
    if key is not None and prefix is None:
        raise click.BadParameter("it is not the public part of a key, such as nx-0123456789ab", param_hint="--key")
    name, separator, value = (tag or "").partition("=")
    if tag is not None and not (name and separator):
        raise click.BadParameter("it must be NAME=VALUE", param_hint="--tag")
    if episode is not None:
        try:
            check_episode(episode)
        except InvalidKeyField as fault:
            raise click.BadParameter(str(fault), param_hint="--episode") from None
    if trace_id is not None and _TRACE_ID.fullmatch(trace_id) is None:
        raise click.BadParameter("it is not the id of a trace, 32 hexadecimal digits", param_hint="--trace")
    return InferenceFilter(
        key=prefix,
        trace_id=None if trace_id is None else trace_id.lower(),
        tag=None if tag is None else (name, value),
        episode=episode,
        min_cost_microusd=None if min_cost_usd is None else round(min_cost_usd * 1_000_000),
        min_duration_us=None if min_duration_s is None else round(min_duration_s * 1_000_000),
        since_ms=None if since is None else int(since.timestamp() * 1000),
        until_ms=None if until is None else int(until.timestamp() * 1000),
        text=None if text is None else read_search(text),
        **equal,
    )


async def _export(url: str, filters: InferenceFilter, keep_hours_days: int) -> None:
    engine = create_database_engine(url)
    try:
        pages = walk_inferences(lambda: admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True), filters, keep_hours_days)
        async for rows in pages:
            sys.stdout.buffer.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise CommandError("The export was cut off: whoever read it has ended.") from None
    finally:
        await engine.dispose()


async def _write_parquet(url: str, filters: InferenceFilter, keep_hours_days: int, path: str) -> None:
    engine, file = create_database_engine(url), ParquetFile()
    try:
        pages = walk_inferences(lambda: admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True), filters, keep_hours_days)
        with click.open_file(path, "wb") as written:
            async for rows in pages:
                written.write(file.write(rows))
            written.write(file.finish())
    finally:
        await engine.dispose()


async def _follow(url: str, filters: InferenceFilter, *, as_json: bool) -> None:
    """Prints new inferences until the command is interrupted."""
    engine = create_database_engine(url)
    try:
        position: str | None = None
        async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
            await check_named(connection, named_filters(filters))
        while True:
            async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
                until, after = await current_position(connection), None
                while position is not None:
                    rows, after = await read_stored(connection, position, until, after, _FOLLOWED_ROWS)
                    for row in rows:
                        if matches(filters, row):
                            _print_followed(row, as_json=as_json)
                    if after is None:
                        break
            position = until
            await asyncio.sleep(_FOLLOW_S)
    except BrokenPipeError:
        raise CommandError("Whoever read the output has ended.") from None
    finally:
        await engine.dispose()


def _print_followed(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        line = msgspec.json.encode({name: value for name, value in row.items() if name != "key"}).decode()
    else:
        line = printable("  ".join(cell or "-" for cell in _cells(row)))
    click.echo(line)
    sys.stdout.flush()


def _cells(row: dict[str, Any]) -> list[str]:
    tokens = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
    cost = row["cost_microusd"]
    return [
        *(format_time(row["received_at"]), row["id"], row["team"] or "", row["model"]),
        *(variant_text(row["variant"], row["served_variant"]), experiment_text(row["experiment"], row["experiment_version"])),
        *(row["served_provider"] or "", str(row["status"])),
        *(row["error"] or "", f"{tokens:,}", "" if cost is None else f"{cost / 1_000_000:.6f}", f"{row['duration_us'] / 1_000_000:.3f}"),
    ]
