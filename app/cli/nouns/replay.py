"""narthex replay: answer recorded requests again by another model or variant, and compare."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import click
import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.experiments.replays import ReplayOrder
from app.api.admin.records.inference_filters import InferenceFilters, to_filter
from app.api.rest.request_parsing import convert_admin_body
from app.cli.confirmation import confirm, yes_option
from app.cli.errors import CommandError, OrderedGroup
from app.cli.finite_range import FiniteRange
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction, query_store
from app.cli.times import PastMomentParam, format_time
from app.domain import uuid7
from app.gateway.replay.order import REFUSALS, check_order, describe_nothing
from app.process.decoding_errors import in_plain_words
from app.process.plain_numbers import plain_number
from app.results.replay_results import MetricResult, ReplayResults, ShownInterval, read_results
from app.store.configuration.snapshots import read_snapshot
from app.store.keys.callers import find_key_holder
from app.store.keys.validation import parse_prefix
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import create_database_engine
from app.store.postgres.paging import MAX_PAGE_ROWS
from app.store.replays import replays as store
from app.store.replays.replays import (
    MAX_CONCURRENCY,
    MAX_ITEMS,
    ItemStatus,
    Judge,
    NewReplay,
    NothingToReplay,
    Replay,
    ReplayDefinition,
    ReplayItem,
    TooManyReplays,
)
from app.supervisor.machine.errors import OperatorError
from providers.canonical.errors import InvalidRequest

_STATEMENT_TIMEOUT_S = 300.0


class _ListQuery(msgspec.Struct, frozen=True):
    limit: int
    after: str | None = None
    sort: str = "-created_at"


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
    _print_refused(started)


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
    return await _find(connection, id)


@replay.command("list")
@click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=50, show_default=True, help="Most replays to list.")
@json_option
def list_replays(limit: int, as_json: bool) -> None:
    """List replays, the newest first.

    \b
    Example:
      narthex replay list

    With --json: {"replays": [...]}; the fields are those of GET /admin/v1/replays.
    """
    page = query_in_transaction(lambda connection: store.page_replays(connection, _ListQuery(limit), only_teams=None, status=None))
    if as_json:
        print_json({"replays": page.data})
    elif not page.data:
        click.echo("There are no replays yet; docs/replay.md shows how to start one.")
    else:
        print_table(("ID", "THROUGH", "TEAM", "STARTED", "STATUS", "DONE", "SPENT USD"), [_cells(each) for each in page.data])


@replay.command("show")
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show a replay, and how far it is.

    \b
    Example:
      narthex replay show 019aa3f4-7492-7b70-8347-955764f97b3d

    With --json: the replay as GET /admin/v1/replays/{id} answers it.
    """
    found = query_in_transaction(lambda connection: _find(connection, id))
    if as_json:
        print_json(found)
        return
    definition = found.definition
    click.echo(f"through: {printable(_through(definition))}")
    click.echo(f"of: {', '.join(f'{name}={printable(str(value))}' for name, value in definition.filter.items()) or 'everything'}")
    click.echo(f"paid by: {printable(definition.key)}" + (f", team {printable(found.team)}" if found.team else ""))
    click.echo(f"status: {found.status}" + (f" ({printable(found.reason)})" if found.reason else ""))
    click.echo(f"items: {_progress(found)}" + (f", {found.items['refused']:,} refused" if found.items["refused"] else ""))
    if found.items["refused"]:
        click.echo(f"why: `narthex replay items {found.id} --status refused` has the reason of each; docs/replay.md lists them")
    if found.retried:
        click.echo(f"tried again: {found.retried:,}, as the process that ran them had ended")
    cap = "" if definition.max_usd is None else f" of {plain_number(definition.max_usd)}"
    click.echo(f"spent: {found.spent_usd:.6f}{cap} USD, {found.reserved_usd:.6f} reserved")
    _print_refused(found)


