"""Units of experiments in Postgres: which there are, when they are to be counted, and what of them is in the sums."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from app.domain.experiments import BUILT_IN_OUTCOMES, AnalysisConfig
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.partitions import Connection

# open: its window lasts. measured: its window is over. complete: feedback on it counts no longer, either.
UnitState = Literal["open", "measured", "complete"]

# Whoever counts units holds it until the end of the transaction: several writers would wait for each other's sums.
_COUNTING_LOCK = 0x6E617274_756E6974
KEEP_UNITS_DAYS = 100  # after the end of an experiment: longer than feedback can count (90 days)
_DELETED_AT_ONCE = 5_000
_UUID_CHARACTERS = 36  # a hash has 16
_PRE_PERIOD = timedelta(days=28)


class UnitKey(NamedTuple):
    experiment_id: str
    unit: str


class UnitRow(Struct, frozen=True, kw_only=True):
    """A unit as it is counted: see the table. `due_at` None: nothing is to come."""

    experiment_id: str
    unit: str
    first_id: str
    version: int
    episode_kind: str
    arm: str
    state: UnitState = "open"
    excluded: str | None = None
    inferences: int = 0
    episodes: int = 0
    served_by_other: int = 0
    measured: Sequence[int | None] | None = None
    covariates: Sequence[int | None] | None = None
    slices: Sequence[str] | None = None
    due_at: datetime | None = None

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.experiment_id, self.unit)


class CountedExperiment(Struct, frozen=True):
    """The part of an experiment by which its units are counted. `unit` is as in ExperimentConfig."""

    id: str
    name: str
    unit: str
    salt: str
    started_at: datetime
    analysis: AnalysisConfig

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.analysis.metrics or BUILT_IN_OUTCOMES

    @property
    def has_feedback(self) -> bool:
        return any(metric not in BUILT_IN_OUTCOMES for metric in self.metrics)

    @property
    def pre_period(self) -> tuple[datetime, datetime]:
        """The days (UTC) from which its units may be known, the last exclusive."""
        until = self.started_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return until - _PRE_PERIOD, until

    @property
    def window_ms(self) -> int:
        return self.analysis.window_minutes * 60_000

    @property
    def feedback_ms(self) -> int:
        return self.analysis.feedback_hours * 3_600_000


_COLUMNS = UnitRow.__struct_fields__
_TYPES = {
    **dict.fromkeys(("experiment_id", "first_id"), "uuid"),
    **dict.fromkeys(("version", "inferences", "episodes", "served_by_other"), "integer"),
    **dict.fromkeys(("measured", "covariates"), "bigint[]"),
    "slices": "text[]",
    "due_at": "timestamptz",
}
_SELECTED = ", ".join(f"{name}::text" if name in ("experiment_id", "first_id") else name for name in _COLUMNS)
# Postgres has no arrays of arrays of different lengths: those come as text.
_PARAMETERS = ", ".join(
    f"${at}::{'text' if _TYPES.get(name, 'text').endswith('[]') else _TYPES.get(name, 'text')}[]" for at, name in enumerate(_COLUMNS, 1)
)
_VALUES = ", ".join(f"{name}::{_TYPES[name]}" if _TYPES.get(name, "text").endswith("[]") else name for name in _COLUMNS)
_FIND = f"""
    SELECT {_SELECTED} FROM experiment_units
    WHERE (experiment_id, unit) IN (SELECT * FROM unnest($1::uuid[], $2::text[])) ORDER BY experiment_id, unit FOR UPDATE
"""  # noqa: S608
_INSERT = f"""
    INSERT INTO experiment_units ({", ".join(_COLUMNS)})
    SELECT {_VALUES} FROM unnest({_PARAMETERS}) AS added ({", ".join(_COLUMNS)})
"""  # noqa: S608
_UPDATE = f"""
    UPDATE experiment_units SET {", ".join(f"{name} = changed.{name}::{_TYPES.get(name, 'text')}" for name in _COLUMNS[2:])}
    FROM unnest({_PARAMETERS}) AS changed ({", ".join(_COLUMNS)})
    WHERE experiment_units.experiment_id = changed.experiment_id AND experiment_units.unit = changed.unit
"""  # noqa: S608
_MOVE = """
    UPDATE experiment_units SET first_id = changed.first_id, due_at = least(experiment_units.due_at, changed.due_at)
    FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::timestamptz[]) AS changed (experiment_id, unit, first_id, due_at)
    WHERE experiment_units.experiment_id = changed.experiment_id AND experiment_units.unit = changed.unit
