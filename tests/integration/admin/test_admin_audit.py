"""The audit log over the admin API and by command: filters, pages, exports; and the database refuses to change it."""

import csv
import io
import json
import uuid
from typing import Any

import asyncpg
import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url


async def _make_team(service: Service, changes: int = 0) -> str:
    """A team with a name that a spreadsheet would run, created and changed."""
    name = f"=team-{uuid.uuid4().hex[:12]}"
    async with service.admin_client() as admin:
        assert (await admin.post("/admin/v1/teams", json={"name": name})).status_code == 201
        for priority in range(1, changes + 1):
            changed = await admin.patch(f"/admin/v1/teams/{name}", json={"priority": priority}, headers={"if-match": "*"})
            assert changed.status_code == 200, changed.text
    return name


async def _get(client: httpx2.AsyncClient, path: str, status: int = 200, **params: Any) -> Any:
    response = await client.get(f"/admin/v1/audit{path}", params=params)
    assert response.status_code == status, response.text
    return response.json()


async def test_a_change_is_listed_with_who_when_from_where_before_and_after(service: Service) -> None:
    name = await _make_team(service, changes=1)
    async with service.admin_client() as admin:
        changed, created = (await _get(admin, "", name=name, resource="team"))["data"]
        assert (created["action"], created["before"], changed["action"]) == ("create", None, "update")
        assert (changed["before"]["priority"], changed["after"]["priority"]) == (0, 1)
        assert changed["actor"]["kind"] == "key" and changed["via"] == "rest" and changed["ip"] == "127.0.0.1"
        assert await _get(admin, f"/{changed['id']}") == changed

        filters: list[tuple[dict[str, str], list[Any]]] = [
            ({"action": "create"}, [created]),
            ({"actor": changed["actor"]["id"]}, [changed, created]),
            ({"actor": "nobody"}, []),
            ({"team": name, "via": "rest"}, [changed, created]),
            ({"via": "cli"}, []),
            ({"search": name[4:].upper()}, [changed, created]),
            ({"since": changed["at"]}, [changed]),
            ({"until": changed["at"]}, [created]),
        ]
        for filter, expected in filters:
            parameters: dict[str, Any] = {"name": name, **filter}
            assert (await _get(admin, "", **parameters))["data"] == expected, filter
        assert (await _get(admin, "", since="yesterday", status=400))["error"]["param"] == "since"
        assert (await _get(admin, "/no-id", status=400))["error"]["param"] == "id"
        await _get(admin, "/019a0000-0000-7000-8000-000000000000", status=404)


async def test_pages_continue_after_the_last_event(service: Service) -> None:
    name = await _make_team(service, changes=4)
    async with service.admin_client() as admin:
        first = await _get(admin, "", name=name, limit=3)
        await admin.patch(f"/admin/v1/teams/{name}", json={"priority": 99}, headers={"if-match": "*"})
        second = await _get(admin, "", name=name, limit=3, after=first["next"])
    assert [each["after"]["priority"] for each in first["data"] + second["data"]] == [4, 3, 2, 1, 0] and second["next"] is None


async def test_exports_hold_every_event_and_no_formula(service: Service) -> None:
    name = await _make_team(service, changes=2)
    async with service.admin_client() as admin:
        listed = (await _get(admin, "", name=name))["data"]
        lines = await admin.get("/admin/v1/audit/export", params={"name": name})
        table = await admin.get("/admin/v1/audit/export", params={"name": name, "format": "csv"})
    assert [json.loads(line) for line in lines.text.splitlines()] == listed
    rows = list(csv.DictReader(io.StringIO(table.text, newline="")))
    assert table.headers["content-type"].startswith("text/csv") and "attachment" in table.headers["content-disposition"]
    assert [row["id"] for row in rows] == [event["id"] for event in listed]
    assert {row["name"] for row in rows} == {f"'{name}"} and json.loads(rows[0]["after"]) == listed[0]["after"]


async def test_the_command_lists_shows_and_exports_the_same(service: Service) -> None:
    name = await _make_team(service, changes=1)
    async with service.admin_client() as admin:
        listed = (await _get(admin, "", name=name))["data"]
    assert json.loads(service.run("audit", "--name", name, "--since", "1h", "--json").stdout) == {"events": listed, "next": None}
    shown = service.run("audit", listed[0]["id"]).stdout
    assert "priority: 0 -> 1" in shown and name in shown
    assert [json.loads(line) for line in service.run("audit", "--name", name, "--export", "jsonl").stdout.splitlines()] == listed


@pytest.mark.parametrize("statement", ["UPDATE audit_log SET name = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"])
async def test_the_database_refuses_to_change_the_log(service: Service, statement: str) -> None:
    await _make_team(service)
    connection: asyncpg.Connection[Any] = await connect(database_url(service))
    try:
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute(statement)
    finally:
        await connection.close()