@replay.command("items")
@click.argument("id")
@click.option("--status", type=click.Choice(get_args(ItemStatus)), help="Only those that are so.")
@click.option("--descending", is_flag=True, help="The last first.")
@click.option("--limit", type=click.IntRange(1, MAX_ITEMS), default=100, show_default=True, help="Most requests to list.")
@json_option
def items(id: str, status: ItemStatus | None, descending: bool, limit: int, as_json: bool) -> None:
    """List a replay's requests, and what came of each.

    REASON: why a request was refused, or why its pair has no judgement; docs/replay.md lists them.

    \b
    Examples:
      narthex replay items 019aa3f4-7492-7b70-8347-955764f97b3d
      narthex replay items 019aa3f4-7492-7b70-8347-955764f97b3d --status refused

    With --json: {"items": [...]}; the fields are those of GET /admin/v1/replays/{id}/items.
    """

    async def read(connection: AsyncConnection) -> list[ReplayItem]:
        replay = await _find(connection, id)
        found: list[ReplayItem] = []
        after: str | None = None
        while len(found) < limit:
            query = _ListQuery(min(MAX_PAGE_ROWS, limit - len(found)), after, "-number" if descending else "number")
            page = await store.page_items(connection, replay.id, query, status)
            found += page.data
            after = page.next
            if after is None:
                break
        return found

    listed = query_in_transaction(read)
    if as_json:
        print_json({"items": listed})
    elif not listed:
        click.echo("The replay has no such request.")
    else:
        titles = ("NUMBER", "ORIGINAL", "REPLAYED", "STATUS", "REASON", "TRIES", "SAME", "JUDGE", "COST USD")
        print_table(titles, [_item_cells(each) for each in listed])


@replay.command("results")
@click.argument("id")
@json_option
def results(id: str, as_json: bool) -> None:
    """Compare a replay's responses with the originals.

    At any time: the intervals hold at every look.

    \b
    Example:
      narthex replay results 019aa3f4-7492-7b70-8347-955764f97b3d

    With --json: the results as GET /admin/v1/replays/{id}/results answers them.
    """

    async def read(connection: AsyncConnection) -> ReplayResults:
        return await read_results(connection, await _find(connection, id))

    found = query_in_transaction(read)
    if as_json:
        print_json(found)
        return
    click.echo(f"{found.pairs:,} pairs of {found.units:,} episodes, {found.status}")
    titles = ("METRIC", "ORIGINAL", "REPLAYED", "DIFFERENCE", f"{found.confidence:.1%} INTERVAL", "VERDICT")
    print_table(titles, [_metric_cells(each) for each in found.metrics])
    match, judged = found.match, found.judge
    if match.share is not None:
        click.echo(f"same: {match.same:,} of {match.compared:,} pairs, {match.share:.1%} {_interval(match.interval)}")
    if judged is not None and judged.score is not None:
        outcomes = f"{judged.wins:,} won, {judged.losses:,} lost, {judged.ties:,} ties"
        click.echo(f"judge: {judged.score:.3f} {_interval(judged.interval)}: {outcomes}")
        click.echo(f"judge: the orders disagreed in {judged.flip_rate or 0:.1%} of pairs; {judged.failed:,} pairs have no judgement")
    click.echo(found.summary)


@replay.command("cancel")
@click.argument("id")
@json_option
def cancel(id: str, as_json: bool) -> None:
    """Begin no further request of a replay.

    \b
    Example:
      narthex replay cancel 019aa3f4-7492-7b70-8347-955764f97b3d

    With --json: the replay as GET /admin/v1/replays/{id} answers it.
    """

    async def change(connection: AsyncConnection) -> Replay:
        found = await _find(connection, id, lock=True)
        if found.status != "running":
            raise OperatorError(f"The replay is {found.status}: there is nothing to cancel.")
        await store.cancel_replay(connection, command_author(), found.id)
        return await _find(connection, found.id)

    _report(query_in_transaction(change), "is cancelled; what is in progress goes on to its end", as_json=as_json)


