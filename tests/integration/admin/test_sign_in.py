"""Signing in with a real OpenID Connect issuer: by a browser's cookie and by the command line, and what must not work."""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes import service as services
from tests.support.processes.commands import run_command
from tests.support.processes.oidc_issuer import CLIENT_ID, CLIENT_SECRET, OidcIssuer
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import all_stored_text, database_url, file_contents

GROUP_ROLES = '{"platform": "owner", "readers": "viewer"}'
APP = "http://app.example:5173"
SIGN_IN = "/admin/v1/sign-in"


@pytest.fixture(scope="module")
def issuer() -> Generator[OidcIssuer]:
    running = OidcIssuer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def signing_in(issuer: OidcIssuer) -> Generator[Service]:
    port = services.free_port()
    running = services.start(
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        cors_origins=APP,
        oidc_issuer=issuer.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_groups_claim="realm_access.groups",
        oidc_group_roles=GROUP_ROLES,
    )
    yield running
    services.stop(running)


@pytest.fixture
def person(issuer: OidcIssuer) -> Generator[dict[str, Any]]:
    """Somebody in the group `readers`, new for each test."""
    number = f"{time.monotonic_ns()}"
    issuer.person = {"sub": number, "email": f"ada-{number}@example.com", "realm_access": {"groups": ["readers"]}}
    yield issuer.person
    issuer.changed_claims, issuer.in_id_token, issuer.refuses, issuer.is_down = {}, True, False, False


@pytest.fixture
async def browser(signing_in: Service, person: dict[str, Any]) -> AsyncGenerator[httpx2.AsyncClient]:
    async with signing_in.keyless_client() as client:
        client.headers["accept"] = "text/html,*/*;q=0.8"
        yield client


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


async def to_the_issuer(browser: httpx2.AsyncClient, **query: str) -> str:
    begun = await browser.get(SIGN_IN, params=query)
    assert begun.status_code == 303, begun.text
    return begun.headers["location"]


async def back_from_the_issuer(browser: httpx2.AsyncClient, url: str) -> str:
    response = await browser.get(url)
    assert response.status_code == 302, response.text
    return response.headers["location"]


async def sign_in(browser: httpx2.AsyncClient, **query: str) -> httpx2.Response:
    return await browser.get(await back_from_the_issuer(browser, await to_the_issuer(browser, **query)))


async def test_a_browser_signs_in_has_its_groups_roles_and_signs_out(
    browser: httpx2.AsyncClient, signing_in: Service, person: dict[str, Any]
) -> None:
    signed_in = await sign_in(browser, return_to="/docs?x=1#keys")
    assert signed_in.status_code == 303, signed_in.text
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, f"{signing_in.url}/docs?x=1#keys")
    [cookie] = [each for each in signed_in.headers.get_list("set-cookie") if each.startswith("narthex_session=")]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/" in cookie and "Domain" not in cookie
    assert [each for each in browser.cookies if each != "narthex_session"] == []
    session = await ok(await browser.get("/admin/v1/session"))
    assert (session["kind"], session["name"], session["roles"]) == ("user", person["email"], [{"role": "viewer", "team": None}])
    await ok(await browser.get("/admin/v1/teams"))
    assert (await browser.post("/admin/v1/teams", json={"name": "t"}, headers={"origin": signing_in.url})).status_code == 403

    async with signing_in.admin_client() as admin:
        user = await ok(await admin.get(f"/admin/v1/users/{session['id']}"))
        assert (user["subject"], user["email"], user["groups"]) == (person["sub"], person["email"], ["readers"])
        events = (await ok(await admin.get("/admin/v1/audit", params={"actor": session["id"]})))["data"]
        assert [(each["action"], each["resource"], each["via"]) for each in events] == [
            ("sign_in", "session", "sign_in"),
            ("create", "user", "sign_in"),
        ]
        assert "nxb-" not in str(events)
        token = browser.cookies["narthex_session"]
        await ok(await browser.post("/admin/v1/sign-out", headers={"origin": signing_in.url}))
        assert "narthex_session" not in browser.cookies
        browser.cookies.set("narthex_session", token)
        assert (await browser.get("/admin/v1/session")).status_code == 401


async def test_groups_are_those_of_the_last_sign_in(browser: httpx2.AsyncClient, person: dict[str, Any]) -> None:
    await sign_in(browser)
    person["realm_access"] = {"groups": ["platform", "unknown"]}
    assert (await ok(await browser.get("/admin/v1/session")))["roles"] == [{"role": "viewer", "team": None}]
    await sign_in(browser)
    assert (await ok(await browser.get("/admin/v1/session")))["roles"] == [{"role": "owner", "team": None}]
    del person["realm_access"]
    await sign_in(browser)
    assert (await ok(await browser.get("/admin/v1/session")))["roles"] == []
    assert (await browser.get("/admin/v1/teams")).status_code == 403


