"""Uncounted spools: an earlier version's writer stored inferences after `migrate` without touching units of
experiments.

So the new writer touches them. `migrate` lists the spools that there are. The new writer of each looks at all
that was stored since, once, slice by slice in the order in which it was stored, and then forgets the spool. A
unit that is touched twice is measured twice, and in the sums once.
"""

from app.store.experiment_units.touched_units import COUNTS_FOR_UNIT
from app.store.postgres.bounded_transactions import STATEMENT_TIMEOUT_S, bounded_transaction
from app.store.postgres.partitions import Connection

SLICE_ROWS = 5_000

_NEXT_SLICE = f"""
    WITH slice AS MATERIALIZED (
        SELECT stored_in, id, experiment, experiment_version, experiment_unit, not_enrolled, variant, episode_kind
        FROM inferences WHERE (inferences.stored_in, inferences.id) > ($2, $3::uuid) AND inferences.stored_in IS NOT NULL
        ORDER BY inferences.stored_in, inferences.id LIMIT $4
    ), touched AS (
        INSERT INTO touched_units (experiment, version, unit, id, enrolled, arm, episode_kind)
        SELECT DISTINCT ON (experiment, experiment_unit, CASE WHEN not_enrolled IS NOT NULL THEN id END)
            experiment, experiment_version, experiment_unit, id, not_enrolled IS NULL, coalesce(variant, ''), coalesce(episode_kind, '')
        FROM slice WHERE {COUNTS_FOR_UNIT} AND EXISTS (SELECT FROM experiments WHERE started_at IS NOT NULL)
        ORDER BY experiment, experiment_unit, CASE WHEN not_enrolled IS NOT NULL THEN id END, id
    ), last AS (SELECT stored_in, id FROM slice ORDER BY stored_in DESC, id DESC LIMIT 1)
    UPDATE uncounted_spools SET stored_in = last.stored_in, id = last.id FROM last WHERE spool = $1
    RETURNING (SELECT count(*) FROM slice)
"""  # noqa: S608


async def touch_uncounted(connection: Connection, spool: str) -> bool:
    """Touch the units of one slice; returns whether there is more to do.

    It may be called only once the spool's earlier writer has ended.
    """
    async with bounded_transaction(connection, lock_timeout_s=STATEMENT_TIMEOUT_S):
        position = await connection.fetchrow("SELECT stored_in, id::text FROM uncounted_spools WHERE spool = $1 FOR UPDATE", spool)
        if position is None:
            return False
        rows = await connection.fetchval(_NEXT_SLICE, spool, position["stored_in"], position["id"], SLICE_ROWS)
        if rows == SLICE_ROWS:
            return True
        await connection.execute("DELETE FROM uncounted_spools WHERE spool = $1", spool)
        return False
