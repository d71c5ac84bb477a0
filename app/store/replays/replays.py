"""Replays: recorded requests that are answered again by another model or variant. How they are started, listed, ended and deleted."""

import datetime
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from sqlalchemy import Row, Select, Subquery, Table, case, cast, func, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.conditions import one_of
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn
from app.store.records.inference_filter import InferenceFilter
from app.store.replays.sample import choose_items
from app.store.replays.team_room import check_room, check_running, read_kept

MAX_ITEMS = 100_000
MAX_CONCURRENCY = 64

ReplayStatus = Literal["running", "complete", "cancelled", "failed"]
ItemStatus = Literal["pending", "running", "done", "refused"]

# Filters that may name somebody.
_OF_PERSONS = frozenset({"end_user", "tag", "episode_id", "request_id", "trace_id"})
_NOT_KEPT = "(not kept)"

_replays, _items = tables.replays.c, tables.replay_items.c

_COUNTED: Mapping[str, str] = {
    **{status: f"count(*) FILTER (WHERE status = '{status}')" for status in get_args(ItemStatus)},
    "retried": "count(*) FILTER (WHERE tries > 1)",
    "reserved": "coalesce(sum(reserved_microusd), 0)",
}
# The items of a row of replays.
COUNTS = f"""
    (SELECT jsonb_build_object({", ".join(f"'{name}', {counted}" for name, counted in _COUNTED.items())})
    FROM replay_items WHERE replay_id = replays.id)
"""  # noqa: S608


class Judge(Struct, frozen=True, forbid_unknown_fields=True):
    """A function of type json that says which of two responses is better; docs/replay.md has its input and output."""

    function: Annotated[str, Meta(min_length=1, max_length=256, description="Its name.")]
    variant: Annotated[str, Meta(min_length=1, max_length=256, description="Its variant; null: its default.")] | None = None


class ReplayDefinition(Struct, frozen=True, kw_only=True):
    """The definition of a replay: what is replayed, and how.

    `filter` holds parameters of /admin/v1/inferences; the values of those that may name somebody are not
    kept. `model` is a model or function, and `variant` is a variant of the function, or an arm of the model's
    experiment. `key` is the public part of the key that pays. `sample` is the share of what matches, chosen
    by a hash of `seed` and the inference's id. `max_usd` None means that there is no cap.
    """

    filter: Mapping[str, Any]
    model: str
    variant: str | None
    key: str
    sample: float
    seed: str
    max_items: int
    max_usd: float | None
    concurrency: int
    per_minute: int | None
    judge: Judge | None


class Replay(Struct, frozen=True, kw_only=True):
    """A replay, and how far it is.

    `team`: who pays; null: it was removed. `items`: how many there are, by status. `refused`: of the sample, what cannot be replayed, by
    reason. `retried`: items that a gateway process had begun when it ended, and that were tried again. `reason`: why it ended before its
    last item, or what it waits for.
    """

    id: str
    status: ReplayStatus
    reason: str | None
    definition: ReplayDefinition
    team: str | None
    created_at: str
    created_by: str
    ended_at: str | None
    items: Mapping[ItemStatus, int]
    refused: Mapping[str, int]
    retried: int
    spent_usd: float
    reserved_usd: float


class ReplayItem(Struct, frozen=True, kw_only=True):
    """An inference that is replayed, and what came of it.

    `original`, `replayed`: the values of metrics that are compared. `same`: whether both responses say the same; null: not known.
    `judgement`: the judge's scores. `tries`: more than one: the gateway process that ran it had ended. `reason`: why it was refused, or
    has no judgement.
    """

    number: int
    original_id: str
    inference_id: str | None
    status: ItemStatus
    reason: str | None
    tries: int
    cost_usd: float
    original: Mapping[str, Any] | None
    replayed: Mapping[str, Any] | None
    same: bool | None
    judgement: Mapping[str, Any] | None


class NewReplay(Struct, frozen=True):
    """A replay that is to be stored."""

    definition: ReplayDefinition
    filters: InferenceFilter  # of `definition.filter`, with the teams whose content may be read
    team_id: str  # who pays
    key_id: str  # who pays
    team: str


class NothingToReplay(Exception):
    """No inference that matches can be replayed. `refused` says how many there are, by reason."""

    def __init__(self, refused: Mapping[str, int]) -> None:
        super().__init__("nothing to replay")
        self.refused = refused


async def start_replay(connection: AsyncConnection, author: Author, new: NewReplay) -> str:
    """Chooses the items, and starts; returns its id. Raises NothingToReplay, TooManyReplays and InvalidKeyField."""
    await check_running(connection, new.team_id, new.team)
    kept = await read_kept(connection, new.team_id)
    check_room(new.team, kept, 1)
    id, definition = uuid7.mint(), replace(new.definition, filter=_without_persons(new.definition.filter))
    values: dict[str, Any] = {
        **{"id": id, "definition": msgspec.to_builtins(definition), "team_id": new.team_id, "key_id": new.key_id},
        **{"created_by": author.name, "refused": {}},
    }
    await connection.execute(tables.replays.insert().values(**values))
    chosen = await choose_items(connection, id, new.filters, sample=definition.sample, seed=definition.seed, max_items=definition.max_items)
    if not chosen.items:
        raise NothingToReplay(chosen.refused)
    check_room(new.team, kept, chosen.items)
    await connection.execute(tables.replays.update().where(_replays.id == id).values(refused=dict(chosen.refused)))
    after = {**msgspec.to_builtins(definition), "items": chosen.items, "refused": chosen.refused}
    await record(connection, author, AuditEvent("start", "replay", id, None, after, new.team))
    return id


