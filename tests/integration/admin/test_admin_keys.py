"""Keys over the admin API: limits at creation and after a rotation, merge patch with If-Match, filters, pages, dry runs."""

import re
import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/keys"


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
def team() -> str:
    return f"keys-{uuid.uuid4().hex[:12]}"


def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


async def test_limits_are_set_with_the_key_and_hold_for_those_that_replace_it(
    admin: httpx2.AsyncClient, service: Service, team: str
) -> None:
    body = {"team": team, "limits": [{"resource": "requests", "amount": 1, "per": "minute"}], "budget": {"amount_usd": 5}}
    created = ok(await admin.post(PATH, json=body), 201)
    prefix = created["prefix"]
    names = [f"{prefix}-requests-minute", f"{prefix}-cost_usd-month"]
    assert [limit["name"] for limit in created["limits"]] == names
    assert {limit["scope"]["key"] for limit in created["limits"]} == {prefix}
    exported = service.run("export").stdout
    assert all(name in exported for name in names)

    rotated = ok(await admin.post(f"{PATH}/{prefix}/rotate", json={"overlap_s": 60}), 201)
    assert [limit["name"] for limit in rotated["limits"]] == names
    assert len(ok(await admin.get(f"{PATH}/{prefix}"))["limits"]) == 2
    again = ok(await admin.post(f"{PATH}/{rotated['prefix']}/rotate", json={"overlap_s": 0}), 201)
    assert [limit["amount"] for limit in again["limits"]] == [1, 5]


async def test_a_key_with_an_invalid_limit_is_not_created(admin: httpx2.AsyncClient, team: str) -> None:
    for limit, reason in (
        ({"resource": "requests", "amount": 1}, "per is required"),
        ({"resource": "requests", "amount": -1, "per": "minute"}, "more than 0"),
        ({"resource": "requests", "amount": 1, "per": "minute", "model": "no such"}, "no model"),
        ({"resource": "wishes", "amount": 1}, "cost_usd"),
    ):
        error = ok(await admin.post(PATH, json={"team": team, "limits": [limit]}), 400)["error"]
        assert reason in error["message"], error
    assert ok(await admin.get(PATH, params={"team": team}))["data"] == []


async def test_the_audit_log_has_the_fields_of_a_key_that_changed(admin: httpx2.AsyncClient, team: str) -> None:
    many = [f"model-{number}" for number in range(200)]
    created = ok(await admin.post(PATH, json={"team": team, "models": many, "name": "a"}), 201)
    path, match = f"{PATH}/{created['prefix']}", {"if-match": "*"}
    tried = ok(await admin.patch(f"{path}?dry_run=true", json={"name": "b"}, headers=match))["changes"]
    assert [(each["before"], each["after"]) for each in tried] == [({"name": "a"}, {"name": "b"})]
    ok(await admin.patch(path, json={"name": "b"}, headers=match))
    ok(await admin.patch(path, json={"name": "b", "models": ["x"]}, headers=match))
    rotated = ok(await admin.post(f"{path}/rotate", json={"overlap_s": 60}), 201)
    ok(await admin.delete(path))
    events = ok(await admin.get("/admin/v1/audit", params={"resource": "key", "name": created["prefix"]}))["data"]
    assert [(each["action"], sorted(each["after"])) for each in events[:2]] == [
        ("revoke", ["revoked_at"]),
        ("rotate", ["expires_at", "replaced_by"]),
    ]
    assert [(each["action"], each["before"], each["after"]) for each in events[2:4]] == [
        ("update", {"models": many}, {"models": ["x"]}),
        ("update", {"name": "a"}, {"name": "b"}),
    ]
    assert events[4]["action"] == "create" and events[4]["before"] is None and events[4]["after"]["models"] == many
    assert (events[0]["team"], events[0]["before"]) == (team, {"revoked_at": None}) and rotated["name"] == "b"


async def test_of_two_editors_of_a_key_one_gets_412(admin: httpx2.AsyncClient, team: str) -> None:
    created = await admin.post(PATH, json={"team": team, "models": ["a"], "name": "n"})
    path, etag = f"{PATH}/{ok(created, 201)['prefix']}", created.headers["etag"]
    assert (await admin.get(path)).headers["etag"] == etag
    assert etag in ok(await admin.patch(path, json={"name": "x"}), 428)["error"]["message"]
    first = await admin.patch(path, json={"models": None, "name": None}, headers={"if-match": etag})
    assert (ok(first)["models"], first.json()["name"]) == (None, "")
    ok(await admin.patch(path, json={"name": "y"}, headers={"if-match": etag}), 412)
    assert ok(await admin.get(path)) == first.json()


