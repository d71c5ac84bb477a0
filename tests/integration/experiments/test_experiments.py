"""Experiments over real HTTP: an episode keeps its arm, a failing arm keeps its assignment, and the record says all of it."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from app.domain.experiment_unit import draw_enrolment, episode_unit, value_unit
from app.gateway.idempotency.recorded_outcomes import find_recorded_outcome
from app.store.postgres.database import create_database_engine
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
EXPERIMENTS = """
[providers.exp-down]
adapter = "vllm"
base_url = "{failing}"
options = {{ version = "0.32.0" }}
[models]
exp-a = {{ targets = [{{ provider = "sandbox", model = "sandbox" }}] }}
exp-b = {{ targets = [{{ provider = "sandbox", model = "sandbox" }}] }}
exp-down = {{ targets = [{{ provider = "exp-down", model = "down" }}] }}
[models.exp-split.experiment]
name = "split"
arms = {{ exp-a = {weight}, exp-b = 1 }}
control = "exp-a"
[models.exp-failing.experiment]
arms = {{ exp-down = 100000, exp-b = 0.000001 }}
control = "exp-b"
{failing_settings}
[models.exp-targets]
targets = [{{ provider = "sandbox", model = "sandbox" }}, {{ provider = "sandbox", model = "sandbox-slow" }}]
experiment = {{ arms = {{ "sandbox/sandbox" = 1, "sandbox/sandbox-slow" = 1 }}, unit = "user" }}
[models."größe 50%"]
targets = [{{ provider = "sandbox", model = "sandbox" }}]
[models.exp-named.experiment]
name = "größe"
arms = {{ "größe 50%" = 1, exp-b = 1 }}
[models.exp-draft.experiment]
arms = {{ exp-a = 1, exp-b = 1 }}
control = "exp-b"
status = "draft"
[models.exp-ended.experiment]
arms = {{ exp-a = 1, exp-b = 1 }}
status = "ended"
winner = "exp-b"
[[limits]]
name = "exp-named"
scope = {{ model = "exp-split" }}
resource = "requests"
amount = 100000
per = "day"
[[limits]]
name = "exp-served"
scope = {{ model = "exp-b" }}
resource = "requests"
amount = 100000
per = "day"
"""


def configuration(engine: ScriptedEngine, weight: float = 1, failing_settings: str = "") -> str:
    return EXPERIMENTS.format(failing=f"http://127.0.0.1:{engine.port}", weight=weight, failing_settings=failing_settings)


@pytest.fixture(scope="module", autouse=True)
async def experiments(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    """Applies all experiments of this file and waits until they have begun."""
    service.apply(configuration(engines[0]))

    async def has_begun() -> bool:
        async with service.client() as client:
            answers = [await client.post(CHAT, json={"model": "exp-split", "messages": HI}) for _ in range(4)]
        return all("x-narthex-not-enrolled" not in each.headers for each in answers)

    await wait_until(has_begun, 120)


async def chat(client: httpx2.AsyncClient, model: str, headers: Mapping[str, str] | None = None, **more: Any) -> httpx2.Response:
    answer = await client.post(CHAT, json={"model": model, "messages": HI, **more}, headers=headers or {})
    assert answer.status_code == 200, answer.text
    return answer


async def test_unit_in_the_record_is_what_an_erasure_looks_for(service: Service) -> None:
    async with service.client() as client:
        answers = [await chat(client, "exp-targets", user="ann"), await chat(client, "exp-split")]
    records = [await service.wait_for_record(each.headers["x-narthex-inference-id"]) for each in answers]
    salts = {row["name"]: row["salt"] for row in await fetch(database_url(service), "SELECT name, salt FROM experiments")}
    found = [(each["experiment_unit"], salts[each["experiment"]]) for each in records]
    assert found[0][0] == draw_enrolment(found[0][1], value_unit(records[0]["team_id"], "ann")).hex()
    assert found[1][0] == draw_enrolment(found[1][1], episode_unit(records[1]["team_id"], records[1]["episode_id"])).hex()


async def test_episode_keeps_its_arm_and_new_ones_follow_other_weights(service: Service, engine: ScriptedEngine) -> None:
    async with service.client() as client:
        first = [await chat(client, "exp-split") for _ in range(24)]
        arms = {each.headers["x-narthex-episode-id"]: each.headers["x-narthex-variant"] for each in first}
        assert set(arms.values()) == {"exp-a", "exp-b"}
        service.apply(configuration(engine, weight=1000))

        async def is_in_force() -> bool:
            return (await chat(client, "exp-split")).headers["x-narthex-experiment"] == "split@2"

        await wait_until(is_in_force, 120)
        for episode, arm in arms.items():
            again = await chat(client, "exp-split", {"x-narthex-episode-id": episode}, stream=True)
            assert (again.headers["x-narthex-variant"], again.headers["x-narthex-served-variant"]) == (arm, arm)
            assert again.headers["x-narthex-experiment"] == "split@1"
            assert "x-narthex-not-enrolled" not in again.headers
        newest = await chat(client, "exp-split")
    assert newest.headers["x-narthex-experiment"] == "split@2"
    record = await service.wait_for_record(newest.headers["x-narthex-inference-id"])
    assert (record["model"], record["variant"], record["served_variant"]) == ("exp-split", "exp-a", "exp-a")
    assert (record["experiment"], record["experiment_version"], record["not_enrolled"]) == ("split", 2, None)
    assert record["episode_kind"] == "minted" and len(record["experiment_unit"]) == 16
    assert record["arm_probability"] == pytest.approx(1000 / 1001)
    async with service.admin_client() as admin:
        of_arm = {"experiment": "split", "variant": "exp-a", "limit": 5}
        found = (await admin.get("/admin/v1/inferences", params=of_arm)).json()["data"]
        assert found and {each["variant"] for each in found} == {"exp-a"}


async def test_failing_arm_keeps_its_assignment_in_header_and_record(service: Service, engine: ScriptedEngine) -> None:
    async def fail(request: Any) -> None:
        await request.respond(500, b'{"error": {"message": "broken"}}')

    engine.script = fail
    async with service.client() as client:
        answer = await chat(client, "exp-failing")
    headers = answer.headers
    assert (headers["x-narthex-variant"], headers["x-narthex-served-variant"]) == ("exp-down", "exp-b")
    record = await service.wait_for_record(headers["x-narthex-inference-id"])
    assert (record["variant"], record["served_variant"], record["not_enrolled"]) == ("exp-down", "exp-b", None)
    assert [attempt["model"] for attempt in record["attempts"]] == ["down", "sandbox"]
    shown = service.run("episode", headers["x-narthex-episode-id"]).stdout
    assert "exp-failing  exp-down → exp-b  exp-failing@1  " in shown
    for filters in (("--experiment", "exp-failing", "--variant", "exp-down"), ("--request-id", headers["x-request-id"])):
        listed = service.run("inferences", "--limit", "1000", *filters).stdout
        assert "VARIANT" in listed and re.search(r"exp-failing +exp-down → exp-b +exp-failing@1 +sandbox", listed), listed
    for filters in (("--experiment", "split"), ("--variant", "exp-b")):
        listed = service.run("inferences", "--request-id", headers["x-request-id"], *filters).stdout
        assert listed == "No request matches.\n"


async def test_stopped_arm_is_served_by_the_control_and_stays_assigned(service: Service, engine: ScriptedEngine) -> None:
    async with service.client() as client:
        episode = (await chat(client, "exp-failing")).headers["x-narthex-episode-id"]
        service.apply(configuration(engine, failing_settings='stopped = ["exp-down"]', weight=1000))
        calls = len(engine.requests)
        answer = await chat(client, "exp-failing", {"x-narthex-episode-id": episode})
    assert (answer.headers["x-narthex-variant"], answer.headers["x-narthex-served-variant"]) == ("exp-down", "exp-b")
    assert len(engine.requests) == calls
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["variant"], record["served_variant"], record["attempts"]) == ("exp-down", "exp-b", None)


async def test_pinned_request_is_not_enrolled_and_an_unknown_arm_is_refused(service: Service) -> None:
    async with service.client() as client:
        pinned = await chat(client, "exp-split", {"x-narthex-variant": "exp-b"})
        assert (pinned.headers["x-narthex-variant"], pinned.headers["x-narthex-not-enrolled"]) == ("exp-b", "pinned")
        body = {"model": "exp-split", "messages": HI}
        unknown = await client.post(CHAT, json=body, headers={"x-narthex-variant": "exp-c"})
        assert unknown.status_code == 400 and "exp-a, exp-b" in unknown.json()["error"]["message"]
        plain = await client.post(CHAT, json={**body, "model": "exp-a"}, headers={"x-narthex-variant": "exp-b"})
        assert plain.status_code == 400 and "has no variants" in plain.json()["error"]["message"]
    record = await service.wait_for_record(pinned.headers["x-narthex-inference-id"])
    assert (record["variant"], record["not_enrolled"], record["arm_probability"]) == ("exp-b", "pinned", 0)
    async with service.admin_client() as admin:
        timeline = (await admin.get(f"/admin/v1/episodes/{pinned.headers['x-narthex-episode-id']}/timeline")).json()
    (shown,) = timeline["inferences"]
    assert (shown["variant"], shown["served_variant"], shown["experiment"]) == ("exp-b", "exp-b", "split")
    assert shown["not_enrolled"] == "pinned" and shown["experiment_version"] == record["experiment_version"]
    assert "(not enrolled: pinned)" in service.run("episode", timeline["id"]).stdout


async def test_users_keep_one_of_a_models_targets_over_all_their_episodes(service: Service) -> None:
    async with service.client() as client:
        by_user = {
            number: {(await chat(client, "exp-targets", user=f"user-{number}")).headers["x-narthex-served"] for _ in range(3)}
            for number in range(12)
        }
        without_user = await chat(client, "exp-targets")
    assert all(len(served) == 1 for served in by_user.values())
    assert set(Counter(served for each in by_user.values() for served in each)) == {"sandbox/sandbox", "sandbox/sandbox-slow"}
    assert without_user.headers["x-narthex-not-enrolled"] == "no_unit"


async def test_draft_serves_the_control_and_an_ended_experiment_its_winner(service: Service) -> None:
    async with service.client() as client:
        draft, ended = [await chat(client, model) for model in ("exp-draft", "exp-ended")]
    for answer in (draft, ended):
        assert answer.headers["x-narthex-variant"] == answer.headers["x-narthex-served-variant"] == "exp-b"
        assert "x-narthex-experiment" not in answer.headers


async def test_name_of_an_arm_in_a_header_names_it_again(service: Service) -> None:
    encoded = "gr%C3%B6%C3%9Fe 50%25"
    async with service.client() as client:
        for sent in (encoded.encode(), "größe 50%".encode()):
            body = {"model": "exp-named", "messages": HI}
            answer = await client.post(CHAT, json=body, headers=[(b"x-narthex-variant", sent)])
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-narthex-variant"] == answer.headers["x-narthex-served-variant"] == encoded
            assert re.fullmatch(r"gr%C3%B6%C3%9Fe@1", answer.headers["x-narthex-experiment"])
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["variant"], record["experiment"]) == ("größe 50%", "größe")


@pytest.mark.parametrize("streamed", [False, True])
async def test_replayed_response_says_which_arm_answered(service: Service, streamed: bool) -> None:
    body = {"model": "exp-split", "messages": HI, "stream": streamed}
    headers = {"idempotency-key": f"exp-replayed-{streamed}", "x-narthex-variant": "exp-b"}
    shown = ("x-narthex-variant", "x-narthex-served-variant", "x-narthex-experiment", "x-narthex-not-enrolled")
    async with service.client() as client:
        first = await client.post(CHAT, json=body, headers=headers)
        again = await client.post(CHAT, json=body, headers=headers)
        assert again.headers["x-narthex-replayed"] == "true" and again.content == first.content
        assert first.headers["x-narthex-not-enrolled"] == "pinned"
        assert [again.headers[name] for name in shown] == [first.headers[name] for name in shown]
    await service.wait_for_record(first.headers["x-narthex-inference-id"])
    database = create_database_engine(database_url(service))
    outcome = await find_recorded_outcome(database, first.headers["x-narthex-inference-id"], 1_000_000)
    await database.dispose()
    assert outcome is not None
    stored = outcome.stored_response
    assert stored is not None
    recorded = (stored.variant, stored.served_variant, f"{stored.experiment}@{stored.experiment_version}", stored.not_enrolled)
    assert recorded == tuple(first.headers[name] for name in shown), "as of an owner that died before it stored the response"


async def test_preview_of_limits_goes_by_the_variant_that_the_body_names(service: Service) -> None:
    async with service.client() as client:
        for arm in ("exp-a", "exp-b"):
            body = {"model": "exp-split", "messages": HI, "tensorzero::variant_name": arm}
            preview = await client.post("/v1/limits/preview", json=body)
            assert (preview.status_code, preview.json().get("model")) == (200, arm), preview.text
        both = await client.post("/v1/limits/preview", json=body, headers={"x-narthex-variant": "exp-a"})
        assert both.status_code == 400 and both.json()["error"]["param"] == "x-narthex-variant"


async def test_rules_of_the_named_model_and_of_the_arms_model_both_count(service: Service) -> None:
    async with service.client() as client:

        async def remaining() -> dict[str, float]:
            rules = (await client.get("/v1/limits", params={"model": "exp-split"})).json()["data"]
            rules += (await client.get("/v1/limits", params={"model": "exp-b"})).json()["data"]
            return {rule["rule"]: rule["remaining"] for rule in rules if rule["rule"].startswith("exp-")}

        before = await remaining()
        await chat(client, "exp-split", {"x-narthex-variant": "exp-b"})
        await wait_until(lambda: _is_counted(remaining, before), 30)


async def _is_counted(remaining: Any, before: Mapping[str, float]) -> bool:
    now = await remaining()
    return now == {name: amount - 1 for name, amount in before.items()} and len(now) == 2


async def test_every_api_and_the_list_of_models_know_a_model_that_has_only_an_experiment(service: Service) -> None:
    async with service.client() as client:
        listed = {model["id"] for model in (await client.get("/v1/models")).json()["data"]}
        assert {"exp-split", "exp-targets"} <= listed
        assert (await client.get("/v1/models/exp-split")).status_code == 200
        messages = await client.post("/v1/messages", json={"model": "exp-split", "messages": HI, "max_tokens": 5})
        responses = await client.post("/v1/responses", json={"model": "exp-split", "input": "Hello!"})
        preview = await client.post("/v1/limits/preview", json={"model": "exp-split", "messages": HI})
    for answer in (messages, responses, preview):
        assert answer.status_code == 200, answer.text
    for answer in (messages, responses):
        assert answer.headers["x-narthex-variant"] in ("exp-a", "exp-b")
    shown = service.run("models", "show", "exp-split", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)
