"""POST /admin/v1/analytics/batch: several questions of one moment; and intervals without requests, on request as rows of zeros."""

import datetime
import uuid
from typing import Any

import httpx2
import pytest

from app.store.usage.analytics_query import make_query
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

PATH = "/admin/v1/analytics/batch"


async def made(client: httpx2.AsyncClient, questions: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(PATH, json={"questions": questions})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_questions_are_answered_as_one_by_one_and_faults_stay_with_theirs(service: Service):
    team, other = (f"batch-{uuid.uuid4().hex[:8]}" for _ in range(2))
    async with service.admin_client() as admin, service.keyless_client() as caller:
        for name, requests in ((team, 2), (other, 1)):
            key = (await admin.post("/admin/v1/keys", json={"team": name})).json()["key"]
            for _ in range(requests):
                chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hi"}]}
                await caller.post("/v1/chat/completions", json=chat, headers={"authorization": f"Bearer {key}"})

        async def are_summed() -> bool:
            found = await made(admin, {"both": {"team": [team, other]}})
            analytics: dict[str, Any] | None = found["answers"]["both"]["analytics"]
            rows: list[dict[str, Any]] = analytics["data"] if analytics else []
            return [row["requests"] for row in rows] == [3]

        await wait_until(are_summed)
        day = {"team": team, "interval": "hour", "fill": True, "group_by": "outcome"}
        found = await made(admin, {"one": {"team": team}, "day": day, "wrong": {"group_by": "colour"}, "nobody": {"team": "nobody-at-all"}})
        answers = found["answers"]
        alone = (await admin.get("/admin/v1/analytics", params={"team": team})).json()
        assert answers["one"]["analytics"]["data"] == alone["data"] and answers["one"]["error"] is None
        assert found["complete_until"] is not None
        assert answers["wrong"] == {"analytics": None, "error": {"message": answers["wrong"]["error"]["message"], "param": "group_by"}}
        assert "team" in answers["wrong"]["error"]["message"] and answers["nobody"]["error"]["param"] == "team"
        rows = answers["day"]["analytics"]["data"]
        times = [row["time"] for row in rows]
        assert times == sorted(set(times)) and 24 <= len(times) <= 26 and sum(row["requests"] for row in rows) == 2
        refused: tuple[dict[str, Any], ...] = ({}, {str(at): {} for at in range(13)}, {"x": {"colour": 1}})
        for questions in refused:
            assert (await admin.post(PATH, json={"questions": questions})).status_code == 400
        account = f"{team}-viewer"
        assert (
            await admin.post("/admin/v1/service-accounts", json={"name": account, "roles": [{"role": "viewer", "team": team}]})
        ).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{account}/tokens")).json()["token"]
        caller.headers["authorization"] = f"Bearer {token}"
        own = (await made(caller, {"all": {"group_by": "team"}, "other": {"team": other}}))["answers"]
        assert [row["group"]["team"] for row in own["all"]["analytics"]["data"]] == [team]
        assert own["other"]["error"]["param"] == "team", "it does not learn that the team exists"


async def test_rows_of_a_batch_are_bounded_and_many_of_them_are_encoded_whole(service: Service):
    month = {"since": "2026-10-01", "until": "2026-11-01", "interval": "hour", "fill": True}
    async with service.admin_client() as admin:
        many = (await made(admin, {"hours": month}))["answers"]["hours"]["analytics"]["data"]
        assert len(many) == 31 * 24 and all(row["requests"] == 0 and row["group"] == {} for row in many)
        assert many == (await admin.get("/admin/v1/analytics", params={**month, "fill": "true"})).json()["data"]
        largest = {**month, "group_by": "model", "limit": 13}
        refused = await admin.post(PATH, json={"questions": {str(at): largest for at in range(4)}})
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, "questions") and "38,740 rows, of 30,000 at most" in error["message"]
        assert (await admin.post(PATH, json={"questions": {str(at): largest for at in range(3)}})).status_code == 200


@pytest.mark.parametrize(
    ("interval", "time_zone", "since", "until", "expected"),
    [
        (
            *("day", "Europe/Berlin", "2026-03-28T00:00+01:00", "2026-03-31T00:00+02:00"),
            ["28T00:00:00+01:00", "29T00:00:00+01:00", "30T00:00:00+02:00"],
        ),
        ("week", "UTC", "2026-03-04T00:00+00:00", "2026-03-10T00:00+00:00", ["02T00:00:00+00:00", "09T00:00:00+00:00"]),
        ("month", "UTC", "2025-12-31T00:00+00:00", "2026-02-01T01:00+00:00", ["01T00:00:00+00:00"] * 3),
        ("hour", "Europe/Berlin", "2026-10-25T00:00+00:00", "2026-10-25T02:00+00:00", ["25T02:00:00+02:00", "25T02:00:00+01:00"]),
    ],
)
def test_intervals_begin_where_postgres_cuts_them(interval: Any, time_zone: str, since: str, until: str, expected: list[str]):
    begin, end = (datetime.datetime.fromisoformat(each) for each in (since, until))
    query = make_query(
        since=begin, until=end, now=end, keep_minutes_days=7, keep_hours_days=400, interval=interval, time_zone=time_zone, fill=True
    )
    found = [at.astimezone(query.zone).isoformat(timespec="seconds") for at in query.interval_begins()]
    assert [at.partition("-")[2].partition("-")[2] for at in found] == expected
