"""Refuses to remove what is used outside of its section: budgets of webhooks, metrics of experiments."""

from collections.abc import Collection, Iterator, Mapping

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import StillUsed
from app.domain.snapshot import Snapshot
from app.store.configuration.validation.experiments import experiments_of
from app.store.configuration.validation.paths import limit_path
from app.store.postgres import tables

_MAX_SHOWN = 10


async def read_budgets_of_webhooks(connection: AsyncConnection) -> dict[str, Collection[str]]:
    """Returns the budgets that each webhook names, by the name of the webhook."""
    columns = tables.webhooks.c
    rows = await connection.execute(select(columns.name, columns.budgets).where(columns.budgets.is_not(None)).order_by(columns.name))
    return {row.name: frozenset(row.budgets) for row in rows}


def refuse_removing_used(current: Snapshot, wanted: Snapshot, budgets_of_webhooks: Mapping[str, Collection[str]]) -> None:
    """Raises StillUsed, which names what uses the first that is removed and used."""
    kept = {limit.name for limit in wanted.limits}
    for limit in current.limits:
        if limit.name not in kept:
            webhooks = [name for name, budgets in budgets_of_webhooks.items() if limit.name in budgets]
            _refuse(limit_path(limit.name), [f"webhook {name!r}" for name in webhooks])
    for metric in current.metrics.keys() - wanted.metrics.keys():
        _refuse(f"metrics.{metric}", list(_users_of_metric(wanted, metric)))


def _users_of_metric(wanted: Snapshot, metric: str) -> Iterator[str]:
    for path, _, experiment in experiments_of(wanted):
        if metric in experiment.analysis.metrics:
            yield f"{path}.analysis.metrics"


def _refuse(path: str, users: Collection[str]) -> None:
    if users:
        shown = ", ".join(list(users)[:_MAX_SHOWN]) + (f" and {len(users) - _MAX_SHOWN} more" if len(users) > _MAX_SHOWN else "")
        raise StillUsed(
            f"{path} cannot be removed: it is used by {shown}. Change or delete {'that' if len(users) == 1 else 'those'} first."
        )
