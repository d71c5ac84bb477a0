"""A hundred thousand requests to the sandbox, as an experiment with known effects: each is found as large as it is, and no other."""

import asyncio
import random
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

REQUESTS = 100_000
AT_ONCE = 32
CHAT = "/v1/chat/completions"
RESULTS = "/admin/v1/experiments/effects/results"
# `longer` has more input tokens, `same` is the control again, and many requests of `flaky` fail: callers see how many.
CONFIGURATION = """
[models]
effects-flaky = { targets = [{ provider = "sandbox", model = "sandbox-flaky" }], retries = 0 }
[functions.effects]
default = "plain"
[functions.effects.variants]
plain = { model = "sandbox" }
same = { model = "sandbox" }
longer = { model = "sandbox", system_template = "Answer in one short and friendly sentence." }
flaky = { model = "effects-flaky" }
[functions.effects.experiment]
arms = { plain = 1, same = 1, longer = 1, flaky = 1 }
control = "plain"
analysis = { metrics = ["input_tokens", "output_tokens", "error"], window_minutes = 1, planned_units = 50000 }
"""


@pytest.fixture
async def service() -> AsyncGenerator[Service]:
    service = await asyncio.to_thread(services.start, workers=2, breaker_failures=1_000_000)
    yield service
    await asyncio.to_thread(services.stop, service)


def question(chance: random.Random) -> list[dict[str, str]]:
    return [{"role": "user", "content": " ".join(["word"] * chance.randrange(1, 40))}]


async def test_known_effects_are_found_and_others_are_not(service: Service) -> None:
    await asyncio.to_thread(service.apply, CONFIGURATION)
    chance = random.Random(19)
    statuses: list[bool] = []  # of `flaky`, whether it failed
    async with service.client() as client, service.admin_client() as admin:

        async def send(**more: Any) -> httpx2.Response:
            response = await client.post(CHAT, json={"model": "narthex::function_name::effects", "messages": question(chance)}, **more)
            assert response.status_code == 200 or response.headers.get("x-narthex-variant") == "flaky", (
                response.status_code,
                response.text,
            )
            if response.headers["x-narthex-variant"] == "flaky":
                statuses.append(response.status_code != 200)
            return response

        async def counts() -> bool:
            return "x-narthex-not-enrolled" not in (await send()).headers

        tokens: dict[str, int] = {}
        for variant in ("plain", "longer"):
            chance.seed(1)
            tokens[variant] = (await send(headers={"x-narthex-variant": variant})).json()["usage"]["prompt_tokens"]
        effect = tokens["longer"] - tokens["plain"]
        await wait_until(counts, 120)
        statuses.clear()

        async def keep_sending(number: int) -> None:
            for _ in range(number):
                await send()

        await asyncio.gather(*(keep_sending(REQUESTS // AT_ONCE) for _ in range(AT_ONCE)))
        units = REQUESTS // AT_ONCE * AT_ONCE + 1

        async def are_complete() -> bool:
            nonlocal found
            found = (await admin.get(RESULTS)).json()
            return sum(arm["complete"] for arm in found["arms"]) == units

        found: dict[str, Any] = {}
        await wait_until(are_complete, 900)
    assert not found["sample_ratio"]["mismatch"] and found["warnings"] == []
    by_metric = {metric["metric"]: {comparison["arm"]: comparison for comparison in metric["comparisons"]} for metric in found["metrics"]}
    longer = by_metric["input_tokens"]["longer"]
    assert longer["verdict"] == "worse" and longer["interval"]["low"] <= effect <= longer["interval"]["high"]
    assert longer["interval"]["high"] - longer["interval"]["low"] < 2, "it is known well"
    for metric in ("input_tokens", "output_tokens"):
        same = by_metric[metric]["same"]
        assert same["verdict"] == "no difference yet" and same["interval"]["low"] <= 0 <= same["interval"]["high"]
    assert {arm: comparison["verdict"] for arm, comparison in by_metric["error"].items()} == {
        **dict.fromkeys(("same", "longer"), "no difference yet"),
        "flaky": "worse",
    }
    failing = by_metric["error"]["flaky"]["interval"]
    assert failing["low"] <= sum(statuses) / len(statuses) <= failing["high"] < failing["low"] + 0.1
