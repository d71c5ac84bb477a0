"""Covariates of metrics of feedback, of units that return: a scan of the feedback in the days before their experiment finds them.

It is made once, when the experiment has started, and units wait for it: so no covariate changes by what the experiment does.
"""

from app.domain.experiments import BUILT_IN_OUTCOMES
from app.store.experiment_units.counted_experiments import read_experiments
from app.store.experiment_units.pre_period_feedback import Scan, add_events, finish_scan, move_scan, read_events, unfinished_scans
from app.store.experiment_units.unit_measurements import only_by_index
from app.store.experiment_units.units import lock_counting
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.partitions import Connection

EVENTS_AT_ONCE = 2_000


async def scan_pre_period(connection: Connection, limit: int = EVENTS_AT_ONCE) -> bool:
    """Read some of the feedback that is left; returns whether there may be more to do now."""
    async with bounded_transaction(connection):
        scan = await _next_scan(connection)
        if scan is None:
            return False
        experiment = (await read_experiments(connection, [scan.experiment_id]))[scan.experiment_id]
        metrics = [metric for metric in experiment.metrics if metric not in BUILT_IN_OUTCOMES]
        last = None
        if metrics:
            await only_by_index(connection)
            events, last = await read_events(connection, experiment, metrics, scan.after, limit)
            await add_events(connection, experiment.id, events)
        if last is None:
            await finish_scan(connection, experiment.id, metrics)
        else:
            await move_scan(connection, Scan(experiment.id, last))
        return True


async def give_up_scan(connection: Connection) -> str | None:
    """Gives up a scan: units of its experiment are measured without it. Returns the experiment's id.

    Returns None if nothing is to be scanned, or if somebody else counts.
    """
    async with bounded_transaction(connection):
        scan = await _next_scan(connection)
        if scan is None:
            return None
        await finish_scan(connection, scan.experiment_id, ())
        return scan.experiment_id


async def _next_scan(connection: Connection) -> Scan | None:
    if not await lock_counting(connection):
        return None
    return next(iter(await unfinished_scans(connection)), None)