async def test_claims_may_be_in_userinfo_alone_and_the_key_another(browser: httpx2.AsyncClient, issuer: OidcIssuer) -> None:
    issuer.in_id_token = False
    issuer.rotate_key("ES256")
    assert (await sign_in(browser)).status_code == 303
    assert (await ok(await browser.get("/admin/v1/session")))["roles"] == [{"role": "viewer", "team": None}]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nonce": "another"}, "of another sign-in"),
        ({"nonce": None}, "of another sign-in"),
        ({"aud": "somebody else"}, "for another client"),
        ({"aud": [CLIENT_ID, "somebody else"]}, "issued to another client"),
        ({"iss": "https://elsewhere.example"}, "another issuer"),
        ({"exp": time.time() - 100}, "expired"),
        ({"nbf": time.time() + 10_000}, "not valid yet"),
        ({"sub": ""}, "whom it is about"),
    ],
)
async def test_an_id_token_that_is_not_for_this_sign_in_is_refused(
    browser: httpx2.AsyncClient, issuer: OidcIssuer, change: dict[str, Any], reason: str
) -> None:
    issuer.changed_claims = change
    refused = await sign_in(browser)
    assert refused.status_code == 502 and reason in refused.text and "text/html" in refused.headers["content-type"]
    assert "narthex_session" not in browser.cookies


async def test_a_token_of_an_unknown_key_is_refused(browser: httpx2.AsyncClient, issuer: OidcIssuer) -> None:
    await sign_in(browser)
    url = await back_from_the_issuer(browser, await to_the_issuer(browser))
    published = issuer.published_keys
    issuer.rotate_key("RS256")
    rotated, issuer.published_keys = issuer.published_keys, published
    refused = await browser.get(url)
    assert refused.status_code == 502 and "no key of the issuer" in refused.text
    issuer.published_keys = rotated
    assert (await sign_in(browser)).status_code == 303


async def test_an_answer_counts_once_and_in_the_browser_that_began(browser: httpx2.AsyncClient, signing_in: Service) -> None:
    url = await back_from_the_issuer(browser, await to_the_issuer(browser))
    async with signing_in.keyless_client() as other:
        assert "not begun in this browser" in (await ok(await other.get(url), 400))["error"]["message"]
        # A sign-in of its own does not help with another's state.
        await to_the_issuer(other)
        await ok(await other.get(url), 400)
    wrong_state = url.replace("state=", "state=x")
    assert (await browser.get(wrong_state)).status_code == 400
    cookies = dict(browser.cookies)
    assert (await browser.get(url)).status_code == 303
    assert (await browser.get(url)).status_code == 400
    browser.cookies.update(cookies)  # as somebody does who has copied them
    again = await browser.get(url)
    assert again.status_code == 400 and "invalid_grant" in again.text


async def test_tabs_can_sign_in_at_once(browser: httpx2.AsyncClient) -> None:
    urls = [await back_from_the_issuer(browser, await to_the_issuer(browser)) for _ in range(3)]
    assert [(await browser.get(url)).status_code for url in urls] == [303, 303, 303]
    for _ in range(8):
        await to_the_issuer(browser)
    assert len([each for each in browser.cookies if each.startswith("narthex_sign_in_")]) <= 6


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "http://app.example:5173@evil.example", "", "x"],
)
async def test_nobody_is_sent_to_another_site(browser: httpx2.AsyncClient, target: str) -> None:
    assert (await browser.get(SIGN_IN, params={"return_to": target})).status_code == 400


async def test_pages_of_permitted_origins_get_people_back(browser: httpx2.AsyncClient) -> None:
    assert (await sign_in(browser, return_to=f"{APP}/keys?page=2")).headers["location"] == f"{APP}/keys?page=2"


async def test_a_page_of_another_origin_cannot_use_the_session(browser: httpx2.AsyncClient, person: dict[str, Any]) -> None:
    person["realm_access"] = {"groups": ["platform"]}
    await sign_in(browser)
    body = {"name": f"team-{person['sub']}"}
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {}):
        assert (await browser.post("/admin/v1/teams", json=body, headers=headers)).status_code == 403
    assert (await browser.post("/admin/v1/teams", json=body, headers={"origin": APP})).status_code == 201


