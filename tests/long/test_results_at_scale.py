"""Results over a million inferences with feedback are counted exactly, and read in less than half a second; over ten million, in three."""

import datetime
import json
import shutil
import statistics
import tempfile
import time
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.domain.experiments import BUILT_IN_OUTCOMES
from app.results.experiments.read import read_results
from app.results.experiments.results import ExperimentResults
from app.results.units.counting import count_due_units, take_in_touched
from app.store.experiment_units.touched_units import COUNTS_FOR_UNIT
from app.store.experiments.queries import find_experiment
from app.store.postgres.database import connect, create_database_engine
from app.store.postgres.partitions import create_partitions, day_of
from app.store.schema.migrate import migrate
from tests.support.processes.postgres import database, postgres, running_postgres

__all__ = ["database", "postgres"]

FILLED_AT_ONCE = 1_000_000  # inferences
PER_EPISODE = 4
READS = 60
BYTES_PER_INFERENCE = 2_000  # with feedback, indexes and the database's log
METRICS = ["helpful", *BUILT_IN_OUTCOMES]

# Half of the units get the arm "b", whose answers are more often helpful: 60 % instead of 50 %. All of two days ago.
_EPISODES = """
    CREATE TEMP TABLE episodes AS
    SELECT number, lpad(to_hex($1::bigint + number * 3), 12, '0') AS born, CASE WHEN random() < 0.5 THEN 'a' ELSE 'b' END AS arm
    FROM generate_series($2::bigint, $3::bigint) AS number
"""
_INFERENCES = """
    INSERT INTO inferences (id, episode_id, received_at, team_id, key_id, route, model, variant, served_variant, streamed, status, outcome,
        duration_us, first_token_us, snapshot, cost_microusd, charged_input, charged_output, tags, experiment, experiment_version,
        arm_probability, experiment_unit, episode_kind)
    SELECT
        (left(born, 8) || '-' || right(born, 4) || '-7' || lpad(to_hex(turn), 3, '0') || '-8000-' || lpad(to_hex(number), 12, '0'))::uuid,
        (left(born, 8) || '-' || right(born, 4) || '-7fff-8000-' || lpad(to_hex(number), 12, '0'))::uuid, now(),
        '00000000-0000-0000-0000-000000000064', '00000000-0000-0000-0000-0000000000c8', '/v1/chat/completions', 'm', arm, arm, true, 200,
        CASE WHEN random() < 0.02 THEN 'failed' ELSE 'answered' END, (exp(13 + random())) :: bigint, 1000 + (random() * 1e5)::bigint, 's',
        (random() * 5000)::bigint, 100, (random() * 500)::int, jsonb_build_object('tenant', (number % 10)::text), 'scale', 1, 0.5,
        lpad(to_hex(number), 16, '0'), 'minted'
    FROM episodes, generate_series(0, $1::int - 1) AS turn
"""
_FEEDBACK = """
    INSERT INTO feedback (id, feedback_id, action, received_at, team_id, key_id, metric, kind, level, target_id, value, number, content,
        is_current, matched_at)
    SELECT id, id, 'create', now(), '00000000-0000-0000-0000-000000000064', '00000000-0000-0000-0000-0000000000c8', 'helpful', 'boolean',
        'inference', id, to_jsonb(is_helpful), is_helpful::int, 'full', true, now()
    FROM (SELECT id, random() < CASE variant WHEN 'a' THEN 0.5 ELSE 0.6 END AS is_helpful FROM inferences
        WHERE id >= $1::uuid AND id < $2::uuid) AS rated
"""
_TOUCHES = f"""
    INSERT INTO touched_units SELECT DISTINCT ON (experiment_unit) 'scale', 1, experiment_unit, id, true, variant, 'minted'
    FROM inferences WHERE {COUNTS_FOR_UNIT} AND id >= $1::uuid AND id < $2::uuid ORDER BY experiment_unit, id
"""
_SCAN = f"""
    SELECT variant, count(*), sum(tokens), sum(tokens * tokens), sum(latency), sum(latency * latency), sum(failed) FROM (
        SELECT variant, experiment_unit, sum(charged_output)::numeric AS tokens, round(avg(duration_us)) AS latency,
            max(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed
        FROM inferences WHERE {COUNTS_FOR_UNIT} GROUP BY variant, experiment_unit
    ) AS units GROUP BY variant ORDER BY variant
"""


