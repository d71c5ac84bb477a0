"""Sums of a metric by model, function and variant, over the feedback that counts."""

import datetime
from collections.abc import Collection

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.conditions import one_of

_MAX_GROUPS = 1_000
_feedback, _teams = tables.feedback.c, tables.teams.c


class MetricSum(Struct, frozen=True):
    """Sums of a metric's feedback. `mean`, `minimum`, `maximum`: of a boolean (0 or 1) or float. `model` null: the inference or episode is
    not recorded.

    `not_enrolled`: why these requests do not count in the experiment of their function or model, such as `pinned`; null: they do, or there
    was none.
    """

    model: str | None
    function: str | None
    variant: str | None
    not_enrolled: str | None
    count: int
    mean: float | None
    minimum: float | None
    maximum: float | None


async def sum_metric(connection: AsyncConnection, metric: str, days: int, only_teams: Collection[str] | None = None) -> list[MetricSum]:
    """Sums up feedback that was received in the last `days` days, the groups with most of it first.

    `only_teams` holds the names of the teams whose feedback is summed up; None means all.
    """
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    groups = (_feedback.model, _feedback.function, _feedback.variant, _feedback.not_enrolled)
    count = func.count().label("count")
    query = (
        select(*groups, count, func.avg(_feedback.number), func.min(_feedback.number), func.max(_feedback.number))
        .where(_feedback.metric == metric, _feedback.is_current, _feedback.id >= uuid7.lowest_at(int(since.timestamp() * 1000)))
        .group_by(*groups)
        .order_by(count.desc(), *groups)
        .limit(_MAX_GROUPS)
    )
    if only_teams is not None:
        query = query.where(_feedback.team_id.in_(select(_teams.id).where(one_of(_teams.name, only_teams))))
    return [MetricSum(*row) for row in await connection.execute(query)]
