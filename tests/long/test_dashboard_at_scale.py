"""The dashboard reads everything within half a second, over ten million requests.

NARTHEX_TEST_ROWS makes it fewer, where the disk or the time is short. tests/browser/test_speed.py shows the views over a million.
"""

import asyncio
import datetime
import os
import statistics
import time
from collections.abc import Generator, Mapping
from typing import Any

import httpx2
import pytest

from tests.browser.history import fill
from tests.support.processes import service as services
from tests.support.processes.service import Service

ROWS, DAYS, CONTENT, CONVERSATIONS = int(os.environ.get("NARTHEX_TEST_ROWS", "10000000")), 30, 10_000, 20
ROUNDS = 20
MAX_MS = 500


@pytest.fixture(scope="module")
def large() -> Generator[Service]:
    running = services.start()
    try:
        asyncio.run(fill(running, rows=ROWS, days=DAYS, conversations=CONVERSATIONS, content=CONTENT))
        yield running
    finally:
        services.stop(running)


def overview(since: str, until: str, before: str, time_zone: str = "UTC") -> dict[str, Any]:
    now, earlier = {"since": since, "until": until, "time_zone": time_zone}, {"since": before, "until": since, "time_zone": time_zone}
    return {
        "all": {**now, "quantiles": True},
        "earlier": {**earlier, "quantiles": True},
        "overTime": {**now, "interval": "day", "quantiles": True},
        "outcomes": {**now, "interval": "day", "group_by": "outcome", "limit": 8},
        "models": {**now, "group_by": "model", "limit": 8, "quantiles": True},
        "failing": {**now, "group_by": "model", "order_by": "failed", "limit": 5},
        "failedBefore": {**earlier, "group_by": "model", "order_by": "failed", "limit": 20},
    }


def reads(since: str, until: str, before: str, inference: str) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Paths and parameters by what reads them; a body of `questions` is posted."""
    time = {"since": since, "until": until}
    day = (datetime.datetime.fromisoformat(until) - datetime.timedelta(days=1)).isoformat()
    return {
        "overview of 30 days": ("/analytics/batch", {"questions": overview(since, until, before)}),
        "overview of 30 days in a time zone": ("/analytics/batch", {"questions": overview(since, until, before, "Europe/Berlin")}),
        "overview of a day": ("/analytics/batch", {"questions": overview(day, until, since)}),
        "requests": ("/inferences", {**time, "limit": 50, "preview": "true"}),
        "requests that failed, of a team": (
            "/inferences",
            {**time, "limit": 50, "outcome": "failed", "team": "team-20", "preview": "true"},
        ),
        "requests of a user": ("/inferences", {**time, "limit": 50, "end_user": "user-777", "preview": "true"}),
        "slowest requests of a week": ("/inferences", {"since": day, "sort": "-duration_us", "limit": 50}),
        "how many requests": ("/inferences/count", time),
        "how many failed, of a user": ("/inferences/count", {**time, "end_user": "user-777", "outcome": "failed"}),
        "a request": (f"/inferences/{inference}", {"content": "messages"}),
        "conversations": ("/episodes", {**time, "limit": 50, "preview": "true"}),
        "conversations with a failure": ("/episodes", {**time, "limit": 50, "outcome": "failed", "preview": "true"}),
        "refusals": ("/refusals", {**time, "limit": 50}),
        "reasons of refusals": ("/analytics", {**time, "outcome": "refused", "group_by": "error,rule", "order_by": "refused", "limit": 8}),
        "keys with their use": ("/keys", {"limit": 50, "state": "valid", "usage_days": 30}),
        "cost by team": ("/analytics", {**time, "group_by": "team", "order_by": "cost_microusd", "limit": 50}),
        "cost by key, by day": ("/analytics", {**time, "interval": "day", "group_by": "key", "order_by": "cost_microusd", "limit": 5}),
        "cost by end user": ("/analytics", {**time, "group_by": "end_user", "order_by": "cost_microusd", "limit": 50}),
        "cost by tenant": ("/analytics", {**time, "group_by": "tag:tenant", "order_by": "cost_microusd", "limit": 50}),
        "a model over time": ("/analytics", {**time, "interval": "day", "model": "model-1", "quantiles": "true"}),
        "budgets": ("/budgets", {"limit": 200}),
        "experiments": ("/experiments", {"limit": 100, "verdicts": "true"}),
        "audit": ("/audit", {"limit": 50}),
    }


async def p95_ms(admin: httpx2.AsyncClient, path: str, arguments: Mapping[str, Any]) -> tuple[int, int]:
    times: list[float] = []
    for _ in range(ROUNDS + 1):  # the first one is cold
        begin = time.monotonic()
        if "questions" in arguments:
            answer = await admin.post(f"/admin/v1{path}", json=arguments)
        else:
            answer = await admin.get(f"/admin/v1{path}", params=arguments)
        times.append(time.monotonic() - begin)
        assert answer.status_code == 200, answer.text
    warm = sorted(times[1:])
    return round(1000 * statistics.median(warm)), round(1000 * warm[int(ROUNDS * 0.95) - 1])


async def test_everything_that_a_view_reads_is_there_within_half_a_second(large: Service) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    since, before = now - datetime.timedelta(days=DAYS), now - datetime.timedelta(days=2 * DAYS)
    async with large.admin_client() as admin:
        newest = (await admin.get("/admin/v1/inferences", params={"limit": 100, "team": "team-0", "outcome": "answered"})).json()["data"]
        inference = next(each["id"] for each in newest if not each["streamed"])  # it has content
        times = {
            name: await p95_ms(admin, path, arguments)
            for name, (path, arguments) in reads(since.isoformat(), now.isoformat(), before.isoformat(), inference).items()
        }
    report = "\n".join(f"{median:6} {p95:6}  {name}" for name, (median, p95) in times.items())
    assert {name for name, (_, p95) in times.items() if p95 > MAX_MS} == set(), f"median and p95 in ms over {ROWS:,} requests:\n{report}"
