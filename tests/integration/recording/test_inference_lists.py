"""The list of inferences as dashboards use it: counts, facets, several values, ranges, sorting, chosen fields, compressed answers."""

import gzip
import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/inferences"


class Sent:
    """Two teams with a key each, and what they sent: a chat each of `run`, and one more of the first that failed."""

    def __init__(self, teams: list[str], prefixes: list[str], run: str, ids: list[str]) -> None:
        self.teams = teams
        self.prefixes = prefixes
        self.run = run
        self.ids = ids


@pytest.fixture(scope="module")
async def sent(service: Service) -> Sent:
    run = uuid.uuid4().hex
    teams = [f"lists-{number}-{run[:8]}" for number in (1, 2)]
    prefixes: list[str] = []
    ids: list[str] = []
    async with service.admin_client() as admin, service.keyless_client() as caller:
        for team, models in zip(teams, (("sandbox", "sandbox-dies"), ("sandbox",)), strict=True):
            key = (await admin.post("/admin/v1/keys", json={"team": team, "name": "lists"})).json()
            prefixes.append(key["prefix"])
            for model in models:
                chat = {"model": model, "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": run}}
                answer = await caller.post("/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {key['key']}"})
                ids.append(answer.headers["x-narthex-inference-id"])

        async def are_stored() -> bool:
            return len(await _ids(admin, tag=f"run={run}")) == len(ids)

        await wait_until(are_stored)
    return Sent(teams, prefixes, run, ids)


async def _ids(client: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    answer = await client.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["data"]]


async def test_a_repeated_filter_takes_any_of_its_values(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        assert sorted(await _ids(admin, team=sent.teams)) == sorted(sent.ids)
        assert await _ids(admin, key=[sent.prefixes[1]], team=sent.teams) == [sent.ids[2]]
        assert await _ids(admin, team=sent.teams, outcome=["failed", "aborted"]) == [sent.ids[1]]
        assert sorted(await _ids(admin, team=sent.teams, status=["200", "5xx"])) == sorted(sent.ids)
        assert await _ids(admin, team=sent.teams, min_attempts=1, status="5xx", max_cost_microusd=10**9) in ([], [sent.ids[1]])
        lines = (await admin.get(f"{PATH}/export", params={"team": sent.teams})).text.splitlines()
        assert sorted(json.loads(line)["id"] for line in lines) == sorted(sent.ids)
        unknown = await admin.get(PATH, params={"team": ["nobody-at-all", "nor-she"]})
        assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "team")
        twice = await admin.get(PATH, params={"tag": ["a=b", "c=d"]})
        assert (twice.status_code, twice.json()["error"]["param"]) == (400, "tag")
        many = await admin.get(PATH, params={"model": [str(number) for number in range(51)]})
        assert (many.status_code, many.json()["error"]["param"]) == (400, "model")
        bad = await admin.get(PATH, params={"status": ["200", "6xx"]})
        assert bad.status_code == 400 and "status" in bad.json()["error"]["param"]


