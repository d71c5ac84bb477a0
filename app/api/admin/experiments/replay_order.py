"""Orders of replays, the body of POST /admin/v1/replays: what is replayed, through which model, and the key that pays."""

import secrets
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from app.api.admin.records.inference_filters import InferenceFilters, read_filters
from app.api.rest.operation import Answer, Call, NoQuery
from app.domain.callers import Caller
from app.gateway.replay.order import check_order, describe_nothing
from app.store.configuration.snapshots import read_snapshot
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.replays import replays
from app.store.replays.replays import MAX_CONCURRENCY, MAX_ITEMS, Judge, NewReplay, NothingToReplay, ReplayDefinition
from app.store.replays.team_room import TooManyReplays
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

_MAX_USD = 1_000_000


class ReplayOrder(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An order to replay inferences: which ones, through which model, and which key pays."""

    model: Annotated[str, Meta(min_length=1, max_length=256, description="The model or function that answers instead.")]
    variant: (
        Annotated[str, Meta(min_length=1, max_length=256, description="Of the function, or an arm of the model's experiment.")] | None
    ) = None
    key: Annotated[str, Meta(max_length=64, description="The public part of the key that pays, by whose rights and limits it runs.")]
    filter: Annotated[InferenceFilters, Meta(description="Which inferences; by `text` they cannot be chosen.")] = InferenceFilters()
    sample: Annotated[float, Meta(gt=0, le=1, description="The share of them, chosen by a hash of the inference's id.")] = 1.0
    seed: Annotated[str, Meta(min_length=1, max_length=100, description="Of that hash; without it a random one.")] | None = None
    max_items: Annotated[int, Meta(ge=1, le=MAX_ITEMS, description="At most so many of the sample.")] = 1000
    max_usd: Annotated[float, Meta(gt=0, le=_MAX_USD, description="At most so many US dollars, with the judge; null: no cap.")] | None = (
        None
    )
    concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY, description="At most so many at once.")] = 4
    per_minute: Annotated[int, Meta(ge=1, le=100_000, description="At most so many begun in a minute; null: no bound.")] | None = None
    judge: Annotated[Judge | None, Meta(description="Says which of two responses is better; null: nobody does.")] = None


async def start_replay(call: Call[NoQuery, ReplayOrder]) -> Answer:
    body = call.body
    if body.filter.text is not None:
        raise InvalidRequest("A replay cannot be chosen by `text`: narrow it by the other filters.", param="filter.text")
    caller = await _find_payer(call, body.key)
    given = {name: value for name, value in msgspec.to_builtins(body.filter).items() if value is not None}
    definition = ReplayDefinition(
        filter=given,
        model=body.model,
        variant=body.variant,
        key=caller.prefix,
        sample=body.sample,
        seed=body.seed or secrets.token_hex(8),
        max_items=body.max_items,
        max_usd=body.max_usd,
        concurrency=body.concurrency,
        per_minute=body.per_minute,
        judge=body.judge,
    )
    check_order(await read_snapshot(call.connection), caller, definition)
    filters = read_filters(call, body.filter, "records:content")
    try:
        new = NewReplay(definition, filters, caller.team_id, caller.key_id, caller.team)
        id = await replays.start_replay(call.connection, call.author, new)
    except NothingToReplay as nothing:
        raise InvalidRequest(describe_nothing(nothing.refused), param="filter") from None
    except TooManyReplays as fault:
        raise Conflict(str(fault)) from None
    return Answer(await replays.find_replay(call.connection, id), status=201)


async def _find_payer(call: Call[Any, Any], key: str) -> Caller:
    prefix = parse_prefix(key)
    if prefix is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    caller = await find_key_holder(call.connection, prefix=prefix)
    if caller is None or not call.is_visible(caller.team, "keys:read"):
        raise UnknownRecord(f"There is no key nx-{prefix} that could pay: it is unknown or revoked.")
    call.require("keys:write", caller.team)
    return caller
