"""The building of versions of datasets, as the database sees it: which is due, what there is of an inference, and what one piece did."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.functions import FunctionConfig
from app.store.configuration.earlier import read_function_config
from app.store.datasets.counts import DatasetCounts
from app.store.datasets.selection import Selection
from app.store.postgres import tables
from app.store.postgres.locks import WRITERS_LOCK

# A piece holds it (shared) while it copies content. Whoever got it alone knows that no copy of what was erased before is on its way.
DATASETS_LOCK = WRITERS_LOCK + 2

MAX_SKIPS = 1_000  # of a version that are listed one by one
_PURGED_ROWS = 2_000  # at a time
_STATEMENT_TIMEOUT = "60s"  # of what one piece does
_DAY_MS = 86_400_000
_MAX_ERROR_CHARACTERS = 300

_versions = tables.dataset_versions.c


class DueVersion(Struct, frozen=True):
    """A version to work on, locked for this transaction."""

    id: str
    dataset_id: str
    status: str
    selection: Selection
    team_id: str | None  # of the dataset's team; None: it has none
    position: str
    examined: int
    last_row: int
    rows: int
    size_bytes: int
    counts: DatasetCounts
    skips: int


class FoundContent(Struct, frozen=True):
    """The content that is kept of an inference.

    `policy` is the one by which it was recorded, `team_policy` its team's today. `size_bytes` is that of
    request and response, packed. `is_deleted` says that its caller has deleted it.
    """

    policy: str
    team_policy: str
    size_bytes: int
    is_deleted: bool


class Demonstration(Struct, frozen=True):
    """A demonstration that a caller sent as feedback."""

    id: str  # of the event of feedback
    value: Any
    tags: Mapping[str, str] | None  # those that its caller gave it


class Source(Struct, frozen=True):
    """An inference whose words a row has."""

    row_number: int
    id: str
    team_id: str
    episode_id: str | None
    end_user: str | None
    tags: Mapping[str, str] | None


class NewRow(Struct, frozen=True):
    """See tables.dataset_rows. Contents are packed."""

    number: int
    inference_id: str
    team_id: str
    model: str
    function: str | None
    variant: str | None
    route: str
    content: str
    split: str | None
    output: str
    request: bytes
    response: bytes | None
    demonstration: bytes | None
    omitted: list[str] | None
    faults: dict[str, str] | None

    @property
    def size_bytes(self) -> int:
        return len(self.request) + len(self.response or b"") + len(self.demonstration or b"")


class Skip(Struct, frozen=True):
    inference_id: str
    reason: str
    detail: str | None


async def lock_due_version(connection: AsyncConnection) -> DueVersion | None:
    """The one that has waited longest; other writers take others. None: nothing is due."""
    await connection.execute(text(f"SET LOCAL statement_timeout = '{_STATEMENT_TIMEOUT}'"))
    query = (
        select(tables.dataset_versions, tables.datasets.c.team_id)
        .join_from(tables.dataset_versions, tables.datasets)
        .where(_versions.next_at <= func.clock_timestamp())
        .order_by(_versions.next_at)
        .limit(1)
        .with_for_update(of=tables.dataset_versions, skip_locked=True, key_share=True)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    counts = msgspec.convert(row.counts, DatasetCounts)
    return DueVersion(
        id=row.id,
        dataset_id=row.dataset_id,
        status=row.status,
        selection=msgspec.convert(row.selection, Selection),
        team_id=row.team_id,
        position=row.position,
        examined=row.examined,
        last_row=row.last_row,
        rows=row.rows,
        size_bytes=row.size_bytes,
        counts=counts,
        skips=sum(counts.skipped.values()),
    )


async def keep_out_erasures(connection: AsyncConnection) -> None:
    """Keep erasures out until the end of the transaction: see DATASETS_LOCK."""
    await connection.execute(text("SELECT pg_advisory_xact_lock_shared(:lock)"), {"lock": DATASETS_LOCK})


async def find_contents(connection: AsyncConnection, inferences: Sequence[Mapping[str, Any]]) -> dict[str, FoundContent]:
    """Find what is kept of inferences, without reading it. Those of which nothing is kept are left out."""
    content, deleted = tables.inference_content.c, tables.deleted_responses.c
    length = func.coalesce(func.length(content.request), 0) + func.coalesce(func.length(content.response), 0)
    query = (
        select(content.id, content.policy, length, deleted.id.isnot(None))
        .select_from(tables.inference_content.outerjoin(tables.deleted_responses, deleted.id == content.id))
        .where(content.id.in_([row["id"] for row in inferences]))
    )
    team, team_of = tables.teams.c, {row["id"]: row["team_id"] for row in inferences}
    teams = select(team.id, team.content).where(team.id.in_(sorted(set(team_of.values()))))
    policies = {id: policy for id, policy in await connection.execute(teams)}
    return {
        id: FoundContent(policy, policies.get(team_of[id], policy), size, is_deleted)
        for id, policy, size, is_deleted in await connection.execute(query)
    }


async def read_content(connection: AsyncConnection, id: str) -> tuple[bytes | None, bytes | None]:
    """Request and response, packed."""
    content = tables.inference_content.c
    row = (await connection.execute(select(content.request, content.response).where(content.id == id))).one_or_none()
    return (None, None) if row is None else (row.request, row.response)


async def newest_demonstrations(connection: AsyncConnection, inferences: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The ids of feedback, by inference: the newest demonstration of its own team that counts and is kept."""
    if not inferences:
        return {}
    feedback = tables.feedback.c
    oldest_ms = min(uuid7.created_ms(row["id"]) for row in inferences) - _DAY_MS
    query = select(feedback.target_id, feedback.team_id, feedback.id).where(
        feedback.target_id.in_([row["id"] for row in inferences]),
        feedback.level == "inference",
        feedback.kind == "demonstration",
        feedback.is_current,
        feedback.content.in_(("full", "masked")),
        feedback.value.isnot(None),
        feedback.id >= uuid7.lowest_at(oldest_ms),
    )
    teams = {row["id"]: row["team_id"] for row in inferences}
    rows = await connection.execute(query.order_by(feedback.id))
    return {target_id: id for target_id, team_id, id in rows if teams[target_id] == team_id}