async def test_a_disabled_user_cannot_sign_in(browser: httpx2.AsyncClient, signing_in: Service) -> None:
    await sign_in(browser)
    user = (await ok(await browser.get("/admin/v1/session")))["id"]
    async with signing_in.admin_client() as admin:
        await ok(await admin.patch(f"/admin/v1/users/{user}", json={"disabled": True}, headers={"if-match": "*"}))
        assert (await browser.get("/admin/v1/session")).status_code == 401
        refused = await sign_in(browser)
        assert refused.status_code == 403 and "disabled your account" in refused.text
        await ok(await admin.patch(f"/admin/v1/users/{user}", json={"disabled": False}, headers={"if-match": "*"}))
    assert (await sign_in(browser)).status_code == 303


async def test_one_of_a_users_sessions_ends_and_the_others_go_on(browser: httpx2.AsyncClient, signing_in: Service) -> None:
    await sign_in(browser)
    user = (await ok(await browser.get("/admin/v1/session")))["id"]
    async with signing_in.admin_client() as admin:
        (earlier,) = (await ok(await admin.get(f"/admin/v1/users/{user}/sessions")))["data"]
        await sign_in(browser)
        assert len((await ok(await admin.get(f"/admin/v1/users/{user}/sessions")))["data"]) == 2
        assert (await admin.delete(f"/admin/v1/users/{user}/sessions", params={"session": user})).status_code == 404
        ended = await admin.delete(f"/admin/v1/users/{user}/sessions", params={"session": earlier["id"]})
        assert await ok(ended) == {"ended": 1}
        (later,) = (await ok(await admin.get(f"/admin/v1/users/{user}/sessions")))["data"]
    assert later["id"] != earlier["id"] and (await browser.get("/admin/v1/session")).status_code == 200


async def test_what_the_issuer_says_is_shown_as_text(browser: httpx2.AsyncClient, issuer: OidcIssuer) -> None:
    issuer.refuses = True
    page = await sign_in(browser)
    assert page.status_code == 403 and "access_denied The &lt;b&gt;person&lt;/b&gt; said no" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_people_with_one_name_are_two_users(browser: httpx2.AsyncClient, person: dict[str, Any]) -> None:
    await sign_in(browser)
    first = await ok(await browser.get("/admin/v1/session"))
    person["sub"] += "-b"
    await sign_in(browser)
    second = await ok(await browser.get("/admin/v1/session"))
    assert first["id"] != second["id"] and first["name"] != second["name"] == f"{person['email']} ({person['sub']})"
    person.update(sub=person["sub"] + "-c", email_verified=False, preferred_username="ada")
    await sign_in(browser)
    assert (await ok(await browser.get("/admin/v1/session")))["name"] == "ada"
    person.update(sub=person["sub"] + "-d", preferred_username="bo\u0455\u0455")  # with Cyrillic letters
    await sign_in(browser)
    assert (await ok(await browser.get("/admin/v1/session")))["name"] == f"bo\u0455\u0455 ({person['sub']})"


@pytest.mark.parametrize("change", ["used_at = now() - interval '3601 seconds'", "expires_at = now()"])
async def test_a_session_ends_when_it_is_not_used_or_is_old(browser: httpx2.AsyncClient, signing_in: Service, change: str) -> None:
    await sign_in(browser)
    session = await ok(await browser.get("/admin/v1/session"))
    connection = await connect(database_url(signing_in))
    lasts = await connection.fetchval("SELECT expires_at - now() FROM admin_tokens WHERE principal_id = $1", session["id"])
    await connection.execute(f"UPDATE admin_tokens SET {change} WHERE principal_id = $1", session["id"])
    await connection.close()
    assert timedelta(hours=11) < lasts <= timedelta(hours=12)
    ended = await ok(await browser.get("/admin/v1/session"), 401)
    assert "session has ended" in ended["error"]["message"]


async def test_an_issuer_that_is_down_is_a_503(browser: httpx2.AsyncClient, issuer: OidcIssuer) -> None:
    url = await back_from_the_issuer(browser, await to_the_issuer(browser))
    issuer.is_down = True
    page = await browser.get(url)
    assert page.status_code == 503 and "issuer answered with status 503" in page.text


async def test_no_token_or_secret_is_stored_or_logged(browser: httpx2.AsyncClient, signing_in: Service, issuer: OidcIssuer) -> None:
    await sign_in(browser)
    stored = {"tables": await all_stored_text(signing_in), **file_contents(signing_in.home)}
    assert len(issuer.issued_tokens) > 4
    secrets = [CLIENT_SECRET, browser.cookies["narthex_session"], *issuer.issued_tokens]
    assert [place for place, text in stored.items() for secret in secrets if secret in text] == []


