"""Invoices of four providers beside recorded costs: what agrees has no difference, and what does not is named with it."""

import csv
import datetime
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.billing.cost import cost_microusd
from app.billing.invoices import InvoiceFormat
from app.billing.reconcile import ReconciledLine, Reconciliation, parse_invoice, reconcile
from app.domain import uuid7
from app.domain.prices import Price
from app.domain.routing import ProviderConfig
from app.domain.snapshot import Snapshot
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.database import connect, transaction
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.processes.writer_process import drain
from tests.support.spooled_exchanges import spool_exchange

DAY = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=1)
FORMATS: tuple[InvoiceFormat, ...] = ("openai", "anthropic", "bedrock", "openrouter")
# A million of each: 2 dollars plain, 0.2 cached, 10 of output.
USAGE = Usage(1_000_000, 100_000, cached=400_000)
MODELS = {"openai": "gpt-5", "anthropic": "claude-haiku-4-5", "bedrock": "us.anthropic.claude-haiku-4-5", "openrouter": "vendor/one"}


@pytest.fixture
async def settings(tmp_path: Path, database: str, postgres: Postgres) -> Settings:
    """Ten requests at each provider, of yesterday, and one of a model without a price."""
    made = Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S)
    spool = Spool(made.home / "spool", made)
    connection = await connect(database)
    for format in FORMATS:
        config = {"provider": f"my-{format}", "model": MODELS[format], "input": 2.0, "output": 10.0, "cached_input": 0.2}
        query = "INSERT INTO prices (provider, model, since, config) VALUES ($1, $2, '', $3::jsonb)"
        await connection.execute(query, config["provider"], config["model"], json.dumps(config))
        cost = cost_microusd(USAGE, Price("p", "m", input=2.0, output=10.0, cached_input=0.2))
        for number in range(11):
            at_us = int(datetime.datetime.combine(DAY, datetime.time(number), datetime.UTC).timestamp() * 1_000_000)
            is_priced = number < 10
            more: Any = {
                **{"id": uuid7.mint(at_us), "received_us": at_us, "charge_basis": "reported", "usage": USAGE},
                **{"charged_input": USAGE.input, "charged_output": USAGE.output, "served_provider": f"my-{format}"},
                "served_model": MODELS[format] if is_priced else "unpriced",
                "reported_model": f"{MODELS[format]}-2025-08-07" if is_priced else None,
                "cost_microusd": cost if is_priced else None,
                "price": f"my-{format}/{MODELS[format].replace('/', '%2F')}/always" if is_priced else None,
            }
            spool_exchange(spool, b"", b"", **more)
    await connection.close()
    spool.close()
    await drain(made)
    return made


def snapshot() -> Snapshot:
    return build_snapshot(1, {f"my-{format}": ProviderConfig(format) for format in FORMATS}, {})


def export(*rows: dict[str, Any]) -> bytes:
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue().encode()


def openai_row(kind: str, usd: str) -> dict[str, Any]:
    begin = int(datetime.datetime.combine(DAY, datetime.time(), datetime.UTC).timestamp())
    return {"start_time": begin, "amount_value": usd, "amount_currency": "usd", "line_item": f"gpt-5-2025-08-07, {kind}"}


def bedrock_row(kind: str, amount: float, usd: str) -> dict[str, Any]:
    return {
        "line_item_usage_start_date": f"{DAY} 05:00:00",
        "line_item_product_code": "AmazonBedrock",
        "line_item_usage_type": f"USE1-Claude4.5Haiku-{kind}",
        "line_item_usage_amount": amount,
        "line_item_unblended_cost": usd,
        "pricing_unit": "1K tokens",
        "line_item_resource_id": "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-2025-08-07",
    }


def anthropic_row(kind: str, cents: str) -> dict[str, Any]:
    return {"starting_at": f"{DAY}T00:00:00Z", "model": "claude-haiku-4-5-20251001", "token_type": kind, "amount": cents}


EXPORTS: dict[InvoiceFormat, bytes] = {
    "openai": export(openai_row("input", "12"), openai_row("cached input", "0.8"), openai_row("output", "10")),
    "anthropic": export(
        anthropic_row("uncached_input_tokens", "1200"),
        anthropic_row("cache_read_input_tokens", "80"),
        anthropic_row("output_tokens", "1000"),
    ),
    "bedrock": export(
        bedrock_row("input-tokens", 6_000, "12"),
        bedrock_row("cache-read-input-token-count", 4_000, "0.8"),
        bedrock_row("output-tokens", 1_000, "10"),
    ),
    "openrouter": export(
        {
            **{"date": str(DAY), "model_permaslug": "vendor/one-2025-08-07", "usage": "22.8"},
            **{"prompt_tokens": 10_000_000, "cached_tokens": 4_000_000, "completion_tokens": 1_000_000},
        }
    ),
}


