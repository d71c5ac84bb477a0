"""GET /admin/v1/episodes: which episodes come in which order, with which sums, page by page; roles see their teams' alone."""

import uuid
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/episodes"


class Sent:
    """Two teams, the first of which sent episodes one to four, of as many requests each, and the second one named as the first's second."""

    def __init__(self, teams: list[str], prefixes: list[str], ids: dict[str, list[str]]) -> None:
        self.teams = teams
        self.prefixes = prefixes
        self.ids = ids  # of the first team's inferences, by the name of the episode


@pytest.fixture(scope="module")
async def sent(service: Service) -> Sent:
    run = uuid.uuid4().hex[:8]
    teams = [f"episodes-{number}-{run}" for number in (1, 2)]
    names = [f"{run}-{number}" for number in range(1, 5)]
    prefixes: list[str] = []
    ids: dict[str, list[str]] = {name: [] for name in names}
    async with service.admin_client() as admin, service.keyless_client() as caller:
        keys: list[str] = []
        for team in teams:
            key = (await admin.post("/admin/v1/keys", json={"team": team})).json()
            keys.append(key["key"])
            prefixes.append(key["prefix"])

        async def send(key: str, name: str, model: str = "sandbox") -> str:
            chat = {"model": model, "messages": [{"role": "user", "content": "Hello!"}], "user": "ann", "metadata": {"run": run}}
            headers = {"authorization": f"Bearer {key}", "x-narthex-episode-id": name}
            answer = await caller.post("/v1/chat/completions", json=chat, headers=headers)
            return answer.headers["x-narthex-inference-id"]

        for turn in range(4):
            for number, name in enumerate(names, 1):
                if turn < number:
                    model = "sandbox-dies" if (number, turn) == (3, 2) else "sandbox"
                    ids[name].append(await send(keys[0], name, model))
        await send(keys[1], names[1])

        async def are_stored() -> bool:
            found = await admin.get("/admin/v1/inferences/count", params={"team": teams})
            return found.status_code == 200 and found.json()["count"] == 11

        await wait_until(are_stored)
    return Sent(teams, prefixes, ids)


async def listed(client: httpx2.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_episodes_come_by_their_newest_inference_with_the_sums_of_all(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        found = await listed(admin, team=sent.teams[0])
        assert [row["name"] for row in found] == [*sorted(sent.ids, reverse=True)]
        assert [row["inferences"] for row in found] == [4, 3, 2, 1]
        third = found[1]
        assert (third["failed"], third["key"], third["end_user"], third["team"]) == (1, sent.prefixes[0], "ann", sent.teams[0])
        assert third["models"] == ["sandbox", "sandbox-dies"] and third["capped"] is False and third["feedback"] == []
        timeline = (await admin.get(f"{PATH}/{third['id']}/timeline")).json()
        assert (timeline["began_at"], timeline["ended_at"]) == (third["began_at"], third["ended_at"])
        assert {name: timeline["totals"][name] for name in ("inferences", "input_tokens", "cost_microusd", "unpriced")} == {
            name: third[name] for name in ("inferences", "input_tokens", "cost_microusd", "unpriced")
        }


@pytest.mark.parametrize("limit", [1, 3, 200])
async def test_each_episode_is_on_one_page(service: Service, sent: Sent, limit: int):
    async with service.admin_client() as admin:
        names: list[str] = []
        before: str | None = None
        while before is not None or not names:
            page = (await admin.get(PATH, params={"team": sent.teams[0], "limit": limit, **({"before": before} if before else {})})).json()
            names += [row["name"] for row in page["data"]]
            before = page["next"]
            if before is None:
                break
        assert names == [*sorted(sent.ids, reverse=True)]


async def test_filters_choose_episodes_by_an_inference_or_by_their_sums(service: Service, sent: Sent):
    names = [*sent.ids]
    async with service.admin_client() as admin:
        assert [row["name"] for row in await listed(admin, team=sent.teams, outcome=["failed", "aborted"])] == [names[2]]
        assert [row["inferences"] for row in await listed(admin, team=sent.teams[0], outcome="failed")] == [3], "of all its inferences"
        assert [row["name"] for row in await listed(admin, team=sent.teams[0], min_inferences=3)] == names[:1:-1]
        assert await listed(admin, team=sent.teams[0], min_duration_us=10**15) == []
        assert {row["team"] for row in await listed(admin, team=sent.teams, end_user="ann", min_inferences=1)} == set(sent.teams)
        assert len(await listed(admin, key=sent.prefixes[1])) == 1
        for wrong, param in (
            ({"team": "nobody-at-all"}, "team"),
            ({"before": "x"}, "before"),
            ({"tag": "x"}, "tag"),
            ({"limit": 201}, "limit"),
            ({"sort": "x"}, "sort"),
        ):
            answer = await admin.get(PATH, params=wrong)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), wrong


async def test_feedback_on_an_episode_is_listed_with_it(service: Service, sent: Sent):
    name = next(iter(sent.ids))
    service.apply('[metrics.episode-liked]\nkind = "boolean"\nlevel = "episode"\noptimize = "max"')
    async with service.admin_client() as admin, service.keyless_client() as caller:
        key = (await admin.post("/admin/v1/keys", json={"team": sent.teams[0]})).json()["key"]
        body = {"metric": "episode-liked", "episode_id": name, "value": True}
        answer = await caller.post("/v1/feedback", json=body, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == 201, answer.text

        async def is_listed() -> bool:
            [row] = [row for row in await listed(admin, team=sent.teams[0]) if row["name"] == name]
            return row["feedback"] == [{"metric": "episode-liked", "value": 1.0}]

        await wait_until(is_listed)


async def test_a_role_in_a_team_sees_its_episodes_alone(service: Service, sent: Sent):
    async with service.admin_client() as admin, service.keyless_client() as client:
        account = f"{sent.teams[1]}-viewer"
        roles = [{"role": "viewer", "team": sent.teams[1]}]
        assert (await admin.post("/admin/v1/service-accounts", json={"name": account, "roles": roles})).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{account}/tokens")).json()["token"]
        client.headers["authorization"] = f"Bearer {token}"
        [own] = await listed(client)
        assert (own["team"], own["inferences"], own["key"]) == (sent.teams[1], 1, sent.prefixes[1]), "though both use the same name"
        assert (await client.get(PATH, params={"team": sent.teams[0]})).status_code == 400
