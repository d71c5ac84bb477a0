"""Steps and GPU time over REST and files, and what requests cost by them."""

import json
import time

import httpx2

from app.store.configuration.config_file import parse_config_file
from tests.integration.keys.test_caller_records import wait_for_own_record
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion

STEPS = [{"above": 200_000, "input": 4.0, "output": 18.0, "cached_input": 0.4}]


async def test_price_with_steps_and_one_of_time_round_trip_over_rest_and_files(service: Service):
    name = f"forms-{time.time_ns()}"
    async with service.admin_client() as admin:
        stepped = {"provider": "sandbox", "model": name, "input": 2.0, "output": 12.0, "steps": STEPS}
        created = await admin.post("/admin/v1/prices", json=stepped)
        assert created.status_code == 201, created.text
        assert created.json()["steps"][0] == {
            **STEPS[0],
            **dict.fromkeys(("cache_write", "cache_write_hour", "cache_write_12_hours", "image_input")),
        } | {
            "audio_input": None,
            "audio_output": None,
        }
        timed = {"provider": "sandbox", "model": f"{name}-timed", "gpu": {"usd_per_hour": 2.5, "gpus": 2, "concurrency": 8}}
        created = await admin.post("/admin/v1/prices", json=timed)
        assert created.status_code == 201, created.text
        assert (created.json()["input"], created.json()["gpu"]["tokens_per_s"]) == (None, 20.0)
        refused = await admin.post("/admin/v1/prices", json={**timed, "model": f"{name}-both", "input": 1, "output": 1})
        assert refused.status_code == 400 and "beside `gpu`" in refused.json()["error"]["message"]

        exported = service.run("export").stdout
        written = {each.model: each for each in parse_config_file(exported).prices or ()}
        assert written[name].steps[0].above == 200_000
        gpu = written[f"{name}-timed"].gpu
        assert gpu is not None and gpu.concurrency == 8
        assert service.run("apply", "-", "--dry-run", stdin=exported).stdout == "Nothing to change.\n"
        listed = service.run("prices", "list").stdout
        assert f"{name}, above 200,000" in listed and "0.625 an hour" in listed

        path = f"/admin/v1/prices/sandbox/{name}/always"
        etag = (await admin.get(path)).headers["etag"]
        changed = await admin.patch(path, json={"steps": []}, headers={"if-match": etag})
        assert changed.status_code == 200 and changed.json()["steps"] == []


async def test_request_at_an_engine_of_ones_own_costs_its_time(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    service.apply(f"""
        [providers.timed]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.timed]
        targets = [{{ provider = "timed", model = "m" }}]
        [[prices]]
        provider = "timed"
        model = "m"
        gpu = {{ usd_per_hour = 36000.0, gpus = 2, concurrency = 4 }}
    """)

    async def answer(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(completion("Hello.")).encode())

    engine.script = answer
    answered = await client.post("/v1/chat/completions", json={"model": "timed", "messages": [{"role": "user", "content": "Hi"}]})
    assert answered.status_code == 200, answered.text
    own = await wait_for_own_record(client, answered.headers["x-narthex-inference-id"])
    record = await service.wait_for_record(own["id"])
    assert own["cost_microusd"] == round(record["served_us"] * 5) > 0, "ten dollars a second, half of it for each request"
    assert answered.headers["x-narthex-cost-usd"] == f"{own['cost_microusd'] / 1e6:.6f}"
    assert own["price"] == "timed/m/always"
