"""A worker that is cut off from Postgres: it serves by the newest version it knows, and enrols nobody whom another version may be for.

Postgres itself goes on, and the weights change there meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from app.domain.experiments import EXPERIMENT_CLOCK_TOLERANCE_MS, EXPERIMENT_LEAD_MS
from tests.support.processes import service as services
from tests.support.processes.postgres import database, postgres
from tests.support.processes.postgres_proxy import PostgresProxy, proxy_to
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

__all__ = ["database", "postgres"]

HI: Any = [{"role": "user", "content": "Hello!"}]
# So unequal that chance has no part in which arm an episode gets.
CONFIGURATION = """
[models]
one.targets = [{{ provider = "sandbox", model = "sandbox" }}]
two.targets = [{{ provider = "sandbox", model = "sandbox" }}]
[models.split.experiment]
arms = {{ one = {one}, two = {two} }}
control = "one"
"""
TO_TWO = CONFIGURATION.format(one=0.000001, two=1_000_000)
TO_ONE = CONFIGURATION.format(one=1_000_000, two=0.000001)


@pytest.fixture
async def proxy(database: str) -> AsyncGenerator[PostgresProxy]:
    async with proxy_to(database) as proxy:
        yield proxy


@pytest.fixture
async def service(proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Service]:
    monkeypatch.setenv("DATABASE_URL", proxy.database_url)
    service = await asyncio.to_thread(services.start, workers=1)
    yield service
    proxy.restore()
    await asyncio.to_thread(services.stop, service)


async def test_worker_without_postgres_serves_by_the_newest_version_it_knows_and_enrols_nobody_late(
    service: Service, proxy: PostgresProxy, database: str
) -> None:
    direct = replace(service, environment={**service.environment, "DATABASE_URL": database})
    await asyncio.to_thread(direct.apply, TO_TWO)
    async with service.client() as client:

        async def chat(**headers: str) -> httpx2.Headers:
            answer = await client.post("/v1/chat/completions", json={"model": "split", "messages": HI}, headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.headers

        async def has_begun() -> bool:
            return "x-narthex-not-enrolled" not in await chat()

        await wait_until(has_begun, 120, interval_s=0.2)
        before = await chat()
        proxy.cut()
        cut_ms = time.time_ns() // 1_000_000
        await asyncio.to_thread(direct.apply, TO_ONE)
        meanwhile: list[httpx2.Headers] = []

        async def is_late() -> bool:
            meanwhile.append(await chat())
            return meanwhile[-1].get("x-narthex-not-enrolled") == "late"

        await wait_until(is_late, 120, interval_s=0.1)
        for headers in meanwhile:
            assert headers["x-narthex-experiment"] == "split@1"
            assert headers["x-narthex-variant"] == headers["x-narthex-served-variant"] == "two"
            allowed_ms = EXPERIMENT_LEAD_MS - EXPERIMENT_CLOCK_TOLERANCE_MS
            assert headers.get("x-narthex-not-enrolled") == "late" or _born_ms(headers) <= cut_ms + allowed_ms
        again = await chat(**{"x-narthex-episode-id": before["x-narthex-episode-id"]})
        assert (again["x-narthex-variant"], again["x-narthex-experiment"]) == ("two", "split@1")
        assert "x-narthex-not-enrolled" not in again, "it began while the worker knew the newest version"
        late = await chat()
        assert late["x-narthex-not-enrolled"] == "late", "as every episode from then on"
        proxy.restore()

        async def knows_the_second_version() -> bool:
            nonlocal newest
            newest = await chat()
            return newest["x-narthex-experiment"] == "split@2" and "x-narthex-not-enrolled" not in newest

        newest = late
        await wait_until(knows_the_second_version, 120, interval_s=0.2)
        assert newest["x-narthex-variant"] == "one"
    for headers, reason in ((before, None), (again, None), (late, "late")):
        record = await service.wait_for_record(headers["x-narthex-inference-id"])
        expected = (headers["x-narthex-variant"], 1, headers.get("x-narthex-not-enrolled"))
        assert (record["variant"], record["experiment_version"], record["not_enrolled"]) == expected
        assert record["not_enrolled"] == reason


def _born_ms(headers: httpx2.Headers) -> int:
    return int(headers["x-narthex-episode-id"].replace("-", "")[:12], 16)
