"""Shadows over real HTTP: nothing of them reaches the caller, and everything of them is recorded, bounded and charged to their team."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.domain.callers import NO_KEY
from tests.support.gate import Gate
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, stream_script
from tests.support.sdk_callers import Caller

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
TEAM = "shw-lab"
CONFIGURATION = """
[teams.shw-lab]
[teams.shw-private]
content = "none"
[teams.shw-callers]
[providers]
shw-first = {{ adapter = "openai", base_url = "{first}" }}
shw-second = {{ adapter = "openai", base_url = "{second}" }}
[models]
shw-other = {{ targets = [{{ provider = "shw-second", model = "m" }}] }}
shw-unpriced = {{ targets = [{{ provider = "shw-second", model = "other" }}] }}
[models.shw-one]
targets = [{{ provider = "shw-first", model = "m" }}]
shadow = {{ to = "shw-other", team = "shw-lab", share = 1, max_concurrent = 20, per_minute = 10000 }}
[models.shw-paired]
targets = [{{ provider = "shw-first", model = "m" }}]
shadow = {{ to = "shw-other", team = "shw-lab", share = 1, max_concurrent = 20, per_minute = 10000 }}
[models.shw-narrow]
targets = [{{ provider = "shw-first", model = "m" }}]
shadow = {{ to = "shw-other", team = "shw-lab", share = 1, max_concurrent = 1, per_minute = 10000 }}
[models.shw-poor]
targets = [{{ provider = "shw-first", model = "m" }}]
shadow = {{ to = "shw-other", team = "shw-lab", share = 1, usd_per_day = 0.1 }}
[models.shw-never]
targets = [{{ provider = "shw-first", model = "m" }}]
shadow = {{ to = "shw-other", team = "shw-lab", share = 0 }}
[functions.shw-task]
default = "plain"
[functions.shw-task.variants.plain]
model = "shw-never"
[functions.shw-task.variants.polite]
model = "shw-other"
system_template = "Be polite."
[functions.shw-task.shadow]
to = "polite"
team = "shw-lab"
share = 1
max_concurrent = 20
per_minute = 10000
[[prices]]
provider = "shw-first"
model = "m"
input = 1000
output = 2000
[[prices]]
provider = "shw-second"
model = "m"
input = 2000
output = 4000
"""
# Three tokens in, two out.
COST, SHADOW_COST = 7_000, 14_000


@pytest.fixture(scope="module", autouse=True)
def configured(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    first, second = (f"http://127.0.0.1:{each.port}" for each in engines)
    service.apply(CONFIGURATION.format(first=first, second=second))


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as admin:
        yield admin


async def chat(client: httpx2.AsyncClient, model: str, **more: Any) -> str:
    """The id of an inference that was answered."""
    answer = await client.post(CHAT, json={"model": model, "messages": HI, **more})
    assert answer.status_code == 200, answer.text
    assert "shw-other" not in str(answer.headers) + answer.text
    return answer.headers["x-narthex-inference-id"]


async def shadow_of(admin: httpx2.AsyncClient, id: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def is_recorded() -> bool:
        found[:] = (await admin.get("/admin/v1/inferences", params={"original_id": id})).json()["data"]
        return bool(found)

    await wait_until(is_recorded, 120)
    [shadow] = found
    return shadow


async def drops(admin: httpx2.AsyncClient, name: str) -> dict[str, float]:
    """Returns how many shadows were dropped, by reason."""
    page = (await admin.get("/metrics")).text
    return {each[1]: float(each[2]) for each in re.finditer(rf'dropped_total{{reason="(\w+)",shadow="{name}"}} (\S+)', page)}


async def wait_for_drops(admin: httpx2.AsyncClient, name: str, reason: str, before: dict[str, float], more: int = 1) -> None:
    async def are_counted() -> bool:
        return (await drops(admin, name)).get(reason, 0) >= before.get(reason, 0) + more

    await wait_until(are_counted)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
async def test_original_is_answered_while_its_shadow_hangs(
    caller: Caller, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient, *, streamed: bool
):
    held, opened = asyncio.Event(), asyncio.Event()
    answer = stream_script(*HELLO) if streamed else ReceivedRequest.respond_completion

    async def hang(request: ReceivedRequest) -> None:
        held.set()
        await opened.wait()
        await answer(request)

    engine.script, second_engine.script = answer, hang
    response = await (caller.stream if streamed else caller.create)("shw-one")
    assert (response.text, response.finish) == ("Hello.", "stop")
    await asyncio.wait_for(held.wait(), 60)
    newest = (await admin.get("/admin/v1/inferences", params={"shadow": "shw-one", "limit": 1})).json()["data"]
    opened.set()

    async def is_recorded() -> bool:
        now = (await admin.get("/admin/v1/inferences", params={"shadow": "shw-one", "limit": 1})).json()["data"]
        return now != newest

    await wait_until(is_recorded, 120)
    [shadow] = (await admin.get("/admin/v1/inferences", params={"shadow": "shw-one", "limit": 1})).json()["data"]
    assert (shadow["status"], shadow["outcome"], shadow["streamed"]) == (200, "answered", streamed)
    assert (shadow["shadow_same"], shadow["shadow_first_turn"]) == (True, True)


async def test_a_stream_that_is_longer_by_one_large_block_is_not_the_same(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    engine.script = stream_script(*HELLO)
    second_engine.script = stream_script(*HELLO[:3], chunk({"content": "x" * 60_000}), *HELLO[3:])
    async with service.client() as client:
        shadow = await shadow_of(admin, await chat(client, "shw-one", stream=True))
    assert (shadow["outcome"], shadow["shadow_same"]) == ("answered", False)


async def test_shadow_is_recorded_with_its_original_and_charged_to_its_team(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    async def differ(request: ReceivedRequest) -> None:
        await request.respond_completion("Good day.")

    second_engine.script = differ
    key = service.run("keys", "create", "--team", "shw-callers", "--quiet").stdout.strip()
    async with service.client(headers={"authorization": f"Bearer {key}", "x-narthex-tags": '{"tenant": "acme"}'}) as client:
        id = await chat(client, "shw-one", user="ann", store=True)
        shadow = await shadow_of(admin, id)
        [sent] = second_engine.requests
        assert sent.body["messages"] == HI and "store" not in sent.body
        original = (await admin.get(f"/admin/v1/inferences/{id}")).json()
        assert (original["origin"], original["cost_microusd"]) == (None, COST)
        assert (shadow["shadow"], shadow["origin"], shadow["original_id"]) == ("shw-one", "shadow", id)
        assert (shadow["team"], shadow["key_id"], shadow["content_team"]) == (TEAM, NO_KEY, "shw-callers")
        assert (shadow["model"], shadow["served_provider"], shadow["cost_microusd"]) == ("shw-other", "shw-second", SHADOW_COST)
        assert (shadow["shadow_same"], shadow["shadow_first_turn"]) == (False, True)
        assert (shadow["episode_id"], shadow["tags"], shadow["end_user"]) == (original["episode_id"], {"tenant": "acme"}, "ann")
        shown = (await admin.get(f"/admin/v1/inferences/{shadow['id']}")).json()
        assert json.loads(shown["content"]["response"])["choices"][0]["message"]["content"] == "Good day."
        # Nothing of it is the caller's.
        assert (await client.get(f"/v1/inferences/{shadow['id']}")).status_code == 404
        [usage] = (await client.get("/v1/usage")).json()["data"]
        assert (usage["requests"], usage["cost_usd"]) == (1, COST / 1e6)
    for filters in ({"team": "shw-callers"}, {"origin": "caller"}, {"tag": "tenant=acme"}, {"end_user": "ann"}):
        listed = (await admin.get("/admin/v1/inferences", params=filters)).json()["data"]
        assert id in {each["id"] for each in listed} and shadow["id"] not in {each["id"] for each in listed}
    timeline = (await admin.get(f"/admin/v1/episodes/{original['episode_id']}")).json()
    assert [each["id"] for each in timeline["inferences"]] == [id]
    costs = {
        team: (await admin.get("/admin/v1/analytics", params={"team": team, "group_by": "model"})).json()["data"]
        for team in (TEAM, "shw-callers")
    }
    assert "shw-other" in str(costs[TEAM]) and "shw-other" not in str(costs["shw-callers"])


async def test_later_turn_and_failed_shadow_are_recorded_as_such(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b'{"error": {"message": "broken"}}')

    second_engine.script = fail
    turns = [*HI, {"role": "assistant", "content": "Hello."}, *HI]
    shadow = await shadow_of(admin, await chat(client, "shw-one", messages=turns))
    assert (shadow["outcome"], shadow["status"], shadow["error"]) == ("failed", 500, "UpstreamFailed")
    assert (shadow["shadow_first_turn"], shadow["shadow_same"], shadow["cost_microusd"]) == (False, None, 0)


async def test_failed_original_is_answered_again(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b'{"error": {"message": "broken"}}')

    engine.script = fail
    answer = await client.post(CHAT, json={"model": "shw-one", "messages": HI})
    assert answer.status_code == 500
    shadow = await shadow_of(admin, answer.headers["x-narthex-inference-id"])
    assert (shadow["outcome"], shadow["shadow_same"]) == ("answered", None)


async def test_variant_of_a_function_answers_again_with_its_own_prompt(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    only_the_function = ("keys", "create", "--team", "shw-callers", "--model", "shw-task", "--quiet")
    key = service.run(*only_the_function).stdout.strip()
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        shadow = await shadow_of(admin, await chat(client, "shw-task"))
        assert (shadow["function"], shadow["variant"], shadow["shadow"]) == ("shw-task", "polite", "shw-task")
        assert second_engine.requests[0].body["messages"] == [{"role": "system", "content": "Be polite."}, *HI]
        assert engine.requests[0].body["messages"] == HI
        before = await drops(admin, "shw-task")
        answer = await client.post(CHAT, json={"model": "shw-task", "messages": HI}, headers={"x-narthex-variant": "polite"})
        assert answer.status_code == 200
        await wait_for_drops(admin, "shw-task", "same_variant", before)


@pytest.mark.parametrize(
    ("reason", "options", "fields"),
    [
        ("content_policy", ("--team", "shw-private"), {}),
        ("not_allowed", ("--team", "shw-callers", "--model", "shw-one"), {}),
        ("side_effects", ("--team", "shw-callers"), {"web_search_options": {}}),
        ("side_effects", ("--team", "shw-callers"), {"tools": [{"type": "web_search"}]}),
    ],
)
async def test_request_is_not_answered_again_where_that_is_not_allowed(
    service: Service,
    engine: ScriptedEngine,
    second_engine: ScriptedEngine,
    admin: httpx2.AsyncClient,
    reason: str,
    options: tuple[str, ...],
    fields: dict[str, Any],
):
    before = await drops(admin, "shw-one")
    key = service.run("keys", "create", *options, "--quiet").stdout.strip()
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        path, body = ("/v1/responses", {"input": HI}) if "tools" in fields else (CHAT, {"messages": HI})
        answer = await client.post(path, json={"model": "shw-one", **body, **fields}, headers={"x-narthex-drop": "all"})
        assert answer.status_code == 200, answer.text
    await wait_for_drops(admin, "shw-one", reason, before)
    assert second_engine.requests == []


async def test_no_more_run_at_once_than_configured_over_all_workers(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    gate, before = Gate(), await drops(admin, "shw-narrow")
    second_engine.script = gate.script
    ids = await asyncio.gather(*(chat(client, "shw-narrow") for _ in range(16)))
    # In each of two workers at most one waits, beside the one that tries to run.
    await wait_for_drops(admin, "shw-narrow", "queue", before, more=12)
    assert gate.running == 1
    gate.opened.set()

    async def all_have_ended() -> bool:
        listed = (await admin.get("/admin/v1/inferences", params={"shadow": "shw-narrow"})).json()["data"]
        dropped = sum((await drops(admin, "shw-narrow")).values()) - sum(before.values())
        return len([each for each in listed if each["original_id"] in ids]) + dropped == 16

    await wait_until(all_have_ended, 120)
    assert gate.most == 1


async def test_budget_of_a_day_is_kept_and_the_originals_are_answered(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    before = await drops(admin, "shw-poor")
    for _ in range(8):  # each reserves 0.064 of 0.1 dollars, and costs 0.014
        await chat(client, "shw-poor", max_tokens=2)
    await wait_for_drops(admin, "shw-poor", "budget", before, more=5)

    async def all_have_ended() -> bool:
        listed[:] = (await admin.get("/admin/v1/inferences", params={"shadow": "shw-poor"})).json()["data"]
        return len(listed) + (await drops(admin, "shw-poor")).get("budget", 0) - before.get("budget", 0) == 8

    listed: list[dict[str, Any]] = []
    await wait_until(all_have_ended, 120)
    assert SHADOW_COST <= sum(each["cost_microusd"] for each in listed) <= 100_000


async def test_bound_in_dollars_without_a_price_is_warned_of_and_sends_nothing(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    shadow = 'shadow = { to = "shw-unpriced", team = "shw-lab", share = 1, usd_per_day = 5 }'
    file = f'[models.shw-bound]\ntargets = [{{ provider = "shw-first", model = "m" }}]\n{shadow}'
    warning = "models.shw-bound.shadow.usd_per_day: nothing will be answered again (`no_price`)"
    planned = service.run("apply", "-", "--dry-run", stdin=file)
    assert f"Warning: {warning}, as not every target of 'shw-unpriced' has a price." in planned.stdout
    posted = await admin.post("/admin/v1/configuration", content=file, headers={"content-type": "application/toml", "if-match": "*"})
    assert posted.status_code == 200 and posted.json()["warnings"][0].startswith(warning), posted.text
    before = await drops(admin, "shw-bound")

    async def is_dropped() -> bool:  # once every worker has the shadow
        await chat(client, "shw-bound")
        return (await drops(admin, "shw-bound")).get("no_price", 0) > before.get("no_price", 0)

    await wait_until(is_dropped)
    assert second_engine.requests == []


async def test_share_of_zero_sends_nothing(client: httpx2.AsyncClient, second_engine: ScriptedEngine, engine: ScriptedEngine):
    for _ in range(5):
        await chat(client, "shw-never")
    await asyncio.sleep(0.3)
    assert second_engine.requests == []


def test_shadow_is_shown_and_held_to_what_exists(service: Service):
    shown = service.run("models", "show", "shw-poor").stdout
    assert "Shadow: 1 of requests again by shw-other, paid by shw-lab (4 at once, 60 a minute, 0.1 USD a day)." in shown
    assert "Shadow: 1 of requests again by polite" in service.run("functions", "show", "shw-task").stdout
    wrong = (
        '[models.shw-wrong]\ntargets = [{ provider = "shw-first", model = "m" }]\nshadow = { to = "shw-other", team = "nobody", share = 1 }'
    )
    refused = service.run("apply", "-", "--yes", stdin=wrong)
    assert refused.returncode != 0
    assert "models.shw-wrong.shadow.team: there is no team 'nobody'" in refused.stderr


async def test_results_are_differences_within_pairs(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, admin: httpx2.AsyncClient
):
    async def differ(request: ReceivedRequest) -> None:
        if request.body["messages"][-1]["content"] == "Fail.":
            await request.respond(500, b'{"error": {"message": "broken"}}')
        else:
            await request.respond_completion("Good day." if request.body["messages"][-1]["content"] == "Other." else "Hello.")

    second_engine.script = differ
    contents = ["Hello!", "Hello!", "Other.", "Fail."]
    ids = [await chat(client, "shw-paired", messages=[{"role": "user", "content": content}]) for content in contents]
    later = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Other."}]
    ids.append(await chat(client, "shw-paired", messages=later))
    for id in ids:
        await shadow_of(admin, id)
    results = (await admin.get("/admin/v1/shadows/shw-paired/results")).json()
    [comparison] = results["comparisons"]
    assert [comparison[name] for name in ("original", "shadow", "pairs", "episodes", "first_turns")] == ["shw-paired", "shw-other", 5, 5, 4]
    assert (comparison["same"]["episodes"], comparison["same"]["share"]) == (3, pytest.approx(2 / 3))
    found = {each["metric"]: each for each in comparison["differences"]}
    assert (found["error"]["difference"], found["error"]["episodes"]) == (pytest.approx(0.2), 5)
    assert found["cost"]["difference"] == pytest.approx((4 * (SHADOW_COST - COST) - COST) / 5 / 1e6)
    assert (found["latency"]["episodes"], found["output_tokens"]["episodes"]) == (4, 3)
    assert (found["refusal"]["difference"], found["refusal"]["verdict"]) == (0, "too early")
    assert "prefix cache" in results["warnings"][0]
    printed = service.run("shadow", "results", "shw-paired")
    assert "shw-other instead of shw-paired: 5 requests in 5 episodes, 4 of first turns." in printed.stdout, printed.stderr
    assert "Same response: 66.7% of 3 first turns" in printed.stdout
    earlier = {"until": "2026-01-01T00:00:00Z"}
    assert (await admin.get("/admin/v1/shadows/shw-paired/results", params=earlier)).json()["comparisons"] == []
    assert (await admin.get("/admin/v1/shadows/shw-first/results")).status_code == 404
    assert service.run("shadow", "results", "shw-nothing").returncode == 1
    wrong = {"since": "2026-01-02T00:00:00Z", **earlier}
    assert (await admin.get("/admin/v1/shadows/shw-paired/results", params=wrong)).json()["error"]["param"] == "since"
