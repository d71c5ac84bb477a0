"""narthex replay start: answer recorded requests again by another model or variant. The noun's other commands are made from operations."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click
import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.experiments.replay_order import ReplayOrder
from app.api.admin.records.inference_filters import InferenceFilters, to_filter
from app.api.rest.request_parsing import convert_admin_body
from app.cli.errors import CommandError, OrderedGroup
from app.cli.finite_range import FiniteRange
from app.cli.output import json_option, print_json
from app.cli.renderers.replays import print_refused
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.gateway.replay.order import check_order, describe_nothing
from app.process.decoding_errors import in_plain_words
from app.store.configuration.snapshots import read_snapshot
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import create_database_engine
from app.store.replays import replays as store
from app.store.replays.replays import (
    MAX_CONCURRENCY,
    MAX_ITEMS,
    Judge,
    NewReplay,
    NothingToReplay,
    Replay,
    ReplayDefinition,
)
from app.store.replays.team_room import TooManyReplays
from providers.canonical.errors import InvalidRequest

_STATEMENT_TIMEOUT_S = 300.0


@click.group(cls=OrderedGroup)
def replay() -> None:
    """Answer recorded requests again by another model.

    docs/replay.md says what is replayed, who pays, and how to read the results.
    """


@replay.command("start")
@click.argument("model")
@click.option("--variant", help="Of the function MODEL, or an arm of its experiment.")
@click.option("--key", required=True, metavar="PREFIX", help="The public part of the key that pays.")
@click.option("--where", "where", multiple=True, metavar="NAME=VALUE", help="A filter of recorded requests, as team=search; repeatable.")
@click.option("--since", type=PastMomentParam(), help="From then on: 7d (ago), 2026-11-01 or a time.")
@click.option("--until", type=PastMomentParam(), help="Until before then.")
@click.option("--sample", type=FiniteRange(0, 1, min_open=True), default=1.0, help="The share of them; all if not given.")
@click.option("--seed", help="Of the sample: the same seed takes the same requests.")
@click.option("--max-items", type=click.IntRange(1, MAX_ITEMS), default=1000, show_default=True, help="At most so many requests.")
@click.option("--max-usd", type=FiniteRange(0, min_open=True), metavar="USD", help="At most so many US dollars.")
@click.option("--concurrency", type=click.IntRange(1, MAX_CONCURRENCY), default=4, show_default=True, help="At most so many at once.")
@click.option("--per-minute", type=click.IntRange(1, 100_000), help="At most so many in a minute.")
@click.option("--judge", metavar="FUNCTION", help="A function of type json that compares both responses.")
@click.option("--judge-variant", metavar="VARIANT", help="Its variant, if not the default.")
@click.option("--dry-run", is_flag=True, help="Only say how many requests there are.")
@json_option
def start(
    model: str,
    key: str,
    where: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    seed: str | None,
    judge: str | None,
    judge_variant: str | None,
    dry_run: bool,
    as_json: bool,
    **bounds: Any,
) -> None:
    """Replay recorded requests through MODEL.

    It runs in the background, in one of the gateway's processes.

    \b
    Examples:
      narthex replay start qwen3-4b --key nx-0123456789ab --where model=gpt-5 --since 7d --max-items 500 --max-usd 5
      narthex replay start assistant --variant terse --key nx-0123456789ab --where function=assistant --judge which-is-better
      narthex replay start qwen3-4b --key nx-0123456789ab --where team=search --dry-run

    With --json: the replay as POST /admin/v1/replays answers it.
    """
    if judge_variant is not None and judge is None:
        raise click.UsageError("--judge-variant is of --judge: give that, too.")
    given, judged = _parse_where(where, since, until), None if judge is None else Judge(judge, judge_variant)
    definition = ReplayDefinition(filter=given, model=model, key=key, seed=seed or secrets.token_hex(8), judge=judged, **bounds)
    try:
        order = {name: value for name, value in msgspec.to_builtins(definition).items() if value is not None}
        convert_admin_body(order, ReplayOrder)  # by the rules of the admin API
    except InvalidRequest as fault:
        raise click.UsageError(fault.message) from None
    started = query_store(lambda url: _start(url, definition, dry_run=dry_run))
    if as_json:
        print_json(started)
        return
    many = f"{started.items['pending']:,} requests"
    if dry_run:
        click.echo(f"{many} would be replayed.")
    else:
        click.echo(f"The replay {started.id} of {many} has begun. `narthex replay show {started.id}` shows how far it is.")
    print_refused(started.refused)


async def _start(url: str, definition: ReplayDefinition, *, dry_run: bool) -> Replay:
    engine = create_database_engine(url, command_timeout_s=_STATEMENT_TIMEOUT_S)
    try:
        async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=False) as connection:
            found = await _start_in(connection, definition)
            if dry_run:
                await connection.rollback()
            return found
    except InvalidRequest as fault:
        raise CommandError(fault.message) from None
    except NothingToReplay as nothing:
        raise CommandError(describe_nothing(nothing.refused)) from None
    except TooManyReplays as fault:
        raise CommandError(str(fault)) from None
    finally:
        await engine.dispose()


async def _start_in(connection: AsyncConnection, definition: ReplayDefinition) -> Replay:
    prefix = parse_prefix(definition.key)
    caller = None if prefix is None else await find_key_holder(connection, prefix=prefix)
    if caller is None:
        raise CommandError(f"There is no key {definition.key!r:.60} that could pay: it is unknown or revoked.")
    definition = msgspec.structs.replace(definition, key=caller.prefix)
    check_order(await read_snapshot(connection), caller, definition)
    filters = to_filter(msgspec.convert(definition.filter, InferenceFilters), None)
    id = await store.start_replay(connection, command_author(), NewReplay(definition, filters, caller.team_id, caller.key_id, caller.team))
    found = await store.find_replay(connection, id)
    assert found is not None, "it was stored in this transaction"
    return found


def _parse_where(where: tuple[str, ...], since: datetime | None, until: datetime | None) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for each in where:
        name, separator, value = each.partition("=")
        if not (name and separator):
            raise click.BadParameter(f"{each!r} is not NAME=VALUE, such as team=search", param_hint="--where")
        values[name] = value
    values |= {name: moment.isoformat() for name, moment in (("since", since), ("until", until)) if moment is not None}
    try:
        parsed = msgspec.convert(values, InferenceFilters, strict=False)
    except msgspec.ValidationError as fault:
        names = ", ".join(name for name in InferenceFilters.__struct_fields__ if name != "text")
        raise click.BadParameter(f"{in_plain_words(str(fault))}. The filters are: {names}.", param_hint="--where") from None
    if parsed.text is not None:
        raise click.BadParameter("requests cannot be chosen by `text`", param_hint="--where")
    return {name: value for name, value in msgspec.to_builtins(parsed).items() if value is not None}
