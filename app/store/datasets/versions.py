"""Versions of datasets, as they are begun, listed and ended. Writers build them: app/datasets/builder.py."""

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import BoundReached, InvalidKeyField
from app.store.datasets.counts import DatasetCounts
from app.store.datasets.datasets import Dataset
from app.store.datasets.selection import Selection, check_conditions, matching_feedback
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.paging import Page, read_cursor, write_cursor
from app.store.records.inference_queries import search_inferences
from providers.canonical.errors import Conflict

_datasets, _versions, _teams = tables.datasets.c, tables.dataset_versions.c, tables.teams.c

# Versions at a time, of datasets of all teams, and of those of each team: none can take the places of another. The writers take turns.
MAX_BUILDING, MAX_BUILDING_OF_TEAM = 20, 5
# That are kept, of the same.
MAX_KEPT, MAX_KEPT_OF_TEAM = 100_000, 10_000
MAX_NUMBER = 10_000  # of a dataset: numbers are not given again, and what was in a deleted version is still known
_FIRST_PAGE = 200
_FIRST_SEARCH_S = 2.0
_VERSIONS_SCOPE = "dataset-versions"
_KEPT_POLICIES = ("full", "masked")

VersionStatus = Literal["building", "complete", "failed", "cancelled", "deleted"]


class DatasetVersion(Struct, frozen=True, kw_only=True):
    """A version. `rows`: that are there; `erased`: that erasures took. `examined`: inferences that the filters matched.

    `searched_to`: while it is being built, the time of the inferences that it has come to, the newest first. `error`: why it failed, or
    why the last try did; then it goes on later.
    """

    dataset: str
    number: int
    status: VersionStatus
    selection: Selection
    rows: int
    erased: int
    examined: int
    searched_to: str | None
    size_bytes: int
    counts: DatasetCounts
    error: str | None
    created_at: str
    created_by: str
    completed_at: str | None


class NotPossible(Conflict):
    """The version is in no state for this; the message is a sentence."""


class FoundVersion(Struct, frozen=True):
    """A version with its ids, for queries of its rows."""

    id: str
    dataset_id: str
    shown: DatasetVersion


async def create_version(
    connection: AsyncConnection, author: Author, dataset: Dataset, selection: Selection, *, keep_hours_days: int
) -> DatasetVersion:
    """A version that the writers build. The dataset must be locked. Raises InvalidKeyField for a selection of nothing, NotPossible, and
    BoundReached.
    """
    team_id = await connection.scalar(select(_datasets.team_id).where(_datasets.id == dataset.id))
    await _check_room(connection, dataset, team_id)
    await _check_selection(connection, dataset, selection, team_id, keep_hours_days)
    number = dataset.versions + 1
    values = {
        "id": uuid7.mint(),
        "dataset_id": dataset.id,
        "number": number,
        "selection": msgspec.to_builtins(selection),
        "status": "building",
        "created_by": author.name,
        "position": uuid7.mint(),
        "next_at": func.now(),
    }
    await connection.execute(insert(tables.dataset_versions).values(values))
    # Values of tags may name somebody, and the log is never changed.
    shown = {"number": number, "selection": {**msgspec.to_builtins(selection), "tags": sorted(selection.tags)}}
    await record(connection, author, AuditEvent("select", "dataset", dataset.name, None, shown, dataset.team))
    found = await find_version(connection, dataset, number)
    assert found is not None, "it was stored in this transaction"
    return found.shown


async def _check_room(connection: AsyncConnection, dataset: Dataset, team_id: str | None) -> None:
    of_them = select(func.count()).select_from(tables.dataset_versions).join(tables.datasets)
    of_them = of_them.where(_datasets.team_id.is_not_distinct_from(team_id))
    most, most_kept, whose = MAX_BUILDING_OF_TEAM, MAX_KEPT_OF_TEAM, f"the team {dataset.team!r:.100}"
    if team_id is None:
        most, most_kept, whose = MAX_BUILDING, MAX_KEPT, "all teams"
    if (await connection.scalar(of_them.where(_versions.status == "building")) or 0) >= most:
        raise NotPossible(f"{most} versions of datasets of {whose} are being built already: wait for one, or cancel one.")
    if (await connection.scalar(of_them.where(_versions.status != "deleted")) or 0) >= most_kept:
        raise BoundReached(
            f"There are {most_kept:,} versions of datasets of {whose}, which is the most that are kept: delete some"
            " (`narthex datasets delete`, DELETE /admin/v1/datasets/NAME/versions/NUMBER)."
        )
    if dataset.versions >= MAX_NUMBER:
        raise BoundReached(
            f"{dataset.name!r:.200} has had {MAX_NUMBER:,} versions, deleted ones too, which is the most that a dataset has: begin another."
        )


