"""Feedback through a running service: with the ids that each API returns, corrected, withdrawn and in bulk, refused with the reason."""

import json
import time
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch

HELPFUL, SCORE = "feedback-helpful", "feedback-score"


@pytest.fixture(scope="module", autouse=True)
def metrics(service: Service) -> None:
    service.apply(f"""
        [metrics]
        {HELPFUL} = {{ kind = "boolean", level = "inference", optimize = "max" }}
        {SCORE} = {{ kind = "float", level = "episode" }}
    """)


async def events(service: Service, feedback_id: str, *, count: int = 1, matched: bool = False) -> list[Any]:
    """Returns the stored events of a feedback, the oldest first, once there are `count` of them."""
    found: list[Any] = []

    async def are_stored() -> bool:
        found[:] = await fetch(database_url(service), "SELECT * FROM feedback WHERE feedback_id = $1 ORDER BY id", feedback_id)
        return len(found) >= count and (not matched or all(row["matched_at"] for row in found))

    await wait_until(are_stored)
    assert len(found) == count
    return found


async def send(client: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post("/v1/feedback", json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def refused(response: httpx2.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["type"] == {409: "conflict", 429: "rate_limit_exceeded"}.get(status, "invalid_request_error")
    return error


async def test_ids_of_every_api_are_taken(
    service: Service, client: httpx2.AsyncClient, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic
):
    chat = await sdk.chat.completions.create(model="sandbox", messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    response = await sdk.responses.create(model="sandbox", input="hi", max_output_tokens=16)
    completion = await sdk.completions.create(model="sandbox", prompt="hi", max_tokens=4)
    message = await claude.messages.create(model="sandbox", messages=[{"role": "user", "content": "hi"}], max_tokens=4)
    assert (response.id[:5], completion.id[:5], message.id[:4]) == ("resp_", "cmpl-", "msg_")
    for at, id in enumerate((chat.id, response.id, completion.id, message.id)):
        sent = await send(client, metric=HELPFUL, inference_id=id, value=at % 2 == 0, tags={"app": "tests"})
        assert sent == {"object": "feedback", "id": sent["id"], "metric": HELPFUL, "inference_id": id[-36:]} and uuid7.is_uuid7(sent["id"])
        [row] = await events(service, sent["id"], matched=True)
        assert (str(row["target_id"]), row["model"], row["number"], row["value"]) == (
            id[-36:],
            "sandbox",
            *((1, "true"), (0, "false"))[at % 2],
        )
        assert json.loads(row["tags"]) == {"app": "tests"}


async def test_feedback_comes_before_its_inference_and_by_a_callers_own_name_of_the_episode(service: Service, client: httpx2.AsyncClient):
    name = f"conversation {time.time_ns()}"
    sent = await send(client, metric=SCORE, episode_id=name, value=0.75)
    [early] = await events(service, sent["id"])
    assert early["matched_at"] is None
    headers = {"x-narthex-episode-id": name}
    body = {"model": "sandbox", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    answered = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert answered.headers["x-narthex-episode-id"] == sent["episode_id"]
    [late] = await events(service, sent["id"], matched=True)
    assert (late["number"], late["model"]) == (0.75, "sandbox")


async def test_feedback_is_corrected_and_withdrawn(service: Service, client: httpx2.AsyncClient):
    target = uuid7.mint()
    sent = await send(client, metric=HELPFUL, inference_id=target, value=True)
    path = f"/v1/feedback/{sent['id']}"
    corrected = await client.put(path, json={"metric": HELPFUL, "inference_id": target, "value": False})
    assert (corrected.status_code, corrected.json()) == (200, sent)
    rows = await events(service, sent["id"], count=2)
    assert [(row["action"], row["value"], row["is_current"]) for row in rows] == [("create", "true", False), ("correct", "false", True)]
    withdrawn = await client.delete(path)
    assert (withdrawn.status_code, withdrawn.json()["withdrawn"]) == (200, True)
    rows = await events(service, sent["id"], count=3)
    assert [(row["action"], row["is_current"]) for row in rows] == [("create", False), ("correct", False), ("withdraw", False)]
    for response in (await client.put("/v1/feedback/x", json={}), await client.delete("/v1/feedback/x")):
        assert "UUIDv7" in (await refused(response))["message"]


async def test_repetition_with_the_same_key_is_stored_once(service: Service, client: httpx2.AsyncClient):
    target, key = uuid7.mint(), f"rating {time.time_ns()}"
    body = {"metric": HELPFUL, "inference_id": target, "value": True}
    ids = {(await send(client, **body, id=key))["id"] for _ in range(5)}
    for _ in range(5):
        repeated = await client.post("/v1/feedback", json=body, headers={"Idempotency-Key": key})
        ids.add(repeated.json()["id"])
    [id] = ids
    other = (await send(client, **body))["id"]  # whatever was sent before is stored when this is
    [newer] = await events(service, other)
    [first] = await events(service, id)
    assert (first["is_current"], newer["is_current"]) == (False, True)


async def test_other_feedback_with_the_same_id_is_refused_and_says_what_differs(service: Service, client: httpx2.AsyncClient):
    target, other, key = uuid7.mint(), uuid7.mint(), f"rating {time.time_ns()}"
    body = {"metric": HELPFUL, "inference_id": target, "value": True, "id": key}
    id = (await send(client, **body))["id"]
    await events(service, id)  # from here on every process of the gateway can know it
    changes: list[tuple[dict[str, Any], str, str]] = [
        ({"value": False}, "in its value", "value"),
        ({"inference_id": other}, "in its inference or episode", "inference_id"),
        ({"metric": "comment", "value": "Good"}, "in its metric and value", "metric"),
        ({"tags": {"app": "x"}}, "in its tags", "tags"),
    ]
    for changed, says, param in changes:
        for _ in range(3):
            error = await refused(await client.post("/v1/feedback", json={**body, **changed}), 409)
            assert says in error["message"] and f"{HELPFUL} on inference {target}" in error["message"] and id in error["message"]
            assert (error["code"], error["param"], error["details"]) == ("idempotency_key_reused", param, {"feedback_id": id})
    assert (await send(client, **body))["id"] == id
    lines = [{**body, "value": False}, {**body}, {**body, "id": f"{key}/2"}, {**body, "id": f"{key}/2", "value": False}]
    batch = await client.post("/v1/feedback/batch", content="\n".join(map(json.dumps, lines)))
    assert [(each["object"], each.get("error", {}).get("code")) for each in batch.json()["data"]] == [
        ("error", "idempotency_key_reused"),
        ("feedback", None),
        ("feedback", None),
        ("error", "idempotency_key_reused"),
    ]
    in_tensorzeros_shape = {"metric_name": HELPFUL, "inference_id": target, "value": False}
    again = await client.post("/feedback", json=in_tensorzeros_shape, headers={"Idempotency-Key": key})
    assert again.status_code == 409 and "in its value" in again.text
    await events(service, batch.json()["data"][2]["id"])
    [row] = await events(service, id)
    assert (row["value"], row["is_current"]) == ("true", False)  # the third line of the batch counts


async def test_batch_reports_each_line_and_loses_none(service: Service, client: httpx2.AsyncClient):
    target = uuid7.mint()
    good = {"metric": HELPFUL, "inference_id": target, "value": True}
    comment = {"metric": "comment", "inference_id": target, "value": "Zwei Zeilen:\neins"}
    lines = [json.dumps(good), "{", "", json.dumps({**good, "value": 3}), json.dumps(comment), json.dumps({**good, "x": 1})]
    body, headers = "\n".join(lines) + "\n", {"Idempotency-Key": f"batch {time.time_ns()}", "content-type": "application/jsonl"}
    batches = [await client.post("/v1/feedback/batch", content=body, headers=headers) for _ in range(2)]
    assert [each.status_code for each in batches] == [200, 200] and batches[0].json() == batches[1].json()
    batch = batches[0].json()
    assert (batch["accepted"], batch["refused"]) == (2, 4)
    assert [(each["line"], each["object"]) for each in batch["data"]] == [
        *((1, "feedback"), (2, "error"), (3, "error"), (4, "error"), (5, "feedback"), (6, "error"))
    ]
    messages = [each["error"]["message"] for each in batch["data"] if "error" in each]
    for message, says in zip(messages, ("not JSON", "is empty", "true or false", "Unknown field `x`"), strict=True):
        assert says in message
    [row] = await events(service, batch["data"][4]["id"])
    assert json.loads(row["value"]) == comment["value"]
    await events(service, batch["data"][0]["id"])
    for content, says in ((b"", "is empty"), (b"{}\n" * 1001, "more than 1000 lines")):
        assert says in (await refused(await client.post("/v1/feedback/batch", content=content)))["message"]
    await refused(await client.post("/v1/feedback/batch", content=b"x" * (4 * 1024 * 1024 + 1)), 413)


async def test_errors_have_openais_shape_and_name_what_is_right(client: httpx2.AsyncClient):
    error = await refused(await client.post("/v1/feedback", json={"metric": HELPFUL, "episode_id": uuid7.mint(), "value": True}))
    assert error["message"] == f"{HELPFUL} is a boolean of an inference: send `inference_id`."
    assert (error["code"], error["param"]) == ("wrong_level", "episode_id")
    for content, says in ((b"", "is empty"), (b"[]", "an object"), (b'{"value": NaN}', "not JSON"), (b'{"metric": 1}', "at `metric`")):
        assert says in (await refused(await client.post("/v1/feedback", content=content)))["message"]
    await refused(await client.post("/v1/feedback", content=b"x" * 400_000), 413)
    assert (await client.post("/v1/feedback?x=1", json={})).status_code == 400
    assert (await client.post("/v1/feedback", json={}, headers={"authorization": "Bearer nx-0"})).status_code == 401


async def test_metrics_count_what_is_accepted_and_refused(service: Service, client: httpx2.AsyncClient):
    async def count(line: str) -> float:
        page = (await client.get("/metrics")).text
        return sum(float(each.rpartition(" ")[2]) for each in page.splitlines() if each.startswith(line))

    accepted, wrong = f'narthex_feedback_total{{action="create",metric="{HELPFUL}"}}', 'narthex_feedback_refused_total{error="wrong_value"}'
    before = await count(accepted), await count(wrong)
    await send(client, metric=HELPFUL, inference_id=uuid7.mint(), value=True)
    await refused(await client.post("/v1/feedback", json={"metric": HELPFUL, "inference_id": uuid7.mint(), "value": "yes"}))

    async def are_counted() -> bool:
        return (await count(accepted), await count(wrong)) == (before[0] + 1, before[1] + 1)

    await wait_until(are_counted)


async def test_another_teams_correction_is_not_shown_under_a_feedback(service: Service, client: httpx2.AsyncClient):
    """A feedback is by team and id: what others send with its id is their own."""
    other_team = f"feedback-others-{time.time_ns()}"
    key = service.run("keys", "create", "--team", other_team, "--quiet").stdout.strip()
    target = (await client.post("/v1/chat/completions", json={"model": "sandbox", "messages": [{"role": "user", "content": "hi"}]})).json()[
        "id"
    ]
    sent = await send(client, metric=HELPFUL, inference_id=target, value=True)
    async with service.client(headers={"authorization": f"Bearer {key}"}) as other:
        corrected = await other.put(f"/v1/feedback/{sent['id']}", json={"metric": HELPFUL, "inference_id": target, "value": False})
        assert corrected.status_code == 200
        withdrawn = await other.delete(f"/v1/feedback/{uuid7.mint()}")
        assert withdrawn.status_code == 200
    await events(service, sent["id"], count=2)
    async with service.admin_client() as admin:
        shown = (await admin.get(f"/admin/v1/feedback/{sent['id']}")).json()
        assert [(each["action"], each["value"], each["current"]) for each in shown["data"]] == [("create", True, True)]
        assert {each["team"] for each in shown["data"]} == {shown["team"]} and shown["other_teams"] == [other_team]
        others = (await admin.get(f"/admin/v1/feedback/{sent['id']}", params={"team": other_team})).json()
        assert [(each["action"], each["team"]) for each in others["data"]] == [("correct", other_team)]
        assert (await admin.get(f"/admin/v1/feedback/{sent['id']}", params={"team": "nobody"})).status_code == 404
        counted = (await admin.get(f"/admin/v1/inferences/{target}")).json()
        assert counted["id"] == target
    own = await client.get(f"/v1/inferences/{target}")
    assert [each["value"] for each in own.json()["feedback"]] == [True]
