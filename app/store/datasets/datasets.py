"""Datasets, as they are created, listed and deleted. versions.py has their versions."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, Select, Text, cast, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.names import is_name
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

MAX_NAME_CHARACTERS = 200
MAX_DESCRIPTION_CHARACTERS = 2000
# Of datasets of all teams, and of those of each team: none can take the places of another.
MAX_DATASETS, MAX_DATASETS_OF_TEAM = 10_000, 1_000

_datasets, _versions, _teams = tables.datasets.c, tables.dataset_versions.c, tables.teams.c


class Dataset(Struct, frozen=True, kw_only=True):
    """A dataset. `team`: whose inferences alone it may have; null: of all teams. `versions`: the highest number; 0: there is none."""

    name: str
    id: str
    description: str | None
    team: str | None
    versions: int
    created_at: str
    created_by: str


class DatasetExists(Exception):
    """There is a dataset of this name already."""


_team = select(_teams.name).where(_teams.id == _datasets.team_id).scalar_subquery()
_highest = (
    select(func.coalesce(func.max(_versions.number), 0))
    .where(_versions.dataset_id == _datasets.id)
    .correlate(tables.datasets)
    .scalar_subquery()
)
# A team that was removed: its id says that the dataset is not of all teams.
_team_or_id = func.coalesce(_team, cast(_datasets.team_id, Text)).label("team")
_KEYSET = Keyset({"name": SortColumn(_datasets.name), "created_at": SortColumn(_datasets.created_at, datetime)}, SortColumn(_datasets.name))


def _select() -> Select[Any]:
    return select(tables.datasets, _team_or_id, _highest.label("versions")).where(_datasets.deleted_at.is_(None))


async def page_datasets(connection: AsyncConnection, query: PageQuery, only_teams: Collection[str] | None) -> Page[Dataset]:
    """A page of the datasets of the teams named in `only_teams`; None means of all."""
    found = _select()
    if only_teams is not None:
        found = found.where(_team.in_(sorted(only_teams)))
    rows = (await connection.execute(_KEYSET.page_query(found, query))).all()
    return _KEYSET.page(rows, query, _to_dataset)


async def find_dataset(connection: AsyncConnection, name: str, *, lock: bool = False) -> Dataset | None:
    query = _select().where(_datasets.name == name.replace("\0", ""))
    row = (await connection.execute(query.with_for_update(of=tables.datasets) if lock else query)).one_or_none()
    return None if row is None else _to_dataset(row)


async def create_dataset(connection: AsyncConnection, author: Author, name: str, *, team: str | None, description: str | None) -> Dataset:
    """Raises InvalidKeyField and DatasetExists."""
    if not is_name(name) or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField("name", f"`name` must be 1 to {MAX_NAME_CHARACTERS} printable characters, without spaces at its ends.")
    if description is not None and len(description) > MAX_DESCRIPTION_CHARACTERS:
        raise InvalidKeyField("description", f"`description` may have {MAX_DESCRIPTION_CHARACTERS:,} characters.")
    team_id = None
    if team is not None:
        team_id = await connection.scalar(select(_teams.id).where(_teams.name == team.replace("\0", "")))
        if team_id is None:
            raise InvalidKeyField("team", f"There is no team {team!r:.100}.")
    count = select(func.count()).select_from(tables.datasets)
    count = count.where(_datasets.deleted_at.is_(None), _datasets.team_id.is_not_distinct_from(team_id))
    most, whose = (MAX_DATASETS, "all teams") if team_id is None else (MAX_DATASETS_OF_TEAM, f"the team {team!r:.100}")
    if (await connection.scalar(count) or 0) >= most:
        raise InvalidKeyField("name", f"There are {most:,} datasets of {whose} already, which is the most there may be: delete some.")
    values = {"id": uuid7.mint(), "name": name, "description": description, "team_id": team_id, "created_by": author.name}
    try:
        async with connection.begin_nested():
            await connection.execute(insert(tables.datasets).values(values))
    except IntegrityError:
        raise DatasetExists(f"There is a dataset {name!r:.200} already.") from None
    created = await find_dataset(connection, name)
    assert created is not None, "it was stored in this transaction"
    shown = {"team": team, "description": description}
    await record(connection, author, AuditEvent("create", "dataset", name, None, shown, team))
    return created


async def delete_dataset(connection: AsyncConnection, author: Author, dataset: Dataset) -> None:
    """Delete a dataset with its versions. Its name is free at once; the writers delete its rows."""
    await connection.execute(update(tables.datasets).where(_datasets.id == dataset.id).values(deleted_at=func.now()))
    await connection.execute(
        update(tables.dataset_versions)
        .where(_versions.dataset_id == dataset.id, _versions.status != "deleted")
        .values(status="deleted", next_at=func.now(), error=None, failures=0)
    )
    await record(connection, author, AuditEvent("delete", "dataset", dataset.name, {"versions": dataset.versions}, None, dataset.team))


async def record_export(connection: AsyncConnection, author: Author, dataset: Dataset, number: int, format: str, split: str | None) -> None:
    """Record in the audit log who took content out of the gateway."""
    shown = {"number": number, "format": format, "split": split}
    await record(connection, author, AuditEvent("export", "dataset", dataset.name, None, shown, dataset.team))


def _to_dataset(row: Row[Any]) -> Dataset:
    return Dataset(
        name=row.name,
        id=row.id,
        description=row.description,
        team=row.team,
        versions=row.versions,
        created_at=row.created_at.isoformat(),
        created_by=row.created_by,
    )
