"""Clients of application teams, unmodified, do through the gateway what their own documentation promises, whatever the engine speaks."""

from typing import Any

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.running import Runs

# Those whose engine speaks chat, chat, Responses and Anthropic Messages alone.
MODELS = ("sandbox", "scripted", "responses", "claude")
_REFUSED = {"unknown": 404, "bad_key": 401, "bad_request": 400}


def each(*checks: str, models: tuple[str, ...] = MODELS) -> Any:
    """Every client that makes these checks, with every model."""
    asked = [(client, model, check) for client in CLIENTS for model in models for check in checks if check in client.checks]
    assert asked
    return pytest.mark.parametrize(("client", "model", "check"), asked, ids=[f"{client}-{model}-{check}" for client, model, check in asked])


def counted(usage: dict[str, Any]) -> bool:
    return usage["input"] > 0 and usage["output"] > 0


@each("text")
async def test_a_client_is_answered(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["text"]
    assert saw["finish"] in ("stop", "completed", "end_turn")
    assert counted(saw["usage"])
    assert saw.get("id", "told") is not None


@each("stream")
async def test_a_client_reads_a_stream(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["text"] and saw["pieces"] > 1
    assert saw["finish"] in ("stop", "completed", "end_turn")
    assert counted(saw["usage"])


@each("tools", "tools_streamed")
async def test_a_client_runs_a_tool_and_hands_its_result_back(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert [call["name"] for call in saw["called"]] == ["get_weather"]
    assert isinstance(saw["called"][0]["arguments"]["city"], str)
    assert saw["text"] and counted(saw["usage"])


@each("parallel", "parallel_streamed")
async def test_a_client_runs_tools_that_were_called_together(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    # Some run them at the same time.
    assert sorted(call["name"] for call in saw["called"]) == ["get_time", "get_weather"]
    assert saw["text"]


@each("structured", "structured_streamed", "structured_by_tool", "structured_by_tools_strict", "structured_by_json_schema")
async def test_a_client_gets_the_shape_it_asked_for(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert isinstance(saw["name"], str) and isinstance(saw["age"], int)


@each("reasoning", "reasoning_streamed")
async def test_a_client_gives_reasoning_back_with_the_next_turn(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert bool(saw["reasoning"]) == client.sees_reasoning
    assert saw["text"] and saw["again"]
    assert saw.get("signed", True)


@each("reasoning_over_tools", "reasoning_over_tools_streamed")
async def test_a_client_gives_reasoning_back_with_a_tools_result(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert bool(saw["reasoning"]) == client.sees_reasoning
    assert saw.get("calls") == 1 or len(saw["called"]) == 1
    assert saw["text"]


@each("image")
async def test_a_client_sends_a_picture(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    # The sandbox says what came with the words, where the answer's shape leaves room for words.
    assert "image/png, 70 bytes" in saw["text"] if "text" in saw else saw["name"] is not None


@each("errors", models=("sandbox",))
async def test_a_client_tells_what_was_wrong(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert {kind: told.get("status") for kind, told in saw.items()} == _REFUSED, saw
    assert "no-such-model" in saw["unknown"]["message"]
    assert "key" in saw["bad_key"]["message"]
    assert any(field in saw["bad_request"]["message"] for field in ("temperature", "strange", "metadata")), saw
    assert saw["unknown"].get("id", "told") is not None


@each("stream_error", models=("sandbox",))
async def test_a_stream_that_is_refused_is_an_error_of_the_clients(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert (saw["class"], saw["status"]) == ("NotFoundError", 404)


@each("embeddings", models=("sandbox",))
async def test_a_client_embeds(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["lengths"] == [384, 384]


@each("models", models=("sandbox",))
async def test_a_client_lists_models(runs: Runs, client: Client, model: str, check: str):
    assert {"sandbox", "sandbox-embed"} <= set(await runs.saw(client, model, check))


@each("completions", "responses", models=("sandbox",))
async def test_a_client_asks_on_its_other_api(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["text"] and counted(saw["usage"])


@each("count_tokens", models=("sandbox",))
async def test_a_client_counts_tokens(runs: Runs, client: Client, model: str, check: str):
    assert (await runs.saw(client, model, check))["input"] > 0


@each("stored", models=("sandbox",))
async def test_a_client_goes_on_from_a_stored_response(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["text"] and saw["found"]


@each("abort", models=("sandbox",))
async def test_a_client_that_hangs_up_stops_the_engine(runs: Runs, client: Client, model: str, check: str):
    saw = await runs.saw(client, model, check)
    assert saw["pieces"] == 2 and saw["stopped"]


@pytest.mark.parametrize("model", ["responses", "claude"])
@pytest.mark.parametrize("client", [client for client in CLIENTS if "reasoning" in client.checks], ids=str)
async def test_what_seals_reasoning_comes_back_to_its_engine(runs: Runs, client: Client, model: str):
    returned = await runs.saw(client, model, "seals")
    assert returned == [client.keeps_seals] * 4
