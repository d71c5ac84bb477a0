"""The records of their team that callers see with their own keys, and what they see of models."""

import json
import time
from typing import Any

import httpx2

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
_HIDDEN = {"endpoint", "attempts", "snapshot", "key_id", "team_id"}


async def wait_for_own_record(client: httpx2.AsyncClient, id: str) -> Any:
    found: list[Any] = []

    async def is_there() -> bool:
        response = await client.get(f"/v1/inferences/{id}")
        if response.status_code == 404:
            assert "within seconds" in response.json()["error"]["message"]
            return False
        assert response.status_code == 200, response.text
        found.append(response.json())
        return True

    await wait_until(is_there)
    return found[-1]


async def test_callers_read_their_teams_records_and_nobody_elses(service: Service) -> None:
    other = json.loads(service.run("keys", "create", "--team", f"other-{time.time_ns()}", "--json").stdout)["key"]
    async with service.client() as own, service.client(headers={"authorization": f"Bearer {other}"}) as stranger:
        response = await own.post("/v1/chat/completions", json={"model": "sandbox", **CHAT})
        id = response.headers["x-narthex-inference-id"]
        record = await wait_for_own_record(own, id)
        assert (record["id"], record["model"], record["outcome"], record["status"]) == (id, "sandbox", "answered", 200)
        assert json.loads(record["content"]["request"])["messages"] == CHAT["messages"]
        assert json.loads(record["content"]["response"])["id"] == id and record["content"]["left_out"] == []
        assert _HIDDEN.isdisjoint(record)

        hidden, unknown = await stranger.get(f"/v1/inferences/{id}"), await own.get(f"/v1/inferences/{(never := uuid7.mint())}")
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.json()["error"]["message"].replace(id, "") == unknown.json()["error"]["message"].replace(never, "")
        for path in ("/v1/inferences/nonsense", f"/v1/inferences/{id}?include=all", f"/v1/inferences/{id}?x="):
            assert (await own.get(path)).status_code == 400
        assert (await own.get(f"/v1/inferences/{id}", headers={"authorization": "Bearer nx-0"})).status_code == 401


async def test_content_of_a_deleted_response_is_gone_from_its_record(service: Service) -> None:
    async with service.client() as own:
        created = await own.post("/v1/responses", json={"model": "sandbox", "input": "hi", "max_output_tokens": 16})
        id = created.headers["x-narthex-inference-id"]
        assert (await wait_for_own_record(own, id))["content"]["request"]
        assert (await own.delete(f"/v1/responses/{created.json()['id']}")).status_code == 200
        assert (await own.get(f"/v1/inferences/{id}")).json()["content"] is None


async def test_models_show_what_is_known_and_nothing_else(service: Service) -> None:
    name = f"known-{time.time_ns()}"
    before_s = int(time.time()) - 1
    service.apply(f"""
        [models.{name}]
        targets = [{{ provider = "sandbox", model = "{name}" }}]
        context_length = 4096
        capabilities = ["chat", "tools"]
        [[prices]]
        provider = "sandbox"
        model = "{name}"
        input = 0.5
        output = 1.5
    """)
    async with service.client() as own:
        shown = (await own.get(f"/v1/models/{name}")).json()
        assert before_s <= shown.pop("created") <= time.time() + 1
        assert shown == {
            **{"id": name, "object": "model", "owned_by": "narthex", "context_length": 4096, "capabilities": ["chat", "tools"]},
            "pricing": {"currency": "USD", "per_tokens": 1_000_000, "input": 0.5, "output": 1.5},
        }
        listed = {each["id"]: each for each in (await own.get("/v1/models")).json()["data"]}
        assert listed[name]["pricing"] == shown["pricing"] and not {"pricing", "capabilities"} & listed["sandbox-slow"].keys()
        anthropic = (await own.get(f"/v1/models/{name}", headers={"anthropic-version": "2023-06-01"})).json()
        assert anthropic["created_at"] > "2020"
    refused = service.run(
        "apply", "-", "--yes", stdin=f'[models.{name}]\ntargets = [{{ provider = "sandbox", model = "x" }}]\ncapabilities = ["magic"]'
    )
    assert refused.returncode != 0 and "magic" in refused.stderr
