"""Units that are forgotten: those of whom something was erased, and those of experiments that ended long ago."""

from collections.abc import Collection, Iterable, Sequence

from app.store.experiment_units.counted_experiments import KEEP_UNITS_DAYS, CountedExperiment
from app.store.experiment_units.units import lock_counting
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.partitions import Connection

_DELETED_AT_ONCE = 5_000
_UUID_CHARACTERS = 36  # a hash has 16
# The random one says nothing of whose it was: the hash could be made again from a name and the salt. What is nobody's own, such as a team,
# keeps its hash, or it would be counted again as another unit; it has lost its first inference, perhaps.
_FORGET = """
    UPDATE experiment_units SET due_at = now(),
        unit = CASE WHEN experiments.definition ->> 'unit' = any($3::text[]) THEN experiment_units.unit ELSE gen_random_uuid()::text END
    FROM experiments, unnest($1::text[], $2::text[]) AS lost (name, unit)
    WHERE experiments.name = lost.name AND experiment_units.experiment_id = experiments.id AND experiment_units.unit = lost.unit
        AND (experiments.definition ->> 'unit' <> all($3::text[]) OR experiment_units.first_id = any($4::uuid[]))
"""
# Whoever it was may have come again since then.
_FORGET_BY_HASH = """
    UPDATE experiment_units SET due_at = now(), unit = gen_random_uuid()::text
    WHERE experiment_id = $1 AND unit = any($2::text[]) AND first_id < $3
"""
_FORGET_TOUCHES_BY_HASH = "DELETE FROM touched_units WHERE experiment = $1 AND unit = any($2::text[]) AND id < $3"
_FORGET_TOUCHES = """
    DELETE FROM touched_units WHERE unit = any($1::text[]) AND NOT EXISTS (
        SELECT FROM experiments WHERE experiments.name = touched_units.experiment AND experiments.definition ->> 'unit' = any($2::text[])
    )
"""
_DELETE_OLD = f"""
    DELETE FROM experiment_units WHERE ctid = ANY(ARRAY(
        SELECT experiment_units.ctid
        FROM experiments JOIN experiment_units ON experiment_units.experiment_id = experiments.id
        WHERE experiments.ended_at < now() - interval '{KEEP_UNITS_DAYS} days' LIMIT $1
        FOR UPDATE OF experiment_units SKIP LOCKED
    )) RETURNING experiment_id::text
"""  # noqa: S608
_DELETE_OLD_PRE_PERIODS = f"""
    DELETE FROM pre_period_feedback WHERE ctid = ANY(ARRAY(
        SELECT pre_period_feedback.ctid
        FROM experiments JOIN pre_period_feedback ON pre_period_feedback.experiment_id = experiments.id
        WHERE experiments.ended_at < now() - interval '{KEEP_UNITS_DAYS} days' LIMIT $1
    ))
"""  # noqa: S608
# Values of tags may name somebody, and no erasure finds them without units.
_DELETE_SLICES = """
    DELETE FROM experiment_sums WHERE experiment_id = any($1::uuid[]) AND slice <> ''
        AND NOT EXISTS (SELECT FROM experiment_units WHERE experiment_units.experiment_id = experiment_sums.experiment_id)
"""


async def forget_units(
    connection: Connection, units: Iterable[tuple[str, str]], *, inferences: Sequence[str], keep_tags: Collection[str]
) -> None:
    """Units, by the name of the experiment and their hash, of these inferences that were erased: what is in the sums stays, and names
    nobody.

    They are due, so that sums by values of their tags become those of nobody. Teams, and values of tags that are kept, are not forgotten.
    """
    lost = sorted(set(units))
    if lost:
        kept = ["team", *(f"tag:{name}" for name in keep_tags)]
        hashes = [unit for _, unit in lost]
        await connection.execute(_FORGET, [name for name, _ in lost], hashes, kept, inferences)
        await connection.execute(_FORGET_TOUCHES, hashes, kept)


async def forget_units_by_hash(connection: Connection, experiment: CountedExperiment, units: Sequence[str], *, before: str) -> None:
    """Forgets units as forget_units() does, including those whose inferences have expired.

    Only units whose first inference has an id lower than `before` are forgotten.
    """
    await connection.execute(_FORGET_BY_HASH, experiment.id, units, before)
    await connection.execute(_FORGET_TOUCHES_BY_HASH, experiment.name, units, before)


def is_forgotten(unit: str) -> bool:
    """Its hash was erased: it has a random UUID instead."""
    return len(unit) == _UUID_CHARACTERS


async def delete_old_units(connection: Connection) -> None:
    """Some of the units of experiments that ended more than KEEP_UNITS_DAYS ago, and of what was before; with the last one of each its
    sums by values of tags.
    """
    async with bounded_transaction(connection):
        if await lock_counting(connection):
            await connection.execute(_DELETE_OLD_PRE_PERIODS, _DELETED_AT_ONCE)
            deleted = await connection.fetch(_DELETE_OLD, _DELETED_AT_ONCE)
            if deleted:
                await connection.execute(_DELETE_SLICES, sorted({row["experiment_id"] for row in deleted}))
