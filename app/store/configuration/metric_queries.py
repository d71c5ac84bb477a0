"""Metrics of the configuration, as stored."""

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import MetricConfig
from app.store.postgres import tables


async def read_metrics(connection: AsyncConnection) -> dict[str, MetricConfig]:
    rows = await connection.execute(select(tables.metrics.c.name, tables.metrics.c.config))
    return {name: msgspec.convert(config, MetricConfig) for name, config in rows}