async def _check_selection(
    connection: AsyncConnection, dataset: Dataset, selection: Selection, team_id: str | None, keep_hours_days: int
) -> None:
    """Whatever is certain to give no row is refused at once; else the writer finds out."""
    if dataset.team is not None and selection.team not in (None, dataset.team):
        raise InvalidKeyField("selection.team", f"The dataset is of the team {dataset.team!r:.100}, and has inferences of no other.")
    if selection.team is not None and await connection.scalar(select(_teams.id).where(_teams.name == selection.team)) is None:
        raise InvalidKeyField("selection.team", f"There is no team {selection.team!r:.100}.")
    conditions = await check_conditions(connection, selection.feedback)
    filters = selection.filter(team_id)
    if filters.since_ms is not None and filters.until_ms is not None and filters.since_ms >= filters.until_ms:
        raise InvalidKeyField("selection.until", "`until` must be later than `since`.")
    page = await search_inferences(
        connection, filters, keep_hours_days=keep_hours_days, before=None, limit=_FIRST_PAGE, search_s=_FIRST_SEARCH_S
    )
    if page.next is not None:
        return
    if not page.rows:
        raise InvalidKeyField("selection", "No inference matches this selection, so there would be no row: check its filters and times.")
    taken = await matching_feedback(connection, conditions, [row for row in page.rows if selection.takes(row)])
    if not taken:
        raise InvalidKeyField(
            "selection",
            f"{len(page.rows)} inferences match the filters, and none of them the conditions of feedback, tags and the sample: there would"
            " be no row.",
        )
    content = tables.inference_content.c
    ids = [row["id"] for row in taken]
    policies = {row.id: row.policy for row in await connection.execute(select(content.id, content.policy).where(content.id.in_(ids)))}
    if not any(policies.get(id) in _KEPT_POLICIES for id in ids):
        found = sorted({policies.get(id, "expired") for id in ids})
        raise InvalidKeyField(
            "selection",
            f"{len(ids)} inferences match, and the content of none is kept (content: {', '.join(found)}): there would be no row.",
        )


async def list_versions(connection: AsyncConnection, dataset: Dataset, *, limit: int, after: str | None) -> Page[DatasetVersion]:
    """The newest first."""
    query = select(tables.dataset_versions).where(_versions.dataset_id == dataset.id)
    if after is not None:
        query = query.where(_versions.number < read_cursor(after, _VERSIONS_SCOPE, [int])[0])
    rows = (await connection.execute(query.order_by(_versions.number.desc()).limit(limit + 1))).all()
    shown = [_to_version(row, dataset.name) for row in rows[:limit]]
    return Page(shown, write_cursor(_VERSIONS_SCOPE, [shown[-1].number]) if len(rows) > limit else None)


async def find_version(connection: AsyncConnection, dataset: Dataset, number: int, *, lock: bool = False) -> FoundVersion | None:
    query = select(tables.dataset_versions).where(_versions.dataset_id == dataset.id, _versions.number == number)
    row = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else FoundVersion(row.id, row.dataset_id, _to_version(row, dataset.name))


async def newest_complete(connection: AsyncConnection, dataset: Dataset) -> int | None:
    """Its number; None: no version is complete."""
    query = select(func.max(_versions.number)).where(_versions.dataset_id == dataset.id, _versions.status == "complete")
    return await connection.scalar(query)


async def end_version(
    connection: AsyncConnection, author: Author, dataset: Dataset, version: FoundVersion, status: Literal["cancelled", "deleted"]
) -> None:
    """Cancel what is being built, or delete whatever there is. The version must be locked. Raises NotPossible."""
    before = version.shown.status
    if before == "deleted" or (status == "cancelled" and before != "building"):
        raise NotPossible(f"Version {version.shown.number} of {dataset.name!r:.100} is {before}: there is nothing to {_VERBS[status]}.")
    await connection.execute(
        update(tables.dataset_versions).where(_versions.id == version.id).values(status=status, next_at=func.now(), error=None, failures=0)
    )
    event = {"number": version.shown.number, "rows": version.shown.rows}
    await record(connection, author, AuditEvent(_VERBS[status], "dataset", dataset.name, event, None, dataset.team))


_VERBS = {"cancelled": "cancel", "deleted": "delete"}


def _to_version(row: Row[Any], dataset: str) -> DatasetVersion:
    is_building = row.status == "building"
    searched_to = datetime.fromtimestamp(uuid7.created_ms(row.position) / 1000, UTC)
    return DatasetVersion(
        dataset=dataset,
        number=row.number,
        status=row.status,
        selection=msgspec.convert(row.selection, Selection),
        rows=row.rows,
        erased=row.erased,
        examined=row.examined,
        searched_to=searched_to.isoformat(timespec="milliseconds") if is_building else None,
        size_bytes=row.size_bytes,
        counts=msgspec.convert(row.counts, DatasetCounts),
        error=row.error,
        created_at=row.created_at.isoformat(),
        created_by=row.created_by,
        completed_at=None if row.completed_at is None else row.completed_at.isoformat(),
    )