async def read_demonstration(connection: AsyncConnection, id: str) -> Demonstration | None:
    feedback = tables.feedback.c
    row = (await connection.execute(select(feedback.value, feedback.tags).where(feedback.id == id))).one_or_none()
    return None if row is None or row.value is None else Demonstration(id, row.value, row.tags)


async def read_function(connection: AsyncConnection, snapshot: str, name: str) -> FunctionConfig | None:
    """The configuration of a function in a snapshot; None: it is not there."""
    config = await read_function_config(connection, snapshot, name)
    return None if config is None else msgspec.convert(config, FunctionConfig)


async def read_sources(connection: AsyncConnection, ids: Collection[str], row_number: int) -> list[Source]:
    """Read the sources that are earlier turns of a conversation."""
    if not ids:
        return []
    columns = tables.inferences.c
    query = select(columns.id, columns.team_id, columns.episode_id, columns.end_user, columns.tags).where(columns.id.in_(list(ids)))
    return [Source(row_number, *row) for row in await connection.execute(query)]


async def store_piece(
    connection: AsyncConnection, version: DueVersion, rows: Sequence[NewRow], sources: Sequence[Source], skips: Sequence[Skip]
) -> None:
    for table, records in ((tables.dataset_rows, rows), (tables.dataset_sources, sources), (tables.dataset_skips, skips)):
        if records:
            values: list[dict[str, Any]] = [{**msgspec.structs.asdict(each), "version_id": version.id} for each in records]
            await connection.execute(insert(table), values)


async def advance_version(
    connection: AsyncConnection, version: DueVersion, *, status: str, error: str | None, continues: timedelta | None
) -> None:
    """Store what a piece did; `version` is as it is after the piece.

    `continues` is the time until the next piece; None if nothing is left to do.
    """
    ended = {} if status == "building" else {"completed_at": func.clock_timestamp()}
    values = {
        "status": status,
        "position": version.position,
        "examined": version.examined,
        "last_row": version.last_row,
        "rows": version.rows,
        "size_bytes": version.size_bytes,
        "counts": msgspec.to_builtins(version.counts),
        "error": error,
        "failures": 0,
        "next_at": None if continues is None else func.clock_timestamp() + continues,
        **ended,
    }
    await connection.execute(update(tables.dataset_versions).where(_versions.id == version.id).values(values))


async def purge_rows(connection: AsyncConnection, id: str) -> bool:
    """Delete some rows of a version that was deleted or cancelled; returns whether there may be more."""
    rows, sources, skips = tables.dataset_rows, tables.dataset_sources, tables.dataset_skips
    numbers = select(rows.c.number).where(rows.c.version_id == id).order_by(rows.c.number).limit(_PURGED_ROWS)
    deleted = (
        await connection.execute(delete(rows).where(rows.c.version_id == id, rows.c.number.in_(numbers)).returning(rows.c.number))
    ).all()
    if deleted:
        last = max(number for (number,) in deleted)
        await connection.execute(delete(sources).where(sources.c.version_id == id, sources.c.row_number <= last))
        return True
    await connection.execute(delete(skips).where(skips.c.version_id == id))
    await connection.execute(
        update(tables.dataset_versions).where(_versions.id == id).values(next_at=None, rows=0, size_bytes=0, counts={})
    )
    return False


async def wait_for_next(connection: AsyncConnection, id: str) -> None:
    """Let a version wait behind the others that are due."""
    await connection.execute(update(tables.dataset_versions).where(_versions.id == id).values(next_at=func.clock_timestamp()))


async def note_failure(connection: AsyncConnection, id: str, error: str, max_wait: timedelta) -> None:
    """The piece was rolled back, and is tried again later; each time later."""
    wait = func.least(max_wait, func.power(2.0, func.least(_versions.failures, 12)) * text("interval '1 second'"))
    await connection.execute(
        update(tables.dataset_versions)
        .where(_versions.id == id)
        .values(error=error[:_MAX_ERROR_CHARACTERS], failures=_versions.failures + 1, next_at=func.clock_timestamp() + wait)
    )
