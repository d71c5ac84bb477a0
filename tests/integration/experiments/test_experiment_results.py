"""Results of experiments over HTTP and by command: an experiment with a known effect through the whole service, and bad input."""

import asyncio
import json
import random
from typing import Any

import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

CONFIGURATION = """
[models]
exres-a = {{ targets = [{{ provider = "first", model = "exres-plain" }}] }}
exres-b = {{ targets = [{{ provider = "first", model = "exres-refusing" }}] }}
[models.exres.experiment]
arms = {{ exres-a = 1, exres-b = 1 }}
control = "exres-a"
analysis = {{ metrics = ["refusal", "error", "latency"], window_minutes = 1, slices = ["tenant"] }}
[models.exres-draft.experiment]
arms = {{ exres-a = 1, exres-b = 1 }}
control = "exres-a"
status = "draft"
"""
REFUSED_SHARE = 0.5
EPISODES = 300
RESULTS = "/admin/v1/experiments/exres/results"


@pytest.fixture(scope="module", autouse=True)
def experiments(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    service.apply(CONFIGURATION.format())


async def test_known_effect_is_found_through_the_whole_service(service: Service, engine: ScriptedEngine) -> None:
    chance = random.Random(19)

    async def answer(request: Any) -> None:
        is_refused = request.body["model"] == "exres-refusing" and chance.random() < REFUSED_SHARE
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "Yes."},
            "finish_reason": "content_filter" if is_refused else "stop",
        }
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        await request.respond(200, json.dumps(body).encode())

    engine.script = answer
    sent = 0
    async with service.client() as client:

        async def send(number: int) -> bool:
            """Sends a request and returns whether it counts."""
            tags = json.dumps({"tenant": "xy"[number % 2]})
            body = {"model": "exres", "messages": [{"role": "user", "content": "Hello!"}]}
            response = await client.post("/v1/chat/completions", json=body, headers={"x-narthex-tags": tags})
            assert response.status_code == 200, response.text
            return "x-narthex-not-enrolled" not in response.headers

        await wait_until(lambda: send(0), 120)  # the one that counts is the first unit
        sent = 1
        for _ in range(EPISODES // 20):
            sent += sum(await asyncio.gather(*(send(number) for number in range(20))))
    async with service.admin_client() as admin:

        async def are_complete() -> bool:
            nonlocal found
            response = await admin.get(RESULTS, params={"slice": "tenant"})
            assert response.status_code == 200, response.text
            found = response.json()
            return sum(arm["complete"] for arm in found["arms"]) == sent

        found: dict[str, Any] = {}
        await wait_until(are_complete, 300)
        by_id = (await admin.get(f"/admin/v1/experiments/{found['id']}/results", params={"metric": "refusal"})).json()
        series = (await admin.get(f"{RESULTS}/series")).json()
        listed = (await admin.get("/admin/v1/experiments", params={"verdicts": "true"})).json()["data"]
        plain = (await admin.get("/admin/v1/experiments")).json()["data"]
    assert [arm["units"] for arm in found["arms"]] == [arm["complete"] for arm in found["arms"]]
    assert not found["sample_ratio"]["mismatch"]
    refusal = found["metrics"][0]
    assert (refusal["metric"], refusal["primary"], refusal["unit"]) == ("refusal", True, "share of units")
    (comparison,) = refusal["comparisons"]
    assert comparison["verdict"] == "worse" and comparison["method"] == "exact counts"
    assert comparison["interval"]["low"] < REFUSED_SHARE < comparison["interval"]["high"]
    assert "exres-b is worse than exres-a in refusal" in found["conclusion"]
    assert {part["value"] for part in refusal["parts"]} == {"x", "y"}
    assert sum(arm["units"] for part in refusal["parts"] for arm in part["arms"]) == sent
    last = series["data"][-1]
    assert (series["metric"], series["arm"], series["unit"], series["complete"]) == ("refusal", "exres-b", "share of units", True)
    same = {name: comparison[name] for name in ("verdict", "difference", "interval", "p")}
    assert {name: last[name] for name in same} == same and last["units"] == {arm["arm"]: arm["units"] for arm in refusal["arms"]}
    standing = {row["name"]: row["result"] for row in listed if row["name"].startswith("exres")}
    assert standing["exres-draft"] is None and all(row["result"] is None for row in plain)
    assert (standing["exres"]["verdict"], standing["exres"]["arm"], standing["exres"]["metric"]) == ("harmful", "exres-b", "refusal")
    assert standing["exres"]["difference"] == comparison["difference"] and standing["exres"]["units"] == sent
    error = found["metrics"][1]["comparisons"][0]
    assert error["verdict"] in ("no difference yet", "too early") and error["difference"] in (0, None)
    assert [each["metric"] for each in by_id["metrics"]] == ["refusal"]
    assert by_id["metrics"][0]["arms"] == refusal["arms"]
    printed = service.run("experiments", "results", "exres", "--slice", "tenant")
    assert printed.returncode == 0, printed.stderr
    assert "exres-b is worse than exres-a in refusal" in printed.stdout and "tenant = x" in printed.stdout
    assert "exres-b, too early: an arm has" in printed.stdout, "why latency has no interval yet"
    as_json = json.loads(service.run("experiments", "results", "exres", "--metric", "refusal", "--json").stdout)
    assert as_json["metrics"][0]["arms"] == refusal["arms"]


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/admin/v1/experiments/exres-none/results", 404, "no experiment 'exres-none'"),
        ("/admin/v1/experiments/exres-draft/results", 400, "is a draft"),
        (f"{RESULTS}?metric=speed", 400, "none of its metrics: refusal, error, latency"),
        (f"{RESULTS}?arm=exres-a", 400, "beside the control: exres-b"),
        (f"{RESULTS}?slice=region", 400, "It has: tenant"),
        (f"{RESULTS}/series?metric=speed", 400, "none of its metrics: refusal, error, latency"),
        (f"{RESULTS}/series?arm=exres-a", 400, "beside the control: exres-b"),
        ("/admin/v1/experiments/exres-draft/results/series", 400, "is a draft"),
        ("/admin/v1/experiment-power?effect=0.1", 400, "Give `rate`"),
        ("/admin/v1/experiment-power?effect=0&rate=0.1", 400, "not 0"),
        ("/admin/v1/experiment-power?effect=1e300&deviation=1", 400, "at most 1e+12"),
        ("/admin/v1/experiment-power?effect=0.95&rate=0.1", 400, "is no rate"),
    ],
)
async def test_bad_input_is_refused_with_the_reason(service: Service, path: str, status: int, expected: str) -> None:
    async with service.admin_client() as admin:
        response = await admin.get(path)
    assert response.status_code == status, response.text
    assert expected in response.json()["error"]["message"]


async def test_power_is_the_same_over_http_and_by_command(service: Service) -> None:
    async with service.admin_client() as admin:
        answer = (await admin.get("/admin/v1/experiment-power", params={"effect": 0.01, "rate": 0.05, "units_per_day": 2000})).json()
    printed = service.run("experiments", "power", "--effect", "0.01", "--rate", "0.05", "--per-day", "2000", "--json")
    assert json.loads(printed.stdout) == answer
    for_people = service.run("experiments", "power", "--effect", "0.01", "--rate", "0.05", "--per-day", "2000").stdout
    assert f"together, {answer['days']} days in full weeks. Set planned_units" in for_people
    assert answer["days"] % 7 == 0 and answer["fixed_units"] < answer["units"]
    refused = service.run("experiments", "results", "exres", "--metric", "speed")
    assert refused.returncode == 2 and "none of its metrics" in refused.stderr
    refused = service.run("experiments", "results", "exres", "--slice", "region")
    assert refused.returncode == 2 and "It has: tenant." in refused.stderr
