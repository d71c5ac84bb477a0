"""/admin/v1/replays: recorded requests that are answered again by another model or variant, and how both compare."""

import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.api.admin.inferences import InferenceFilters, read_filters
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.billing.price_index import find_price
from app.domain import Caller, FunctionConfig, Snapshot
from app.gateway.permissions import may_use
from app.gateway.serve import Gateway
from app.store import replays
from app.store.access.roles import Permission
from app.store.callers import find_key_holder
from app.store.key_validation import parse_prefix
from app.store.paging import After, Limit, Page
from app.store.replays import (
    MAX_CONCURRENCY,
    MAX_ITEMS,
    ItemStatus,
    Judge,
    NewReplay,
    NothingToReplay,
    Replay,
    ReplayDefinition,
    ReplayItem,
    ReplayStatus,
)
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

_TIMEOUT_S = 60.0  # of the statement that chooses the sample
_MAX_USD = 1_000_000

# Why requests cannot be replayed, as messages have it.
REFUSALS: Mapping[str, str] = {
    "route": "of another API than chat completions, Responses, Messages, completions and /inference",
    "team_policy": "of teams that no longer keep what is written",
    "deleted": "deleted by their callers",
    "expired": "whose content is kept no longer",
    "none": "recorded without content",
    "redacted": "recorded without text",
    "masked": "recorded with parts of the text masked",
    "lost": "whose content was lost, as the disk was full",
    "erased": "erased",
}


