"""Experiments over the admin API: started, changed and stopped, by two admins at once, with what a running one does not permit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service

CONFIGURATION = """
[models]
exprest-a = { targets = [{ provider = "sandbox", model = "sandbox" }] }
exprest-b = { targets = [{ provider = "sandbox", model = "sandbox" }] }
[models.NAME.experiment]
arms = { exprest-a = 1, exprest-b = 1 }
control = "exprest-a"
status = "draft"
ramp = [{ after_hours = 24, enrolment = 1.0 }]
enrolment = 0.5
"""


@pytest.fixture
async def admin(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


async def post(admin: httpx2.AsyncClient, path: str, body: Any = None, if_match: str | None = "*", **params: str) -> httpx2.Response:
    headers = {} if if_match is None else {"if-match": if_match}
    return await admin.post(f"/admin/v1/experiments/{path}", json=body, headers=headers, params=params)


async def done(admin: httpx2.AsyncClient, path: str, body: Any = None, if_match: str = "*") -> Any:
    response = await post(admin, path, body, if_match)
    assert response.status_code == 200, response.text
    return response.json()


async def refused(admin: httpx2.AsyncClient, path: str, body: Any = None) -> str:
    response = await post(admin, path, body)
    assert response.status_code == 400, response.text
    return response.json()["error"]["message"]


async def versions_of(admin: httpx2.AsyncClient, name: str) -> list[tuple[int, float, float]]:
    response = await admin.get(f"/admin/v1/experiments/{name}/versions", params={"sort": "number"})
    return [(each["number"], each["arms"]["exprest-b"], each["enrolment"]) for each in response.json()["data"]]


async def test_experiment_is_started_changed_stopped_and_ended(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "exprest"))
    draft = (await admin.get("/admin/v1/experiments/exprest")).json()
    assert (draft["status"], draft["salt"], draft["version"]) == ("draft", None, None)
    assert "is not running" in await refused(admin, "exprest/stop", {"arm": "exprest-b"})

    started = await done(admin, "exprest/start")
    assert (started["status"], started["settings"]["status"], started["version"]["number"]) == ("running", "running", 1)
    assert started["salt"] and started["control"] == "exprest-a" and started["arms"] == ["exprest-a", "exprest-b"]
    assert "is running already" in await refused(admin, "exprest/start")
    await done(admin, "exprest/weights", {"arms": {"exprest-b": 0.25}})
    enrolled = await done(admin, "exprest/enrol", {"enrolment": 0.75})
    assert (enrolled["settings"]["enrolment"], enrolled["settings"]["ramp"]) == (0.75, [])
    assert enrolled["settings"]["arms"] == {"exprest-a": 1, "exprest-b": 0.25}
    stopped = await done(admin, "exprest/stop", {"arm": "exprest-b", "now": True})
    assert (stopped["status"], stopped["settings"]["stopped"]) == ("running", ["exprest-b"])
    # Each of the first two has a step of the ramp after it, which the next one supersedes.
    planned = [(1, 1, 0.5), (2, 1, 1), (3, 0.25, 0.5), (4, 0.25, 1)]
    assert await versions_of(admin, "exprest") == [*planned, (5, 0.25, 0.75), (6, 0, 0.75)]

    ended = await done(admin, "exprest/stop", {"winner": "exprest-b"})
    assert (ended["status"], ended["winner"], ended["settings"]["winner"]) == ("ended", "exprest-b", "exprest-b")
    for status, is_listed in (("ended", True), ("running", False), ("draft", False)):
        page = (await admin.get("/admin/v1/experiments", params={"status": status})).json()
        assert ("exprest" in [each["name"] for each in page["data"]]) == is_listed, status


async def test_of_two_admins_at_once_one_gets_a_conflict_and_changes_nothing(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "exprest-two"))
    etag = (await admin.get("/admin/v1/experiments/exprest-two")).headers["etag"]
    assert (await post(admin, "exprest-two/start", if_match=None)).status_code == 428
    await done(admin, "exprest-two/start", if_match=etag)
    seen = (await admin.get("/admin/v1/experiments/exprest-two")).headers["etag"]
    assert seen != etag
    both = await asyncio.gather(*(post(admin, "exprest-two/weights", {"arms": {"exprest-b": weight}}, seen) for weight in (0.5, 2)))
    assert sorted(each.status_code for each in both) == [200, 412]
    [made], [late] = ([each for each in both if each.status_code == status] for status in (200, 412))
    assert "Somebody else has changed it" in late.text
    weight = made.json()["settings"]["arms"]["exprest-b"]
    assert await versions_of(admin, "exprest-two") == [(1, 1, 0.5), (2, 1, 1), (3, weight, 0.5), (4, weight, 1)]
    again = (await admin.get("/admin/v1/experiments/exprest-two")).headers["etag"]
    assert again == made.headers["etag"], "what a change answers is what the next one may name"


async def test_what_a_running_experiment_does_not_permit_is_refused_with_the_reason(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "exprest-no"))
    await done(admin, "exprest-no/start")
    before = await admin.get("/admin/v1/experiments/exprest-no")
    assert "is the control" in await refused(admin, "exprest-no/stop", {"arm": "exprest-a", "now": True})
    assert "has no arm 'huge'. It has: exprest-a, exprest-b" in await refused(admin, "exprest-no/stop", {"arm": "huge"})
    assert "has no arm 'huge'" in await refused(admin, "exprest-no/weights", {"arms": {"huge": 1}})
    assert "a weight is a number of 0 or more" in await refused(admin, "exprest-no/weights", {"arms": {"exprest-b": -1}})
    weightless = {"arms": {"exprest-a": 0, "exprest-b": 0}}
    assert "at least one weight must be more than 0" in await refused(admin, "exprest-no/weights", weightless)
    assert "enrolment" in await refused(admin, "exprest-no/enrol", {"enrolment": 1.5})
    assert "`now` is for one arm" in await refused(admin, "exprest-no/stop", {"now": True})
    assert "not both" in await refused(admin, "exprest-no/stop", {"arm": "exprest-b", "winner": "exprest-a"})
    assert "is not one of its arms" in await refused(admin, "exprest-no/stop", {"winner": "huge"})
    after = await admin.get("/admin/v1/experiments/exprest-no")
    assert after.headers["etag"] == before.headers["etag"] and len(await versions_of(admin, "exprest-no")) == 2
    assert (await post(admin, "exprest-none/start")).status_code == 404


async def test_change_is_previewed_and_is_in_the_audit_log_and_the_history(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "exprest-log"))
    preview = (await post(admin, "exprest-log/start", dry_run="true")).json()
    assert [each["name"] for each in preview["changes"]] == ["exprest-log"]
    assert (await admin.get("/admin/v1/experiments/exprest-log")).json()["status"] == "draft"
    await done(admin, "exprest-log/start")
    newest = (await admin.get("/admin/v1/audit", params={"name": "exprest-log"})).json()["data"][0]
    statuses = [newest[when]["experiment"].get("status", "running") for when in ("before", "after")]  # the default is left out
    assert (newest["action"], statuses) == (preview["changes"][0]["action"], ["draft", "running"])
    [first] = (await admin.get("/admin/v1/experiments/exprest-log/versions", params={"limit": 1, "sort": "number"})).json()["data"]
    assert first["author"] == newest["actor"]["name"]


async def test_experiment_that_left_the_configuration_is_shown_and_cannot_be_changed(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "exprest-gone"))
    await done(admin, "exprest-gone/start")
    await done(admin, "exprest-gone/stop", {})
    removed = await admin.delete("/admin/v1/models/exprest-gone", headers={"if-match": "*"})
    assert removed.status_code == 200, removed.text
    shown = (await admin.get("/admin/v1/experiments/exprest-gone")).json()
    assert (shown["status"], shown["settings"]) == ("ended", None)
    assert (await post(admin, "exprest-gone/start")).status_code == 409
