"""Units of experiments in Postgres: which there are, when they are to be counted, and what of them is in the sums."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from app.store.postgres.partitions import Connection

# open: its window lasts. measured: its window is over. complete: feedback on it counts no longer, either.
UnitState = Literal["open", "measured", "complete"]

# Whoever counts units holds it until the end of the transaction: several writers would wait for each other's sums.
_COUNTING_LOCK = 0x6E617274_756E6974


class UnitKey(NamedTuple):
    experiment_id: str
    unit: str


class UnitRow(Struct, frozen=True, kw_only=True):
    """A unit as it is counted: see the table."""

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
    due_at: datetime | None = None  # None: nothing is to come

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.experiment_id, self.unit)


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


async def lock_counting(connection: Connection) -> bool:
    """Takes the lock of counting until the end of the transaction. Returns False if somebody else counts."""
    locked: bool = await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _COUNTING_LOCK)
    return locked


async def wait_for_counting(connection: Connection) -> None:
    """Takes the lock as lock_counting() does, and waits for it however long somebody else counts.

    Raises LockNotAvailableError if that takes longer than lock_timeout.
    """
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _COUNTING_LOCK)


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
