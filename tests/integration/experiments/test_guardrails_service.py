"""Guardrails and promotion through the whole service: the writer stops an arm, people read why, put it back, and promote another."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.experiment_sums import add_units, put_in_force
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CONFIGURATION = """
[metrics]
guardhelpful = { kind = "boolean", level = "inference", optimize = "max" }
[models]
guard-a = { targets = [{ provider = "sandbox", model = "sandbox" }] }
guard-b = { targets = [{ provider = "sandbox", model = "sandbox" }] }
[models.NAME.experiment]
arms = { guard-a = 1, guard-b = 1 }
control = "guard-a"
[models.NAME.experiment.analysis]
metrics = ["guardhelpful", "error"]
guardrails = { error = 0.02 }
minimum_units = 1000
"""


@pytest.fixture
async def admin(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


async def start(service: Service, name: str, days_ago: float) -> None:
    service.apply(CONFIGURATION.replace("NAME", name))
    await put_in_force(database_url(service), name, days_ago)


async def count_units(service: Service, name: str, arm: str, units: int, helped: int, errors: int, version: int = 1) -> None:
    await add_units(database_url(service), name, arm, units, {"guardhelpful": helped, "error": errors}, version=version)


async def post(admin: httpx2.AsyncClient, path: str, body: Any, **params: str) -> httpx2.Response:
    return await admin.post(f"/admin/v1/experiments/{path}", json=body, headers={"if-match": "*"}, params=params)


FAILING = """
[providers]
guard-busy = {{ adapter = "openai", base_url = "http://127.0.0.1:{port}" }}
[models]
guard-fine = {{ targets = [{{ provider = "sandbox", model = "sandbox" }}] }}
guard-failing = {{ targets = [{{ provider = "guard-busy", model = "m" }}], retries = 0 }}
[models.guardpath.experiment]
arms = {{ guard-fine = 1, guard-failing = 1 }}
control = "guard-fine"
[models.guardpath.experiment.analysis]
metrics = ["error"]
guardrails = {{ error = 0.05 }}
window_minutes = 1
"""


async def end_windows(service: Service, experiment: str) -> None:
    """Makes the open units of an experiment due, as if their windows were over."""
    connection = await connect(database_url(service))
    try:
        of_experiment = "experiment_id IN (SELECT id FROM experiments WHERE name = $1)"
        await connection.execute(f"UPDATE experiment_units SET due_at = now() WHERE state = 'open' AND {of_experiment}", experiment)
    finally:
        await connection.close()


async def test_arm_whose_engine_fails_is_stopped_by_what_its_requests_recorded(
    service: Service, admin: httpx2.AsyncClient, client: httpx2.AsyncClient, engine: ScriptedEngine
) -> None:
    """The other arm answers, so callers notice nothing. tests/long waits for the windows, too.

    After the first failure its engine is in cooldown, and not even tried: that is as much its error.
    """

    async def be_busy(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"error": {"message": "busy"}}', "content-type: application/json\r\nretry-after: 600\r\n")

    engine.script = be_busy
    service.apply(FAILING.format(port=engine.port))
    body = {"model": "guardpath", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}

    async def is_enrolled() -> bool:
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return "x-narthex-not-enrolled" not in answer.headers

    await wait_until(is_enrolled, GENEROUS_S, interval_s=0.5)
    for _ in range(12):
        assert all(await asyncio.gather(*(is_enrolled() for _ in range(10))))

    async def is_stopped() -> bool:
        await end_windows(service, "guardpath")
        return (await admin.get("/admin/v1/experiments/guardpath")).json()["settings"]["stopped"] == ["guard-failing"]

    await wait_until(is_stopped, GENEROUS_S, interval_s=0.5)
    acts = (await admin.get("/admin/v1/experiments/guardpath/log")).json()["data"]
    assert {(act["kind"], act["arm"]) for act in acts} == {("stopped", "guard-failing")}
    [test] = acts[0]["evidence"]["tests"]
    assert test["metric"] == "error" and test["fails_outright"] and test["e_value"] >= test["needed"]


async def kinds(admin: httpx2.AsyncClient, name: str) -> list[str]:
    return [each["kind"] for each in (await admin.get(f"/admin/v1/experiments/{name}/log")).json()["data"]]


async def test_writer_stops_a_failing_arm_and_a_person_puts_it_back(service: Service, admin: httpx2.AsyncClient) -> None:
    await start(service, "guardstop", 1)
    await count_units(service, "guardstop", "guard-b", 200, 0, 200)
    await count_units(service, "guardstop", "guard-a", 200, 100, 0)

    async def is_stopped() -> bool:
        return (await admin.get("/admin/v1/experiments/guardstop")).json()["settings"]["stopped"] == ["guard-b"]

    await wait_until(is_stopped, GENEROUS_S)
    [act] = (await admin.get("/admin/v1/experiments/guardstop/log")).json()["data"]
    assert (act["kind"], act["arm"], act["author"]) == ("stopped", "guard-b", "narthex guardrails")
    assert act["evidence"]["tests"][0]["fails_outright"] and act["evidence"]["sums"]["error"]["strata"]
    [audited] = (await admin.get("/admin/v1/audit", params={"name": "guardstop", "limit": 1})).json()["data"]
    assert (audited["actor"]["kind"], audited["actor"]["name"]) == ("system", "narthex guardrails")
    shown = service.run("experiments", "log", "guardstop").stdout
    assert "stopped  narthex guardrails\n  guard-b is stopped, the control serves all its units: error is worse" in shown
    assert json.loads(service.run("experiments", "log", "guardstop", "--json").stdout)["acts"] == [act]
    assert "guard-b was stopped" in (await post(admin, "guardstop/promote", {"arm": "guard-b"})).text

    back = service.run("experiments", "resume", "guardstop", "guard-b")
    assert back.returncode != 0 and "give it another one" in back.stderr
    resumed = await post(admin, "guardstop/resume", {"arm": "guard-b", "weight": 0.5})
    assert (resumed.json()["settings"]["arms"]["guard-b"], resumed.json()["settings"]["stopped"]) == (0.5, []), resumed.text

    async def is_noted() -> bool:
        return (await kinds(admin, "guardstop"))[0] == "put_back"

    await wait_until(is_noted, GENEROUS_S)
    assert (await admin.get("/admin/v1/experiments/guardstop")).json()["settings"]["arms"]["guard-b"] == 0.5
    assert (await kinds(admin, "guardstop")) == ["put_back", "stopped"]


async def test_arm_is_promoted_only_once_all_conditions_are_met(service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(CONFIGURATION.replace("NAME", "guardpromote"))
    young = (await post(admin, "guardpromote/promote", {"arm": "guard-b"})).json()["error"]["message"]
    assert "is not in force yet; `narthex experiments show guardpromote` says from when it is" in young
    await put_in_force(database_url(service), "guardpromote", 2)
    await count_units(service, "guardpromote", "guard-b", 500, 350, 0)
    await count_units(service, "guardpromote", "guard-a", 500, 250, 0)
    early = await post(admin, "guardpromote/promote", {"arm": "guard-b"})
    message = early.json()["error"]["message"]
    assert early.status_code == 409
    assert "500 complete units of the arm and 500 of the control, of at least 1000 each (minimum_units)." in message
    assert "It has run for 2.0 days, of at least 7 (minimum_days)." in message
    refused = service.run("experiments", "promote", "guardpromote", "guard-b", "--yes")
    assert refused.returncode != 0 and "not met: It has run for 2.0 days" in refused.stderr, refused.stderr
    assert "  met:     guardhelpful differs from the control by" in refused.stderr
    for body, status in (
        ({"arm": "huge"}, 400),
        ({"arm": "guard-a"}, 400),
        ({"arm": "guard-b", "force": True}, 400),
        ({"arm": "guard-b", "reason": "I know better"}, 400),
    ):
        assert (await post(admin, "guardpromote/promote", body)).status_code == status, body
    assert (await kinds(admin, "guardpromote")) == []

    await count_units(service, "guardpromote", "guard-b", 1_500, 1_050, 2)
    await count_units(service, "guardpromote", "guard-a", 1_500, 750, 3)
    await put_in_force(database_url(service), "guardpromote", 6)
    preview = await post(admin, "guardpromote/promote", {"arm": "guard-b"}, dry_run="true")
    assert preview.status_code == 200 and (await kinds(admin, "guardpromote")) == [], preview.text
    promoted = await post(admin, "guardpromote/promote", {"arm": "guard-b"})
    assert promoted.status_code == 200, promoted.text
    assert (promoted.json()["status"], promoted.json()["winner"]) == ("ended", "guard-b")
    [act] = (await admin.get("/admin/v1/experiments/guardpromote/log")).json()["data"]
    assert (act["kind"], act["arm"], act["after"]["winner"]) == ("promoted", "guard-b", "guard-b")
    assert all(condition["met"] for condition in act["evidence"]["conditions"]) and act["evidence"]["forced"] is None
    assert act["evidence"]["primary"]["interval"]["low"] > 0
    # The file from before the promotion does not start another experiment.
    file = CONFIGURATION.replace("NAME", "guardpromote")
    applied = service.run("apply", "-", "--yes", stdin=file)
    assert applied.returncode != 0 and "with the winner 'guard-b', and this file would start it again" in applied.stderr, applied
    posted = await admin.post("/admin/v1/configuration", content=file, headers={"content-type": "application/toml", "if-match": "*"})
    assert posted.status_code == 400 and "would start it again" in posted.json()["error"]["message"], posted.text
    assert (await admin.get("/admin/v1/experiments/guardpromote")).json()["status"] == "ended"
    in_force = file.replace('control = "guard-a"', 'control = "guard-a"\nstatus = "ended"\nwinner = "guard-b"')
    assert service.apply(in_force).strip() == "Nothing to change."


async def test_arm_is_promoted_against_the_conditions_with_a_reason(service: Service, admin: httpx2.AsyncClient) -> None:
    await start(service, "guardforce", 1)
    forced = service.run("experiments", "promote", "guardforce", "guard-b", "--force", "--yes")
    assert forced.returncode == 2 and "--force needs --reason" in forced.stderr
    reason = "the provider of guard-a closes"
    done = service.run("experiments", "promote", "guardforce", "guard-b", "--force", "--reason", reason, "--yes")
    assert done.returncode == 0, done.stderr
    [act] = (await admin.get("/admin/v1/experiments/guardforce/log")).json()["data"]
    assert act["evidence"]["forced"] == reason and "conditions are not met, because: 'the provider of guard-a closes'" in act["reason"]
    assert (await admin.get("/admin/v1/experiments/guardforce")).json()["winner"] == "guard-b"
