"""A change to units of experiments reads what belongs to them, however much there is of others."""

from collections.abc import AsyncGenerator, Sequence

import pytest

from app.domain import uuid7
from app.store.experiment_units.forgotten_units import forget_units
from app.store.experiment_units.sums import SUM_NAMES, SumKey, add_sums
from app.store.postgres.database import connect
from app.store.postgres.partitions import Connection

_SUMS = """
    INSERT INTO experiment_sums
    SELECT $1::uuid, 'latency', 'tenant', 'value ' || value, version, '', arm, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0
    FROM generate_series(1, 50) AS value, generate_series(1, 200) AS version, unnest('{a, b}'::text[]) AS arm
"""
_TOUCHES = """
    INSERT INTO touched_units SELECT 'e', 1, 'unit ' || number, gen_random_uuid(), true, 'a', '' FROM generate_series(1, 20000) AS number
"""


@pytest.fixture
async def connection(database: str) -> AsyncGenerator[Connection]:
    connection = await connect(database)
    yield connection
    await connection.close()


async def rows_scanned(connection: Connection, table: str) -> int:
    """Returns how many rows of a table this transaction has read without an index."""
    scanned: int = await connection.fetchval("SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = $1", table)
    return scanned


def changed(experiment_id: str, value: str, n: int) -> tuple[SumKey, Sequence[int]]:
    return SumKey(experiment_id, "latency", "tenant", value, 7, "", "a"), [n if name == "n" else 0 for name in SUM_NAMES]


async def test_a_value_that_no_unit_has_any_more_goes_without_a_scan_of_all_sums(connection: Connection) -> None:
    id = uuid7.mint()
    await connection.execute("INSERT INTO experiments (id, name, section, owner, salt, definition) VALUES ($1, 'e', '', '', '', '{}')", id)
    await connection.execute(_SUMS, id)
    await connection.execute("ANALYZE experiment_sums")
    async with connection.transaction():
        sums = dict([changed(id, "value 3", 1), changed(id, "value 4", -1), changed(id, "value 5", 0)])
        await add_sums(connection, sums, {})
        assert await rows_scanned(connection, "experiment_sums") == 0
    kept = await connection.fetch("SELECT value, n FROM experiment_sums WHERE version = 7 AND arm = 'a' AND n <> 1")
    assert [tuple(row) for row in kept] == [("value 3", 2)]
    assert await connection.fetchval("SELECT count(*) FROM experiment_sums WHERE version = 7 AND arm = 'a'") == 49
    assert await connection.fetchval("SELECT count(*) FROM experiment_sums") == 50 * 200 * 2 - 1


async def test_an_erasure_finds_touched_units_without_a_scan(connection: Connection) -> None:
    await connection.execute(_TOUCHES)
    await connection.execute("ANALYZE touched_units")
    async with connection.transaction():
        units = [("e", "unit 7"), ("e", "unit 9000"), ("e", "unit of nobody")]
        await forget_units(connection, units, inferences=[uuid7.mint()], keep_tags=())
        assert await rows_scanned(connection, "touched_units") == 0
    assert await connection.fetchval("SELECT count(*) FROM touched_units") == 19_998
