"""/admin/v1/replays: recorded requests that are answered again by another model or variant, and how both compare."""

import secrets
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.admin.records.inference_filters import InferenceFilters, read_filters
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain import uuid7
from app.domain.callers import Caller
from app.gateway.replay.order import check_order, describe_nothing
from app.results.replay_results import ReplayResults, read_results
from app.store.access.roles import Permission
from app.store.configuration.snapshots import read_snapshot
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.postgres.paging import After, Limit, Page
from app.store.replays import replays
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
    ReplayStatus,
)
from app.store.replays.team_room import TooManyReplays
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

_TIMEOUT_S = 60.0  # of the statement that chooses the sample
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
    async def page(self, call: Call[ReplayQuery, NoBody]) -> Answer:
        query = call.query
        return Answer(await replays.page_replays(call.connection, query, only_teams=call.visible_teams(), status=query.status))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await _find(call))

    async def items(self, call: Call[ItemQuery, NoBody]) -> Answer:
        found = await _find(call)
        return Answer(await replays.page_items(call.connection, found.id, call.query, call.query.status))

    async def results(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await read_results(call.connection, await _find(call)))

    async def start(self, call: Call[NoQuery, ReplayOrder]) -> Answer:
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
        try:
            await replays.resume_replay(call.connection, call.author, found.id)
        except TooManyReplays as fault:
            raise Conflict(str(fault)) from None
        return Answer(await replays.find_replay(call.connection, found.id))

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        found = await _find(call, lock=True)
        if found.status == "running":
            raise Conflict("The replay is running: cancel it first.")
        await replays.delete_replay(call.connection, call.author, found)
        return Answer(found)

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
                commands=(
                    Command(
                        name="replay list",
                        nothing="There are no replays yet; docs/replay.md shows how to start one.",
                        data="replays",
                        render="replays.listed",
                    ),
                ),
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
                errors={
                    404: "There is no such key, or it is not of one of your teams.",
                    409: "The team has as many replays that have not ended, or requests in replays, as it may have.",
                },
                example={
                    "model": "sandbox",
                    "key": "nx-0123456789ab",
                    "filter": {"model": "sandbox", "since": "2026-11-01"},
                    "max_items": 200,
                    "max_usd": 5,
                },
                timeout_s=_TIMEOUT_S,
                commands=(Command(name="replay start"),),
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
                commands=(Command(name="replay show", render="replays.shown"),),
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
                commands=(
                    Command(
                        name="replay items",
                        summary="List a replay's requests, and what came of each.",
                        help="REASON: why a request was refused, or why its pair has no judgement; docs/replay.md lists them.",
                        options={"sort": Option(constants={"--descending": ("-number", "The last first.")})},
                        data="items",
                        render="replays.items",
                    ),
                ),
                handler=self.items,
            ),
            Operation(
                method="GET",
                path="/replays/{id}/results",
                id="get_replay_results",
                tag=tag,
                summary="Show how the responses of a replay compare with the originals",
                description="At any time: the intervals hold at every look.",
                permission="records:read",
                scope="team",
                response=ReplayResults,
                errors=missing,
                commands=(
                    Command(name="replay results", summary="Compare a replay's responses with the originals.", render="replays.results"),
                ),
                handler=self.results,
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
                commands=(Command(name="replay cancel", done="The replay {id} is cancelled; what is in progress goes on to its end."),),
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
                commands=(Command(name="replay resume", done="The replay {id} goes on."),),
                handler=self.resume,
            ),
            Operation(
                method="DELETE",
                path="/replays/{id}",
                id="delete_replay",
                tag=tag,
                summary="Delete a replay that does not run, with its items and results",
                description="The inferences that it made stay.",
                permission="keys:write",
                scope="team",
                access="write",
                response=Replay,
                errors={**missing, 409: "It runs: cancel it first."},
                timeout_s=_TIMEOUT_S,
                commands=(
                    Command(name="replay delete", confirm="Delete replay {id} with its results?", done="The replay {id} is deleted."),
                ),
                handler=self.delete,
            ),
        ]


def operations() -> list[Operation[Any, Any]]:
    return _Replays().operations()


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
    caller = await find_key_holder(call.connection, prefix=prefix)
    if caller is None or not call.is_visible(caller.team, "keys:read"):
        raise UnknownRecord(f"There is no key nx-{prefix} that could pay: it is unknown or revoked.")
    call.require("keys:write", caller.team)
    return caller
