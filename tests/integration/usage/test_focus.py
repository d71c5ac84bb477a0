"""Costs in the form of FOCUS: each token in one row with its price, and sums that are those of the records."""

import csv
import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.billing.cost import cost_microusd
from app.billing.cost_lines import walk_cost_lines
from app.billing.focus import COLUMNS, write_focus
from app.domain import uuid7
from app.domain.exchange import ChargedAttempt
from app.domain.prices import GpuPrice, Price, PriceStep
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.database import connect, transaction
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.processes.writer_process import drain
from tests.support.spooled_exchanges import spool_exchange

TODAY = datetime.datetime.now(datetime.UTC).date()
DAYS = [TODAY - datetime.timedelta(days=back) for back in (2, 1)]
TOKENS = Price(
    provider="gpu",
    model="tokens",
    input=0.15,
    output=0.6,
    cached_input=0.075,
    cache_write=0.2,
    cache_write_hour=0.3,
    audio_input=1.1,
    tiers={"batch": 0.5},
    steps=(PriceStep(above=1000, input=0.3, output=0.9, cached_input=0.1),),
)
TIMED = Price("gpu", "timed", gpu=GpuPrice(2.5, 2, 8))
USAGES = [
    Usage(100, 7),
    Usage(101, 3, cached=50),
    Usage(333, 1, cached=100, cache_written=60, cache_written_hour=20, audio_input=9),
    Usage(1001, 13, cached=1000),
    Usage(999, 13, tier="batch"),
    Usage(50, 5, billed_input=3, billed_output=2),
]


@pytest.fixture
async def settings(tmp_path: Path, database: str) -> Settings:
    made = Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S)
    connection = await connect(database)
    try:
        for price in (TOKENS, TIMED):
            fields = {"provider": price.provider, "model": price.model, "input": price.input, "output": price.output}
            for name in ("cached_input", "cache_write", "cache_write_hour", "audio_input"):
                fields[name] = getattr(price, name)
            fields |= {"tiers": dict(price.tiers), "steps": [], "gpu": None}
            if price.steps:
                fields["steps"] = [{"above": 1000, "input": 0.3, "output": 0.9, "cached_input": 0.1}]
            if price.gpu is not None:
                fields["gpu"] = {"usd_per_hour": 2.5, "gpus": 2, "concurrency": 8}
            query = "INSERT INTO prices (provider, model, since, config) VALUES ($1, $2, '', $3::jsonb)"
            await connection.execute(query, price.provider, price.model, json.dumps(fields))
    finally:
        await connection.close()
    return made


def spool_all(settings: Settings) -> None:
    spool = Spool(settings.home / "spool", settings)
    for day in DAYS:
        at_us = int(datetime.datetime.combine(day, datetime.time(23, 59), datetime.UTC).timestamp() * 1_000_000)
        for number, usage in enumerate(USAGES * 3):
            more: Any = {"charge_basis": "reported", "charged_input": usage.input, "charged_output": usage.output}
            cost = cost_microusd(usage, TOKENS)
            more |= {"served_model": "tokens", "usage": usage, "cost_microusd": cost, "price": "gpu/tokens/always", "served_us": 5}
            if number == 0:  # two attempts, one at another model
                timed = cost_microusd(Usage(1, 1), TIMED, 1_234_567)
                assert cost is not None and timed is not None
                charges = (
                    ChargedAttempt("gpu", "timed", Usage(1, 1), "reserved", timed, "gpu/timed/always", None, 1_234_567),
                    ChargedAttempt("gpu", "tokens", usage, "reported", cost, "gpu/tokens/always", None, 5),
                )
                more |= {"charges": charges, "cost_microusd": cost + timed}
            spool_exchange(spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, **more)
        spool_exchange(spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, cost_microusd=None, served_model="unpriced")
        spool_exchange(
            spool, b"", b"", id=uuid7.mint(at_us), received_us=at_us, cost_microusd=77, price="gpu/gone/always", served_model="gone"
        )
    spool.close()


async def export(database: str) -> list[dict[str, str]]:
    async with transaction(database) as connection:
        written = b"".join([piece async for piece in write_focus(walk_cost_lines(connection, DAYS[0], DAYS[1]))])
    return list(csv.DictReader(io.StringIO(written.decode())))


