"""Costs computed again when prices change: every sum follows exactly once, the history is kept, and nothing happens twice."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.billing.recompute import recompute_all, recompute_chunk
from app.domain import uuid7
from app.domain.exchange import ChargedAttempt
from app.recording.spool.spool import Spool
from app.recording.writes.cost_changes import InferenceRange
from app.settings import Settings
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import connect, transaction
from providers.canonical.chat import Usage
from tests.integration.keys.test_caller_records import wait_for_own_record
from tests.integration.usage.test_cost_shown import USAGE, answers_with
from tests.integration.usage.test_rollups import NOW, random_exchanges
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.processes.writer_process import drain
from tests.support.processes.writer_process import fetch as fetch_rows
from tests.support.rollup_rows import assert_rollups_equal_a_scan
from tests.support.scripted_engine import ScriptedEngine
from tests.support.spooled_exchanges import spool_exchange

ALL = InferenceRange(NOW.replace(year=NOW.year - 1), NOW.replace(year=NOW.year + 1))
SUMS_OF_USAGE = "SELECT sum(cost_microusd)::bigint AS cost, sum(unpriced)::bigint AS unpriced, sum(requests)::bigint AS requests FROM usage"
SUMS_OF_RECORDS = """
    SELECT coalesce(sum(cost_microusd), 0)::bigint AS cost, count(*) FILTER (WHERE cost_microusd IS NULL) AS unpriced, count(*) AS requests
    FROM inferences