async def test_rows_have_only_the_fields_of_the_query(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        answer = await admin.get(PATH, params={"team": sent.teams[1], "fields": "id, key,attempts_count,team"})
        assert answer.json()["data"] == [{"id": sent.ids[2], "key": sent.prefixes[1], "attempts_count": 1, "team": sent.teams[1]}]
        whole = (await admin.get(PATH, params={"team": sent.teams[1]})).json()["data"][0]
        assert len(whole) > 60 and whole["key"] == sent.prefixes[1]
        wrong = await admin.get(PATH, params={"fields": "id,colour"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "fields") and "received_at" in wrong.json()["error"]["message"]


async def test_the_slowest_come_first_page_by_page(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        rows = (await admin.get(PATH, params={"team": sent.teams})).json()["data"]
        slowest = [row["id"] for row in sorted(rows, key=lambda row: (row["duration_us"], row["id"]), reverse=True)]
        asked = {"team": sent.teams, "sort": "-duration_us", "since": rows[-1]["received_at"], "limit": 2}
        first = (await admin.get(PATH, params=asked)).json()
        second = (await admin.get(PATH, params={**asked, "before": first["next"]})).json()
        assert [row["id"] for row in (*first["data"], *second["data"])] == slowest and second["next"] is None
        for wrong, param in (
            ({"sort": "-duration_us"}, "since"),
            ({"sort": "-duration_us", "since": "2020-01-01"}, "since"),
            ({**asked, "sort": "-cost_microusd", "before": first["next"]}, "before"),
            ({**asked, "before": sent.ids[0]}, "before"),
            ({"before": first["next"]}, "before"),
            ({"sort": "-team"}, "sort"),
        ):
            answer = await admin.get(PATH, params=wrong)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), wrong


async def test_count_and_facets_agree_with_the_list(service: Service, sent: Sent):
    async with service.admin_client() as admin:
        assert (await admin.get(f"{PATH}/count", params={"team": sent.teams})).json() == {"count": 3, "capped": False}
        assert (await admin.get(f"{PATH}/count", params={"tag": f"run={sent.run}", "outcome": "failed"})).json()["count"] == 1
        refused = await admin.get(f"{PATH}/count", params={"text": "hello"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "text")
        asked = {"of": "team, outcome,key", "team": sent.teams[0]}
        found = (await admin.get(f"{PATH}/facets", params=asked)).json()
        assert found["data"]["outcome"] == [{"value": "answered", "requests": 1}, {"value": "failed", "requests": 1}]
        assert found["data"]["key"] == [{"value": sent.prefixes[0], "requests": 2}]
        others = {each["value"] for each in found["data"]["team"]}
        assert set(sent.teams) <= others, "its own filter does not narrow a facet"
        but_failed = {**asked, "not_outcome": "failed", "not_key": sent.prefixes[1]}
        found = (await admin.get(f"{PATH}/facets", params=but_failed)).json()
        assert found["data"]["key"] == [{"value": sent.prefixes[0], "requests": 1}]
        assert {each["value"] for each in found["data"]["outcome"]} == {"answered", "failed"}, "what it leaves out can be chosen, too"
        few = (await admin.get(f"{PATH}/facets", params={"of": "team", "limit": 1})).json()
        assert len(few["data"]["team"]) == 1 and few["has_more"] == {"team": True}
        wrong = await admin.get(f"{PATH}/facets", params={"of": "team,colour"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "of")


async def test_a_role_in_a_team_counts_and_lists_that_team_alone(service: Service, sent: Sent):
    async with service.admin_client() as admin, service.keyless_client() as client:
        name = f"{sent.teams[0]}/viewer"
        account = {"name": name, "roles": [{"role": "viewer", "team": sent.teams[0]}]}
        assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
        token = await admin.post(f"/admin/v1/service-accounts/{name.replace('/', '%2F')}/tokens", json={"name": "t"})
        client.headers["authorization"] = f"Bearer {token.json()['token']}"
        assert await _ids(client) == sent.ids[1::-1] == await _ids(client, key=[sent.prefixes[0]])
        since = (await client.get(PATH)).json()["data"][-1]["received_at"]
        assert sorted(await _ids(client, sort="-duration_us", since=since)) == sorted(sent.ids[:2])
        assert (await client.get(f"{PATH}/count")).json() == {"count": 2, "capped": False}
        facets = (await client.get(f"{PATH}/facets", params={"of": "team,key"})).json()["data"]
        assert facets == {
            "team": [{"value": sent.teams[0], "requests": 2}],
            "key": [{"value": sent.prefixes[0], "requests": 2}],
        }
        for path in (PATH, f"{PATH}/count"):
            assert (await client.get(path, params={"team": sent.teams[1]})).status_code == 400, "it does not learn that the team exists"
        both = await client.get(f"{PATH}/count", params={"team": sent.teams})
        assert both.status_code == 400 or both.json()["count"] == 2


async def test_json_is_compressed_for_clients_that_take_it(service: Service, sent: Sent):
    async with service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        plain = await admin.get(PATH, params={"team": sent.teams}, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers and "accept-encoding" in plain.headers["vary"]
        request = admin.build_request("GET", PATH, params={"team": sent.teams}, headers={"accept-encoding": "br, gzip;q=0.5"})
        answer = await admin.send(request, stream=True)
        raw = b"".join([block async for block in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip" and int(answer.headers["content-length"]) == len(raw) < len(plain.content) / 3
        assert json.loads(gzip.decompress(raw)) == plain.json()
        small = await admin.get(f"{PATH}/count", params={"team": sent.teams})
        assert "content-encoding" not in small.headers
        refused = await admin.get(PATH, params={"team": sent.teams}, headers={"accept-encoding": "gzip;q=0"})
        assert "content-encoding" not in refused.headers


async def test_previews_are_for_roles_that_see_what_was_written(service: Service, sent: Sent):
    async with service.admin_client() as admin, service.keyless_client() as client:
        rows = (await admin.get(PATH, params={"team": sent.teams, "preview": "true", "fields": "id"})).json()["data"]
        assert [sorted(row) for row in rows] == [["id", "preview"]] * 3 and {row["preview"] for row in rows} == {"Hello!"}
        episodes = (await admin.get("/admin/v1/episodes", params={"team": sent.teams, "preview": "true"})).json()["data"]
        assert {row["preview"] for row in episodes} == {"Hello!"}
        account = f"{sent.teams[0]}-previews"
        body = {"name": account, "roles": [{"role": "viewer"}]}
        assert (await admin.post("/admin/v1/service-accounts", json=body)).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{account}/tokens")).json()["token"]
        client.headers["authorization"] = f"Bearer {token}"
        for path in (PATH, "/admin/v1/episodes"):
            hidden = (await client.get(path, params={"team": sent.teams, "preview": "true"})).json()["data"]
            assert {row["preview"] for row in hidden} == {None}
        long = await admin.get(PATH, params={"preview": "true", "limit": 201})
        assert (long.status_code, long.json()["error"]["param"]) == (400, "limit")
