"""Service accounts, their tokens, and roles over the admin API: who may give what to whom, and when access ends."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


async def account_with(admin: httpx2.AsyncClient, *roles: dict[str, str]) -> tuple[str, dict[str, str]]:
    """A service account with these roles, and the header of a token for it."""
    name = unique("account")
    await ok(await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": list(roles)}), 201)
    created = await ok(await admin.post(f"/admin/v1/service-accounts/{name}/tokens"), 201)
    return name, {"authorization": f"Bearer {created['token']}"}


async def team_named(admin: httpx2.AsyncClient) -> str:
    name = unique("team")
    await ok(await admin.post("/admin/v1/teams", json={"name": name}), 201)
    return name


@contextlib.asynccontextmanager
async def database(service: Service) -> AsyncGenerator["asyncpg.Connection[Any]"]:
    connection = await connect(database_url(service))
    yield connection
    await connection.close()


async def test_a_token_has_the_roles_of_its_account_until_it_is_revoked(admin: httpx2.AsyncClient, service: Service) -> None:
    name, viewer = await account_with(admin, {"role": "viewer"})
    async with service.keyless_client() as client:
        session = await ok(await client.get("/admin/v1/session", headers=viewer))
        assert (session["kind"], session["name"], session["roles"]) == ("service_account", name, [{"role": "viewer", "team": None}])
        await ok(await client.get("/admin/v1/teams", headers=viewer))
        refused = await ok(await client.post("/admin/v1/teams", json={"name": unique("team")}, headers=viewer), 403)
        assert "teams:write" in refused["error"]["message"]
        grant = (await ok(await admin.get("/admin/v1/role-grants", params={"service_account": name})))["data"][0]
        await ok(await admin.delete(f"/admin/v1/role-grants/{grant['id']}"))
        await ok(await client.get("/admin/v1/teams", headers=viewer), 403)
        [token] = (await ok(await admin.get(f"/admin/v1/service-accounts/{name}/tokens")))["data"]
        assert token["used_at"] is not None
        await ok(await admin.delete(f"/admin/v1/service-accounts/{name}/tokens/{token['id']}"))
        for unknown in (viewer, {"x-api-key": "nxs-" + "a" * 43}, {"authorization": "Bearer nxs-short"}):
            gone = await ok(await client.get("/admin/v1/session", headers=unknown), 401)
            assert gone["error"]["message"].startswith("This token is not valid")


async def test_nobody_gives_more_than_they_have(admin: httpx2.AsyncClient, service: Service) -> None:
    one, other = await team_named(admin), await team_named(admin)
    _, company_admin = await account_with(admin, {"role": "admin"})
    _, team_owner = await account_with(admin, {"role": "owner", "team": one})
    _, team_admin = await account_with(admin, {"role": "admin", "team": one})
    outsider, _ = await account_with(admin, {"role": "viewer", "team": other})
    owner, _ = await account_with(admin, {"role": "owner"})
    without_roles, _ = await account_with(admin)
    group = unique("group")
    grants = "/admin/v1/role-grants"
    async with service.keyless_client() as client:

        async def give(by: dict[str, str], role: str, team: str | None, **receiver: str) -> int:
            return (await client.post(grants, json={"role": role, "team": team, **(receiver or {"group": group})}, headers=by)).status_code

        assert [await give(company_admin, role, None) for role in ("owner", "admin", "auditor")] == [403, 201, 201]
        assert await give(company_admin, "owner", one) == 403
        assert [await give(team_owner, "owner", team) for team in (one, other, None)] == [201, 403, 403]
        assert [await give(team_admin, role, one) for role in ("owner", "admin", "viewer")] == [403, 201, 201]
        assert await give(team_admin, "viewer", None) == 403
        assert await give(team_admin, "viewer", one, service_account=outsider) == 403
        assert await give(team_admin, "viewer", one, service_account=without_roles) == 403
        # Whoever creates a token has the roles of its account.
        assert (await client.post(f"/admin/v1/service-accounts/{owner}/tokens", headers=company_admin)).status_code == 403
        assert (await client.get(f"/admin/v1/service-accounts/{outsider}", headers=team_admin)).status_code == 404
        path = f"/admin/v1/service-accounts/{owner}"
        disable = await client.patch(path, json={"disabled": True}, headers={**company_admin, "if-match": "*"})
        assert disable.status_code == 403
        listed = await ok(await client.get(grants, headers=team_admin))
        assert {each["team"] for each in listed["data"]} == {one}
        mine = await ok(await client.post("/admin/v1/service-accounts", json={"name": unique("ours")}, headers=team_admin), 403)
        assert "at least one role" in mine["error"]["message"]
    for each in (await ok(await admin.get(grants, params={"group": group})))["data"]:
        await ok(await admin.delete(f"{grants}/{each['id']}"))


async def test_a_disabled_account_has_no_access_and_the_company_keeps_an_owner(admin: httpx2.AsyncClient, service: Service) -> None:
    name, owner = await account_with(admin, {"role": "owner"})
    others = [each for each in (await ok(await admin.get("/admin/v1/role-grants", params={"role": "owner"})))["data"]]
    for each in others:  # of other tests
        if each["team"] is None and each["service_account"] != name:
            await ok(await admin.delete(f"/admin/v1/role-grants/{each['id']}"))
    path = f"/admin/v1/service-accounts/{name}"
    async with service.keyless_client() as client:
        alone = await ok(await client.patch(path, json={"disabled": True}, headers={**owner, "if-match": "*"}), 409)
        assert "no owner" in alone["error"]["message"]
        await ok(await client.patch(path, json={"disabled": True}, headers=owner), 428)
        await ok(await admin.patch(path, json={"disabled": True}, headers={"if-match": "*"}))  # an admin key may
        await ok(await client.get("/admin/v1/session", headers=owner), 401)
    await ok(await admin.delete(path, headers={"if-match": "*"}))
    events = (await ok(await admin.get("/admin/v1/audit", params={"resource": "service_account", "name": name})))["data"]
    assert [each["action"] for each in events] == ["delete", "update", "create"]


async def test_only_who_may_set_credentials_has_them_sent_elsewhere(admin: httpx2.AsyncClient, service: Service) -> None:
    _, editor = await account_with(admin, {"role": "editor"})
    name, plain = unique("provider"), unique("provider")
    settings = {"adapter": "openai", "base_url": "http://127.0.0.1:9"}
    for each, credential in ((name, "store:secret"), (plain, None)):
        await ok(await admin.post("/admin/v1/providers", json={"name": each, "credential": credential, **settings}), 201)
    elsewhere = {"base_url": "http://127.0.0.1:10"}
    target = {"provider": name, "model": "one"}
    async with service.keyless_client() as client:

        async def patch(provider: str, changes: dict[str, Any]) -> int:
            headers = {**editor, "if-match": "*"}
            response = await client.patch(f"/admin/v1/providers/{provider}?dry_run=true", json=changes, headers=headers)
            assert response.status_code == 200 or "providers." in response.json()["error"]["message"], response.text
            return response.status_code

        async def serve_by(target: dict[str, Any]) -> int:
            body = {"name": unique("model"), "targets": [target]}
            return (await client.post("/admin/v1/models?dry_run=true", json=body, headers=editor)).status_code

        assert await patch(name, {"drop": ["seed"]}) == 200
        assert await patch(plain, elsewhere) == 200
        for changes in (elsewhere, {"adapter": "vllm"}, {"credential": "store:other"}):
            assert await patch(name, changes) == 403
        assert await patch(name, {"credential": None, **elsewhere}) == 200
        assert await serve_by(target) == 200
        assert await serve_by({**target, "endpoints": ["http://127.0.0.1:9"]}) == 200
        assert await serve_by({**target, "endpoints": ["http://127.0.0.1:10"]}) == 403
        file = f'[providers."{name}"]\nadapter = "openai"\nbase_url = "http://127.0.0.1:10"\ncredential = "store:secret"\n'
        headers = {**editor, "if-match": "*"}
        applied = await client.post("/admin/v1/configuration?dry_run=true", content=file, headers=headers)
        assert applied.status_code == 403, applied.text
        before = (await ok(await admin.get("/admin/v1/configuration/versions")))["data"][1]["version"]
        await ok(await admin.patch(f"/admin/v1/providers/{name}", json={"credential": None}, headers={"if-match": "*"}))
        restored = await client.post(f"/admin/v1/configuration/versions/{before}/restore?dry_run=true", headers=headers)
        assert restored.status_code == 403, restored.text
    await ok(await admin.patch(f"/admin/v1/providers/{name}?dry_run=true", json=elsewhere, headers={"if-match": "*"}))
    for each in (name, plain):
        await ok(await admin.delete(f"/admin/v1/providers/{each}", headers={"if-match": "*"}))


async def test_whoever_loses_a_role_to_a_change_that_they_wait_for_changes_nothing(admin: httpx2.AsyncClient, service: Service) -> None:
    name, owner = await account_with(admin, {"role": "owner"})
    [grant] = (await ok(await admin.get("/admin/v1/role-grants", params={"service_account": name})))["data"]
    async with service.keyless_client() as client, database(service) as connection:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('narthex access'))")
            body = {"role": "owner", "group": unique("group")}
            giving = asyncio.create_task(client.post("/admin/v1/role-grants", json=body, headers=owner))
            waiting = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await wait_until(lambda: connection.fetchval(waiting))
            await connection.execute("DELETE FROM role_grants WHERE id = $1", grant["id"])
        assert (await giving).status_code == 403


@pytest.mark.parametrize("in_teams", [False, True], ids=["of the company", "within a team"])
async def test_whoever_loses_a_role_while_a_new_key_waits_gets_none(admin: httpx2.AsyncClient, service: Service, in_teams: bool) -> None:
    team, other = await team_named(admin), await team_named(admin)
    roles = [{"role": "editor", "team": each} for each in (team, other)] if in_teams else [{"role": "editor"}]
    name, editor = await account_with(admin, *roles)
    grants = (await ok(await admin.get("/admin/v1/role-grants", params={"service_account": name})))["data"]
    [lost] = [grant for grant in grants if grant["team"] == (team if in_teams else None)]
    async with service.keyless_client() as client, database(service) as connection:
        async with connection.transaction():
            await connection.execute("SELECT FROM keys_version FOR UPDATE")
            creating = asyncio.create_task(client.post("/admin/v1/keys", json={"team": team}, headers=editor))
            await wait_until(lambda: connection.fetchval("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"))
            await connection.execute("DELETE FROM role_grants WHERE id = $1", lost["id"])
        assert (await creating).status_code == 403
        if in_teams:
            await ok(await client.post("/admin/v1/keys", json={"team": other}, headers=editor), 201)
    assert (await ok(await admin.get("/admin/v1/keys", params={"team": team})))["data"] == []


async def test_a_request_whose_token_is_revoked_before_its_body_has_arrived_is_refused(admin: httpx2.AsyncClient, service: Service) -> None:
    name, editor = await account_with(admin, {"role": "editor"})
    tokens, team = f"/admin/v1/service-accounts/{name}/tokens", unique("team")
    is_revoked = asyncio.Event()

    async def body() -> AsyncGenerator[bytes]:
        yield b'{"name": '
        await is_revoked.wait()
        yield f'"{team}"}}'.encode()

    async def is_used() -> bool:
        [token] = (await ok(await admin.get(tokens)))["data"]
        return token["used_at"] is not None

    async with service.keyless_client() as client:
        creating = asyncio.create_task(client.post("/admin/v1/teams", content=body(), headers=editor))
        await wait_until(is_used)
        [token] = (await ok(await admin.get(tokens)))["data"]
        await ok(await admin.delete(f"{tokens}/{token['id']}"))
        is_revoked.set()
        assert (await creating).status_code == 401
    await ok(await admin.get(f"/admin/v1/teams/{team}"), 404)


async def test_roles_within_a_deleted_team_are_taken_back_by_who_may_give_them(admin: httpx2.AsyncClient, service: Service) -> None:
    team = await team_named(admin)
    _, editor = await account_with(admin, {"role": "editor"})
    name, _ = await account_with(admin, {"role": "viewer", "team": team})
    async with service.keyless_client() as client:
        await ok(await client.delete(f"/admin/v1/teams/{team}", headers={**editor, "if-match": "*"}), 403)
    await ok(await admin.delete(f"/admin/v1/teams/{team}", headers={"if-match": "*"}))
    events = (await ok(await admin.get("/admin/v1/audit", params={"team": team})))["data"]
    assert ("delete", "role_grant", f"{name}: viewer in {team}") in {(each["action"], each["resource"], each["name"]) for each in events}


async def test_tokens_that_ended_and_roles_of_one_account_are_bounded(admin: httpx2.AsyncClient, service: Service) -> None:
    name, holder = await account_with(admin)
    account = await ok(await admin.get(f"/admin/v1/service-accounts/{name}"))
    ended = (
        "INSERT INTO admin_tokens (id, hash, kind, principal_id, revoked_at)"
        " SELECT gen_random_uuid(), sha256(random()::text::bytea), 'service_account', $1, now() FROM generate_series(1, 300)"
    )
    teams = "INSERT INTO teams (id, name) SELECT gen_random_uuid(), $1 || n FROM generate_series(1, 200) n RETURNING id"
    roles = "INSERT INTO role_grants (id, principal_id, role, team_id) SELECT gen_random_uuid(), $1, 'viewer', unnest($2::uuid[])"
    async with database(service) as connection:
        await connection.execute(ended, account["id"])
        await ok(await admin.post(f"/admin/v1/service-accounts/{name}/tokens"), 201)
        listed = (await ok(await admin.get(f"/admin/v1/service-accounts/{name}/tokens")))["data"]
        assert len(listed) == 200 + 2  # and the two that are valid
        ids = [row["id"] for row in await connection.fetch(teams, unique("many"))]
        await connection.execute(roles, account["id"], ids)
        refused = await ok(await admin.post("/admin/v1/role-grants", json={"role": "viewer", "service_account": name}), 400)
        assert "has 200 roles" in refused["error"]["message"]
        session = await ok(await admin.get("/admin/v1/session", headers=holder))
        assert len(session["roles"]) == len(session["team_permissions"]) == 200 and session["permissions"] == []
        await connection.execute("DELETE FROM teams WHERE id = ANY($1::uuid[])", ids)


async def test_a_team_cannot_fill_the_configuration_with_limits_of_its_keys(admin: httpx2.AsyncClient, service: Service) -> None:
    team = await team_named(admin)
    _, editor = await account_with(admin, {"role": "editor", "team": team})
    body = {"team": team, "budget": {"amount_usd": 5}}
    limits = (
        "INSERT INTO limits (name, position, config) SELECT $1 || n, 100000 + n,"
        " jsonb_build_object('name', $1 || n, 'scope', jsonb_build_object('key', $2::text), 'resource', 'requests',"
        " 'amount', 5, 'per', 'day')"
        " FROM generate_series(1, 999) n"
    )
    async with service.keyless_client() as client, database(service) as connection:
        key = await ok(await client.post("/admin/v1/keys", json=body, headers=editor), 201)
        many = unique("many")
        await connection.execute(limits, many, key["prefix"])
        try:
            refused = await ok(await client.post("/admin/v1/keys", json=body, headers=editor), 403)
            assert "1000 limits" in refused["error"]["message"]
            # Neither adds a limit: a rotated key is held to those of the key that it replaces.
            await ok(await client.post("/admin/v1/keys", json={"team": team}, headers=editor), 201)
            await ok(await client.post(f"/admin/v1/keys/{key['prefix']}/rotate", json={"overlap_s": 0}, headers=editor), 201)
            assert await connection.fetchval("SELECT count(*) FROM limits WHERE config->'scope'->>'key' = $1", key["prefix"]) == 1000
        finally:
            await connection.execute("DELETE FROM limits WHERE name LIKE $1 || '%'", many)


async def test_roles_are_described_and_keys_do_not_sign_out(admin: httpx2.AsyncClient) -> None:
    roles = {each["role"]: each for each in (await ok(await admin.get("/admin/v1/roles")))["data"]}
    assert "owners:write" in roles["owner"]["permissions"] and "owners:write" not in roles["admin"]["permissions"]
    await ok(await admin.post("/admin/v1/sign-out"), 400)
    await ok(await admin.get("/admin/v1/users/nobody"), 404)
    await ok(await admin.get("/admin/v1/users", params={"search": unique("nobody")}))