class ReplayOrder(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is replayed, through what, and who pays."""

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


class ReplayQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
    status: ReplayStatus | None = None


class ItemQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["number", "-number"] = "number"
    status: ItemStatus | None = None


class _Replays:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def page(self, call: Call[ReplayQuery, NoBody]) -> Answer:
        query = call.query
        return Answer(await replays.page_replays(call.connection, query, only_teams=call.visible_teams(), status=query.status))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await _find(call))

    async def items(self, call: Call[ItemQuery, NoBody]) -> Answer:
        found = await _find(call)
        return Answer(await replays.page_items(call.connection, found.id, call.query, call.query.status))

    async def start(self, call: Call[NoQuery, ReplayOrder]) -> Answer:
        body, snapshot = call.body, self._gateway.snapshot_cache.snapshot
        if body.filter.text is not None:
            raise InvalidRequest("A replay cannot be chosen by `text`: narrow it by the other filters.", param="filter.text")
        caller = await _find_payer(call, body.key)
        _check_target(snapshot, caller, body)
        if body.judge is not None:
            _check_judge(snapshot, caller, body.judge)
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
        filters = read_filters(call, body.filter, "records:content")
        try:
            new = NewReplay(definition, filters, caller.team_id, caller.key_id, caller.team)
            id = await replays.start_replay(call.connection, call.author, new)
        except NothingToReplay as nothing:
            raise InvalidRequest(describe_nothing(nothing.refused), param="filter") from None
        return Answer(await replays.find_replay(call.connection, id), status=201)

    async def cancel(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status != "running":
            raise Conflict(f"The replay is {found.status}: there is nothing to cancel.")
        await replays.cancel_replay(call.connection, call.author, found.id)
        return Answer(await replays.find_replay(call.connection, found.id))

    async def resume(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status not in ("cancelled", "failed"):
            raise Conflict(f"The replay is {found.status}: only one that was cancelled, or that failed, can be resumed.")
        await replays.resume_replay(call.connection, call.author, found.id)
        return Answer(await replays.find_replay(call.connection, found.id))

    def operations(self) -> list[Operation[Any, Any]]:
        tag, missing = "Replays", {404: "There is no such replay, or it is not of one of your teams."}
        return [
            Operation(
                method="GET",
                path="/replays",
                id="list_replays",
                tag=tag,
                summary="List replays, the newest first",
                permission="records:read",
                scope="team",
                query=ReplayQuery,
                response=Page[Replay],
                handler=self.page,
            ),
            Operation(
                method="POST",
                path="/replays",
                id="start_replay",
                tag=tag,
                summary="Answer recorded requests again by another model or variant",
                description="In the background, by one of the gateway's processes. `dry_run` says how many there are, and how many cannot"
                " be replayed, by reason. Your role must include what was written in the inferences, and keys of the team that pays.",
                permission="records:content",
                scope="team",
                access="write",
                body=ReplayOrder,
                response=Replay,
                status=201,
                errors={404: "There is no such key, or it is not of one of your teams."},
                example={
                    "model": "sandbox",
                    "key": "nx-0123456789ab",
                    "filter": {"model": "sandbox", "since": "2026-11-01"},
                    "max_items": 200,
                    "max_usd": 5,
                },
                timeout_s=_TIMEOUT_S,
                handler=self.start,
            ),
            Operation(
                method="GET",
                path="/replays/{id}",
                id="get_replay",
                tag=tag,
                summary="Show a replay, and how far it is",
                permission="records:read",
                scope="team",
                response=Replay,
                errors=missing,
                handler=self.show,
            ),
            Operation(
                method="GET",
                path="/replays/{id}/items",
                id="list_replay_items",
                tag=tag,
                summary="List the inferences of a replay, with the values of both",
                permission="records:read",
                scope="team",
                query=ItemQuery,
                response=Page[ReplayItem],
                errors=missing,
                handler=self.items,
            ),
            Operation(
                method="POST",
                path="/replays/{id}/cancel",
                id="cancel_replay",
                tag=tag,
                summary="Begin no further item of a replay",
                description="What is in progress goes on to its end.",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It does not run."},
                handler=self.cancel,
            ),
            Operation(
                method="POST",
                path="/replays/{id}/resume",
                id="resume_replay",
                tag=tag,
                summary="Go on with a replay that was cancelled, or that failed",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It runs, or is complete."},
                handler=self.resume,
            ),
        ]


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    return _Replays(gateway).operations()


def describe_nothing(refused: Mapping[str, int]) -> str:
    if not refused:
        return "There is nothing to replay: no inference matches. Those that callers did not wait for are left out."
    reasons = "; ".join(f"{count} {REFUSALS.get(reason, reason)}" for reason, count in sorted(refused.items()))
    return f"There is nothing to replay: no inference that matches has the content that a replay needs. They are: {reasons}."


async def _find(call: Call[Any, Any], permission: Permission | None = None, *, lock: bool = False) -> Replay:
    id = call.path["id"].lower()
    found = await replays.find_replay(call.connection, id, lock=lock) if uuid7.is_uuid7(id) else None
    if found is None or not call.is_visible(found.team, permission):
        raise UnknownRecord(f"There is no replay {call.path['id']!r:.60}. GET /admin/v1/replays lists them.")
    return found


async def _find_payer(call: Call[Any, Any], key: str) -> Caller:
    prefix = parse_prefix(key)
    if prefix is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    caller = await _find_holder(call.connection, prefix)
    if caller is None or not call.is_visible(caller.team, "keys:read"):
        raise UnknownRecord(f"There is no key nx-{prefix} that could pay: it is unknown or revoked.")
    call.require("keys:write", caller.team)
    if caller.networks is not None:
        raise InvalidRequest("The key may only be used from some networks, in which no replay is: give another one.", param="key")
    return caller


async def _find_holder(connection: AsyncConnection, prefix: str) -> Caller | None:
    return await find_key_holder(connection, prefix=prefix)


def _check_target(snapshot: Snapshot, caller: Caller, body: ReplayOrder) -> None:
    model, function = snapshot.models.get(body.model), snapshot.functions.get(body.model)
    if (model is None and function is None) or not may_use(caller, body.model):
        raise InvalidRequest(f"There is no model or function {body.model!r:.100} that this key may use.", param="model")
    if model is None:
        assert function is not None
        _check_variant(body.model, function, body.variant)
        names = {function.variants[body.variant].model} if body.variant else {each.model for each in function.variants.values()}
        if body.variant is None and (function.experiment is not None or len(function.variants) > 1):
            several = f"The function {body.model!r:.100} has several variants: say which one in `variant`."
            raise InvalidRequest(f"{several} {_listed(function.variants)}", param="variant")
    else:
        arms: Mapping[str, float] = {} if model.experiment is None else model.experiment.arms
        if body.variant is not None and body.variant not in arms:
            raise InvalidRequest(f"The model {body.model!r:.100} has no arm {body.variant!r:.100}. {_listed(arms)}", param="variant")
        if arms and body.variant is None:
            raise InvalidRequest(
                f"The model {body.model!r:.100} has an experiment: say which arm in `variant`. {_listed(arms)}", param="variant"
            )
        names = {body.variant} if body.variant in snapshot.models else {body.model}
    if body.max_usd is not None:
        _check_prices(snapshot, [name for name in names if name is not None])


def _check_prices(snapshot: Snapshot, names: list[str]) -> None:
    for name in names:
        for target in snapshot.models[name].targets:
            if find_price(snapshot, target.provider, target.model, time.time()) is None:
                raise InvalidRequest(
                    f"`max_usd` cannot hold: {target.provider}/{target.model}, which serves {name!r:.100}, has no price. Give it one"
                    " (`[[prices]]`), or leave out `max_usd`.",
                    param="max_usd",
                )


def _check_judge(snapshot: Snapshot, caller: Caller, judge: Judge) -> None:
    function = snapshot.functions.get(judge.function)
    if function is None or not may_use(caller, judge.function):
        raise InvalidRequest(f"There is no function {judge.function!r:.100} that this key may use.", param="judge.function")
    if function.type != "json":
        raise InvalidRequest(
            f"The function {judge.function!r:.100} cannot judge: its type must be json, with a number `score` in its output.",
            param="judge.function",
        )
    _check_variant(judge.function, function, judge.variant, "judge.variant")


def _check_variant(name: str, function: FunctionConfig, variant: str | None, param: str = "variant") -> None:
    if variant is not None and variant not in function.variants:
        raise InvalidRequest(f"The function {name!r:.100} has no variant {variant!r:.100}. {_listed(function.variants)}", param=param)


def _listed(names: Mapping[str, Any]) -> str:
    return f"It has: {', '.join(sorted(names)[:50])}." if names else "It has none."
