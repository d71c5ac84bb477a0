"""Exports end with the access of whoever reads them, however slowly they read."""

import asyncio
import contextlib
import uuid
from pathlib import Path

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.writer_process import fetch

EXPORT = "/admin/v1/audit/export"
# Far more than the buffers between both ends hold, read so slowly that access is checked on the way.
EVENTS = 12_000
PAUSE_S = 0.02
FILL = """
    INSERT INTO audit_log (id, author_kind, author_name, via, action, resource, name, team, after)
    SELECT overlay(gen_random_uuid()::text PLACING '7' FROM 15)::uuid, 'system', 'fill', 'system', 'update', 'team', $1, $1,
        jsonb_build_object('text', repeat('0123456789', 400))
    FROM generate_series(1, $2::int)
"""


async def reader_of(service: Service, team: str) -> tuple[str, dict[str, str]]:
    """A service account with a role in two teams, and the header of its token."""
    name = f"{team}/reader"
    async with service.admin_client() as admin:
        for each in (team, f"{team}-other"):
            assert (await admin.post("/admin/v1/teams", json={"name": each})).status_code == 201
        roles = [{"role": "auditor", "team": each} for each in (team, f"{team}-other")]
        made = await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": roles})
        assert made.status_code == 201, made.text
        token = (await admin.post(f"/admin/v1/service-accounts/{name.replace('/', '%2F')}/tokens")).json()["token"]
    return name, {"authorization": f"Bearer {token}"}


async def end_access(service: Service, name: str, team: str, how: str) -> None:
    async with service.admin_client() as admin:
        if how == "removed":
            path = f"/admin/v1/service-accounts/{name.replace('/', '%2F')}"
            assert (await admin.patch(path, json={"disabled": True}, headers={"if-match": "*"})).status_code == 200
        elif how == "fewer teams":
            grants = (await admin.get("/admin/v1/role-grants", params={"service_account": name})).json()["data"]
            [lost] = [each for each in grants if each["team"] == team]
            assert (await admin.delete(f"/admin/v1/role-grants/{lost['id']}")).status_code < 300


@pytest.mark.parametrize("how", ["removed", "fewer teams", "kept"])
async def test_an_export_breaks_off_when_access_ends(service: Service, how: str) -> None:
    team = f"export-{uuid.uuid4().hex[:8]}"
    name, headers = await reader_of(service, team)
    await fetch(database_url(service), FILL, team, EVENTS)
    parameters, lines = {"name": team, "action": "update"}, 0

    async with service.keyless_client() as client, client.stream("GET", EXPORT, params=parameters, headers=headers) as response:
        assert response.status_code == 200
        pieces = response.aiter_bytes()
        lines += (await anext(pieces)).count(b"\n")
        await end_access(service, name, team, how)
        with contextlib.nullcontext() if how == "kept" else pytest.raises(httpx2.RemoteProtocolError):
            async for piece in pieces:
                lines += piece.count(b"\n")
                await asyncio.sleep(PAUSE_S)
    if how == "kept":
        assert lines == EVENTS
        return
    assert 0 < lines < EVENTS
    written = [line for path in (service.home / "logs").glob("gateway-*.log") for line in path.read_text().splitlines()]
    noticed = [line for line in written if '"level": "info"' not in line and '"level":"info"' not in line]
    [broken_off] = [line for line in noticed if await account_id(service, name) in line]
    assert [line for line in noticed if "Traceback" in line or "ASGI" in line] == []
    assert "an export was broken off" in broken_off and team not in broken_off


def test_every_file_to_download_is_an_export() -> None:
    api = Path(__file__).parents[3] / "app" / "api"
    named = sorted(path.relative_to(api).as_posix() for path in api.rglob("*.py") if "content-disposition" in path.read_text())
    # Media of one inference are one part of what GET /inferences/{id} shows, and are sent whole.
    assert named == ["admin/records/media_answer.py", "rest/export.py"]


async def account_id(service: Service, name: str) -> str:
    rows = await fetch(database_url(service), "SELECT id::text FROM principals WHERE name = $1", name)
    return rows[0]["id"]