async def test_sums_are_those_of_the_records_and_prices_explain_them(settings: Settings, postgres: Postgres):
    spool_all(settings)
    await drain(settings)
    rows = await export(settings.database_url)
    connection = await connect(settings.database_url)
    try:
        for day in DAYS:
            of_day = [row for row in rows if row["ChargePeriodStart"] == f"{day}T00:00:00Z"]
            recorded = await connection.fetchval(
                "SELECT sum(cost_microusd)::bigint FROM inferences WHERE (received_at AT TIME ZONE 'UTC')::date = $1", day
            )
            assert sum(Decimal(row["BilledCost"]) for row in of_day) * 1_000_000 == recorded
            assert {row["SkuMeter"] for row in of_day} == {
                *("input", "cached_input", "cache_write", "cache_write_hour", "audio_input", "output", "gpu_time", "other")
            }
    finally:
        await connection.close()
    for row in rows:
        assert (row["ChargeCategory"], row["BillingCurrency"], row["ServiceSubcategory"]) == ("Usage", "USD", "Generative AI")
        assert row["ProviderName"] == row["ServiceProviderName"] == "gpu"
        if row["SkuMeter"] == "other":
            assert (row["BilledCost"], row["ListUnitPrice"], row["ServiceName"]) == ("0.000077", "", "gone")
            continue
        listed, billed = Decimal(row["ListCost"]), Decimal(row["BilledCost"])
        assert abs(Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"]) - listed) < Decimal("1e-12")
        assert abs(listed - billed) <= (int(row["x_Requests"]) + 8) * Decimal("0.000001")
    long = [row for row in rows if json.loads(row["SkuPriceDetails"]).get("step") == 1 and row["SkuMeter"] == "cached_input"]
    assert [(row["PricingQuantity"], row["ListUnitPrice"]) for row in long] == [("3000", "0.0000001")] * 2
    batch = [row for row in rows if json.loads(row["SkuPriceDetails"]).get("tier") == "batch" and row["SkuMeter"] == "input"]
    assert [(row["PricingQuantity"], row["ListUnitPrice"]) for row in batch] == [("2997", "0.000000075")] * 2
    timed = [row for row in rows if row["SkuMeter"] == "gpu_time"]
    assert [(row["PricingUnit"], row["PricingQuantity"]) for row in timed] == [("Seconds", "1.234567")] * 2
    tokens = sum(int(row["PricingQuantity"]) for row in rows if row["PricingUnit"] == "Tokens" and row["ServiceName"] == "tokens")
    assert tokens == 2 * 3 * sum((usage.input or 0) + (usage.output or 0) if usage.billed_input is None else 3 + 2 for usage in USAGES), (
        "each token once"
    )


async def test_day_is_split_by_the_price_of_its_time(settings: Settings, postgres: Postgres):
    spool_all(settings)
    await drain(settings)
    before = await export(settings.database_url)
    connection = await connect(settings.database_url)
    try:
        config = await connection.fetchval("SELECT config FROM prices WHERE model = 'tokens'")
        await connection.execute(
            "INSERT INTO configuration_versions (version, author_kind, author_name, via) VALUES (9, 'cli', 'x', 'cli')"
        )
        query = "INSERT INTO configuration_changes (version, section, name, before, after) VALUES (9, 'prices', 'x', $1::jsonb, $2::jsonb)"
        dearer = json.dumps({**json.loads(config), "input": 99.0})
        await connection.execute(query, config, dearer)
        await connection.execute("UPDATE prices SET config = $1::jsonb WHERE model = 'tokens'", dearer)
    finally:
        await connection.close()
    assert await export(settings.database_url) == before


async def test_export_is_the_same_over_rest_and_by_command(service: Service, tmp_path: Path):
    since = (TODAY - datetime.timedelta(days=1)).isoformat()
    async with service.admin_client() as admin:
        answer = await admin.get("/admin/v1/costs/focus", params={"since": since, "until": TODAY.isoformat()})
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/csv")
        assert answer.text.splitlines()[0] == ",".join(COLUMNS)
        for bad in ({}, {"since": "2026-01-01T05:00Z"}, {"since": "2020-01-01"}, {"since": "2026-02-01", "until": "2026-01-01"}):
            assert (await admin.get("/admin/v1/costs/focus", params=bad)).status_code == 400, bad
    done = service.run("costs", "focus", "--since", since, "--until", TODAY.isoformat(), "-o", str(tmp_path / "x.csv"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.csv").read_bytes() == answer.content
    refused = service.run("costs", "focus", "--since", TODAY.isoformat(), "--until", since)
    assert refused.returncode == 2 and "before --until" in refused.stderr
