"""Teams over the admin API: create, list in pages, change with If-Match, dry runs, repeated requests, delete."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.domain.callers import ALL_DETECTORS
from tests.support.processes.service import Service


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


async def test_a_team_is_created_changed_by_merge_patch_and_deleted(admin: httpx2.AsyncClient) -> None:
    name = unique("team/with slash")
    created = await admin.post("/admin/v1/teams", json={"name": name, "content": "redacted", "priority": 7})
    assert (await ok(created, 201))["content"] == "redacted"
    path = f"/admin/v1/teams/{name.replace('/', '%2F')}"
    shown = await admin.get(path)
    assert shown.json() == created.json() and shown.headers["etag"] == created.headers["etag"]
    assert (await ok(await admin.post("/admin/v1/teams", json={"name": name}), 409))["error"]["type"] == "conflict"

    patched = await admin.patch(path, json={"content": None, "drop": ["seed"]}, headers={"if-match": shown.headers["etag"]})
    team = await ok(patched)
    assert (team["content"], team["drop"], team["priority"]) == ("full", ["seed"], 7)

    deleted = await admin.delete(path, headers={"if-match": patched.headers["etag"]})
    assert await ok(deleted) == {"name": name, "deleted": True}
    await ok(await admin.get(path), 404)


async def test_rules_of_masked_content_are_merged_field_by_field(admin: httpx2.AsyncClient) -> None:
    path = "/admin/v1/teams/" + unique("masked")
    created = await admin.put(path, json={"content": "masked", "mask": {"detectors": ["email"], "patterns": {"a": "a+", "b": "b+"}}})

    async def patch(mask: Any) -> Any:
        return (await ok(await admin.patch(path, json={"mask": mask}, headers={"if-match": "*"})))["mask"]

    assert (await ok(created, 201))["mask"] == {"detectors": ["email"], "patterns": {"a": "a+", "b": "b+"}}
    assert await patch({"patterns": {"a": None, "c": "c+"}}) == {"detectors": ["email"], "patterns": {"b": "b+", "c": "c+"}}
    assert await patch({"detectors": None}) == {"detectors": list(ALL_DETECTORS), "patterns": {"b": "b+", "c": "c+"}}
    assert await patch(None) == {"detectors": list(ALL_DETECTORS), "patterns": {}}
    wrong_masks: list[tuple[Any, str]] = [
        ({"patterns": {"a": "("}}, "RE2"),
        ({"detectors": ["emails"]}, "detectors"),
        ({"paterns": {}}, "paterns"),
    ]
    for wrong, named in wrong_masks:
        refused = await ok(await admin.patch(path, json={"mask": wrong}, headers={"if-match": "*"}), 400)
        assert named in refused["error"]["message"], refused


async def test_of_two_editors_one_gets_412_and_loses_nothing(admin: httpx2.AsyncClient) -> None:
    name = unique("edited")
    etag = (await admin.put(f"/admin/v1/teams/{name}", json={})).headers["etag"]
    missing = await ok(await admin.patch(f"/admin/v1/teams/{name}", json={"priority": 1}), 428)
    assert etag in missing["error"]["message"]
    first = await admin.patch(f"/admin/v1/teams/{name}", json={"priority": 1}, headers={"if-match": etag})
    assert first.status_code == 200
    second = await ok(await admin.patch(f"/admin/v1/teams/{name}", json={"priority": 2}, headers={"if-match": etag}), 412)
    assert first.headers["etag"] in second["error"]["message"]
    assert (await admin.get(f"/admin/v1/teams/{name}")).json()["priority"] == 1
    # Weak tags never match, other text is not a tag, and * matches any state.
    for value, status in ((f"W/{first.headers['etag']}", 412), ("nonsense", 400), ("*", 200)):
        response = await admin.patch(f"/admin/v1/teams/{name}", json={"priority": 3}, headers={"if-match": value})
        assert response.status_code == status, response.text
    assert (await admin.put("/admin/v1/teams/" + unique("new"), json={}, headers={"if-match": "*"})).status_code == 412


async def test_a_dry_run_shows_the_difference_and_changes_nothing(admin: httpx2.AsyncClient) -> None:
    name = unique("dry")
    shown = await ok(await admin.post("/admin/v1/teams?dry_run=true", json={"name": name, "priority": 5}))
    change = {"action": "create", "resource": "team", "name": name, "team": name, "before": None}
    mask: dict[str, Any] = {"detectors": list(ALL_DETECTORS), "patterns": {}}
    after: dict[str, Any] = {"content": "full", "drop": [], "priority": 5, "mask": mask, "search": False}
    after |= {"models": None, "routes": None, "networks": None, "limits": [], "fallbacks": "any"}
    assert shown == {"dry_run": True, "changes": [{**change, "after": after}], "warnings": []}
    await ok(await admin.get(f"/admin/v1/teams/{name}"), 404)


async def test_a_repeated_request_with_an_idempotency_key_is_served_once(admin: httpx2.AsyncClient) -> None:
    body, headers = {"name": unique("once")}, {"idempotency-key": unique("key")}
    first = await admin.post("/admin/v1/teams", json=body, headers=headers)
    again = await admin.post("/admin/v1/teams", json=body, headers=headers)
    assert await ok(again, 201) == await ok(first, 201) and again.headers["idempotent-replayed"] == "true"
    assert again.headers["etag"] == first.headers["etag"]
    other = await ok(await admin.post("/admin/v1/teams", json={"name": unique("other")}, headers=headers), 422)
    assert "Idempotency-Key" in other["error"]["message"]


async def test_pages_follow_sorting_and_filters(admin: httpx2.AsyncClient) -> None:
    mark = unique("paged")
    for number in range(5):
        await ok(await admin.post("/admin/v1/teams", json={"name": f"{mark}-{number}"}), 201)
    for sort, expected in (("name", [0, 1, 2, 3, 4]), ("-created_at", [4, 3, 2, 1, 0])):
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = await ok(await admin.get("/admin/v1/teams", params={"search": mark, "limit": 2, "sort": sort, **after}))
            seen += [team["name"] for team in page["data"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert seen == [f"{mark}-{number}" for number in expected]
    page = await ok(await admin.get("/admin/v1/teams", params={"search": mark, "limit": 2}))
    moved = await ok(await admin.get("/admin/v1/teams", params={"search": mark, "limit": 2, "sort": "-name", "after": page["next"]}), 400)
    assert moved["error"]["param"] == "after"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=", "limit"),
        ("limt=5", "limt"),
        ("sort=age", "sort"),
        ("after=x", "after"),
        ("limit=1&limit=2", "limit"),
    ],
)
async def test_odd_parameters_are_refused_by_name(admin: httpx2.AsyncClient, query: str, param: str) -> None:
    error = (await ok(await admin.get(f"/admin/v1/teams?{query}"), 400))["error"]
    assert (error["param"] == param and "`" + param in error["message"]) or repr(param) in error["message"]
