"""An arm whose engine fails is stopped by the writer soon after the first windows have ended: the whole way from requests to the stop."""

import asyncio
from collections.abc import Generator

import pytest

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until

LEAD_S = 13
WINDOW_S = 60
EPISODES = 300
CONFIGURATION = """
[providers]
guarded-nowhere = { adapter = "openai", base_url = "http://127.0.0.1:9" }
[models]
guarded-good = { targets = [{ provider = "sandbox", model = "sandbox" }] }
guarded-bad = { targets = [{ provider = "guarded-nowhere", model = "sandbox" }] }
[models.guarded.experiment]
arms = { guarded-good = 1, guarded-bad = 1 }
control = "guarded-good"
[models.guarded.experiment.analysis]
metrics = ["error"]
guardrails = { error = 0.05 }
window_minutes = 1
"""


@pytest.fixture
def service() -> Generator[Service]:
    running = services.start(workers=1, experiment_check_s=1, retries=0, breaker_failures=1000)
    yield running
    services.stop(running)


async def test_arm_whose_engine_fails_is_stopped_soon_after_its_first_windows(service: Service) -> None:
    """The other arm answers for it, so callers notice nothing, and the units of the failing arm still count as its errors."""
    service.apply(CONFIGURATION)
    await asyncio.sleep(LEAD_S)
    async with service.client() as client, service.admin_client() as admin:
        body = {"model": "guarded", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
        for _ in range(EPISODES):
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text

        async def is_stopped() -> bool:
            settings = (await admin.get("/admin/v1/experiments/guarded")).json()["settings"]
            return settings["arms"]["guarded-bad"] == 0 and settings["stopped"] == ["guarded-bad"]

        await wait_until(is_stopped, WINDOW_S + GENEROUS_S, interval_s=0.5)
        acts = (await admin.get("/admin/v1/experiments/guarded/log")).json()["data"]
        assert {(act["kind"], act["arm"]) for act in acts} == {("stopped", "guarded-bad")}
        [test] = acts[0]["evidence"]["tests"]
        assert test["harm"] > 0.5 and test["fails_outright"]
