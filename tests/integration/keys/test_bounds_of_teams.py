"""No team fills what all share: its keys and service accounts are bounded, and the refusal names the bound."""

import uuid

import httpx2
import pytest

from app.domain.errors import BoundReached
from app.store.postgres.database import connect
from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url

ACCOUNTS = "/admin/v1/service-accounts"


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def ok(answer: httpx2.Response, status: int = 200) -> httpx2.Response:
    assert answer.status_code == status, answer.text
    return answer


async def add_service_accounts(service: Service, names: str, count: int) -> None:
    """Adds so many as if they had been created one by one. `names`: what they begin with."""
    connection = await connect(database_url(service))
    try:
        await connection.execute(
            """
            INSERT INTO principals (id, kind, name)
            SELECT gen_random_uuid(), 'service_account', $1 || number FROM generate_series(1, $2) AS number
            """,
            names,
            count,
        )
    finally:
        await connection.close()


async def remove_service_accounts(service: Service, names: str) -> None:
    connection = await connect(database_url(service))
    try:
        await connection.execute("DELETE FROM principals WHERE kind = 'service_account' AND starts_with(name, $1)", names)
    finally:
        await connection.close()


async def test_service_accounts_of_a_team_are_bounded_and_others_have_room(service: Service) -> None:
    full, other = unique("full"), unique("other")
    async with service.admin_client() as admin:
        for team in (full, other, f"{full}/below"):
            ok(await admin.post("/admin/v1/teams", json={"name": team}), 201)
        await add_service_accounts(service, f"{full}/", 999)
        ok(await admin.post(ACCOUNTS, json={"name": f"{full}/the-last"}), 201)
        refused = ok(await admin.post(ACCOUNTS, json={"name": f"{full}/one-more"}), 409)
        reason = f"There are 1,000 service accounts of the team '{full}', which is the most there may be: delete some."
        assert refused.json()["error"]["message"] == reason
        for name in (f"{other}/first", f"{full}/below/first", full, unique("of-the-company")):
            ok(await admin.post(ACCOUNTS, json={"name": name}), 201)
        ok(await admin.delete(f"{ACCOUNTS}/{full}%2Fthe-last", headers={"if-match": "*"}))
        ok(await admin.post(ACCOUNTS, json={"name": f"{full}/one-more"}), 201)


async def test_service_accounts_of_the_company_are_bounded_whatever_their_names(service: Service) -> None:
    team, names = unique("team"), unique("many")
    async with service.admin_client() as admin:
        ok(await admin.post("/admin/v1/teams", json={"name": team}), 201)
        await add_service_accounts(service, f"{names}/", 10_000)
        try:
            refused = ok(await admin.post(ACCOUNTS, json={"name": unique("one-more")}), 409)
            assert refused.json()["error"]["message"].startswith("There are 10,000 service accounts of the company, ")
            ok(await admin.post(ACCOUNTS, json={"name": f"{team}/first"}), 201)
        finally:
            await remove_service_accounts(service, f"{names}/")


async def test_valid_keys_of_a_team_are_bounded_and_can_still_be_replaced(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_VALID_KEYS_OF_TEAM", 2)
    team, url = unique("team"), database_url(service)
    first, _ = [await keys.create_key(url, team) for _ in range(2)]
    with pytest.raises(BoundReached, match=f"The team '{team}' has 2 valid keys, which is the most that a team may have: revoke those"):
        await keys.create_key(url, team)
    await keys.create_key(url, unique("team"))
    replaced = await keys.rotate_key(url, first, overlap_s=0)
    assert replaced is not None
    assert await keys.revoke_key(url, replaced)
    await keys.create_key(url, team)