async def run(settings: Settings, format: InvoiceFormat, raw: bytes) -> Reconciliation:
    async with transaction(settings.database_url) as connection:
        return await reconcile(connection, snapshot(), parse_invoice(raw, format, {}), format)


def differing(lines: Sequence[ReconciledLine]) -> list[ReconciledLine]:
    """Returns the lines that differ, without the model of unknown cost, which no invoice here has."""
    return [line for line in lines if line.model != "unpriced" and (line.token_difference or line.microusd_difference)]


@pytest.mark.parametrize("format", FORMATS)
async def test_invoice_that_agrees_has_no_difference(settings: Settings, format: InvoiceFormat):
    done = await run(settings, format, EXPORTS[format])
    assert differing(done.data) == []
    assert (done.our_microusd, done.their_microusd, done.providers, done.unpriced) == (22_800_000, 22_800_000, [f"my-{format}"], 1)
    lines = {line.kind: line for line in done.data if line.model != "unpriced"}
    assert set(lines) == {"input", "cached_input", "output"} | ({"all"} if format == "openrouter" else set())
    if format != "openrouter":
        assert [lines[kind].our_microusd for kind in ("input", "cached_input", "output")] == [12_000_000, 800_000, 10_000_000]
    assert lines["cached_input"].our_tokens == 4_000_000
    assert lines["cached_input"].their_tokens == (4_000_000 if format in ("bedrock", "openrouter") else None)
    unpriced = {line.kind: line.our_tokens for line in done.data if line.model == "unpriced"}
    assert unpriced["input"] == 600_000 and unpriced["output"] == 100_000


async def test_what_differs_is_named_with_its_difference(settings: Settings):
    changed = EXPORTS["bedrock"].replace(b"4000,0.8", b"4001,0.8002")
    (line,) = differing((await run(settings, "bedrock", changed)).data)
    assert (line.day, line.model, line.kind) == (str(DAY), "anthropic.claude-haiku-4-5", "cached_input")
    assert (line.token_difference, line.microusd_difference) == (-1000, -200)
    missing = export(openai_row("input", "12"), openai_row("output", "10"))
    (line,) = differing((await run(settings, "openai", missing)).data)
    assert (line.kind, line.our_microusd, line.their_microusd, line.microusd_difference) == ("cached_input", 800_000, 0, 800_000)


async def test_reconciliation_over_rest_and_by_command(service: Service, tmp_path: Path, client: httpx2.AsyncClient):
    name = f"billed-{time.time_ns()}"
    service.apply(f'[providers.{name}]\nadapter = "openai"\nbase_url = "http://127.0.0.1:9"')
    (tmp_path / "costs.csv").write_bytes(EXPORTS["openai"])
    async with service.admin_client() as admin:
        query = {"format": "openai", "provider": name, "models": "gpt-5-2025-08-07=renamed"}
        headers = {"content-type": "text/csv"}
        answer = await admin.post("/admin/v1/costs/reconcile", params=query, content=EXPORTS["openai"], headers=headers)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert (body["their_microusd"], body["our_microusd"], body["providers"]) == (22_800_000, 0, [name])
        assert {(line["model"], line["kind"]) for line in body["data"]} == {
            ("renamed", kind) for kind in ("input", "cached_input", "output")
        }
        for bad in ({"format": "azure"}, {"format": "openai", "provider": "nobody"}, {"format": "bedrock"}, {**query, "models": "x"}):
            refused = await admin.post("/admin/v1/costs/reconcile", params=bad, content=EXPORTS["openai"], headers=headers)
            assert refused.status_code == 400, (bad, refused.text)
    done = service.run(
        *("costs", "reconcile", str(tmp_path / "costs.csv"), "--format", "openai"),
        *("--provider", name, "--map", "gpt-5-2025-08-07=renamed", "--json"),
    )
    assert done.returncode == 1 and json.loads(done.stdout) == body, "a difference is exit status 1"
    shown = service.run("costs", "reconcile", str(tmp_path / "costs.csv"), "--format", "openai", "--provider", name)
    assert shown.returncode == 1 and "-12.000000" in shown.stdout and "22.800000 US dollars" in shown.stdout
    wrong = service.run("costs", "reconcile", str(tmp_path / "costs.csv"), "--format", "bedrock")
    assert wrong.returncode == 1 and "Cost and Usage Report" in wrong.stderr