"""


async def fetch(database: str, query: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await fetch_rows(database, query)]


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(
        home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_rows=50, writer_batch_ms=5.0, keep_minutes_days=0
    )


async def set_price(database: str, usd: float, **more: Any) -> None:
    price = {"provider": "gpu", "model": "Qwen/Qwen3-4B", "input": usd, "output": usd, **more}
    connection = await connect(database)
    try:
        await connection.execute("DELETE FROM prices")
        query = "INSERT INTO prices (provider, model, since, config) VALUES ($1, $2, '', $3::jsonb)"
        await connection.execute(query, price["provider"], price["model"], json.dumps(price))
    finally:
        await connection.close()


def spool_priced(settings: Settings, count: int, seed: int) -> None:
    """Inferences as they are at a dollar for a million tokens; a quarter of them without a price, one in ten of two attempts."""
    spool, exchanges = Spool(settings.home / "spool", settings), random_exchanges(seed, 3)
    for number in range(count):
        fields = next(exchanges)
        usage = fields["usage"]
        cost = None if number % 4 == 0 else (usage.input or 0) + (usage.output or 0)
        fields.update(cost_microusd=cost, price=None if cost is None else "gpu/old/always", served_us=1000, charge_basis="reported")
        fields.update(charged_input=usage.input, charged_output=usage.output)
        if number % 10 == 0:
            attempt = ChargedAttempt("gpu", "Qwen/Qwen3-4B", usage, "received", cost, fields["price"], duration_us=5)
            fields.update(charges=(attempt, attempt), cost_microusd=None if cost is None else 2 * cost, charge_basis="received")
        spool_exchange(spool, b"", b"", **fields)
    spool.close()


async def assert_sums_equal_the_records(settings: Settings) -> dict[str, int]:
    await assert_rollups_equal_a_scan(settings.database_url)
    usage = await fetch(settings.database_url, SUMS_OF_USAGE)
    records = await fetch(settings.database_url, SUMS_OF_RECORDS)
    assert usage == records
    return records[0]


async def test_every_sum_equals_the_records_after_costs_were_computed_again_in_chunks(settings: Settings, postgres: Postgres):
    url = settings.database_url
    spool_priced(settings, 300, 7)
    await drain(settings)
    before = await assert_sums_equal_the_records(settings)
    await set_price(url, 3.0)

    dry = await recompute_all(url, SYSTEM, ALL, dry_run=True, chunk=37)
    assert dry.matched == 300 and dry.changed > 250 and dry.after_microusd > 3 * dry.before_microusd
    assert await assert_sums_equal_the_records(settings) == before and not await fetch(url, "SELECT 1 FROM cost_changes")

    # As a run that was killed after two chunks.
    inferences = ALL
    for _ in range(2):
        async with transaction(url) as connection:
            chunk = await recompute_chunk(connection, SYSTEM, uuid7.mint(), inferences, 50)
        inferences = InferenceRange(ALL.since, ALL.until, chunk.next)
    await assert_sums_equal_the_records(settings)

    # Two at once, and the writer with late records between them.
    spool_priced(settings, 100, 8)
    both = await asyncio.gather(recompute_all(url, SYSTEM, ALL, chunk=41), recompute_all(url, SYSTEM, ALL, chunk=53), drain(settings))
    assert both[0].matched >= 300
    await recompute_all(url, SYSTEM, ALL)
    after = await assert_sums_equal_the_records(settings)
    assert after["unpriced"] == 0 and after["requests"] == 400
    wrong = await fetch(
        url,
        """
        SELECT id FROM inferences WHERE price <> 'gpu/Qwen%2FQwen3-4B/always' OR cost_microusd <>
            3 * (input_tokens + output_tokens) * CASE WHEN charges IS NULL THEN 1 ELSE 2 END
        """,
    )
    assert wrong == []
    again = await recompute_all(url, SYSTEM, ALL)
    assert (again.changed, again.before_microusd) == (0, after["cost"])
    (history,) = await fetch(url, "SELECT count(*) AS changes, count(DISTINCT inference_id) AS inferences FROM cost_changes")
    assert history["changes"] == history["inferences"] == 400, "each changed once, whoever came first"


async def test_lower_prices_lower_every_sum(settings: Settings, postgres: Postgres):
    spool_priced(settings, 80, 9)
    await drain(settings)
    await set_price(settings.database_url, 0.0)
    await recompute_all(settings.database_url, SYSTEM, ALL)
    for table in ("usage", "rollups_by_minute", "rollups_by_day", "subject_rollups_by_hour"):
        query = f"SELECT sum(cost_microusd)::bigint AS cost, sum(unpriced)::bigint AS unpriced FROM {table}"
        (row,) = await fetch(settings.database_url, query)
        assert row == {"cost": 0, "unpriced": 0}, table


async def test_cached_tokens_and_time_are_priced_as_at_first(settings: Settings, postgres: Postgres):
    spool = Spool(settings.home / "spool", settings)
    more: Any = {"charge_basis": "reported", "served_us": 2_000_000, "charged_input": 100, "charged_output": 10}
    cached = Usage(100, 10, cached=60, cache_written=20, cache_written_hour=5)
    spool_exchange(spool, b"", b"", usage=cached, cost_microusd=None, **more)
    spool.close()
    await drain(settings)
    await set_price(settings.database_url, 10.0, cached_input=1.0, cache_write=20.0, cache_write_hour=40.0)
    assert (await recompute_all(settings.database_url, SYSTEM, ALL)).after_microusd == 20 * 10 + 60 * 1 + 15 * 20 + 5 * 40 + 10 * 10
    await set_price(settings.database_url, 0.0, input=None, output=None, gpu={"usd_per_hour": 3600.0})
    assert (await recompute_all(settings.database_url, SYSTEM, ALL)).after_microusd == 2_000_000
    connection = await connect(settings.database_url)
    await connection.execute("DELETE FROM prices")
    await connection.close()
    kept = await recompute_all(settings.database_url, SYSTEM, ALL)
    assert (kept.skipped, kept.changed, kept.after_microusd) == (1, 0, 2_000_000), "without a price a cost is kept"


async def test_corrected_price_reaches_callers_usage_history_and_audit(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    name = f"corrected-{time.time_ns()}"
    service.apply(f"""
        [providers.{name}]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.{name}]
        targets = [{{ provider = "{name}", model = "two" }}]
    """)
    engine.script = answers_with(USAGE)
    answer = await client.post("/v1/chat/completions", json={"model": name, "messages": [{"role": "user", "content": "Hi"}]})
    own = await wait_for_own_record(client, answer.headers["x-narthex-inference-id"])
    assert own["cost_microusd"] is None
    async with service.admin_client() as admin:
        created = await admin.post("/admin/v1/prices", json={"provider": name, "model": "two", "input": 1000, "output": 1000})
        assert created.status_code == 201, created.text
        asked: dict[str, Any] = {"since": own["received_at"], "model": name, "provider": name, "limit": 1000}
        dry = await admin.post("/admin/v1/costs/recompute?dry_run=true", json=asked)
        assert dry.status_code == 200, dry.text
        done = (await admin.post("/admin/v1/costs/recompute", json=asked)).json()
        cost = (own["input_tokens"] + own["output_tokens"]) * 1000
        assert (done["matched"], done["changed"], done["after_microusd"], done["next"]) == (1, 1, cost, None)
        shown = await wait_for_own_record(client, own["id"])
        assert (shown["cost_microusd"], shown["price"]) == (cost, f"{name}/two/always")
        usage = (await client.get("/v1/usage?group_by=model")).json()["data"]
        assert [(row["cost_usd"], row["unpriced"]) for row in usage if row["model"] == name] == [(cost / 1e6, 0)]
        (change,) = (await admin.get("/admin/v1/costs/changes", params={"inference": own["id"]})).json()["data"]
        assert (change["old_cost_microusd"], change["new_cost_microusd"], change["run"]) == (None, cost, done["run"])
        assert (await admin.get("/admin/v1/costs/changes", params={"run": done["run"]})).json()["data"] == [change]
        events = (await admin.get("/admin/v1/audit", params={"resource": "cost"})).json()["data"]
        assert events[0]["name"] == done["run"] and events[0]["after"]["changed"] == 1
        for bad in ({"since": "2030-01-01", "until": "2020-01-01"}, {**asked, "after": uuid7.mint()}, {**asked, "limit": 0}, {}):
            assert (await admin.post("/admin/v1/costs/recompute", json=bad)).status_code in (400, 422), bad
    repeated = service.run("prices", "recompute", "--since", "30d", "--model", name, "--json")
    assert repeated.returncode == 0, repeated.stderr
    assert json.loads(repeated.stdout)["changed"] == 0 and json.loads(repeated.stdout)["matched"] == 1
