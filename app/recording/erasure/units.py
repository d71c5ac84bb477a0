"""Units of experiments, as an erasure finds them by their hash: also those whose inferences have expired, or were before the experiment."""

from app.domain.experiment_unit import draw_enrolment, episode_unit, value_unit
from app.recording.erasure.orders import Order
from app.store.experiment_units.counted_experiments import read_experiments
from app.store.experiment_units.forgotten_units import forget_units_by_hash
from app.store.experiment_units.pre_period_feedback import forget_pre_period
from app.store.experiment_units.units import wait_for_counting
from app.store.postgres.partitions import Connection

_LOWEST_ID = "00000000-0000-0000-0000-000000000000"
_NEXT_EXPERIMENT = """
    SELECT id::text FROM experiments WHERE started_at IS NOT NULL AND definition ->> 'unit' = $1 AND id > $2::uuid ORDER BY id LIMIT 1
"""
_TEAMS = """
    SELECT id::text FROM teams WHERE $1::uuid IS NULL OR id = $1
    UNION SELECT team_id::text FROM rollup_groups WHERE team_id IS NOT NULL AND ($1::uuid IS NULL OR team_id = $1)
"""


async def erase_units(connection: Connection, order: Order, after: str | None) -> str | None:
    """Erase the units of the next experiment after this one; returns its id, or None at the end.

    This comes after the inferences: no scan of what was before an experiment finds any of the order's from
    then on.
    """
    experiment_id: str | None = await connection.fetchval(_NEXT_EXPERIMENT, _unit_kind(order), after or _LOWEST_ID)
    if experiment_id is None:
        return None
    await wait_for_counting(connection)
    experiment = (await read_experiments(connection, [experiment_id]))[experiment_id]
    teams = [row["id"] for row in await connection.fetch(_TEAMS, order.team_id)]
    hashes = [draw_enrolment(experiment.salt, _unit(order, team_id)).hex() for team_id in teams]
    await forget_units_by_hash(connection, experiment, hashes, before=order.before)
    await forget_pre_period(connection, experiment.id, hashes)
    return experiment_id


def _unit_kind(order: Order) -> str:
    """Return the kind of unit that the order is about, as in ExperimentConfig.unit."""
    return {"end_user": "user", "tag": f"tag:{order.tag}", "episode": "episode"}[order.kind]


def _unit(order: Order, team_id: str) -> bytes:
    assert order.value is not None, "an order that is carried out has its value"
    return episode_unit(team_id, order.value) if order.kind == "episode" else value_unit(team_id, order.value)