"""
# SKIP LOCKED: an erasure may hold one.
_IS_DUE = "due_at <= now() AND experiment_id <> all($1::uuid[])"
_DUE = f"SELECT {_SELECTED} FROM experiment_units WHERE {_IS_DUE} ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED"  # noqa: S608
_PUT_OFF = f"""
    UPDATE experiment_units SET due_at = now() + interval '1 hour' WHERE (experiment_id, unit) = (
        SELECT experiment_id, unit FROM experiment_units WHERE {_IS_DUE} ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING experiment_id::text
"""  # noqa: S608
# What comes after the units have gone would be counted as other units.
_EXPERIMENTS = f"""
    SELECT DISTINCT ON (of_name.name, of_name.number) of_name.name, of_name.number, experiments.id::text, experiments.salt,
        experiments.started_at, experiments.definition
    FROM unnest($1::text[], $2::int[]) AS of_name (name, number)
    JOIN experiments ON experiments.name = of_name.name AND experiments.started_at IS NOT NULL
        AND (experiments.ended_at IS NULL OR experiments.ended_at > now() - interval '{KEEP_UNITS_DAYS} days')
    JOIN experiment_versions ON experiment_versions.experiment_id = experiments.id AND experiment_versions.number = of_name.number
"""  # noqa: S608
_EXPERIMENTS_BY_ID = """
    SELECT name, id::text, salt, started_at, definition FROM experiments WHERE id = any($1::uuid[]) AND started_at IS NOT NULL
"""
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


async def lock_counting(connection: Connection) -> bool:
    """Takes the lock of counting until the end of the transaction. Returns False if somebody else counts."""
    locked: bool = await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _COUNTING_LOCK)
    return locked


async def wait_for_counting(connection: Connection) -> None:
    """Takes the lock as lock_counting() does, and waits for it however long somebody else counts.

    Raises LockNotAvailableError if that takes longer than lock_timeout.
    """
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _COUNTING_LOCK)


async def find_experiments(connection: Connection, versions: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], CountedExperiment]:
    """Returns experiments by name and version. A version belongs to one experiment."""
    wanted = sorted(set(versions))
    rows = await connection.fetch(_EXPERIMENTS, [name for name, _ in wanted], [number for _, number in wanted]) if wanted else []
    return {(row["name"], row["number"]): _to_experiment(row) for row in rows}


async def read_experiments(connection: Connection, ids: Iterable[str]) -> Mapping[str, CountedExperiment]:
    rows = await connection.fetch(_EXPERIMENTS_BY_ID, sorted(set(ids)))
    return {row["id"]: _to_experiment(row) for row in rows}


async def lock_units(connection: Connection, keys: Iterable[UnitKey]) -> Mapping[UnitKey, UnitRow]:
    """Locks and returns those of the units that exist."""
    wanted = sorted(set(keys))
    rows = await connection.fetch(_FIND, [key.experiment_id for key in wanted], [key.unit for key in wanted]) if wanted else []
    return {unit.key: unit for unit in map(_to_unit, rows)}


async def lock_due_units(connection: Connection, limit: int, *, waiting: Collection[str]) -> list[UnitRow]:
    """Locks and returns at most `limit` units that are due, those due first before others.

    `waiting` holds the ids of experiments whose units are not to be counted yet.
    """
    return [_to_unit(row) for row in await connection.fetch(_DUE, list(waiting), limit)]


async def put_off_first(connection: Connection, *, waiting: Collection[str]) -> str | None:
    """Puts off, by an hour, the first of the units that are due, and returns the id of its experiment.

    Returns None if no unit is due. `waiting` is as in lock_due_units().
    """
    experiment_id: str | None = await connection.fetchval(_PUT_OFF, list(waiting))
    return experiment_id


async def insert_units(connection: Connection, units: Sequence[UnitRow]) -> None:
    if units:
        await connection.execute(_INSERT, *_to_columns(units))


async def update_units(connection: Connection, units: Sequence[UnitRow]) -> None:
    if units:
        await connection.execute(_UPDATE, *_to_columns(units))


async def move_units(connection: Connection, units: Sequence[tuple[UnitKey, str, datetime]]) -> None:
    """Stores the first inference of each unit, and when the unit is due, unless it was due earlier."""
    if units:
        keys = [key for key, _, _ in units]
        places = [[key.experiment_id for key in keys], [key.unit for key in keys]]
        await connection.execute(_MOVE, *places, [first for _, first, _ in units], [due_at for _, _, due_at in units])


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


def _to_experiment(row: Any) -> CountedExperiment:
    definition = msgspec.json.decode(row["definition"])
    analysis = msgspec.convert(definition.get("analysis", {}), AnalysisConfig)
    return CountedExperiment(row["id"], row["name"], definition["unit"], row["salt"], row["started_at"], analysis)


def _to_unit(row: Any) -> UnitRow:
    return UnitRow(**dict(row))


def _to_columns(units: Sequence[UnitRow]) -> list[list[Any]]:
    return [[_to_value(name, getattr(unit, name)) for unit in units] for name in _COLUMNS]


def _to_value(name: str, value: Any) -> Any:
    if value is None or not _TYPES.get(name, "").endswith("[]"):
        return value
    if name == "slices":
        quoted = ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in value)
        return "{" + ",".join(quoted) + "}"
    return "{" + ",".join("NULL" if each is None else str(each) for each in value) + "}"
