"""Costs: computed again (/admin/v1/costs/recompute, /changes), exported (/admin/v1/costs/focus), and reconciled."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.command import Command, Option
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.billing.cost_lines import walk_cost_lines
from app.billing.focus import write_focus
from app.billing.invoice_cells import InvoiceError
from app.billing.invoices import InvoiceFormat
from app.billing.recompute import Recomputed, recompute_chunk
from app.billing.reconcile import Reconciliation, parse_invoice, parse_model_map, reconcile
from app.domain import uuid7
from app.recording.writes import cost_changes
from app.recording.writes.cost_changes import InferenceRange
from app.store.configuration import configuration
from app.store.postgres.paging import Limit
from providers.canonical.errors import InvalidRequest

_TIMEOUT_S = 60.0
_MAX_CHUNK = 1000  # the sums of so many are computed while the gateway serves requests
MAX_FOCUS_DAYS = 93  # of one export, while the gateway serves requests
_CSV = "text/csv"
_MAX_INVOICE_BYTES = 16 * 1024 * 1024

_Id = Annotated[str, Meta(description="A UUIDv7.")]


class Recomputation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The inferences to price again.

    To continue, send `run` and `after` from the previous response, and leave everything else as it was.
    """

    since: TimeText
    until: Annotated[TimeText | None, Meta(description="null: now.")] = None
    model: Annotated[str | None, Meta(description="Only of requests for this model.")] = None
    provider: Annotated[str | None, Meta(description="Only what this provider was charged for.")] = None
    team: Annotated[str | None, Meta(description="Only of this team.")] = None
    limit: Annotated[int, Meta(ge=1, le=_MAX_CHUNK, description="Inferences that are looked at.")] = 500
    run: _Id | None = None
    after: Annotated[_Id | None, Meta(description="`next` of the answer before.")] = None


class FocusQuery(Struct, frozen=True, forbid_unknown_fields=True):
    since: TimeText
    until: Annotated[TimeText, Meta(description="Exclusive; without it, now.")] | None = None


class ReconcileQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: InvoiceFormat
    provider: Annotated[str, Meta(description="Only this provider; without it, all that have the format's adapter.")] | None = None
    models: Annotated[str, Meta(description="Names in the invoice: NAME=MODEL, separated by commas.", max_length=20_000)] | None = None


class CostChangeQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: Annotated[str, Meta(max_length=80, description="`next` of the page before.")] | None = None
    inference: Annotated[_Id, Meta(description="Only of this inference.")] | None = None
    run: Annotated[_Id, Meta(description="Only of this recomputation.")] | None = None


class CostChangeEntry(Struct, frozen=True):
    """A change of a cost. Costs and prices null: there was none. `author`: who had it computed again."""

    inference_id: str
    run: str
    at: str
    author: str
    old_cost_microusd: int | None
    new_cost_microusd: int | None
    old_price: str | None
    new_price: str | None


class CostChangePage(Struct, frozen=True):
    """The newest run first. `next`: give it as `after` for the next page; null: this is the last one."""

    data: list[CostChangeEntry]
    next: str | None


async def _recompute(call: Call[NoQuery, Recomputation]) -> Answer:
    body = call.body
    begin = parse_time(body.since, "since")
    end = datetime.now(UTC) if body.until is None else parse_time(body.until, "until")
    if begin >= end:
        raise InvalidRequest("`since` must be before `until`.", param="since")
    if (body.run is None) != (body.after is None):
        raise InvalidRequest("`run` and `after` go together: both are in the answer before.", param="run" if body.run is None else "after")
    run = uuid7.mint() if body.run is None else _parse_id(body.run, "run")
    after = None if body.after is None else _parse_id(body.after, "after")
    inferences = InferenceRange(begin, end, after, body.model, body.provider, body.team)
    return Answer(await recompute_chunk(call.connection, call.author, run, inferences, body.limit))


async def _list(call: Call[CostChangeQuery, NoBody]) -> Answer:
    query = call.query
    inference = None if query.inference is None else _parse_id(query.inference, "inference")
    run = None if query.run is None else _parse_id(query.run, "run")
    found = await cost_changes.list_cost_changes(
        call.connection, inference_id=inference, run=run, after=_parse_after(query.after), limit=query.limit + 1
    )
    shown = found[: query.limit]
    entries = [
        CostChangeEntry(
            each.inference_id,
            each.run,
            each.at.isoformat(),
            each.author,
            each.old_cost_microusd,
            each.new_cost_microusd,
            each.old_price,
            each.new_price,
        )
        for each in shown
    ]
    return Answer(CostChangePage(entries, f"{shown[-1].run}.{shown[-1].inference_id}" if len(found) > len(shown) else None))


async def _export_focus(call: Call[FocusQuery, NoBody], max_days: int) -> Answer:
    first, last = _parse_days(call.query.since, call.query.until, max_days)

    async def read() -> AsyncGenerator[bytes]:
        async with call.read_transaction() as connection:
            async for written in write_focus(walk_cost_lines(connection, first, last)):
                yield written

    pieces = read()
    head = await anext(pieces)  # before the response begins, so that an outage is a 503

    async def rows() -> AsyncGenerator[bytes]:
        async with aclosing(pieces):
            yield head
            async for piece in pieces:
                yield piece

    return export_answer(call, rows(), f"narthex-focus-{first}-{last}.csv", _CSV)


