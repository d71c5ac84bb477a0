"""Feedback that people with a role write on recorded requests: beside what callers sent, with their rights, and in the audit log."""

import json
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

RATED, SOLVED, TEAM = "written-rated", "written-solved", "written feedback"


@pytest.fixture(scope="module")
async def sent(service: Service) -> dict[str, Any]:
    """A recorded request of a team, which its caller has rated, with the ids of both."""
    service.apply(f"""
        [metrics]
        {RATED} = {{ kind = "boolean", level = "inference" }}
        {SOLVED} = {{ kind = "float", level = "episode" }}
    """)
    key = service.run("keys", "create", "--team", TEAM, "--quiet").stdout.strip()
    async with service.client(headers={"authorization": f"Bearer {key}"}) as caller:
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello"}]}
        answer = await caller.post("/v1/chat/completions", json=chat)
        body = {"metric": RATED, "inference_id": answer.json()["id"], "value": True}
        assert (await caller.post("/v1/feedback", json=body)).status_code == 201
    record = await service.wait_for_record(answer.json()["id"])
    return {"id": record["id"], "episode_id": record["episode_id"], "key": "-".join(key.split("-")[:2])}


async def current(admin: httpx2.AsyncClient, count: int, **filters: str) -> list[dict[str, Any]]:
    """The feedback that counts, the newest first, once there are so many."""
    found: list[dict[str, Any]] = []

    async def are_listed() -> bool:
        found[:] = (await admin.get("/admin/v1/feedback", params={"current": "true", **filters})).json()["data"]
        return len(found) == count

    await wait_until(are_listed)
    return found


async def test_it_stands_beside_the_callers_and_the_newest_of_a_person_counts(service: Service, sent: dict[str, Any]):
    path = f"/admin/v1/inferences/{sent['id']}/feedback"
    async with service.admin_client() as admin:
        for value in (True, False):
            written = await admin.post(path, json={"metric": RATED, "value": value})
            assert written.status_code == 201, written.text
            assert written.json() == {"id": written.json()["id"], "metric": RATED, "level": "inference", "target_id": sent["id"]}

            async def is_here(id: str = written.json()["id"]) -> bool:
                return (await admin.get(f"/admin/v1/feedback/{id}")).status_code == 200

            await wait_until(is_here)
        mine, callers = await current(admin, 2, inference_id=sent["id"], metric=RATED)
        assert (mine["value"], mine["tags"], mine["team"]) == (False, {"source": "admin"}, TEAM)
        assert (callers["value"], callers["key"]) == (True, sent["key"])
        assert mine["key"] == "-".join(service.admin_key.split("-")[:2])

        comment = await admin.post(path, json={"metric": "comment", "value": "It is short."})
        solved = await admin.post(path, json={"metric": SOLVED, "value": 2.5})
        assert (comment.json()["level"], solved.json()["target_id"]) == ("inference", sent["episode_id"])
        [of_episode] = await current(admin, 1, episode_id=sent["episode_id"], metric=SOLVED)
        assert (of_episode["value"], of_episode["level"]) == (2.5, "episode")

        events = (await admin.get("/admin/v1/audit", params={"resource": "inference", "name": sent["id"]})).json()["data"]
        assert [each["action"] for each in events] == ["write_feedback"] * 4
        assert (events[0]["after"], events[0]["team"]) == ({"metric": SOLVED, "feedback": solved.json()["id"]}, TEAM)
    listed = json.loads(service.run("feedback", "list", "--inference", sent["id"], "--metric", "comment", "--json").stdout)
    assert [each["value"] for each in listed["feedback"]] == ["It is short."]
    done = service.run("feedback", "write", sent["id"], "--metric", RATED, "--value", "true")
    assert done.returncode == 0, done.stderr


async def test_what_does_not_fit_is_refused_by_its_field(service: Service, sent: dict[str, Any]):
    path = f"/admin/v1/inferences/{sent['id']}/feedback"
    async with service.admin_client() as admin:
        for body, param in (
            ({"metric": "never-was", "value": True}, "metric"),
            ({"metric": RATED, "value": "perhaps"}, "value"),
            ({"metric": SOLVED, "value": True}, "value"),
            ({"metric": RATED}, "value"),
        ):
            answer = await admin.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), (body, answer.text)
        missing = await admin.post(f"/admin/v1/inferences/{uuid7.mint()}/feedback", json={"metric": RATED, "value": True})
        assert missing.status_code == 404


async def test_it_takes_a_role_in_the_team(service: Service, sent: dict[str, Any]):
    async with service.admin_client() as admin, service.keyless_client() as client:

        async def write(role: str, team: str) -> httpx2.Response:
            name = f"{team}/written-{role}"
            account = {"name": name, "roles": [{"role": role, "team": team}]}
            assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
            token = await admin.post(f"/admin/v1/service-accounts/{name.replace('/', '%2F')}/tokens", json={"name": "t"})
            headers = {"authorization": f"Bearer {token.json()['token']}"}
            return await client.post(f"/admin/v1/inferences/{sent['id']}/feedback", json={"metric": RATED, "value": False}, headers=headers)

        assert (await write("viewer", TEAM)).status_code == 403
        assert (await admin.put("/admin/v1/teams/written-other", json={})).status_code in (200, 201)
        assert (await write("editor", "written-other")).status_code == 404, "it does not learn that the request exists"
        written = await write("editor", TEAM)
        assert written.status_code == 201, written.text
        account = await admin.get("/admin/v1/service-accounts/" + f"{TEAM}/written-editor".replace("/", "%2F").replace(" ", "%20"))
        listed: list[dict[str, Any]] = []

        async def is_listed() -> bool:
            query = {"inference_id": sent["id"], "metric": RATED, "current": "true"}
            listed[:] = (await admin.get("/admin/v1/feedback", params=query)).json()["data"]
            return any(each["key"] == account.json()["id"] for each in listed)

        await wait_until(is_listed)
    async with service.client() as caller:
        answer = await caller.post(f"/admin/v1/inferences/{sent['id']}/feedback", json={"metric": RATED, "value": False})
        assert answer.status_code == 403