@dataclass
class Laptop:
    """A machine with no home of a gateway."""

    folder: Path

    @property
    def session_file(self) -> Path:
        return self.folder / "config" / "narthex" / "session.json"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
        return {**inherited, "NARTHEX_HOME": str(self.folder / "home"), "XDG_CONFIG_HOME": str(self.folder / "config")}

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Exit status, and what it prints."""
        done = await asyncio.to_thread(run_command, services.NARTHEX, arguments, self.environment, "", services.PROCESS_TIMEOUT_S)
        return done.returncode, done.stdout + done.stderr


async def begin_login(laptop: Laptop, service: Service) -> tuple[asyncio.subprocess.Process, str]:
    """The command, and the code that it shows."""
    command, pipe = (services.NARTHEX, "login", service.url, "--json"), asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=laptop.environment, stdout=pipe, stderr=pipe)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    match = re.search(r"/enter\?user_code=(\w+) in a browser, and check that it shows the code \1\.", line)
    assert match is not None, line
    return process, match[1]


async def test_a_command_signs_in_by_a_code_and_signs_out(
    signing_in: Service, issuer: OidcIssuer, person: dict[str, Any], tmp_path: Path
) -> None:
    person["realm_access"] = {"groups": ["platform"]}
    laptop = Laptop(tmp_path)
    status, output = await laptop.run("engines", "list")
    assert status == 1 and "narthex login" in output
    process, code = await begin_login(laptop, signing_in)
    issuer.approve_device(code)
    output, _ = await process.communicate()
    assert process.returncode == 0 and json.loads(output)["name"] == person["email"]
    assert laptop.session_file.stat().st_mode & 0o777 == 0o600
    kept = laptop.session_file.read_text()
    assert '"nxc-' in kept and not any(token in kept for token in issuer.issued_tokens)
    status, output = await laptop.run("whoami")
    assert (status, output) == (0, f"{person['email']} (a user) at {signing_in.url}: owner\n")
    status, output = await laptop.run("engines", "list", "--json")
    assert status == 0 and "data" in json.loads(output)
    assert await laptop.run("logout") == (0, "You are signed out.\n")
    assert not laptop.session_file.exists()
    async with signing_in.keyless_client() as client:
        headers = {"authorization": f"Bearer {json.loads(kept)['token']}"}
        assert (await client.get("/admin/v1/session", headers=headers)).status_code == 401
    laptop.session_file.write_text(kept)
    status, output = await laptop.run("whoami")
    assert status == 1 and f"narthex login {signing_in.url}" in output


async def test_a_device_sign_in_is_refused_or_begun_elsewhere(
    signing_in: Service, issuer: OidcIssuer, person: dict[str, Any], tmp_path: Path
) -> None:
    laptop = Laptop(tmp_path)
    process, code = await begin_login(laptop, signing_in)
    issuer.approve_device(code, "denied")
    _, errors = await process.communicate()
    assert process.returncode == 1 and "refused at the issuer" in errors.decode() and not laptop.session_file.exists()
    async with signing_in.admin_client() as client:
        begun = await ok(await client.post(f"{SIGN_IN}/device"))
        path, body = f"{SIGN_IN}/device/token", {"device_code": begun["device_code"]}
        assert (await ok(await client.post(path, json=body), 202))["status"] == "pending"
        issuer.approve_device(begun["user_code"])
        assert (await ok(await client.post(path, json=body)))["token"].startswith("nxc-")
        await ok(await client.post(path, json=body), 400)
        await ok(await client.post(path, json={"device_code": begun["device_code"][:-4] + "AAAA"}), 400)
        await ok(await client.post(path, json={"device_code": "x", "more": 1}), 400)
        await ok(await client.post(path, content=b"x" * 20_000), 413)


async def test_without_an_issuer_the_routes_say_what_to_set(service: Service) -> None:
    async with service.keyless_client() as client:
        for method, path in (("GET", ""), ("GET", "/callback"), ("POST", "/device"), ("POST", "/device/token")):
            missing = await ok(await client.request(method, SIGN_IN + path), 404)
            needed = "NARTHEX_OIDC_ISSUER, NARTHEX_OIDC_CLIENT_ID, NARTHEX_PUBLIC_URL"
            assert f"an operator must set {needed}. Until then" in missing["error"]["message"]
