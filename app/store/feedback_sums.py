"""Sums of a metric by model, function and variant, over the feedback that counts."""

import datetime

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.store import tables

_MAX_GROUPS = 1_000
_feedback = tables.feedback.c


class MetricSum(Struct, frozen=True):
    """`mean`, `minimum`, `maximum`: of a boolean (0 or 1) or float. `model` null: the inference or episode is not recorded."""

    model: str | None
    function: str | None
    variant: str | None
    count: int
    mean: float | None
    minimum: float | None
    maximum: float | None


async def sum_metric(connection: AsyncConnection, metric: str, days: int) -> list[MetricSum]:
    """Of feedback that was received in the last `days` days, the groups with most of it first."""
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    groups = (_feedback.model, _feedback.function, _feedback.variant)
    count = func.count().label("count")
    query = (
        select(*groups, count, func.avg(_feedback.number), func.min(_feedback.number), func.max(_feedback.number))
        .where(_feedback.metric == metric, _feedback.is_current, _feedback.id >= uuid7.lowest_at(int(since.timestamp() * 1000)))
        .group_by(*groups)
        .order_by(count.desc(), *groups)
        .limit(_MAX_GROUPS)
    )
    return [MetricSum(*row) for row in await connection.execute(query)]
