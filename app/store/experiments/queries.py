"""Experiments as they are shown: drafts, those that run, and those that have ended, each with its versions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Row, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import AnalysisConfig, ExperimentStatus, MetricConfig
from app.domain.uuid7 import is_uuid7
from app.store.postgres import tables
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

_experiments, _versions = tables.experiments, tables.experiment_versions


class ListQuery(Struct, frozen=True):
    """See PageQuery."""

    limit: int
    after: str | None
    sort: str


class ExperimentVersionRow(Struct, frozen=True):
    """The weights and the enrolment from `effective_at` on. `superseded`: a newer version came before it took effect."""

    number: int
    arms: dict[str, float]
    enrolment: float
    effective_at: str
    created_at: str
    author: str
    superseded: bool


class ExperimentRow(Struct, frozen=True, kw_only=True):
    """An experiment. `owner`: the model or function that has it; `section`: which of both.

    `salt` null: of a draft, which gets one as it starts. `winner`: the arm that serves since it has ended; null: the control.
    """

    id: str
    name: str
    section: Literal["models", "functions"]
    owner: str
    status: ExperimentStatus
    salt: str | None
    arms: list[str]
    unit: str
    control: str
    eligible: dict[str, list[str]]
    holdout: float
    layer: str | None
    slots: tuple[int, int] | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    winner: str | None
    analysis: AnalysisConfig


_KEYSET = Keyset({"created_at": SortColumn(_experiments.c.created_at, datetime)}, SortColumn(_experiments.c.id))
_STATUS: dict[ExperimentStatus, ColumnElement[bool]] = {
    "draft": _experiments.c.started_at.is_(None),
    "running": and_(_experiments.c.started_at.is_not(None), _experiments.c.ended_at.is_(None)),
    "ended": _experiments.c.ended_at.is_not(None),
}
_VERSIONS_KEYSET = Keyset({"number": SortColumn(_versions.c.number, int)}, SortColumn(_versions.c.number, int))


async def page_experiments(connection: AsyncConnection, query: PageQuery, status: ExperimentStatus | None = None) -> Page[ExperimentRow]:
    selected = select(_experiments)
    if status is not None:
        selected = selected.where(_STATUS[status])
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_experiment)


async def find_experiment(connection: AsyncConnection, name: str) -> ExperimentRow | None:
    """The newest of this name; else the one with this id."""
    newest = select(_experiments).where(_experiments.c.name == name).order_by(_experiments.c.created_at.desc(), _experiments.c.id.desc())
    row = (await connection.execute(newest.limit(1))).one_or_none()
    if row is None and is_uuid7(name):
        row = (await connection.execute(select(_experiments).where(_experiments.c.id == name))).one_or_none()
    return None if row is None else _to_experiment(row)


async def find_settings(connection: AsyncConnection, of: ExperimentRow) -> dict[str, Any] | None:
    """Returns the settings as the configuration has them, or None if it no longer has the experiment."""
    table = tables.models if of.section == "models" else tables.functions
    config = await connection.scalar(select(table.c.config["experiment"]).where(table.c.name == of.owner))
    return config if config is not None and (config.get("name") or of.owner) == of.name else None


async def page_versions(connection: AsyncConnection, id: str, query: PageQuery) -> Page[ExperimentVersionRow]:
    # A newer version takes the place of whatever was to take effect after it.
    newer = _versions.alias()
    superseded = (
        select(newer.c.number)
        .where(
            newer.c.experiment_id == _versions.c.experiment_id,
            newer.c.number > _versions.c.number,
            newer.c.effective_at <= _versions.c.effective_at,
        )
        .exists()
        .label("superseded")
    )
    selected = select(_versions, superseded).where(_versions.c.experiment_id == id)
    rows = (await connection.execute(_VERSIONS_KEYSET.page_query(selected, query))).all()
    return _VERSIONS_KEYSET.page(rows, query, _to_version)


async def read_weights(connection: AsyncConnection, id: str) -> dict[int, dict[str, float]]:
    """The weights of the arms by version, the first version first."""
    query = select(_versions.c.number, _versions.c.arms).where(_versions.c.experiment_id == id).order_by(_versions.c.number)
    return {number: arms for number, arms in await connection.execute(query)}


async def find_first_effect(connection: AsyncConnection, id: str) -> datetime | None:
    """Returns when the first version takes effect, or None for a draft."""
    return await connection.scalar(select(func.min(_versions.c.effective_at)).where(_versions.c.experiment_id == id))


async def read_metrics(connection: AsyncConnection, names: Sequence[str]) -> dict[str, MetricConfig]:
    """Those of them that are declared."""
    metrics = tables.metrics.c
    found = await connection.execute(select(metrics.name, metrics.config).where(metrics.name.in_(names)))
    return {row.name: msgspec.convert(row.config, MetricConfig) for row in found}


async def newest_versions(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, ExperimentVersionRow]:
    """Returns for each experiment the version that is in force now, else the first that will be."""
    found: dict[str, ExperimentVersionRow] = {}
    for id in ids:
        of_experiment = _versions.c.experiment_id == id
        in_force = select(_versions).where(of_experiment, _versions.c.effective_at <= func.clock_timestamp())
        row = (await connection.execute(in_force.order_by(_versions.c.number.desc()).limit(1))).one_or_none()
        if row is None:
            row = (await connection.execute(select(_versions).where(of_experiment).order_by(_versions.c.number).limit(1))).one_or_none()
        if row is not None:
            found[id] = _to_version(row)
    return found


def _to_experiment(row: Row[Any]) -> ExperimentRow:
    status: ExperimentStatus = "draft" if row.started_at is None else "running" if row.ended_at is None else "ended"
    times = [None if time is None else time.isoformat() for time in (row.started_at, row.ended_at)]
    return ExperimentRow(
        id=row.id,
        name=row.name,
        section=row.section,
        owner=row.owner,
        status=status,
        salt=row.salt,
        **{field: value for field, value in row.definition.items() if field not in ("analysis", "adaptive")},
        created_at=row.created_at.isoformat(),
        started_at=times[0],
        ended_at=times[1],
        winner=row.winner,
        analysis=msgspec.convert(row.definition.get("analysis", {}), AnalysisConfig),
    )


def _to_version(row: Row[Any]) -> ExperimentVersionRow:
    times = row.effective_at.isoformat(), row.created_at.isoformat()
    superseded = bool(getattr(row, "superseded", False))
    return ExperimentVersionRow(row.number, row.arms, row.enrolment, *times, row.author, superseded)
