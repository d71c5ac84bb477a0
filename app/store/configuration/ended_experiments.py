"""A file starts no experiment again that has ended: it may be older than the end, which somebody decided by the results.

Who starts one by name has seen that it has ended. A pipeline that applies the same file again and again has not, so it is told.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import BadConfiguration
from app.domain.snapshot import Snapshot
from app.store.configuration.config_file import ConfigFile
from app.store.configuration.experiments.changes import Owned, Section, owned_experiments
from app.store.configuration.experiments.experiments import in_utc
from app.store.postgres import tables
from app.store.postgres.conditions import one_of

_experiments = tables.experiments.c


class End(Struct, frozen=True):
    """The newest end of an experiment, and the salts that it had, each time that it ran."""

    at: datetime
    winner: str | None
    salts: Collection[str]


Ends: TypeAlias = Mapping[tuple[Section, str, str], End]


async def read_ends(connection: AsyncConnection, file: ConfigFile) -> Ends:
    """Returns the ends of the experiments of a file, by section, owner and name."""
    owners = [owner for entries in (file.models, file.functions) for owner, each in (entries or {}).items() if each.experiment is not None]
    if not owners:
        return {}
    ended = select(tables.experiments).where(_experiments.ended_at.is_not(None), one_of(_experiments.owner, owners))
    ends: dict[tuple[Section, str, str], End] = {}
    for row in await connection.execute(ended.order_by(_experiments.ended_at)):
        key = (row.section, row.owner, row.name)
        ends[key] = End(row.ended_at, row.winner, {*(ends[key].salts if key in ends else ()), row.salt})
    return ends


def refuse_restarts(current: Snapshot, wanted: Snapshot, ends: Ends) -> None:
    """Raises BadConfiguration."""
    before = {(each.section, each.owner, each.name): each.config.status for each in owned_experiments(current)}
    for owned in owned_experiments(wanted) if ends else ():
        key = (owned.section, owned.owner, owned.name)
        end = ends.get(key)
        in_force = before.get(key)
        # A draft in force was made since then, so it may be started. One that runs permits no other beside it anyway.
        if end is None or owned.config.status == "ended" or in_force == "draft" or owned.owner in current.experiments:
            continue
        if owned.config.salt is None or owned.config.salt in end.salts:
            raise BadConfiguration(_describe(owned, end, is_in_force=in_force is not None))


def _describe(owned: Owned, end: End, *, is_in_force: bool) -> str:
    winner = "" if end.winner is None else f" with the winner {end.winner!r}"
    again = "would start it again" if owned.config.status == "running" else "would make a draft of it"
    kept = 'status = "ended"' + ("" if end.winner is None else f' and winner = "{end.winner}"')
    start = f" `narthex experiments start {owned.name}` starts it again as it is." if is_in_force else ""
    return (
        f"{owned.path}: the experiment {owned.name!r} has ended at {in_utc(end.at)}{winner}, and this file {again}. If the file is older,"
        f" write {kept} into it, as `narthex export` does. For another experiment give it another `name`, or a new `salt`.{start}"
    )
