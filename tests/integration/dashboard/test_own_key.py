"""Sessions that a caller's key began: they see what is the key's own, do no more than the key, and end with it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

CHAT = {"model": "sandbox", "messages": [{"role": "user", "content": "What is mine?"}], "max_tokens": 8}
NEEDS_ADMIN = "This needs an admin key"


class Signed(NamedTuple):
    """A browser that signed in with a new key. `created` has the key as the admin API returned it."""

    browser: httpx2.AsyncClient
    created: dict[str, Any]


async def sign_in(service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient, team: str, **restrictions: Any) -> Signed:
    created = await admin.post("/admin/v1/keys", json={"team": team, **restrictions})
    assert created.status_code == 201, created.text
    response = await browser.post("/admin/v1/sign-in/key", json={"key": created.json()["key"]}, headers={"origin": service.url})
    assert response.status_code == 200, response.text
    return Signed(browser, created.json())


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
async def browser(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.keyless_client() as client:
        yield client


@pytest.fixture
async def signed(service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient) -> Signed:
    return await sign_in(service, admin, browser, "own-keys", name="a shop")


async def infer(service: Service, key: str, **more: Any) -> str:
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        response = await client.post("/v1/chat/completions", json=CHAT | more)
    assert response.status_code == 200, response.text
    return response.headers["x-narthex-inference-id"]


async def test_callers_key_begins_a_session_without_any_permission(signed: Signed, service: Service) -> None:
    session = (await signed.browser.get("/admin/v1/session")).json()
    assert (session["kind"], session["id"]) == ("caller", signed.created["prefix"])
    assert (session["roles"], session["permissions"], session["team_permissions"]) == ([], [], {})
    own = (await signed.browser.get("/admin/v1/own/key")).json()
    assert (own["prefix"], own["team"], own["name"], own["admin"]) == (signed.created["prefix"], "own-keys", "a shop", False)
    assert signed.created["key"] not in str(own)


async def test_session_of_a_caller_gets_nothing_that_takes_an_admin_key(signed: Signed, service: Service) -> None:
    paths: dict[str, dict[str, Any]] = (await signed.browser.get("/openapi.json")).json()["paths"]
    own = ("/admin/v1/own/", "/admin/v1/playground/", "/admin/v1/sign-in", "/admin/v1/session", "/admin/v1/sign-out")
    closed = [(method, path) for path, item in paths.items() for method in item if path.startswith("/admin/") and not path.startswith(own)]
    assert len(closed) > 100
    for method, path in closed:
        address = path.replace("{", "").replace("}", "")
        refused = await signed.browser.request(method, address, headers={"origin": service.url})
        assert refused.status_code == 403 and NEEDS_ADMIN in refused.text, (method, path)
    created = await signed.browser.post("/admin/v1/keys", json={"team": "own-keys"}, headers={"origin": service.url})
    assert created.status_code == 403
    bearer = {"authorization": f"Bearer {signed.created['key']}"}
    async with service.keyless_client() as client:
        assert (await client.get("/admin/v1/teams", headers=bearer)).status_code == 403
        assert (await client.get("/admin/v1/own/key", headers=bearer)).status_code == 200, "whatever the page shows, a script can"


async def test_own_requests_are_those_of_the_key_alone(signed: Signed, service: Service, admin: httpx2.AsyncClient) -> None:
    neighbour = (await admin.post("/admin/v1/keys", json={"team": "own-keys"})).json()["key"]
    own, of_team, of_others = (
        await infer(service, signed.created["key"]),
        await infer(service, neighbour),
        await infer(service, service.key),
    )
    for id in (own, of_team, of_others):
        await service.wait_for_record(id)
    page = (await signed.browser.get("/admin/v1/own/inferences", params={"preview": "true"})).json()
    assert [each["id"] for each in page["data"]] == [own]
    assert page["data"][0]["preview"] == "What is mine?"
    assert (page["data"][0]["endpoint"], page["data"][0]["attempts"]) == (None, None), "addresses are the operator's"
    shown = (await signed.browser.get(f"/admin/v1/own/inferences/{own}", params={"content": "messages"})).json()
    assert shown["messages"]["input"][0]["parts"][0]["text"] == "What is mine?"
    for id in (of_team, of_others):
        assert (await signed.browser.get(f"/admin/v1/own/inferences/{id}")).status_code == 404
        assert (await signed.browser.get(f"/admin/v1/inferences/{id}")).status_code == 403
    later = (await signed.browser.get("/admin/v1/own/inferences", params={"since": "2100-01-01"})).json()
    assert later["data"] == []


async def test_own_usage_limits_and_models_are_what_the_key_reads_itself(
    signed: Signed, service: Service, admin: httpx2.AsyncClient
) -> None:
    await infer(service, signed.created["key"])
    limit = {"scope": {"key": signed.created["prefix"]}, "resource": "requests", "amount": 50, "per": "day", "name": "of a session"}
    assert (await admin.post("/admin/v1/limits", json=limit)).status_code == 201
    bearer = {"authorization": f"Bearer {signed.created['key']}"}
    async with service.keyless_client() as client:
        for path in ("models", "usage?group_by=day", "limits?model=sandbox"):

            async def agree(path: str = path) -> bool:
                by_key = await client.get(f"/v1/{path}", headers=bearer)
                by_session = await signed.browser.get(f"/admin/v1/own/{path}")
                assert (by_key.status_code, by_session.status_code) == (200, 200), by_session.text
                # Limits refill between two questions: what they are about is the same.
                shown = [
                    [rule["rule"] for rule in each.json()["data"]] if "limits" in path else each.json() for each in (by_key, by_session)
                ]
                return bool(shown[0] and shown[0] == shown[1])

            await wait_until(agree, 30)
    assert "of a session" in (await signed.browser.get("/admin/v1/own/limits?model=sandbox")).text


async def test_routes_that_the_key_may_not_use_are_closed_to_its_session(
    service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    await sign_in(service, admin, browser, "own-keys", routes=["/v1/chat/completions"])
    assert (await browser.get("/admin/v1/session")).status_code == 200
    assert (await browser.get("/admin/v1/own/key")).json()["routes"] == ["/v1/chat/completions"]
    for path in ("models", "usage", "limits", "inferences"):
        refused = await browser.get(f"/admin/v1/own/{path}")
        assert refused.status_code == 403 and "may not use this route" in refused.text, path


async def test_session_of_a_caller_ends_by_signing_out_and_with_its_key(
    service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    first = await sign_in(service, admin, browser, "own-keys")
    token = browser.cookies["narthex_session"]
    assert (await browser.post("/admin/v1/sign-out", headers={"origin": "https://evil.example"})).status_code == 403
    assert (await browser.get("/admin/v1/session")).status_code == 200
    assert (await browser.post("/admin/v1/sign-out", headers={"origin": service.url})).status_code == 200
    browser.cookies.set("narthex_session", token)
    assert (await browser.get("/admin/v1/own/key")).status_code == 401
    browser.cookies.clear()
    key = first.created["prefix"]
    again = await browser.post("/admin/v1/sign-in/key", json={"key": first.created["key"]}, headers={"origin": service.url})
    assert again.status_code == 200
    rotated = await admin.post(f"/admin/v1/keys/{key}/rotate", json={"overlap_s": 0})
    assert rotated.status_code == 201, rotated.text
    for path in ("session", "own/key", "own/inferences", "own/usage", "own/models"):
        assert (await browser.get(f"/admin/v1/{path}")).status_code == 401, path


async def test_whoever_has_no_key_names_one_of_a_team_where_they_may_make_keys(service: Service, admin: httpx2.AsyncClient) -> None:
    ours = (await admin.post("/admin/v1/keys", json={"team": "own-keys", "models": ["sandbox"]})).json()["prefix"]
    theirs = (await admin.post("/admin/v1/keys", json={"team": "others-keys"})).json()["prefix"]
    for role, status in (("editor", 200), ("viewer", 403)):
        name = f"own-{role}"
        account = {"name": name, "roles": [{"role": role, "team": "own-keys"}]}
        assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{name}/tokens")).json()["token"]
        async with service.client(headers={"authorization": f"Bearer {token}"}) as client:
            named = await client.get("/admin/v1/own/models", headers={"x-narthex-key": ours})
            assert named.status_code == status, named.text
            if status == 200:
                assert [each["id"] for each in named.json()["data"]] == ["sandbox"]
            assert (await client.get("/admin/v1/own/models", headers={"x-narthex-key": theirs})).status_code == 404
            assert (await client.get("/admin/v1/own/models", headers={"x-narthex-key": "everything"})).status_code == 400
            assert (await client.get("/admin/v1/own/models")).json()["error"]["param"] == "x-narthex-key"
            assert (await client.get("/admin/v1/own/key")).status_code == 400


async def test_callers_key_names_no_other_key(signed: Signed, service: Service, admin: httpx2.AsyncClient) -> None:
    neighbour = (await admin.post("/admin/v1/keys", json={"team": "own-keys"})).json()["prefix"]
    assert (await signed.browser.get("/admin/v1/own/models", headers={"x-narthex-key": neighbour})).status_code == 404
    own = await signed.browser.get("/admin/v1/own/models", headers={"x-narthex-key": signed.created["prefix"]})
    assert own.status_code == 200


async def test_many_questions_of_a_caller_leave_admins_theirs(signed: Signed, admin: httpx2.AsyncClient) -> None:
    """A page of a caller asks for four things at once, and a script for as many as it likes: the admin API's pool is for admins."""
    questions = [asyncio.create_task(signed.browser.get("/admin/v1/own/inferences")) for _ in range(60)]
    try:
        answers = await asyncio.gather(*(admin.get("/admin/v1/teams") for _ in range(5)))
        assert {each.status_code for each in answers} == {200}
        assert {each.status_code for each in await asyncio.gather(*questions)} == {200}
    finally:
        for task in questions:
            task.cancel()
