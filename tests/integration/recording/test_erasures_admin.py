"""Erasures over the admin API and by narthex erase, on a running service: what callers get afterwards, and what is shown of an order."""

import json
import uuid
from typing import Any

import openai
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/erasures"


def user() -> str:
    return f"user-{uuid.uuid4().hex[:12]}@example.com"


async def chat(service: Service, name: str, **headers: str) -> Any:
    body = {"model": "sandbox", "messages": [{"role": "user", "content": "hi"}], "user": name}
    async with service.client() as client:
        return await client.post("/v1/chat/completions", json=body, headers=headers)


async def wait_until_erased(service: Service, id: str, records: int) -> dict[str, Any]:
    """Waits until so many records are erased, and all copies in Redis too, and returns the order.

    The order is complete only once requests in flight have ended.
    """
    async with service.admin_client() as admin:
        order: dict[str, Any] = {}

        async def is_erased() -> bool:
            nonlocal order
            order = (await admin.get(f"{PATH}/{id}")).json()
            return order["counts"].get("inferences", 0) >= records and order["step"] not in ("writers", "records", "sums")

        await wait_until(is_erased)

        async def are_copies_gone() -> bool:
            left = (await admin.post(f"{PATH}/{id}/verify")).json()["left"]
            return not any(left.values())

        await wait_until(are_copies_gone)
        return order


async def test_callers_get_nothing_of_what_was_erased(service: Service, sdk: openai.AsyncOpenAI):
    name = user()
    key = {"idempotency-key": uuid.uuid4().hex}
    first = await chat(service, name, **key)
    stored = await sdk.responses.create(model="sandbox", input="hi", user=name)
    ids = [first.headers["x-narthex-inference-id"], stored.id.removeprefix("resp_")]
    records = [await service.wait_for_record(id) for id in ids]
    assert [record["end_user"] for record in records] == [name, name]
    async with service.admin_client() as admin:
        asked = {"end_user": name, "reference": "DSR-118"}
        planned = (await admin.post(PATH, params={"dry_run": "true"}, json=asked)).json()
        assert planned["changes"][0]["after"]["expected_records"] == 2
        given = await admin.post(PATH, json=asked, headers=key)
        again = await admin.post(PATH, json=asked, headers=key)
        assert given.status_code == 201 and again.json()["id"] == given.json()["id"]
        id = given.json()["id"]
        await wait_until_erased(service, id, 2)
        shown = [
            given,
            again,
            await admin.get(PATH),
            await admin.get(f"{PATH}/{id}"),
            await admin.get("/admin/v1/audit", params={"name": id}),
        ]
        assert not [response.text for response in shown if name in response.text], "the value is shown nowhere"
        (event,) = shown[-1].json()["data"]
        assert (event["action"], event["after"]["kind"], event["after"]["reference"]) == ("create", "end_user", "DSR-118")
        checked = (await admin.post(f"{PATH}/{id}/verify", json={"end_user": name})).json()
        assert (checked["matches"], checked["next"], sum(checked["left"].values())) == (True, None, 0)
        record = (await admin.get(f"/admin/v1/inferences/{ids[0]}")).json()
    assert (record["end_user"], record["content"]) == ("(erased)", {"policy": "erased", "request": None, "response": None})
    assert record["erased_at"] and record["input_tokens"] == records[0]["input_tokens"]
    with pytest.raises(openai.NotFoundError, match="erased"):
        await sdk.responses.retrieve(stored.id)
    with pytest.raises(openai.BadRequestError, match="not found"):
        await sdk.responses.create(model="sandbox", input="go on", previous_response_id=stored.id)
    retry = await chat(service, name, **key)
    assert (retry.status_code, retry.json()["error"]["code"]) == (409, "idempotency_response_not_stored")
    later = await chat(service, name)
    assert (await service.wait_for_record(later.headers["x-narthex-inference-id"]))["end_user"] == name


async def test_commands_start_show_and_verify(service: Service):
    name = user()
    response = await chat(service, name, **{"x-narthex-tags": json.dumps({"customer": name, "tenant": "acme"})})
    record = await service.wait_for_record(response.headers["x-narthex-inference-id"])
    refused = service.run("erase", "start", "--tag", f"customer={name}", "--keep-tag", "tenant", stdin="n\n")
    assert refused.returncode == 1 and "no terminal for the prompt" in refused.stderr
    done = service.run("erase", "start", "--tag", f"customer={name}", "--keep-tag", "tenant", "--reference", "DSR-7", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    id = json.loads(done.stdout)["id"]
    await wait_until_erased(service, id, 1)
    listed, shown = service.run("erase", "list"), service.run("erase", "show", id)
    assert id in listed.stdout and "DSR-7" in listed.stdout and "inferences: 1" in shown.stdout and name not in listed.stdout + shown.stdout
    verified = service.run("erase", "verify", id, "--tag", f"customer={name}", "--json")
    assert verified.returncode == 0, verified.stderr
    document = json.loads(verified.stdout)
    assert document["matches"] is True and set(document["left"]) >= {"inferences", "contents", "idempotent_responses"}
    assert service.run("erase", "verify", id, "--user", name).returncode == 1, "it is about another one"
    assert service.run("erase", "show", "none").returncode == 1
    async with service.admin_client() as admin:
        tags = (await admin.get(f"/admin/v1/inferences/{record['id']}")).json()["tags"]
    assert tags == {"customer": "(erased)", "tenant": "acme"}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "end_user"),
        ({"end_user": ""}, "end_user"),
        ({"end_user": "a", "tag": "b=c"}, "tag"),
        ({"tag": "nothing"}, "tag"),
        ({"tag": "a=b", "keep_tags": ["a"]}, "keep_tags"),
        ({"episode_id": ""}, "episode_id"),
        ({"episode_id": "ticket-4711"}, "team"),
        ({"end_user": "a", "team": "no-such-team"}, "team"),
        ({"user": "a"}, "user"),
    ],
)
async def test_an_invalid_order_names_the_field(service: Service, body: Any, param: str):
    async with service.admin_client() as admin:
        refused = await admin.post(PATH, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
