"""The dashboard as it is served, and the sessions of browsers that sign in with an admin key."""

import asyncio
from urllib.parse import urlsplit

import httpx2
import pytest

from app.api.dashboard.static_files import read_manifest
from app.store.access.key_sessions import create_one_time_code
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url

SIGN_IN = "/admin/v1/sign-in"
SCRIPT = next(name for name in read_manifest().files if name.startswith("app-") and name.endswith(".js"))


async def sign_in(browser: httpx2.AsyncClient, key: str, **headers: str) -> httpx2.Response:
    return await browser.post(f"{SIGN_IN}/key", json={"key": key}, headers=headers)


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/", "/dashboard/requests?outcome=failed", "/dashboard/experiments/a.b%20c"])
async def test_every_address_of_the_dashboard_answers_with_its_page(service: Service, path: str) -> None:
    async with service.keyless_client() as browser:
        response = await browser.get(path)
    assert response.status_code == 200 and '<div id="app">' in response.text
    headers = response.headers
    assert headers["content-type"].startswith("text/html") and headers["cache-control"] == "no-cache"
    policy = headers["content-security-policy"]
    for directive in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"):
        assert directive in policy.split("; ")
    assert "unsafe" not in policy
    assert (headers["x-content-type-options"], headers["x-frame-options"], headers["referrer-policy"]) == ("nosniff", "DENY", "no-referrer")
    assert headers["cross-origin-opener-policy"] == "same-origin"