async def fill(url: str, inferences: int) -> None:
    id = uuid7.mint()
    began_ms = int((datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)).timestamp() * 1000)
    definition: dict[str, Any] = {"arms": ["a", "b"], "unit": "episode", "control": "a", "holdout": 0, "layer": None, "slots": None}
    definition |= {"eligible": {}, "analysis": {"metrics": METRICS, "slices": ["tenant"], "planned_units": 100_000}}
    connection = await connect(url)
    try:
        await connection.execute(
            "INSERT INTO metrics (name, config) VALUES ('helpful', $1)",
            json.dumps({"kind": "boolean", "level": "inference", "optimize": "max"}),
        )
        await connection.execute(
            "INSERT INTO experiments (id, name, section, owner, salt, definition, started_at)"
            " VALUES ($1, 'scale', 'models', 'm', 's', $2, now() - interval '3 days')",
            *(id, json.dumps(definition)),
        )
        await connection.execute(
            "INSERT INTO experiment_versions (experiment_id, number, arms, enrolment, effective_at, author)"
            " VALUES ($1, 1, '{\"a\": 1, \"b\": 1}', 1, now(), 'test')",
            id,
        )
        episodes = inferences // PER_EPISODE
        await create_partitions(connection, {day_of(uuid7.lowest_at(began_ms + ms)) for ms in (0, episodes * 3)})
        for first in range(0, episodes, FILLED_AT_ONCE // PER_EPISODE):
            end = min(episodes, first + FILLED_AT_ONCE // PER_EPISODE)
            await connection.execute(_EPISODES, began_ms, first, end - 1, timeout=600)
            await connection.execute(_INFERENCES, PER_EPISODE, timeout=600)
            filled = [uuid7.lowest_at(began_ms + number * 3) for number in (first, end)]
            await connection.execute(_FEEDBACK, *filled, timeout=600)
            await connection.execute(_TOUCHES, *filled, timeout=600)
            await connection.execute("DROP TABLE episodes")
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def count_all(url: str) -> float:
    """Returns how long it took."""
    began = time.perf_counter()
    connection = await connect(url)
    try:
        while await take_in_touched(connection):
            pass
        while await connection.fetchval("SELECT EXISTS (SELECT FROM experiment_units WHERE due_at <= now())"):
            await count_due_units(connection)
    finally:
        await connection.close()
    return time.perf_counter() - began


async def test_results_over_a_million_inferences_are_exact_and_read_at_once(database: str) -> None:
    await check_results(database, 1_000_000, p95_s=0.5)


async def test_results_over_ten_million_inferences_are_exact_and_read_at_once() -> None:
    inferences, folder = 10_000_000, tempfile.gettempdir()  # on disk: it is more than memory holds
    needed = 1.2 * inferences * BYTES_PER_INFERENCE
    if shutil.disk_usage(folder).free < needed:
        pytest.skip(f"ten million inferences need {needed / 1e9:.0f} GB in {folder}")
    with running_postgres(folder) as server:
        await migrate(server.url)
        await check_results(server.url, inferences, p95_s=3)


async def check_results(database: str, inferences: int, *, p95_s: float) -> None:
    await fill(database, inferences)
    counting_s = await count_all(database)
    connection = await connect(database)
    try:
        scanned = [tuple(row.values()) for row in await connection.fetch(_SCAN, timeout=600)]
        kept = await connection.fetch(
            "SELECT arm, metric, n, y, yy, ones FROM experiment_sums WHERE slice = '' AND metric IN ('output_tokens', 'latency', 'error')"
        )
    finally:
        await connection.close()
    by_metric = {(row["arm"], row["metric"]): row for row in kept}
    for arm, units, tokens, tokens_squared, latency, latency_squared, failed in scanned:
        assert by_metric[arm, "output_tokens"]["n"] == units
        assert (by_metric[arm, "output_tokens"]["y"], by_metric[arm, "output_tokens"]["yy"]) == (tokens, tokens_squared)
        assert (by_metric[arm, "latency"]["y"], by_metric[arm, "latency"]["yy"]) == (latency, latency_squared)
        assert by_metric[arm, "error"]["ones"] == failed
    engine = create_database_engine(database)
    took: list[float] = []
    try:
        results = await _read(engine, None)
        for slice in (None, "tenant") * (READS // 2):
            began = time.perf_counter()
            assert (await _read(engine, slice)).arms == results.arms
            took.append(time.perf_counter() - began)
    finally:
        await engine.dispose()
    helpful = results.metrics[0].comparisons[0]
    assert helpful.verdict == "better" and helpful.interval is not None and helpful.interval.low is not None
    assert 0.08 < (helpful.difference or 0) < 0.12
    assert not results.sample_ratio.mismatch
    p95 = statistics.quantiles(took, n=20)[-1]
    assert p95 < p95_s, f"median {statistics.median(took):.3f} s, p95 {p95:.3f} s; counted in {counting_s:.0f} s"


async def _read(engine: AsyncEngine, slice: str | None) -> ExperimentResults:
    async with engine.connect() as connection:
        found = await find_experiment(connection, "scale")
        assert found is not None
        return await read_results(connection, found, slice=slice)
