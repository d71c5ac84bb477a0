"""Names with slashes, percent signs and letters of any script are one thing's alone, whichever way they reach it."""

from urllib.parse import quote

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

ODD_NAMES = ["a%2Fb", "odd/name", "a//b", "a/", "/a", "100% of it", "x/../y", "Größe 模型"]


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_team_of_any_name_is_reached_by_its_own_path(service: Service, name: str):
    path = f"/admin/v1/teams/{quote(name, safe='')}"
    async with service.admin_client() as client:
        created = await client.post("/admin/v1/teams", json={"name": name, "priority": 7})
        assert created.status_code == 201, created.text
        shown = await client.get(path)
        assert (shown.status_code, shown.json()["name"], shown.json()["priority"]) == (200, name, 7)
        deleted = await client.delete(path, headers={"if-match": shown.headers["etag"]})
        assert deleted.status_code == 200, deleted.text


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_model_of_any_name_is_shown_and_called_by_its_name(service: Service, engine: ScriptedEngine, name: str):
    path = f"/admin/v1/models/{quote(name, safe='')}"
    async with service.admin_client() as admin, service.client() as client:
        put = await admin.put(path, json={"targets": [{"provider": "first", "model": "engine-model"}]}, headers={"if-none-match": "*"})
        assert put.status_code == 201, put.text
        assert (await admin.get(path)).json()["name"] == name
        listed = [each["name"] for each in (await admin.get("/admin/v1/models")).json()["data"]]
        assert name in listed
        shown = await _until_there(client, f"/v1/models/{quote(name, safe='')}")
        assert shown.json()["id"] == name
        deleted = await admin.delete(path, headers={"if-match": put.headers["etag"]})
        assert deleted.status_code == 200, deleted.text


async def _until_there(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    for _ in range(200):
        response = await client.get(path)
        if response.status_code == 200:
            return response
    raise AssertionError(f"{path} is not there")


async def test_name_that_looks_like_another_is_refused(service: Service, engine: ScriptedEngine):
    body = {"targets": [{"provider": "first", "model": "engine-model"}]}
    async with service.admin_client() as client:
        lookalike = await client.put(f"/admin/v1/models/{quote('script' + chr(0x435) + 'd')}", json=body)
        assert lookalike.status_code == 400 and "looks like 'scripted'" in lookalike.json()["error"]["message"]
        loose = await client.put(f"/admin/v1/models/{quote('cafe' + chr(0x301))}", json=body)
        assert loose.status_code == 400 and "normal form C" in loose.json()["error"]["message"]
        team = await client.post("/admin/v1/teams", json={"name": ".."})
        assert team.status_code == 400 and "cannot be a name" in team.json()["error"]["message"]
        assert (await client.post("/admin/v1/teams", json={"name": "Search"})).status_code == 201
        other = await client.post("/admin/v1/teams", json={"name": "S\u0435arch"})
        assert other.status_code == 400 and "looks like 'Search'" in other.json()["error"]["message"]
