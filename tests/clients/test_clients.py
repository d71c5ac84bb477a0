"""Unmodified client libraries work through the gateway as their own documentation says, with engines of every dialect."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.clients.client_runs import ClientRuns
from tests.clients.clients import CLIENTS, MODELS, Client
from tests.clients.expected_failures import expected_failure
from tests.clients.scripted_model import EDITED_FILE, WEATHER_TEXT

_ERROR_STATUSES = {"unknown": 404, "bad_key": 401, "bad_request": 400}


def each_client_with(*checks: str, models: Iterable[str] = MODELS) -> Any:
    """Every client that makes these checks, with every model. What is known to fail must fail."""
    cases = [
        pytest.param(client, model, check, id=f"{client}-{model}-{check}", marks=_marks(client, model, check))
        for client in CLIENTS
        for model in models
        for check in checks
        if check in client.checks
    ]
    assert cases
    return pytest.mark.parametrize(("client", "model", "check"), cases)


def _marks(client: Client, model: str, check: str) -> list[pytest.MarkDecorator]:
    reason = expected_failure(client, model, check)
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]


def has_usage(usage: dict[str, Any]) -> bool:
    return usage["input"] > 0 and usage["output"] > 0


@each_client_with("text")
async def test_client_gets_a_response(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["text"]
    assert result["finish"] in ("stop", "completed", "end_turn")
    assert has_usage(result["usage"])
    assert result.get("id", "not reported") is not None


@each_client_with("stream")
async def test_client_reads_a_stream(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["text"] and result["pieces"] > 1
    assert result["finish"] in ("stop", "completed", "end_turn")
    assert has_usage(result["usage"])


@each_client_with("tools", "tools_streamed")
async def test_client_runs_a_tool_and_returns_its_result(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    # Some frameworks demand a call in every turn, until the model calls their tool that ends the loop.
    assert {call["name"] for call in result["called"]} == {"get_weather"}
    assert len(result["called"]) == 1 or model == "sandbox"
    assert isinstance(result["called"][0]["arguments"]["city"], str)
    # smolagents' answer is an argument of a call, and a random text of the sandbox may be empty.
    assert result["text"] or (model, client.script) == ("sandbox", "smolagents_client.py")
    assert "usage" not in result or has_usage(result["usage"])


@each_client_with("read_file")
async def test_coding_agent_reads_a_file_and_answers(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["calls"] and has_usage(result["usage"])
    assert result["text"] if model == "sandbox" else result["text"] == WEATHER_TEXT


@each_client_with("edit_file")
async def test_coding_agent_changes_a_file_as_the_model_says(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["file"] == EDITED_FILE


async def test_aider_changes_a_file_with_a_model_of_its_alias(runs: ClientRuns):
    (aider,) = (client for client in CLIENTS if str(client) == "aider_openai")
    result = await runs.result_of(aider, "gemini-flash-latest", "edit_file")
    assert result["file"] == EDITED_FILE


@each_client_with("compact")
async def test_coding_agent_sums_up_a_conversation_and_goes_on(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["summary"] and result["text"]
    assert result["before"] > result["after"] > 0 or model != "sandbox"  # the scripted engines report the same for every prompt


@each_client_with("parallel", "parallel_streamed")
async def test_client_runs_parallel_tool_calls(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    # Some clients run the tools concurrently, so their order varies.
    assert sorted(call["name"] for call in result["called"]) == ["get_time", "get_weather"]
    assert result["text"]


@each_client_with(*sorted({check for client in CLIENTS for check in client.checks if check.startswith("structured")}))
async def test_client_gets_structured_output(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert isinstance(result["name"], str) and isinstance(result["age"], int)


@each_client_with("reasoning", "reasoning_streamed")
async def test_client_returns_reasoning_with_the_next_turn(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert bool(result["reasoning"]) == client.shows_reasoning
    assert result["text"] and result["again"]
    assert result.get("signed", True)


@each_client_with("reasoning_over_tools", "reasoning_over_tools_streamed")
async def test_client_returns_reasoning_with_a_tool_result(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert bool(result["reasoning"]) == client.shows_reasoning
    assert result.get("calls") == 1 or len(result["called"]) == 1
    assert result["text"]


@each_client_with("image")
async def test_client_sends_an_image(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    # The sandbox describes the image it received, unless the response is structured.
    assert "image/png, 70 bytes" in result["text"] if "text" in result else result["name"] is not None


@each_client_with("errors", models=("sandbox",))
async def test_client_error_has_the_status_and_message_of_the_gateway(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert {kind: error.get("status") for kind, error in result.items()} == _ERROR_STATUSES, result
    assert "no-such-model" in result["unknown"]["message"]
    assert "key" in result["bad_key"]["message"]
    assert any(field in result["bad_request"]["message"] for field in ("temperature", "strange", "metadata")), result
    assert result["unknown"].get("id", "not reported") is not None


@each_client_with("stream_error", models=("sandbox",))
async def test_refused_stream_raises_the_clients_not_found_error(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert (result["class"], result["status"]) == ("NotFoundError", 404)


@each_client_with("embeddings", models=("sandbox",))
async def test_client_gets_embeddings(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["lengths"] == [384, 384]


@each_client_with("models", models=("sandbox",))
async def test_client_lists_models(runs: ClientRuns, client: Client, model: str, check: str):
    assert {"sandbox", "sandbox-embed"} <= set(await runs.result_of(client, model, check))


@each_client_with("completions", "responses", models=("sandbox",))
async def test_client_uses_its_second_api(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["text"] and has_usage(result["usage"])


@each_client_with("count_tokens", models=("sandbox",))
async def test_client_counts_tokens(runs: ClientRuns, client: Client, model: str, check: str):
    assert (await runs.result_of(client, model, check))["input"] > 0


@each_client_with("stored", models=("sandbox",))
async def test_client_continues_from_a_stored_response(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["text"] and result["found"]


@each_client_with("abort", models=("sandbox",))
async def test_client_disconnect_stops_the_engine(runs: ClientRuns, client: Client, model: str, check: str):
    result = await runs.result_of(client, model, check)
    assert result["pieces"] == 2 and result["stopped"]


@pytest.mark.parametrize("model", ["responses", "claude"])
@pytest.mark.parametrize("client", [client for client in CLIENTS if "reasoning" in client.checks], ids=str)
async def test_reasoning_signatures_return_to_their_engine(runs: ClientRuns, client: Client, model: str):
    signatures_returned = await runs.result_of(client, model, "signatures")
    assert signatures_returned == [client.returns_signatures] * 4
