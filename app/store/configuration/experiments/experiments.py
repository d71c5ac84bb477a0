"""Experiments in Postgres: what their start has frozen, and the versions of their weights and enrolment."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from sqlalchemy import delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import BadConfiguration
from app.store.configuration.experiments.changes import DraftDropped, DraftSaved, Ended, ExperimentChange, Owned, Started, VersionAdded
from app.store.configuration.experiments.versions import planned_enrolments
from app.store.postgres import tables
from app.store.postgres.audit_log import Author

# A version is written to take effect so long after; at the commit, a trigger makes sure that it is a second less at least (migration 0035).
# What remains above EXPERIMENT_LEAD_MS is for the commit itself.
WRITTEN_LEAD = timedelta(seconds=12)
MAX_VERSIONS = 10_000  # every worker has all of them
_MAX_DESCRIBED = 20
_NEW_SALT = "Give it another one, or none: then it gets a random one."

_experiments, _versions = tables.experiments, tables.experiment_versions


class NewVersion(Struct, frozen=True):
    """The first version of an experiment that a change made: the rest are the steps of a ramp."""

    experiment_id: str
    name: str
    number: int


async def store_experiment_changes(connection: AsyncConnection, author: Author, changes: Sequence[ExperimentChange]) -> list[NewVersion]:
    """Raises BadConfiguration for a salt that was used before, and for too many versions."""
    added: list[NewVersion] = []
    for change in changes:
        match change:
            case DraftSaved(of=of):
                await _save_draft(connection, of)
            case DraftDropped(of=of):
                await connection.execute(delete(_experiments).where(_experiments.c.name == of.name, _experiments.c.started_at.is_(None)))
            case Started(of=of):
                added.append(await _start(connection, author, of))
            case VersionAdded(of=of):
                added.append(await _add_version(connection, author, of))
            case Ended(name=name, winner=winner):
                of_name = (_experiments.c.name == name, _experiments.c.ended_at.is_(None))
                await connection.execute(update(_experiments).where(*of_name).values(ended_at=func.clock_timestamp(), winner=winner))
    return added


async def describe_new_versions(connection: AsyncConnection, added: Sequence[NewVersion]) -> list[str]:
    """Returns a sentence for each new version, which says when it takes effect.

    That is known once the versions are committed: until then it may move on.
    """
    shown = added[:_MAX_DESCRIBED]
    if not shown:
        return []
    columns = tuple_(_versions.c.experiment_id, _versions.c.number)
    found = await connection.execute(
        select(_versions.c.experiment_id, _versions.c.effective_at).where(
            columns.in_([(each.experiment_id, each.number) for each in shown])
        )
    )
    times = {row.experiment_id: row.effective_at for row in found}
    lines = [
        f"Version {each.number} of the experiment {each.name!r} takes effect at {in_utc(times[each.experiment_id])}."
        for each in shown
        if each.experiment_id in times
    ]
    more = len(added) - len(shown)
    return [*lines, f"{more} more experiments have a new version; `narthex experiments list` shows them."] if more else lines


async def _save_draft(connection: AsyncConnection, of: Owned) -> None:
    values = {"section": of.section, "owner": of.owner, "salt": of.config.salt, "definition": of.definition}
    is_draft = (_experiments.c.name == of.name, _experiments.c.started_at.is_(None))
    saved = await connection.execute(update(_experiments).where(*is_draft).values(**values))
    if saved.rowcount == 0:
        await connection.execute(insert(_experiments).values(id=uuid7.mint(), name=of.name, **values))


async def _start(connection: AsyncConnection, author: Author, of: Owned) -> NewVersion:
    salt = of.config.salt or secrets.token_hex(16)
    used = select(_experiments.c.name).where(_experiments.c.salt == salt, _experiments.c.started_at.is_not(None))
    other = await connection.scalar(used.order_by(_experiments.c.name != of.name, _experiments.c.started_at.desc()).limit(1))
    if other == of.name:
        raise BadConfiguration(f"{of.path}.salt: an experiment {other!r} with this salt has ended, and its units have a past. {_NEW_SALT}")
    if other is not None:
        raise BadConfiguration(
            f"{of.path}.salt: the experiment {other!r} has this salt, or had it, so that both would split units alike, and the effects of"
            f" one would show in the other. {_NEW_SALT}"
        )
    id = uuid7.mint()
    started = {"started_at": func.clock_timestamp(), "definition": of.definition}
    where = {"section": of.section, "owner": of.owner}
    await connection.execute(insert(_experiments).values(id=id, name=of.name, salt=salt, **where, **started))
    now = await _clock(connection)
    return await _insert_versions(connection, author, id, of, now + WRITTEN_LEAD, now + WRITTEN_LEAD)


async def _add_version(connection: AsyncConnection, author: Author, of: Owned) -> NewVersion:
    id = await connection.scalar(select(_experiments.c.id).where(_experiments.c.name == of.name, _experiments.c.ended_at.is_(None)))
    assert id is not None, "it is running"
    of_experiment = _versions.c.experiment_id == id
    count = await connection.scalar(select(func.count()).where(of_experiment)) or 0
    if count >= MAX_VERSIONS:
        raise BadConfiguration(f"{of.path}: an experiment has at most {MAX_VERSIONS} versions. End it, and start another.")
    start = await connection.scalar(select(_versions.c.effective_at).where(of_experiment).order_by(_versions.c.number).limit(1))
    effective = await _clock(connection) + WRITTEN_LEAD
    return await _insert_versions(connection, author, id, of, effective if start is None else start, effective)


async def _insert_versions(
    connection: AsyncConnection, author: Author, id: str, of: Owned, start: datetime, effective: datetime
) -> NewVersion:
    """The version that is effective then, and those of the ramp that come after it."""
    of_name = select(_experiments.c.id).where(_experiments.c.name == of.name)
    last = await connection.scalar(select(func.max(_versions.c.number)).where(_versions.c.experiment_id.in_(of_name))) or 0
    rows = [
        {
            **{"experiment_id": id, "number": number, "arms": dict(of.config.arms), "enrolment": enrolment},
            **{"effective_at": effective_at, "author": author.name},
        }
        for number, (effective_at, enrolment) in enumerate(planned_enrolments(of.config, start, effective), last + 1)
    ]
    await connection.execute(insert(_versions), rows)
    return NewVersion(id, of.name, last + 1)


def in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


async def _clock(connection: AsyncConnection) -> datetime:
    return (await connection.execute(select(func.clock_timestamp()))).scalar_one()