@replay.command("resume")
@click.argument("id")
@json_option
def resume(id: str, as_json: bool) -> None:
    """Go on with a replay that was cancelled or failed.

    \b
    Example:
      narthex replay resume 019aa3f4-7492-7b70-8347-955764f97b3d

    With --json: the replay as GET /admin/v1/replays/{id} answers it.
    """

    async def change(connection: AsyncConnection) -> Replay:
        found = await _find(connection, id, lock=True)
        if found.status not in ("cancelled", "failed"):
            raise OperatorError(f"The replay is {found.status}: only one that was cancelled, or that failed, can be resumed.")
        try:
            await store.resume_replay(connection, command_author(), found.id)
        except TooManyReplays as fault:
            raise OperatorError(str(fault)) from None
        return await _find(connection, found.id)

    _report(query_in_transaction(change), "goes on", as_json=as_json)


@replay.command("delete")
@click.argument("id")
@yes_option
@json_option
def delete(id: str, yes: bool, as_json: bool) -> None:
    """Delete a replay that does not run, with its results.

    \b
    Example:
      narthex replay delete 019aa3f4-7492-7b70-8347-955764f97b3d

    The inferences that it made stay. With --json (which needs --yes): the replay as it was, as GET /admin/v1/replays/{id} answers it.
    """
    confirm(f"Delete replay {id} with its results?", yes=yes, as_json=as_json)

    async def change(connection: AsyncConnection) -> Replay:
        found = await _find(connection, id, lock=True)
        if found.status == "running":
            raise OperatorError("The replay is running: cancel it first.")
        await store.delete_replay(connection, command_author(), found)
        return found

    _report(query_in_transaction(change), "is deleted", as_json=as_json)


def _report(found: Replay, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        click.echo(f"The replay {found.id} {message}.")


async def _find(connection: AsyncConnection, id: str, *, lock: bool = False) -> Replay:
    found = await store.find_replay(connection, id.lower(), lock=lock) if uuid7.is_uuid7(id) else None
    if found is None:
        raise OperatorError(f"There is no replay {id!r:.60}; `narthex replay list` lists them.")
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


def _through(definition: ReplayDefinition) -> str:
    return definition.model if definition.variant is None else f"{definition.model}, {definition.variant}"


def _progress(found: Replay) -> str:
    return f"{found.items['done'] + found.items['refused']:,} of {sum(found.items.values()):,}"


def _cells(each: Replay) -> tuple[str, ...]:
    return (
        *(each.id, _through(each.definition), each.team or "", format_time(each.created_at)),
        *(each.status, _progress(each), f"{each.spent_usd:.4f}"),
    )


def _item_cells(each: ReplayItem) -> tuple[str, ...]:
    same = "" if each.same is None else "yes" if each.same else "no"
    score = "" if each.judgement is None else f"{each.judgement['score']:.3g}"
    return (
        *(str(each.number), each.original_id, each.inference_id or "", each.status, each.reason or ""),
        *(str(each.tries), same, score, f"{each.cost_usd:.6f}"),
    )


def _metric_cells(each: MetricResult) -> tuple[str, ...]:
    difference = "" if each.difference is None else f"{each.difference:+.6g}"
    verdict = each.verdict if each.reason is None else f"{each.verdict}: {each.reason}"
    values = (f"{each.original:.6g}", f"{each.replayed:.6g}") if each.units else ("", "")
    return each.metric.replace("_", " "), *values, difference, _interval(each.interval), verdict


def _interval(interval: ShownInterval | None) -> str:
    return "" if interval is None else f"[{interval.low + 0.0:.6g}, {interval.high + 0.0:.6g}]"  # + 0.0: no -0


def _print_refused(found: Replay) -> None:
    for reason, count in sorted(found.refused.items()):
        click.echo(f"cannot be replayed: {count:,} {REFUSALS.get(reason, reason)}")