async def _reconcile(call: Call[ReconcileQuery, bytes]) -> Answer:
    query, snapshot = call.query, await configuration.read_current(call.connection)
    if query.provider is not None and query.provider not in snapshot.providers:
        raise InvalidRequest(f"There is no provider {query.provider!r:.100}.", param="provider")
    try:
        models = parse_model_map(query.models or "")
        invoice = await asyncio.to_thread(parse_invoice, call.body, query.format, models)
        return Answer(await reconcile(call.connection, snapshot, invoice, query.format, query.provider))
    except InvoiceError as fault:
        raise InvalidRequest(str(fault)) from None


def _parse_days(since: str, until: str | None, max_days: int) -> tuple[date, date]:
    """The first and the last UTC day of a period whose end is exclusive. Raises InvalidRequest."""
    begin = parse_time(since, "since").astimezone(UTC)
    end = datetime.now(UTC) if until is None else parse_time(until, "until").astimezone(UTC)
    if begin.time() != time():
        raise InvalidRequest("`since` must be the beginning of a day in UTC, such as 2026-11-01.", param="since")
    if until is not None and end.time() != time():
        raise InvalidRequest("`until` must be the beginning of a day in UTC, which is not included.", param="until")
    last = (end - timedelta(microseconds=1)).date()
    if last < begin.date():
        raise InvalidRequest("`since` must be before `until`.", param="since")
    if (last - begin.date()).days >= max_days:
        raise InvalidRequest(f"The period may have {max_days} days at most.", param="since")
    return begin.date(), last


def _parse_after(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    run, _, inference = text.partition(".")
    return _parse_id(run, "after"), _parse_id(inference, "after")


def _parse_id(text: str, name: str) -> str:
    if not uuid7.is_uuid7(text):
        raise InvalidRequest(f"`{name}` must be a UUIDv7, not {text!r:.60}.", param=name)
    return text.lower()


_FOCUS = Command(
    name="costs focus",
    summary="Print costs as CSV in the form of FOCUS, the FinOps Open Cost and Usage Specification.",
    help="A row for each UTC day, key, model and kind of token, with its price; the sums are those of the records. Requests whose cost is"
    " unknown have no row.",
    examples=(
        "costs focus --since 2026-11-01 --until 2026-12-01 > november.csv",
        "costs focus --since 2026-11-01 -o november.csv",
    ),
    options={
        "since": Option(metavar="DAY", help="The first day, in UTC: 2026-11-01."),
        "until": Option(metavar="DAY", help="The day after the last; without it, today is included."),
    },
)
_RECONCILE = Command(
    summary="Compare recorded costs with a provider's invoice: FILE is its export as CSV, - for standard input.",
    help="By UTC day, model and kind of token: ours, theirs and the difference. It reads OpenAI's costs and usage, Anthropic's cost and"
    " usage reports, Bedrock's lines of a Cost and Usage Report, and OpenRouter's activity; docs/cost.md has their columns. Exit status 1"
    " if anything differs.",
    examples=(
        "costs reconcile costs.csv --format openai",
        "costs reconcile cur.csv --format bedrock --map Claude4.5Sonnet=anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
    options={
        "format": Option(help="Whose export the file is."),
        "models": Option(
            flag="--map", kind="texts", metavar="NAME=MODEL", help="A model's name in the file, and in requests. Can be repeated."
        ),
    },
    shows={"--all": "Also lines without a difference."},
    render="costs.reconciled",
    fails="costs.differs",
)


def operations(focus_days: int) -> list[Operation[Any, Any]]:
    """The operations on costs. One export has `focus_days` at most."""

    async def export_focus(call: Call[FocusQuery, NoBody]) -> Answer:
        return await _export_focus(call, focus_days)

    return [
        Operation(
            method="POST",
            path="/costs/recompute",
            id="recompute_costs",
            tag="Costs",
            summary="Compute the costs of inferences again, at the prices that are configured now",
            description="One chunk of `limit` inferences, with everything that sums up their costs, in one transaction. Send it again with"
            " `run` and `next` (as `after`) of the answer until `next` is null. What is repeated changes nothing.",
            permission="config:write",
            access="write",
            body=Recomputation,
            response=Recomputed,
            example={"since": "2026-11-01T00:00:00Z", "provider": "openai"},
            timeout_s=_TIMEOUT_S,
            commands=(Command(name="prices recompute"),),
            handler=_recompute,
        ),
        Operation(
            method="GET",
            path="/costs/changes",
            id="list_cost_changes",
            tag="Costs",
            summary="List costs that were computed again",
            permission="records:read",
            query=CostChangeQuery,
            response=CostChangePage,
            commands=(Command(name="costs changes"),),
            handler=_list,
        ),
        Operation(
            method="GET",
            path="/costs/focus",
            id="export_focus",
            tag="Costs",
            summary="Export costs in the form of FOCUS",
            description="CSV, a row for each UTC day, key, model and kind of token, with its price; sums are those of the records."
            f" `since` and `until` are beginnings of days, {focus_days} of them at most. One that breaks off is not complete.",
            permission="records:read",
            access="memory",
            query=FocusQuery,
            response=str,
            response_media_type=_CSV,
            timeout_s=_TIMEOUT_S,
            commands=(_FOCUS,),
            handler=export_focus,
        ),
        Operation(
            method="POST",
            path="/costs/reconcile",
            id="reconcile_costs",
            tag="Costs",
            summary="Compare recorded costs with a provider's invoice",
            description="The body is the provider's export, as CSV. Answers what is recorded, what the provider says and the difference, by"
            " UTC day, model and kind of token. Nothing is stored.",
            permission="records:read",
            query=ReconcileQuery,
            body=bytes,
            body_media_type=_CSV,
            max_body_bytes=_MAX_INVOICE_BYTES,
            response=Reconciliation,
            timeout_s=_TIMEOUT_S,
            commands=(_RECONCILE,),
            handler=_reconcile,
        ),
    ]
