"""The log of an experiment: what guardrails, adaptive rules and people did to it because of its results, with their evidence."""

from collections.abc import Mapping, Set
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from sqlalchemy import Row, func, insert, select, text
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.experiments import ExperimentConfig
from app.store.postgres import tables
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

# stopped: by a guardrail. put_back: by a person, after that. weights: by an adaptive rule. promoted: by a person.
ActKind = Literal["stopped", "put_back", "weights", "promoted"]

_acts = tables.experiment_acts
_KEYSET = Keyset({"id": SortColumn(_acts.c.id)}, SortColumn(_acts.c.id))


class Act(Struct, frozen=True):
    """An act on an experiment, as it is stored.

    `before` and `after` are the arms, and whether the experiment runs. For `evidence` see docs/guardrails.md.
    `version` is that of the configuration that has it; null if it changed none.
    """

    id: str
    at: str
    kind: ActKind
    arm: str | None
    author: str
    reason: str
    evidence: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    version: int | None


class NewAct(Struct, frozen=True, kw_only=True):
    """An act before it is stored: see Act."""

    kind: ActKind
    arm: str | None
    author: str
    reason: str
    evidence: Mapping[str, Any]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    version: int | None


# By the names of running experiments: arms that guardrails have stopped.
StoppedArms: TypeAlias = Mapping[str, Set[str]]


class LastWeights(Struct, frozen=True):
    """The weights that an adaptive rule has last set, `age_s` seconds ago, from so many units."""

    age_s: float
    units: int
    arms: dict[str, float]


def describe_arms(config: ExperimentConfig) -> dict[str, Any]:
    """Describes an experiment for `before` and `after` of an act."""
    return {"arms": dict(config.arms), "stopped": list(config.stopped), "status": config.status, "winner": config.winner}


async def add_act(connection: AsyncConnection, experiment_id: str, act: NewAct) -> None:
    """Stores an act, in the transaction of what was done."""
    values = {name: getattr(act, name) for name in NewAct.__struct_fields__}
    await connection.execute(insert(_acts).values(id=uuid7.mint(), experiment_id=experiment_id, **values))


async def page_acts(connection: AsyncConnection, experiment_id: str, query: PageQuery) -> Page[Act]:
    rows = (await connection.execute(_KEYSET.page_query(select(_acts).where(_acts.c.experiment_id == experiment_id), query))).all()
    return _KEYSET.page(rows, query, _to_act)


async def last_acts_on_arms(connection: AsyncConnection, experiment_id: str) -> dict[str, Act]:
    """Returns, for each arm, the last act by which a guardrail stopped it or a person put it back."""
    query = (
        select(_acts)
        .where(_acts.c.experiment_id == experiment_id, _acts.c.kind.in_(("stopped", "put_back")))
        .ext(distinct_on(_acts.c.arm))
        .order_by(_acts.c.arm, _acts.c.id.desc())
    )
    return {row.arm: _to_act(row) for row in await connection.execute(query)}


async def read_stopped_arms(connection: AsyncConnection) -> StoppedArms:
    """Returns the arms of running experiments that guardrails have stopped and nobody has put back.

    What people did since is known as far as guardrails have seen it.
    """
    experiments = tables.experiments.c
    is_running = (experiments.started_at.is_not(None), experiments.ended_at.is_(None))
    query = (
        select(experiments.name, _acts.c.arm, _acts.c.kind)
        .join(_acts, _acts.c.experiment_id == experiments.id)
        .where(*is_running, _acts.c.kind.in_(("stopped", "put_back")))
        .ext(distinct_on(experiments.name, _acts.c.arm))
        .order_by(experiments.name, _acts.c.arm, _acts.c.id.desc())
    )
    stopped: dict[str, set[str]] = {}
    for name, arm, kind in await connection.execute(query):
        if kind == "stopped":
            stopped.setdefault(name, set()).add(arm)
    return stopped


async def last_weights(connection: AsyncConnection, experiment_id: str) -> LastWeights | None:
    """Returns the weights that an adaptive rule has last set, or None if none has changed them yet."""
    age_s = func.extract("epoch", func.clock_timestamp() - _acts.c.at).label("age_s")
    of_rule = select(age_s, _acts.c.evidence["units"].label("units"), _acts.c.after["arms"].label("arms")).where(
        _acts.c.experiment_id == experiment_id, _acts.c.kind == "weights"
    )
    row = (await connection.execute(of_rule.order_by(_acts.c.id.desc()).limit(1))).one_or_none()
    return None if row is None else LastWeights(float(row.age_s), row.units, row.arms)


async def count_versions(connection: AsyncConnection, experiment_id: str) -> int:
    versions = tables.experiment_versions.c
    return await connection.scalar(select(func.count()).where(versions.experiment_id == experiment_id)) or 0


async def lock_acting(connection: AsyncConnection, experiment_id: str) -> bool:
    """Locks the experiment until the end of the transaction. Returns False if another process looks at it."""
    lock = text("SELECT pg_try_advisory_xact_lock(hashtext('narthex experiment guard'), hashtext(:id))")
    return bool(await connection.scalar(lock, {"id": experiment_id}))


def _to_act(row: Row[Any]) -> Act:
    return Act(
        row.id,
        row.at.isoformat(),
        row.kind,
        row.arm,
        row.author,
        row.reason,
        row.evidence,
        row.before,
        row.after,
        row.version,
    )