async def test_a_dry_run_creates_no_key_and_shows_no_secret(admin: httpx2.AsyncClient, team: str) -> None:
    body = {"team": team, "budget": {"amount_usd": 5}}
    answer = await admin.post(f"{PATH}?dry_run=true", json=body)
    shown = ok(answer)
    assert [change["resource"] for change in shown["changes"]] == ["team", "key", "limit"]
    _, key, limit = (change["after"] for change in shown["changes"])
    assert limit["scope"] == {"key": key["prefix"]}, "which key it is for is no secret"
    assert not re.search(r"nx-[0-9a-f]{12}-[\w-]{40}", answer.text)
    assert ok(await admin.get(PATH, params={"team": team}))["data"] == []


async def test_keys_are_filtered_sorted_and_paged(admin: httpx2.AsyncClient, team: str) -> None:
    made = [ok(await admin.post(PATH, json={"team": team, "name": name, "admin": name == "boss"}), 201) for name in ("b", "boss", "a")]
    ok(await admin.delete(f"{PATH}/{made[0]['prefix']}"))

    async def names(**params: Any) -> list[str]:
        return [key["name"] for key in ok(await admin.get(PATH, params={"team": team, **params}))["data"]]

    assert await names() == ["b", "boss", "a"] and await names(sort="-created_at") == ["a", "boss", "b"]
    assert await names(sort="name") == ["a", "b", "boss"]
    assert await names(state="revoked") == ["b"] and await names(state="valid", admin="false") == ["a"]
    assert await names(admin="true") == ["boss"] and await names(search="BO") == ["boss"]
    assert await names(search=made[2]["key"]) == ["a"], "of a complete key the public part counts"
    page = ok(await admin.get(PATH, params={"team": team, "limit": 2}))
    rest = ok(await admin.get(PATH, params={"team": team, "limit": 2, "after": page["next"]}))
    assert [key["name"] for key in [*page["data"], *rest["data"]]] == ["b", "boss", "a"] and rest["next"] is None


async def test_a_complete_key_in_a_path_is_never_repeated(admin: httpx2.AsyncClient, team: str) -> None:
    key = ok(await admin.post(PATH, json={"team": team}), 201)["key"]
    secret = key[16:]
    ok(await admin.delete(f"{PATH}/{key}"))
    for answer in (
        await admin.delete(f"{PATH}/{key}"),
        await admin.post(f"{PATH}/{key}/rotate", json={"overlap_s": 0}),
        await admin.patch(f"{PATH}/{key}", json={}, headers={"if-match": "*"}),
        await admin.get(f"{PATH}/x{key}"),
        await admin.get(f"{PATH}/{key}/rotated"),
        await admin.put(f"{PATH}/{key}", json={}),
        await admin.get(PATH, params={"after": key}),
    ):
        assert answer.status_code >= 400 and secret not in answer.text, answer.text


async def test_keys_are_listed_with_their_usage_and_unused_ones_are_found(admin: httpx2.AsyncClient, service: Service, team: str) -> None:
    used, unused = [ok(await admin.post(PATH, json={"team": team, "name": name}), 201) for name in ("used", "unused")]
    async with service.keyless_client() as caller:
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hi"}]}
        ok(await caller.post("/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {used['key']}"}))

    async def is_counted() -> bool:
        data = ok(await admin.get(PATH, params={"team": team, "usage_days": 30}))["data"]
        by_prefix = {row["prefix"]: row["usage"] for row in data}
        return by_prefix[used["prefix"]]["requests"] == 1

    await wait_until(is_counted)
    rows = {row["prefix"]: row for row in ok(await admin.get(PATH, params={"team": team, "usage_days": 30}))["data"]}
    usage = rows[used["prefix"]]["usage"]
    assert usage["failed"] == 0 and usage["last_used_at"] is not None and usage["last_used_at"].endswith(":00:00+00:00")
    assert rows[unused["prefix"]]["usage"] == {**usage, "last_used_at": None, "requests": 0, "cost_microusd": 0, "unpriced": 0}
    assert [row["usage"] for row in ok(await admin.get(PATH, params={"team": team}))["data"]] == [None, None]
    now = datetime.now(UTC).isoformat()
    assert [row["prefix"] for row in ok(await admin.get(PATH, params={"team": team, "unused_since": now}))["data"]] == [unused["prefix"]]
    assert ok(await admin.get(PATH, params={"team": team, "unused_since": "2020-01-01"}))["data"] == [], "they are younger"
    for wrong in ({"usage_days": 0}, {"usage_days": 401}, {"unused_since": "yesterday"}):
        assert ok(await admin.get(PATH, params=wrong), 400)["error"]["param"] == next(iter(wrong))
