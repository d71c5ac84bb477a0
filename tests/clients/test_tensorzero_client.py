"""TensorZero's own client, unmodified, calls models and functions and sends feedback; its synchronous and its asynchronous form."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.install import HERE, PYTHON_CLIENTS, is_installed
from tests.clients.scripted_model import GREETING, SCENARIO, WEATHER_TEXT, ScriptedModel
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

_LIMIT_S = 300.0
_ADA = {"name": "Ada", "age": 36}
_PARIS = {"city": "Paris"}


@dataclass
class Run:
    """One run: the client's report, and the requests that the engine received meanwhile."""

    report: dict[str, dict[str, Any]]
    requests: list[ReceivedRequest]

    def result_of(self, check: str) -> Any:
        """A failure inside the client is a failure here, with the client's message."""
        outcome = self.report[check]
        assert "error" not in outcome, outcome["error"]
        return outcome["result"]

    def prompts(self) -> list[Any]:
        """The system messages that the engine received."""
        return [message["content"] for request in self.requests for message in request.body["messages"] if message["role"] == "system"]


@pytest.fixture(scope="module", params=["sync", "async"])
async def run(request: pytest.FixtureRequest, service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> AsyncGenerator[Run]:
    assert is_installed(PYTHON_CLIENTS), f"{PYTHON_CLIENTS} is not installed, or out of date: `python -m tests.clients.install` makes it."
    service.apply("""
        [models]
        tzc-small = { targets = [{ provider = "first", model = "small" }] }
        tzc-large = { targets = [{ provider = "first", model = "large" }] }
        tzc-broken = { targets = [{ provider = "nowhere", model = "none" }] }
        [[prices]]
        provider = "first"
        model = "small"
        input = 1.0
        output = 2.0
        [functions.tzc-greet]
        default = "terse"
        [functions.tzc-greet.schemas]
        system = { type = "object", properties = { name = { type = "string" } }, required = ["name"], additionalProperties = false }
        [functions.tzc-greet.variants.terse]
        model = "tzc-small"
        system_template = "Greet {{ name }} tersely."
        [functions.tzc-greet.variants.wordy]
        model = "tzc-large"
        system_template = "Greet {{ name }} with many words."
        [functions.tzc-weather]
        tools = [{ name = "get_weather", description = "The weather in a city", parameters = { type = "object" } }]
        [functions.tzc-weather.variants.only]
        model = "tzc-small"
        [functions.tzc-person]
        type = "json"
        [functions.tzc-person.output_schema]
        type = "object"
        properties = { name = { type = "string" }, age = { type = "integer" } }
        required = ["name", "age"]
        additionalProperties = false
        [functions.tzc-person.variants.only]
        model = "tzc-small"
        [metrics.tzc-helpful]
        kind = "boolean"
        level = "inference"
        optimize = "max"
        [metrics.tzc-score]
        kind = "float"
        level = "episode"
    """)
    engine = engines[0]
    engine.script = ScriptedModel().script
    engine.requests.clear()
    environment = {"BASE_URL": service.url, "API_KEY": service.key, "MODEL": "tzc-small", "SURFACE": request.param}
    unused = {"SLOW_MODEL": "", "EMBEDDING_MODEL": ""}
    process = await asyncio.create_subprocess_exec(
        PYTHON_CLIENTS / "bin" / "python",
        HERE / "scripts" / "tensorzero_client.py",
        env={**os.environ, "NO_PROXY": "127.0.0.1", **environment, **unused},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    yield Run(json.loads(out.decode().splitlines()[-1]), [each for each in engine.requests if each.body])


@pytest.mark.parametrize("check", ["model", "function", "pinned"])
@pytest.mark.parametrize("form", ["", "_streamed"])
async def test_chat_is_answered_whole_and_streamed(run: Run, check: str, form: str):
    result = run.result_of(check + form)
    assert (result["class"], result["text"], result["finish"]) == ("ChatChunk" if form else "ChatInferenceResponse", GREETING, "stop")
    assert result["usage"] == {"input": 20, "output": 9}
    assert result["cost"] == (None if check == "pinned" else 20e-6 + 9 * 2e-6)
    assert result["variant"] == {"model": "tzc-small", "function": "terse", "pinned": "wordy"}[check]
    assert not form or result["pieces"] > 1


async def test_templates_make_the_prompt_of_the_variant(run: Run):
    prompts = run.prompts()
    assert SCENARIO["system"] in prompts and "Greet Ada tersely." in prompts and "Greet Bob tersely." in prompts
    wordy = [request.body for request in run.requests if request.body["model"] == "large"]
    assert [body["messages"][0]["content"] for body in wordy] == ["Greet Ada with many words."] * 2


@pytest.mark.parametrize("of", ["model", "function"])
async def test_tool_is_called_and_its_result_returned(run: Run, of: str):
    result = run.result_of(f"{of}_tools")
    assert result["called"] == ["get_weather", _PARIS, _PARIS]
    assert (result["first"]["finish"], result["finish"], result["text"]) == ("tool_call", "stop", WEATHER_TEXT)
    assert result["first"]["episode"] == result["episode"] and result["first"]["inference"] != result["inference"]
    streamed = run.result_of(f"{of}_tools_streamed")
    assert (streamed["called"], streamed["finish"], len(streamed["ids"])) == (["get_weather", _PARIS], "tool_call", 1)


@pytest.mark.parametrize("of", ["model", "function"])
async def test_json_is_parsed(run: Run, of: str):
    result, streamed = run.result_of(f"{of}_json"), run.result_of(f"{of}_json_streamed")
    assert (result["class"], result["parsed"], json.loads(result["raw"])) == ("JsonInferenceResponse", _ADA, _ADA)
    assert (streamed["class"], streamed["parsed"], streamed["finish"]) == ("JsonChunk", _ADA, "stop")
    assert result["variant"] == streamed["variant"] == ("only" if of == "function" else "tzc-small")


async def test_options_reach_the_engine_and_the_record(run: Run, service: Service):
    [sent] = [request for request in run.requests if "top_k" in request.body]
    assert (sent.body["temperature"], sent.body["top_k"], sent.headers["x-trace"]) == (0.25, 5, "on")
    assert 77 in (sent.body.get("max_tokens"), sent.body.get("max_completion_tokens"))
    record = await service.wait_for_record(run.result_of("options")["inference"])
    assert record["tags"] == {"team": "search", "tensorzero::namespace": "eu"}


async def test_episode_goes_on_over_two_calls(run: Run, service: Service):
    first, second = (run.result_of("episode")[turn] for turn in ("first", "second"))
    assert first["episode"] == second["episode"] and first["inference"] != second["inference"]
    for turn in (first, second):
        assert (await service.wait_for_record(turn["inference"]))["episode_id"] == first["episode"]


async def test_feedback_is_stored_on_its_inference_or_episode(run: Run, service: Service):
    sent = run.result_of("feedback")["sent"]
    rows: list[Any] = []

    async def are_stored() -> bool:
        query = "SELECT * FROM feedback WHERE feedback_id = ANY($1::uuid[])"
        rows[:] = await fetch(database_url(service), query, list(sent))
        return len(rows) == len(sent) and all(row["matched_at"] for row in rows)

    await wait_until(are_stored)
    for row in rows:
        fields = sent[str(row["feedback_id"])]
        assert (row["metric"], str(row["target_id"])) == (fields["metric_name"], fields.get("inference_id") or fields["episode_id"])
        assert json.loads(row["tags"] or "{}") == fields.get("tags", {})
    numbers = {row["number"] for row in rows if row["metric"] in ("tzc-helpful", "tzc-score")}
    assert numbers == {1, 0, 0.75}
    inference = run.result_of("feedback")["inference"]
    of_metric = await fetch(
        database_url(service), "SELECT value FROM feedback WHERE metric = 'tzc-helpful' AND target_id = $1 AND is_current", inference
    )
    assert [row["value"] for row in of_metric] == ["false"]  # the newer one; the one with `dryrun` is not stored


async def test_errors_are_the_clients_own(run: Run):
    seen = run.result_of("errors")
    assert {name: status for name, (status, _) in seen.items()} == {
        **{"unknown_function": 404, "unknown_function_streamed": 404, "unknown_model": 404, "unknown_variant": 400},
        **{"wrong_system": 400, "unknown_tool": 400, "unknown_metric": 400, "wrong_value": 400, "wrong_level": 400},
        **{"bad_key": 401, "broken": 502},
    }, seen
    assert all("tzc-none" in seen[name][1] for name in seen if name.startswith("unknown_")), seen
    assert "name" in seen["wrong_system"][1] and "allowed_tools" in seen["unknown_tool"][1]
