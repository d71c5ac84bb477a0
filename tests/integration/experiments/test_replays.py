"""Replays over real HTTP: recorded requests through another model, in the name of a key that pays, each once, within a cap."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import httpx2
import pytest

from app.store.keys.key_format import public_prefix
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CHAT = "/v1/chat/completions"
REPLAYS = "/admin/v1/replays"
# A request takes 3 tokens, and a response 2: new costs 3 * 100 + 2 * 200 = 700 millionths of a dollar.
CONFIGURATION = """
[providers.replay-engine]
adapter = "openai"
base_url = "{url}"
[models]
replay-old = {{ targets = [{{ provider = "replay-engine", model = "old" }}] }}
replay-new = {{ targets = [{{ provider = "replay-engine", model = "new" }}], output_tokens = 10 }}
replay-fallback = {{ targets = [{{ provider = "replay-engine", model = "new" }}], fallbacks = ["replay-old"] }}
replay-unpriced = {{ targets = [{{ provider = "replay-engine", model = "unpriced" }}] }}
replay-judging = {{ targets = [{{ provider = "replay-engine", model = "judging" }}], output_tokens = 10 }}
[[prices]]
provider = "replay-engine"
model = "old"
input = 10
output = 20
[[prices]]
provider = "replay-engine"
model = "new"
input = 100
output = 200
[[prices]]
provider = "replay-engine"
model = "judging"
input = 1
output = 1
[functions.replay-task]
default = "plain"
schemas.user = {{ type = "object", properties = {{ question = {{ type = "string" }} }}, required = ["question"] }}
[functions.replay-task.variants.plain]
model = "replay-old"
user_template = "Answer {{{{ question }}}}."
[functions.replay-task.variants.short]
model = "replay-new"
user_template = "In a word: {{{{ question }}}}"
[functions.replay-judge]
type = "json"
output_schema = {{ type = "object", properties = {{ score = {{ type = "number" }} }}, required = ["score"], additionalProperties = false }}
[functions.replay-judge.variants.only]
model = "replay-judging"
system_template = "Which response is better?"
[functions.replay-free-judge]
type = "json"
output_schema = {{ type = "object" }}
[functions.replay-free-judge.variants.only]
model = "replay-unpriced"
[functions.replay-tested-judge]
type = "json"
output_schema = {{ type = "object" }}
[functions.replay-tested-judge.variants]
one = {{ model = "replay-judging" }}
two = {{ model = "replay-judging" }}
[functions.replay-tested-judge.experiment]
arms = {{ one = 0.5, two = 0.5 }}
control = "one"
[teams.replay-private]
content = "none"
[teams.replay-payers]
[teams.replay-callers]
"""


class World:
    """A service with an engine of its own, and keys of callers and of who pays. `judge`: the engine's scores, by (a, b)."""

    def __init__(self, service: Service, engine: ScriptedEngine) -> None:
        self.service = service
        self.engine = engine
        self.gate = asyncio.Event()
        self.gate.set()
        self.judge_gate = asyncio.Event()
        self.judge_gate.set()
        self.calls: Counter[str] = Counter()
        self.gate_closes_at: int | None = None  # which call of the new model

    async def answer(self, request: ReceivedRequest) -> None:
        model = request.body["model"]
        self.calls[model] += 1
        text = request.body["messages"][-1]["content"]
        if model == "judging":
            await self.judge_gate.wait()
            given = json.loads(text)
            score = 0.5 if given["response_a"] == given["response_b"] else float(given["response_a"].startswith("new"))
            if "always first" in given["request"]:
                score = 1.0
            await request.respond_completion(json.dumps({"score": score}))
            return
        if model == "new":
            if self.calls[model] == self.gate_closes_at:
                self.gate.clear()
            await self.gate.wait()
            if "fail" in text:
                await request.respond(500, b'{"error": {"message": "no"}}')
                return
        await request.respond_completion("same" if "same" in text else f"{model}: {text}")

    def key(self, team: str) -> tuple[str, str]:
        """The key, and its public part."""
        done = self.service.run("keys", "create", "--team", team, "--quiet")
        assert done.returncode == 0, done.stderr
        key = done.stdout.strip()
        return key, public_prefix(key)

    async def send(self, key: str, texts: Sequence[str], model: str = "replay-old", **more: Any) -> list[str]:
        """The ids of their inferences, once all are recorded."""
        ids: list[str] = []
        async with self.service.client(headers={"authorization": f"Bearer {key}"}) as client:
            for text in texts:
                answer = await client.post(CHAT, json={"model": model, "messages": [{"role": "user", "content": text}], **more})
                assert answer.status_code == 200, answer.text
                ids.append(answer.headers["x-narthex-inference-id"])
        for id in ids:
            await self.service.wait_for_record(id)
        return ids

    async def start(self, admin: httpx2.AsyncClient, **order: Any) -> dict[str, Any]:
        response = await admin.post(REPLAYS, json={"model": "replay-new", **order})
        assert response.status_code == 201, response.text
        return response.json()

    async def end_of(self, admin: httpx2.AsyncClient, id: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def has_ended() -> bool:
            nonlocal found
            found = (await admin.get(f"{REPLAYS}/{id}")).json()
            return found["status"] != "running"

        await wait_until(has_ended, 120, interval_s=0.2)
        return found

    async def items(self, admin: httpx2.AsyncClient, id: str) -> list[dict[str, Any]]:
        return (await admin.get(f"{REPLAYS}/{id}/items", params={"limit": 1000})).json()["data"]


async def _world(service: Service, engine: ScriptedEngine) -> World:
    await engine.start()
    service.apply(CONFIGURATION.format(url=f"http://127.0.0.1:{engine.port}/v1"))
    world = World(service, engine)
    engine.script = world.answer
    return world


@pytest.fixture(scope="module")
async def world(service: Service) -> AsyncGenerator[World]:
    engine = ScriptedEngine()
    yield await _world(service, engine)
    await engine.stop()


async def test_each_request_is_answered_again_and_compared(world: World):
    key, public = world.key("replay-callers")
    originals = await world.send(key, ["same", "other", "please fail"], user="replay-ann")
    async with world.service.admin_client() as admin:
        started = await world.start(admin, key=public, filter={"key": public}, max_usd=1, concurrency=2)
        assert started["items"] == {"pending": 3, "running": 0, "done": 0, "refused": 0} and started["refused"] == {}
        ended = await world.end_of(admin, started["id"])
        assert (ended["status"], ended["reason"], ended["items"]["done"], ended["retried"]) == ("complete", None, 3, 0), ended
        items = {item["original_id"]: item for item in await world.items(admin, started["id"])}
        assert set(items) == set(originals)
        same, other, failed = (items[id] for id in originals)
        assert (same["same"], other["same"], failed["same"]) == (True, False, None)
        assert same["original"]["cost_microusd"] == 70 and same["replayed"]["cost_microusd"] == 700
        assert not other["replayed"]["error"] and failed["replayed"]["error"] and failed["replayed"]["cost_microusd"] == 0
        assert ended["spent_usd"] == pytest.approx(0.0014) and ended["reserved_usd"] == 0
        record = await world.service.wait_for_record(same["inference_id"])
        assert (record["origin"], record["original_id"], record["replay_id"]) == ("replay", originals[0], started["id"])
        assert record["model"] == "replay-new" and record["tags"] is None and record["content"]["response"] is not None
        listed = (await admin.get("/admin/v1/inferences", params={"key": public, "origin": "caller"})).json()["data"]
        assert {each["id"] for each in listed} == set(originals)
    async with world.service.client(headers={"authorization": f"Bearer {key}"}) as client:
        assert (await client.get(f"/v1/inferences/{same['inference_id']}")).status_code == 404
        assert (await client.get(f"/v1/inferences/{originals[0]}")).status_code == 200


async def test_a_fallback_does_not_answer_for_the_model(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, ["please fail"])
    async with world.service.admin_client() as admin:
        started = await world.start(admin, model="replay-fallback", key=public, filter={"key": public})
        await world.end_of(admin, started["id"])
        [item] = await world.items(admin, started["id"])
        assert item["replayed"]["error"] is True and item["same"] is None, item


async def test_an_error_is_not_counted_as_fast(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, ["please fail", "other", "another"])
    async with world.service.admin_client() as admin:
        started = await world.start(admin, key=public, filter={"key": public})
        await world.end_of(admin, started["id"])
        results = (await admin.get(f"{REPLAYS}/{started['id']}/results")).json()
    units = {each["metric"]: (each["units"], each["original"], each["replayed"]) for each in results["metrics"]}
    assert units["output_tokens"] == (2, 2.0, 2.0) and units["latency"][0] == 2
    assert units["cost"] == (3, pytest.approx(70e-6), pytest.approx(2 / 3 * 700e-6)) and units["error"][0] == 3


async def test_results_are_paired_and_readable_by_command(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, [f"same {n}" for n in range(4)] + [f"other {n}" for n in range(4)])
    async with world.service.admin_client() as admin:
        started = await world.start(admin, key=public, filter={"key": public}, seed="one")
        await world.end_of(admin, started["id"])
        results = (await admin.get(f"{REPLAYS}/{started['id']}/results")).json()
        assert (results["pairs"], results["units"], results["status"]) == (8, 8, "complete")
        assert (results["match"]["compared"], results["match"]["same"], results["judge"]) == (8, 4, None)
        assert results["match"]["interval"]["low"] < 0.5 < results["match"]["interval"]["high"]
        metrics = {each["metric"]: each for each in results["metrics"]}
        cost, error = metrics["cost"], metrics["error"]
        assert cost["original"] == pytest.approx(70e-6) and cost["replayed"] == pytest.approx(700e-6)
        assert cost["difference"] == pytest.approx(630e-6) and cost["interval"] is None and "500" in cost["reason"]
        assert error["difference"] == 0 and error["interval"]["low"] < -0.1 and error["interval"]["high"] > 0.1
        # The same seed takes the same requests, in the same order.
        again = await world.start(admin, key=public, filter={"key": public}, seed="one", max_items=3)
        first = [item["original_id"] for item in await world.items(admin, started["id"])]
        assert [item["original_id"] for item in await world.items(admin, again["id"])] == first[:3]
        await world.end_of(admin, again["id"])
    printed = world.service.run("replay", "results", started["id"])
    assert printed.returncode == 0 and "8 pairs of 8 episodes, complete" in printed.stdout, printed
    listed = world.service.run("replay", "items", started["id"], "--json", "--descending", "--limit", "7")
    async with world.service.admin_client() as admin:
        assert json.loads(listed.stdout)["items"] == (await world.items(admin, started["id"]))[:0:-1]
    assert world.service.run("replay", "items", started["id"]).stdout.count(" done ") == 8
    assert "no such request" in world.service.run("replay", "items", started["id"], "--status", "refused").stdout
    shown = world.service.run("replay", "show", started["id"], "--json")
    assert json.loads(shown.stdout)["items"]["done"] == 8
    assert started["id"] in world.service.run("replay", "list").stdout


async def test_commands_start_cancel_and_resume(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, [f"by command {n}" for n in range(3)])
    order = ("replay", "start", "replay-new", "--key", public, "--where", f"key={public}", "--since", "1d", "--max-usd", "1")
    dry = world.service.run(*order, "--dry-run")
    assert dry.returncode == 0 and "3 requests would be replayed" in dry.stdout, dry
    for wrong, text in (
        (("--sample", "nan"), "'nan' is not a finite number"),
        (("--max-usd", "inf"), "'inf' is not a finite number"),
        (("--max-usd", "1e300"), "a number <= 1000000.0 at `max_usd`"),
        (("--seed", "x" * 101), "text of length <= 100 at `seed`"),
        (("--where", "user=ann"), "unknown field `user`. The filters are: model, team,"),
    ):
        refused = world.service.run(*order, *wrong)
        assert refused.returncode == 2 and text in refused.stderr, refused.stderr
    world.gate.clear()
    try:
        started = world.service.run(*order, "--concurrency", "1", "--json")
        assert started.returncode == 0, started.stderr
        id = json.loads(started.stdout)["id"]
        before = world.calls["new"]
        await wait_until(lambda: world.calls["new"] > before)
        assert world.service.run("replay", "delete", id, "--yes").returncode == 1, "it runs"
        assert world.service.run("replay", "cancel", id).returncode == 0
    finally:
        world.gate.set()
    async with world.service.admin_client() as admin:

        async def is_released() -> bool:
            return (await admin.get(f"{REPLAYS}/{id}")).json()["items"]["running"] == 0

        await wait_until(is_released)
        cancelled = (await admin.get(f"{REPLAYS}/{id}")).json()
        assert (cancelled["status"], cancelled["items"]["done"], cancelled["items"]["pending"]) == ("cancelled", 1, 2), cancelled
        assert world.service.run("replay", "cancel", id).returncode == 1
        assert (await admin.post(f"{REPLAYS}/{id}/cancel")).status_code == 409
        resumed = await admin.post(f"{REPLAYS}/{id}/resume")
        assert resumed.status_code == 200 and resumed.json()["status"] == "running", resumed.text
        ended = await world.end_of(admin, id)
        assert (ended["status"], ended["items"]["done"], ended["retried"]) == ("complete", 3, 0), ended
        assert (await admin.post(f"{REPLAYS}/{id}/resume")).status_code == 409
        assert world.service.run("replay", "delete", id, "--yes").returncode == 0
        assert (await admin.delete(f"{REPLAYS}/{id}")).status_code == 404
        audited = (await admin.get("/admin/v1/audit", params={"name": id})).json()["data"]
        assert {each["action"] for each in audited} == {"start", "cancel", "resume", "delete"}


async def test_an_item_that_ends_processes_is_not_tried_for_ever(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, [f"fatal {n}" for n in range(3)])
    async with world.service.admin_client() as admin:
        id = await _cancelled_after_one(world, admin, key=public, filter={"key": public})
        await _leave_running(database_url(world.service), id, {2: 4, 3: 5})
        assert (await admin.post(f"{REPLAYS}/{id}/resume")).status_code == 200
        ended = await world.end_of(admin, id)
        assert ended["status"] == "complete", ended
        items = [(each["number"], each["status"], each["reason"], each["tries"]) for each in await world.items(admin, id)]
        assert items == [(1, "done", None, 1), (2, "done", None, 5), (3, "refused", "interrupted", 5)]


async def test_what_a_process_had_reserved_when_it_ended_counts_within_the_cap(world: World):
    key, public = world.key("replay-callers")
    await world.send(key, [f"cut off {n}" for n in range(3)])
    async with world.service.admin_client() as admin:
        id = await _cancelled_after_one(world, admin, key=public, filter={"key": public}, max_usd=0.01)
        await _leave_running(database_url(world.service), id, {2: 1}, reserved_microusd=9_000)
        assert (await admin.post(f"{REPLAYS}/{id}/resume")).status_code == 200
        ended = await world.end_of(admin, id)
        assert (ended["status"], ended["reason"], ended["items"]["done"]) == ("complete", "cap", 1), ended
        assert ended["spent_usd"] == pytest.approx(0.0097) and ended["reserved_usd"] == 0


async def _cancelled_after_one(world: World, admin: httpx2.AsyncClient, **order: Any) -> str:
    world.gate.clear()
    try:
        id = (await world.start(admin, concurrency=1, **order))["id"]
        before = world.calls["new"]
        await wait_until(lambda: world.calls["new"] > before)
        assert (await admin.post(f"{REPLAYS}/{id}/cancel")).status_code == 200
    finally:
        world.gate.set()

    async def is_released() -> bool:
        return (await admin.get(f"{REPLAYS}/{id}")).json()["items"]["running"] == 0

    await wait_until(is_released)
    return id


async def _leave_running(database: str, id: str, tries: Mapping[int, int], *, reserved_microusd: int = 0) -> None:
    """Leaves items running, as killed processes do. `tries` holds the tries of each item, by its number."""
    query = """
        UPDATE replay_items SET status = 'running', tries = $3, began_at = now(), reserved_microusd = greatest(reserved_microusd, $4)
        WHERE replay_id = $1::uuid AND number = $2
    """
    for number, count in tries.items():
        await fetch(database, query, id, number, count, reserved_microusd)


async def _is_ready(admin: httpx2.AsyncClient) -> bool:
    try:
        return (await admin.get("/health/ready")).status_code == 200
    except httpx2.HTTPError:
        return False


async def test_a_judge_that_ends_processes_is_not_called_for_ever():
    """kill -9 while the judge is called: the response counts as it is, each try counts before the call, and after five there is none."""
    service, engine = services.start(workers=1), ScriptedEngine()
    try:
        world = await _world(service, engine)
        key, public = world.key("replay-callers")
        await world.send(key, ["for the new one"])
        world.judge_gate.clear()
        async with service.admin_client() as admin:
            order = {"key": public, "filter": {"key": public}, "judge": {"function": "replay-judge"}, "max_usd": 1}
            id = (await world.start(admin, **order))["id"]
            await wait_until(lambda: world.calls["judging"] == 1)
            os.kill(service.pid("gateway-0"), signal.SIGKILL)
            await wait_until(lambda: world.calls["judging"] == 2, 120)
            [item] = await world.items(admin, id)
            assert (item["status"], item["tries"]) == ("running", 2) and item["replayed"] is not None, item
            before = (await admin.get(f"{REPLAYS}/{id}")).json()
            assert before["spent_usd"] > 0.0007 and before["reserved_usd"] > 0, "what the judge may have cost counts"
            await _leave_running(database_url(service), id, {1: 5})
            os.kill(service.pid("gateway-0"), signal.SIGKILL)
            await wait_until(lambda: _is_ready(admin), 120)
            ended = await world.end_of(admin, id)
            assert (ended["status"], ended["items"]["done"], ended["reserved_usd"]) == ("complete", 1, 0), ended
            [item] = await world.items(admin, id)
            assert (item["status"], item["reason"], item["tries"]) == ("done", "judge_interrupted", 5), item
            assert item["judgement"] is None and ended["spent_usd"] == pytest.approx(before["spent_usd"] + before["reserved_usd"])
            assert (world.calls["new"], world.calls["judging"]) == (1, 2)
            results = (await admin.get(f"{REPLAYS}/{id}/results")).json()
            assert (results["pairs"], results["judge"]["failed"]) == (1, 1)
    finally:
        services.stop(service)
        await engine.stop()


async def test_nothing_is_begun_that_the_cap_may_not_cover(world: World):
    """A request reserves 2000 millionths for 10 tokens of output, and some more for its prompt, and costs 700."""
    key, public = world.key("replay-callers")
    await world.send(key, [f"capped {n}" for n in range(8)])
    async with world.service.admin_client() as admin:
        before = world.calls["new"]
        started = await world.start(admin, key=public, filter={"key": public}, max_usd=0.006, concurrency=8)
        ended = await world.end_of(admin, started["id"])
        assert (ended["status"], ended["reason"]) == ("complete", "cap")
        done = ended["items"]["done"]
        assert 2 <= done < 7 and ended["items"]["pending"] == 8 - done and world.calls["new"] - before == done
        assert ended["spent_usd"] == pytest.approx(done * 0.0007) and ended["reserved_usd"] == 0
        # One more would have fitted, had it been known what it costs: not what it may cost.
        assert 0.006 - ended["spent_usd"] > 0.0007
        unpriced = await admin.post(REPLAYS, json={"model": "replay-unpriced", "key": public, "filter": {"key": public}, "max_usd": 1})
        assert unpriced.status_code == 400 and "no price" in unpriced.json()["error"]["message"]


async def test_who_pays_is_the_owner_and_nothing_of_another_team_is_recorded(world: World):
    key, public = world.key("replay-callers")
    payer, paying = world.key("replay-payers")
    [original] = await world.send(key, ["a secret of ours"])
    async with world.service.admin_client() as admin:
        started = await world.start(admin, key=paying, filter={"key": public})
        assert started["team"] == "replay-payers"
        ended = await world.end_of(admin, started["id"])
        [item] = await world.items(admin, started["id"])
        assert ended["items"]["done"] == 1 and item["same"] is False and item["original_id"] == original
        record = await world.service.wait_for_record(item["inference_id"])
        assert record["team"] == "replay-payers" and record["content"] == {"policy": "none", "request": None, "response": None}
    for holder, requests in ((key, 1), (payer, 1)):
        async with world.service.client(headers={"authorization": f"Bearer {holder}"}) as client:
            assert (await client.get("/v1/usage")).json()["total"]["requests"] == requests


async def test_what_is_not_kept_cannot_be_replayed(world: World):
    private, of_private = world.key("replay-private")
    _, public = world.key("replay-callers")
    await world.send(private, ["not kept", "not kept either"])
    async with world.service.admin_client() as admin:
        refused = await admin.post(REPLAYS, json={"model": "replay-new", "key": public, "filter": {"key": of_private}})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "filter"
        assert "2 recorded without content" in refused.json()["error"]["message"]
        none = await admin.post(REPLAYS, json={"model": "replay-new", "key": public, "filter": {"end_user": "nobody at all"}})
        assert none.status_code == 400 and "no inference matches" in none.json()["error"]["message"]
        for order, param in (
            ({"model": "nowhere"}, "model"),
            ({"model": "replay-task", "variant": "nowhere"}, "variant"),
            ({"model": "replay-task"}, "variant"),
            ({"model": "replay-new", "variant": "any"}, "variant"),
            ({"model": "replay-new", "judge": {"function": "replay-task"}}, "judge.function"),
            ({"model": "replay-new", "judge": {"function": "nowhere"}}, "judge.function"),
            ({"model": "replay-new", "judge": {"function": "replay-free-judge"}, "max_usd": 1}, "max_usd"),
            ({"model": "replay-new", "judge": {"function": "replay-tested-judge"}}, "judge.variant"),
            ({"model": "replay-new", "filter": {"text": "words"}}, "filter.text"),
            ({"model": "replay-new", "sample": 0}, "sample"),
            ({"model": "replay-new", "max_items": 0}, "max_items"),
        ):
            answer = await admin.post(REPLAYS, json={"key": public, **order})
            assert answer.status_code == 400, (order, answer.text)
            assert answer.json()["error"]["param"] == param, (order, answer.text)
        assert (await admin.post(REPLAYS, json={"model": "replay-new", "key": "nx-000000000000"})).status_code == 404


async def test_a_function_is_replayed_with_the_input_of_its_templates(world: World):
    key, public = world.key("replay-callers")
    question = [{"type": "narthex::template", "arguments": {"question": "why"}}]
    async with world.service.client(headers={"authorization": f"Bearer {key}"}) as client:
        body = {"model": "narthex::function_name::replay-task", "messages": [{"role": "user", "content": question}]}
        answer = await client.post(CHAT, json=body)
        assert answer.status_code == 200, answer.text
    await world.service.wait_for_record(answer.headers["x-narthex-inference-id"])
    of_function = {"key": public, "function": "replay-task"}
    async with world.service.admin_client() as admin:
        started = await world.start(admin, model="replay-task", variant="short", key=public, filter=of_function)
        ended = await world.end_of(admin, started["id"])
        assert ended["items"]["done"] == 1, await world.items(admin, started["id"])
        [item] = await world.items(admin, started["id"])
        record = await world.service.wait_for_record(item["inference_id"])
        assert (record["function"], record["variant"], record["experiment"]) == ("replay-task", "short", None)
        assert any(each.body["messages"][-1]["content"] == "In a word: why" for each in world.engine.requests)
        started = await world.start(admin, key=public, filter={**of_function, "variant": "plain"})
        await world.end_of(admin, started["id"])
        assert {(item["status"], item["reason"]) for item in await world.items(admin, started["id"])} == {("refused", "function")}
    printed = world.service.run("replay", "results", started["id"]).stdout
    assert "There is no pair to compare: see the status and reason of each item" in printed
    shown = world.service.run("replay", "show", started["id"]).stdout
    assert f"`narthex replay items {started['id']} --status refused` has the reason of each" in shown
    listed = world.service.run("replay", "items", started["id"], "--status", "refused").stdout.splitlines()
    assert len(listed) == 2 and listed[1].split()[:5] == ["1", item["original_id"], "-", "refused", "function"], listed


async def test_a_judge_reads_both_orders_and_a_disagreement_is_a_tie(world: World):
    key, public = world.key("replay-callers")
    originals = await world.send(key, ["same", "for the new one", "always first"])
    async with world.service.admin_client() as admin:
        judge = {"function": "replay-judge"}
        started = await world.start(admin, key=public, filter={"key": public}, judge=judge, max_usd=1)
        ended = await world.end_of(admin, started["id"])
        items = {item["original_id"]: item for item in await world.items(admin, started["id"])}
        same, won, flipped = (items[id]["judgement"] for id in originals)
        assert same["score"] == 0.5 and not same["flipped"]
        assert won == {"score": 1.0, "replayed_first": 1.0, "replayed_last": 1.0, "flipped": False}
        assert flipped == {"score": 0.5, "replayed_first": 1.0, "replayed_last": 0.0, "flipped": True}
        results = (await admin.get(f"{REPLAYS}/{started['id']}/results")).json()["judge"]
        assert (results["pairs"], results["wins"], results["losses"], results["ties"]) == (3, 1, 0, 2)
        assert results["flip_rate"] == pytest.approx(1 / 3) and results["score"] == pytest.approx(2 / 3) and results["failed"] == 0
        assert ended["spent_usd"] == pytest.approx((3 * 700 + 4 * 5) / 1e6)

        async def all_are_recorded() -> bool:
            listed = (await admin.get("/admin/v1/inferences", params={"original_id": originals[1]})).json()["data"]
            return Counter(each["origin"] for each in listed) == Counter(replay=1, judge=2)

        await wait_until(all_are_recorded)


async def test_what_is_erased_meanwhile_is_sent_to_no_judge(world: World):
    key, public = world.key("replay-callers")
    [original] = await world.send(key, ["for the new one"], user="replay-zoe")
    world.judge_gate.clear()
    before = world.calls["judging"]
    try:
        async with world.service.admin_client() as admin:
            id = (await world.start(admin, key=public, filter={"key": public}, judge={"function": "replay-judge"}))["id"]
            await wait_until(lambda: world.calls["judging"] == before + 1)
            erased = world.service.run("erase", "start", "--user", "replay-zoe", "--yes")
            assert erased.returncode == 0, erased.stderr

            async def is_erased() -> bool:
                rows = await fetch(database_url(world.service), "SELECT erased_at FROM inferences WHERE id = $1::uuid", original)
                return rows[0]["erased_at"] is not None

            await wait_until(is_erased)
            world.judge_gate.set()
            ended = await world.end_of(admin, id)
            [item] = await world.items(admin, id)
    finally:
        world.judge_gate.set()
    assert (ended["status"], item["status"], item["judgement"], item["reason"]) == ("complete", "done", None, "erased"), (ended, item)
    assert world.calls["judging"] == before + 1, "the second order was not sent"


async def test_a_key_that_is_revoked_ends_the_replay_with_the_reason(world: World):
    key, public = world.key("replay-callers")
    _, paying = world.key("replay-payers")
    await world.send(key, [f"revoked {n}" for n in range(3)])
    async with world.service.admin_client() as admin:
        world.gate.clear()
        try:
            before = world.calls["new"]
            started = await world.start(admin, key=paying, filter={"key": public}, concurrency=1)
            await wait_until(lambda: world.calls["new"] > before)
            revoked = world.service.run("keys", "revoke", paying, "--yes")
            assert revoked.returncode == 0, revoked.stderr
        finally:
            world.gate.set()
        ended = await world.end_of(admin, started["id"])
        assert (ended["status"], ended["reason"]) == ("failed", "The key that pays was revoked."), ended
        assert (ended["items"]["done"], ended["items"]["pending"]) == (1, 2)


async def test_a_request_that_the_key_may_not_make_ends_no_other(world: World):
    """The key may not make a request of another API, nor one that names a model of its own.

    Nothing is left to do only where the replay's model is not permitted.
    """
    key, public = world.key("replay-callers")
    fine = await world.send(key, ["before", "after"])
    [naming] = await world.send(key, ["elsewhere"], other_model="replay-old")
    async with world.service.client(headers={"authorization": f"Bearer {key}"}) as client:
        body = {"model": "replay-old", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        answer = await client.post("/v1/messages", json=body)
        assert answer.status_code == 200, answer.text
    of_other_api = answer.headers["x-narthex-inference-id"]
    await world.service.wait_for_record(of_other_api)
    async with world.service.admin_client() as admin:
        restricted = {"team": "replay-payers", "models": ["replay-new"], "routes": ["/v1/chat/completions"]}
        created = await admin.post("/admin/v1/keys", json=restricted)
        assert created.status_code == 201, created.text
        paying = created.json()["prefix"]
        started = await world.start(admin, key=paying, filter={"key": public}, concurrency=1)
        ended = await world.end_of(admin, started["id"])
        assert (ended["status"], ended["reason"], ended["items"]["done"], ended["items"]["refused"]) == ("complete", None, 2, 2), ended
        items = {item["original_id"]: (item["status"], item["reason"]) for item in await world.items(admin, started["id"])}
        assert items == {id: ("done", None) for id in fine} | {id: ("refused", "NotAllowed") for id in (naming, of_other_api)}
        id = await _cancelled_after_one(world, admin, key=paying, filter={"key": public})
        narrowed = await admin.patch(f"/admin/v1/keys/{paying}", json={"models": ["replay-judging"]}, headers={"if-match": "*"})
        assert narrowed.status_code == 200, narrowed.text
        before = (await admin.get(f"{REPLAYS}/{id}")).json()["items"]
        assert (await admin.post(f"{REPLAYS}/{id}/resume")).status_code == 200
        ended = await world.end_of(admin, id)
        assert (ended["status"], ended["items"]) == ("failed", before), ended


async def test_a_killed_process_costs_no_item_and_doubles_none():
    """kill -9 of the worker that runs the replay, while some items are recorded, and some are at the engine."""
    service, engine = services.start(workers=2), ScriptedEngine()
    try:
        world = await _world(service, engine)
        key, public = world.key("replay-callers")
        originals = await world.send(key, [f"question {n}" for n in range(30)])
        async with service.admin_client() as admin:
            world.gate_closes_at = 8
            started = await world.start(admin, key=public, filter={"key": public}, concurrency=3)

            async def are_others_done() -> bool:
                return (await admin.get(f"{REPLAYS}/{started['id']}")).json()["items"]["done"] == 7

            await wait_until(lambda: world.calls["new"] == 10)  # all three items in progress are at the engine
            await wait_until(are_others_done)
            running = [item for item in await world.items(admin, started["id"]) if item["status"] == "running"]
            assert len(running) == 3
            for name in ("gateway-0", "gateway-1"):
                os.kill(service.pid(name), signal.SIGKILL)
        world.gate.set()
        async with service.admin_client() as admin:
            await wait_until(lambda: _is_ready(admin), 120)
            ended = await world.end_of(admin, started["id"])
            assert (ended["status"], ended["items"]["done"]) == ("complete", 30), ended
            items = await world.items(admin, started["id"])
            assert sorted(item["original_id"] for item in items) == sorted(originals)
            assert len({item["inference_id"] for item in items}) == 30
            retried = {item["number"] for item in items if item["tries"] > 1}
            assert ended["retried"] == len(retried) == 3 and retried == {each["number"] for each in running}
            # What was cut off counts as it was reserved: its host may have charged it.
            assert ended["spent_usd"] > 30 * 0.0007 and ended["reserved_usd"] == 0
            results = (await admin.get(f"{REPLAYS}/{started['id']}/results")).json()
            assert results["pairs"] == 30
    finally:
        services.stop(service)
        await engine.stop()
