"""Exclusions (`not_` filters) hold wherever inferences are listed; and an inference has neighbours in such a list."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/inferences"


class Sent:
    """A team with a key, and the ids of what it sent with one tag: a chat, one that failed, one for an end user, and another chat."""

    def __init__(self, team: str, key: str, ids: list[str]) -> None:
        self.team = team
        self.key = key
        self.ids = ids


@pytest.fixture(scope="module")
async def sent(service: Service) -> Sent:
    team = f"excluded-{uuid.uuid4().hex[:8]}"
    ids: list[str] = []
    async with service.admin_client() as admin, service.keyless_client() as caller:
        key = (await admin.post("/admin/v1/keys", json={"team": team, "name": "lists"})).json()
        for model, more in (("sandbox", {}), ("sandbox-dies", {}), ("sandbox", {"user": "ann"}), ("sandbox", {})):
            chat = {"model": model, "messages": [{"role": "user", "content": "Hello!"}], **more}
            answer = await caller.post("/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {key['key']}"})
            ids.append(answer.headers["x-narthex-inference-id"])

        async def are_stored() -> bool:
            return len(await listed(admin, team=team)) == len(ids)

        await wait_until(are_stored)
    return Sent(team, key["prefix"], ids)


async def listed(client: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    answer = await client.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["data"]]


async def test_a_list_has_everything_but_what_is_excluded(service: Service, sent: Sent):
    answered, failed, of_ann, last = sent.ids
    async with service.admin_client() as admin:
        for excluded, expected in (
            ({"not_model": "sandbox-dies"}, [last, of_ann, answered]),
            ({"not_model": "sandbox"}, [failed]),
            ({"not_model": ["sandbox", "sandbox-dies"]}, []),
            ({"not_outcome": "failed"}, [last, of_ann, answered]),
            ({"not_outcome": "answered"}, [failed]),
            ({"not_status": "2xx"}, [failed]),
            ({"not_status": ["5xx", "404"]}, [last, of_ann, answered]),
            ({"not_end_user": "ann"}, [last, failed, answered]),  # those without an end user stay
            ({"not_key": sent.key}, []),
            ({"not_team": sent.team}, []),
            ({"not_provider": "sandbox", "not_status": "200"}, [failed] if await served_by_nobody(admin, failed) else []),
            ({"not_function": "support-of-nobody"}, None),
            ({"model": "sandbox", "not_end_user": "ann"}, [last, answered]),
            ({"not_model": "sandbox-dies", "not_end_user": "ann"}, [last, answered]),
        ):
            answer = await admin.get(PATH, params={"team": sent.team, **excluded})
            if expected is None:
                assert (answer.status_code, answer.json()["error"]["param"]) == (400, "not_function"), "a name that never was is said"
                continue
            assert [row["id"] for row in answer.json()["data"]] == expected, (excluded, answer.text)
            counted = await admin.get(f"{PATH}/count", params={"team": sent.team, **excluded})
            assert counted.json() == {"count": len(expected), "capped": False}, excluded
            lines = (await admin.get(f"{PATH}/export", params={"team": sent.team, **excluded})).text.splitlines()
            assert [json.loads(line)["id"] for line in lines] == expected, excluded
        since = (await admin.get(f"{PATH}/{answered}")).json()["received_at"]
        slowest = await listed(admin, team=sent.team, not_model="sandbox-dies", sort="-duration_us", since=since)
        assert sorted(slowest) == sorted([last, of_ann, answered])


async def served_by_nobody(admin: httpx2.AsyncClient, id: str) -> bool:
    return (await admin.get(f"{PATH}/{id}")).json()["served_provider"] is None


async def test_what_cannot_be_excluded_is_named(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        for wrong, param in (
            ({"not_key": "sk-1"}, "not_key"),
            ({"not_status": "6xx"}, "not_status"),
            ({"not_outcome": "fine"}, "not_outcome"),
            ({"not_model": ""}, "not_model"),
            ({"not_tag": "a=b"}, "not_tag"),
            ({"not_since": "2026-11-01"}, "not_since"),
            ({"not_model": [str(number) for number in range(51)]}, "not_model"),
        ):
            answer = await admin.get(PATH, params=wrong)
            assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(param), (wrong, answer.text)


async def test_the_tail_leaves_out_what_is_excluded(service: Service, sent: Sent):
    async with service.admin_client() as admin, service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as follower:
        query = {"team": sent.team, "not_model": "sandbox-dies", "duration_s": 60}
        async with follower.stream("GET", f"{PATH}/tail", params=query) as tail, service.keyless_client() as caller:
            lines = tail.aiter_lines()
            await anext(lines)  # its position: what is stored from now on is followed
            key = (await admin.post("/admin/v1/keys", json={"team": sent.team, "name": "tail"})).json()["key"]
            ids: list[str] = []
            for model in ("sandbox-dies", "sandbox"):
                chat = {"model": model, "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": "tail"}}
                answer = await caller.post("/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {key}"})
                ids.append(answer.headers["x-narthex-inference-id"])
            assert json.loads(await _next_event(lines))["id"] == ids[1]


async def _next_event(lines: AsyncIterator[str]) -> str:
    """The data of the next event."""
    return await anext(line.removeprefix("data: ") async for line in lines if line.startswith("data: "))


async def test_neighbours_are_those_of_the_list_with_the_same_filters(service: Service, sent: Sent):
    answered, failed, of_ann, last = sent.ids
    async with service.admin_client() as admin:

        async def beside(id: str, **filters: Any) -> tuple[str | None, str | None]:
            found = await admin.get(f"{PATH}/{id}/neighbours", params={"until": until, **filters})
            assert found.status_code == 200, found.text
            return found.json()["newer"], found.json()["older"]

        until = _just_after(last)  # other tests send more
        assert await beside(failed, team=sent.team) == (of_ann, answered)
        assert await beside(answered, team=sent.team) == (failed, None)
        assert await beside(last, team=sent.team) == (None, of_ann)
        assert await beside(failed, team=sent.team, model="sandbox") == (of_ann, answered), "it need not match itself"
        assert await beside(of_ann, team=sent.team, not_model="sandbox-dies") == (last, answered)
        assert await beside(answered, team=sent.team, not_end_user="ann", model="sandbox") == (last, None)
        assert (await admin.get(f"{PATH}/{uuid7.mint()}/neighbours")).status_code == 404
        for wrong, param in (({"text": "hello"}, "text"), ({"not_model": "never-was"}, "not_model"), ({"colour": "red"}, "colour")):
            refused = await admin.get(f"{PATH}/{last}/neighbours", params=wrong)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), refused.text
        bad = await admin.get(f"{PATH}/none/neighbours")
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, "id")


def _just_after(id: str) -> str:
    """A time just after an inference was received, in the form of a query."""
    return datetime.fromtimestamp((uuid7.created_ms(id) + 1) / 1000, UTC).isoformat()


async def test_a_role_in_a_team_sees_neighbours_of_that_team_alone(service: Service, sent: Sent):
    async with service.admin_client() as admin, service.keyless_client() as client:
        name = f"{sent.team}/viewer"
        account = {"name": name, "roles": [{"role": "viewer", "team": sent.team}]}
        assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
        token = await admin.post(f"/admin/v1/service-accounts/{name.replace('/', '%2F')}/tokens", json={"name": "t"})
        client.headers["authorization"] = f"Bearer {token.json()['token']}"
        before_all = (await client.get(f"{PATH}/{sent.ids[0]}/neighbours")).json()
        assert before_all == {"newer": sent.ids[1], "older": None}