async def test_page_is_not_sent_again_while_it_is_current(service: Service) -> None:
    async with service.keyless_client() as browser:
        first = await browser.get("/dashboard", headers={"accept-encoding": "gzip"})
        again = await browser.get("/dashboard", headers={"accept-encoding": "gzip", "if-none-match": first.headers["etag"]})
        plain = await browser.get("/dashboard", headers={"accept-encoding": "identity", "if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert plain.status_code == 200 and "content-encoding" not in plain.headers


async def test_scripts_are_kept_for_ever_and_sent_compressed(service: Service) -> None:
    async with service.keyless_client() as browser:
        response = await browser.get(f"/dashboard/static/{SCRIPT}", headers={"accept-encoding": "gzip"})
        unknown = await browser.get("/dashboard/static/app-0.js")
        outside = await browser.get("/dashboard/static/..%2Froutes.py")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (response.headers["content-encoding"], response.headers["content-type"].split(";")[0]) == ("gzip", "text/javascript")
    assert int(response.headers["content-length"]) == read_manifest().files[SCRIPT].gzip_bytes
    assert (unknown.status_code, outside.status_code) == (404, 404)


async def test_an_admin_key_becomes_a_session_that_no_script_reads_and_ends(service: Service) -> None:
    async with service.keyless_client() as browser:
        assert (await browser.get("/admin/v1/session")).status_code == 401
        signed_in = await sign_in(browser, service.admin_key, origin=service.url)
        assert signed_in.status_code == 200, signed_in.text
        cookie = signed_in.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Domain" not in cookie and service.admin_key not in cookie
        session = (await browser.get("/admin/v1/session")).json()
        assert (session["kind"], session["roles"]) == ("key", [{"role": "owner", "team": None}])
        assert service.admin_key.startswith(session["id"])
        elsewhere = await browser.post("/admin/v1/teams?dry_run=true", json={"name": "t"}, headers={"origin": "https://evil.example"})
        assert elsewhere.status_code == 403
        here = await browser.post("/admin/v1/teams?dry_run=true", json={"name": "t"}, headers={"origin": service.url})
        assert here.status_code == 200, here.text
        token = browser.cookies["narthex_session"]
        assert (await browser.post("/admin/v1/sign-out", headers={"origin": service.url})).status_code == 200
        browser.cookies.set("narthex_session", token)
        assert (await browser.get("/admin/v1/session")).status_code == 401


async def test_session_ends_with_its_key(service: Service) -> None:
    async with service.admin_client() as admin, service.keyless_client() as browser:
        created = (await admin.post("/admin/v1/keys", json={"team": "default", "admin": True})).json()
        assert (await sign_in(browser, created["key"])).status_code == 200
        assert (await browser.get("/admin/v1/session")).status_code == 200
        assert (await admin.delete(f"/admin/v1/keys/{created['prefix']}")).status_code == 200
        assert (await browser.get("/admin/v1/session")).status_code == 401


async def test_restrictions_of_a_key_hold_for_its_session(service: Service) -> None:
    async with service.admin_client() as admin, service.keyless_client() as browser:
        body = {"team": "default", "admin": True, "networks": ["203.0.113.0/24"]}
        elsewhere = (await admin.post("/admin/v1/keys", json=body)).json()
        assert (await sign_in(browser, elsewhere["key"])).status_code == 403
        created = (await admin.post("/admin/v1/keys", json={"team": "default", "admin": True})).json()
        assert (await sign_in(browser, created["key"])).status_code == 200
        address, etag = f"/admin/v1/keys/{created['prefix']}", (await admin.get(f"/admin/v1/keys/{created['prefix']}")).headers["etag"]
        changed = await admin.patch(address, json={"networks": ["203.0.113.0/24"]}, headers={"if-match": etag})
        assert changed.status_code == 200, changed.text
        assert (await browser.get("/admin/v1/session")).status_code == 403


@pytest.mark.parametrize("key", ["nx-000000000000-" + "a" * 43, "sk-something", "nxb-" + "a" * 43])
async def test_what_is_no_valid_key_begins_no_session(service: Service, key: str) -> None:
    async with service.keyless_client() as browser:
        refused = await sign_in(browser, key)
    assert refused.status_code == 401 and "set-cookie" not in refused.headers


async def test_bodies_that_do_not_come_keep_nobody_from_signing_in(service: Service) -> None:
    address = urlsplit(service.url)
    head = f"POST {SIGN_IN}/key HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-length: 100\r\n\r\n".encode()
    slow = [await asyncio.open_connection(address.hostname, address.port) for _ in range(20)]
    try:
        for _, writer in slow:
            writer.write(head)
            await writer.drain()
        await asyncio.sleep(0.2)
        async with service.keyless_client() as browser:
            assert (await sign_in(browser, service.admin_key)).status_code == 200
    finally:
        for _, writer in slow:
            writer.close()


async def test_another_site_signs_nobody_in(service: Service) -> None:
    async with service.keyless_client() as browser:
        refused = await sign_in(browser, service.admin_key, origin="https://evil.example")
    assert refused.status_code == 403 and "set-cookie" not in refused.headers


async def test_a_name_that_may_be_somebody_elses_takes_no_cookie(service: Service) -> None:
    """Its owner could have it resolve to this machine: DNS rebinding."""
    async with service.keyless_client() as browser:
        refused = await sign_in(browser, service.admin_key, host="rebound.example", origin="http://rebound.example")
        assert refused.status_code == 400 and "NARTHEX_PUBLIC_URL" in refused.json()["error"]["message"]
        ways = await browser.get(f"{SIGN_IN}/ways", headers={"host": "rebound.example"})
        assert "NARTHEX_PUBLIC_URL" in ways.json()["key"]
        assert (await browser.get(f"{SIGN_IN}/ways")).json() == {"issuer": False, "key": None}
        await sign_in(browser, service.admin_key)
        token = browser.cookies["narthex_session"]
        headers = {"host": "rebound.example", "cookie": f"narthex_session={token}"}
        assert (await browser.get("/admin/v1/session", headers=headers)).status_code == 401


async def test_one_time_link_works_once(service: Service) -> None:
    code = await create_one_time_code(database_url(service), service.admin_key, lasts_s=60)
    assert code is not None
    async with service.keyless_client() as browser, service.keyless_client() as another:
        assert (await browser.post(f"{SIGN_IN}/once", json={"code": code})).status_code == 200
        assert (await browser.get("/admin/v1/session")).status_code == 200
        assert (await another.post(f"{SIGN_IN}/once", json={"code": code})).status_code == 401
        assert (await another.get("/admin/v1/session", headers={"cookie": f"narthex_session={code}"})).status_code == 401


async def test_a_try_that_is_refused_does_not_use_a_one_time_link_up(service: Service) -> None:
    async with service.admin_client() as admin, service.keyless_client() as browser:
        created = (await admin.post("/admin/v1/keys", json={"team": "default", "admin": True, "networks": ["203.0.113.0/24"]})).json()
        code = await create_one_time_code(database_url(service), created["key"], lasts_s=60)
        refused = await browser.post(f"{SIGN_IN}/once", json={"code": code})
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        address = f"/admin/v1/keys/{created['prefix']}"
        assert (await admin.patch(address, json={"networks": None}, headers={"if-match": "*"})).status_code == 200
        assert (await browser.post(f"{SIGN_IN}/once", json={"code": code})).status_code == 200


async def test_a_one_time_link_signs_in_one_of_those_who_use_it_at_once(service: Service) -> None:
    code = await create_one_time_code(database_url(service), service.admin_key, lasts_s=60)
    async with service.keyless_client() as browser:
        answers = await asyncio.gather(*(browser.post(f"{SIGN_IN}/once", json={"code": code}) for _ in range(8)))
    assert sorted(each.status_code for each in answers) == [200, *[401] * 7]


async def test_sessions_of_a_key_are_listed_and_ended_one_by_one(service: Service) -> None:
    async with service.admin_client() as admin, service.keyless_client() as first, service.keyless_client() as second:
        created = (await admin.post("/admin/v1/keys", json={"team": "default", "admin": True})).json()
        sessions = f"/admin/v1/keys/{created['prefix']}/sessions"
        assert (await admin.get(sessions)).json() == {"data": []}
        for name, browser in (("first", first), ("second", second)):
            assert (await sign_in(browser, created["key"], **{"user-agent": name})).status_code == 200
        listed = (await admin.get(sessions)).json()["data"]
        assert [(each["kind"], each["ip"], each["user_agent"]) for each in listed] == [
            ("browser", "127.0.0.1", "second"),
            ("browser", "127.0.0.1", "first"),
        ]
        unknown = await admin.delete(sessions, params={"session": listed[0]["id"].replace("-", "0")})
        assert (unknown.status_code, "There is no session" in unknown.text) == (404, True)
        others = f"/admin/v1/keys/{service.admin_key[:15]}/sessions"
        assert (await admin.delete(others, params={"session": listed[0]["id"]})).status_code == 404
        assert (await admin.delete(sessions, params={"session": listed[0]["id"]})).json() == {"ended": 1}
        assert [(await browser.get("/admin/v1/session")).status_code for browser in (first, second)] == [200, 401]
        assert (await sign_in(second, created["key"])).status_code == 200
        assert (await admin.delete(sessions)).json() == {"ended": 2}
        assert [(await browser.get("/admin/v1/session")).status_code for browser in (first, second)] == [401, 401]
        assert (await admin.get(sessions)).json() == {"data": []}
        events = (await admin.get("/admin/v1/audit", params={"resource": "session", "name": created["prefix"]})).json()["data"]
        assert [each["action"] for each in events] == ["revoke", "sign_in", "revoke", "sign_in", "sign_in"]


async def test_late_one_time_link_does_not_work(service: Service) -> None:
    code = await create_one_time_code(database_url(service), service.admin_key, lasts_s=0)
    async with service.keyless_client() as browser:
        assert (await browser.post(f"{SIGN_IN}/once", json={"code": code})).status_code == 401


async def test_callers_key_gets_no_one_time_link(service: Service) -> None:
    assert await create_one_time_code(database_url(service), service.key, lasts_s=60) is None


async def test_up_prints_a_link_that_signs_in(service: Service) -> None:
    log = (service.home / "up.log").read_text()
    assert f"Dashboard   {service.url}/dashboard/sign-in#once=nxo-" in log