def _without_persons(filter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replaces the values of filters that may name somebody.

    Nothing needs the values once the items are chosen, and an erasure would have to find them, also in the
    audit log.
    """
    kept = {name: _NOT_KEPT if name in _OF_PERSONS else value for name, value in filter.items()}
    return {**kept, **({"tag": f"{filter['tag'].partition('=')[0]}={_NOT_KEPT}"} if "tag" in filter else {})}


async def cancel_replay(connection: AsyncConnection, author: Author, id: str) -> None:
    """No further item is begun. The caller has found that it runs, and holds its lock, as of resume_replay()."""
    is_run_by_nobody = or_(_replays.lease_until.is_(None), _replays.lease_until < func.clock_timestamp())
    counts = case((is_run_by_nobody, text(COUNTS)))  # else by who runs it, at the end of the items that are begun
    await _change(connection, author, id, "cancel", {"status": "cancelled", "ended_at": func.now(), "reason": None, "counts": counts})


async def resume_replay(connection: AsyncConnection, author: Author, id: str) -> None:
    """Goes on with what is left of a replay that was cancelled, or that failed. Raises TooManyReplays."""
    team_id = (await connection.execute(select(_replays.team_id).where(_replays.id == id))).scalar_one()
    replay = await find_replay(connection, id)
    assert replay is not None, "its caller holds its lock"
    await check_running(connection, str(team_id), replay.team)
    await _change(connection, author, id, "resume", {"status": "running", "ended_at": None, "reason": None, "counts": None})


async def delete_replay(connection: AsyncConnection, author: Author, replay: Replay) -> None:
    """Deletes a replay with its items; the inferences stay.

    The caller has found that it does not run, and holds its lock. A process that still has items in progress
    notices by the lease, and leaves them.
    """
    await connection.execute(tables.replays.delete().where(_replays.id == replay.id))
    before = {"status": replay.status, "items": sum(replay.items.values())}
    await record(connection, author, AuditEvent("delete", "replay", replay.id, before, None, replay.team))


async def _change(connection: AsyncConnection, author: Author, id: str, action: str, values: Mapping[str, Any]) -> None:
    await connection.execute(tables.replays.update().where(_replays.id == id).values(**values))
    replay = await find_replay(connection, id)
    assert replay is not None, "its caller holds its lock"
    await record(connection, author, AuditEvent(action, "replay", id, None, {"status": replay.status}, replay.team))


async def find_replay(connection: AsyncConnection, id: str, *, lock: bool = False) -> Replay | None:
    if lock:
        await connection.execute(select(_replays.id).where(_replays.id == id).with_for_update())
    row = (await connection.execute(_with_counts(tables.replays).where(_replays.id == id))).first()
    return None if row is None else _to_replay(row)


_BY_CREATED = Keyset({"created_at": SortColumn(_replays.created_at, datetime.datetime)}, SortColumn(_replays.id))
_BY_NUMBER = Keyset({"number": SortColumn(_items.number, int)}, SortColumn(_items.number, int))


async def page_replays(
    connection: AsyncConnection, query: PageQuery, *, only_teams: Collection[str] | None, status: ReplayStatus | None
) -> Page[Replay]:
    """A page of the replays that the teams named in `only_teams` pay for; None means all."""
    found = select(tables.replays)
    if only_teams is not None:
        found = found.where(_replays.team_id.in_(select(tables.teams.c.id).where(one_of(tables.teams.c.name, only_teams))))
    if status is not None:
        found = found.where(_replays.status == status)
    # Before anything is counted: the items of all replays may be many millions.
    page = _BY_CREATED.page_query(found, query).subquery("page")
    columns = [page.c["_sorted"], page.c["_unique"]]
    ordered = [each.desc() for each in columns] if query.sort.startswith("-") else columns
    rows = (await connection.execute(_with_counts(page).order_by(*ordered))).all()
    return _BY_CREATED.page(rows, query, _to_replay)


async def page_items(connection: AsyncConnection, id: str, query: PageQuery, status: ItemStatus | None) -> Page[ReplayItem]:
    found = select(tables.replay_items).where(_items.replay_id == id)
    if status is not None:
        found = found.where(_items.status == status)
    rows = (await connection.execute(_BY_NUMBER.page_query(found, query))).all()
    return _BY_NUMBER.page(rows, query, _to_item)


def _with_counts(found: Table | Subquery) -> Select[Any]:
    """Selects replays with the numbers of their items. `found` has their columns.

    Items of those that have ended are not counted again.
    """
    counted = case((found.c.counts.is_(None), text(COUNTS.replace("replays.id", f"{found.name}.id"))), else_=found.c.counts)
    team = select(tables.teams.c.name).where(tables.teams.c.id == found.c.team_id).scalar_subquery().label("team")
    return select(found, team, cast(counted, JSONB).label("counted"))


def _to_replay(row: Row[Any]) -> Replay:
    return Replay(
        id=row.id,
        status=row.status,
        reason=row.reason,
        definition=msgspec.convert(row.definition, ReplayDefinition),
        team=row.team,
        created_at=row.created_at.isoformat(),
        created_by=row.created_by,
        ended_at=None if row.ended_at is None else row.ended_at.isoformat(),
        items={status: row.counted[status] for status in get_args(ItemStatus)},
        refused=row.refused,
        retried=row.counted["retried"],
        spent_usd=row.spent_microusd / 1_000_000,
        reserved_usd=int(row.counted["reserved"]) / 1_000_000,
    )


def _to_item(row: Row[Any]) -> ReplayItem:
    return ReplayItem(
        number=row.number,
        original_id=row.original_id,
        inference_id=row.inference_id,
        status=row.status,
        reason=row.reason,
        tries=row.tries,
        cost_usd=row.cost_microusd / 1_000_000,
        original=row.original,
        replayed=row.replayed,
        same=row.same,
        judgement=row.judgement,
    )
