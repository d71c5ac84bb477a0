"""Who put a stopped arm of an experiment back, from the history of the configuration: however they did it, it is in there."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Double, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.experiments.queries import ExperimentRow
from app.store.postgres import tables

_changes, _versions = tables.configuration_changes.c, tables.configuration_versions.c


class PutBack(Struct, frozen=True):
    """Who put an arm back, and when."""

    author: str
    at: datetime
    version: int  # of the configuration that has it


async def find_put_back(connection: AsyncConnection, experiment: ExperimentRow, arm: str, since: int) -> PutBack | None:
    """The newest change after version `since` that gave the arm more weight, or its running units back. None: the history has none."""
    gained_weight = _weight(_changes.after, arm) > _weight(_changes.before, arm)
    left_stopped = _is_stopped(_changes.before, arm) & ~_is_stopped(_changes.after, arm)
    query = (
        select(_versions.author_name, _versions.at, _versions.version)
        .join_from(tables.configuration_changes, tables.configuration_versions, _versions.version == _changes.version)
        .where(_changes.section == experiment.section, _changes.name == experiment.owner, _changes.version > since)
        .where(or_(gained_weight, left_stopped))
        .order_by(_changes.version.desc())
    )
    row = (await connection.execute(query.limit(1))).one_or_none()
    return None if row is None else PutBack(*row)


def _weight(entry: Any, arm: str) -> ColumnElement[float]:
    return func.coalesce(cast(entry["experiment"]["arms"][arm].astext, Double), 0.0)


def _is_stopped(entry: Any, arm: str) -> ColumnElement[bool]:
    return func.coalesce(entry["experiment"]["stopped"].contains([arm]), False)
