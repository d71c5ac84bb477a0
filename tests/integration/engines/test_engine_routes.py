"""Routes of engines beside chat (tokenize, rerank, score ...) with an ordinary key, on scripted engines and in the sandbox."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from providers.engine_routes.paths import ROUTE_BY_PATH
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

RANK = {"query": "a red fox", "documents": ["the stock market", "a red fox runs", "the red house"]}
USAGE = {"prompt_tokens": 7, "total_tokens": 7}
RANKED = {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}, {"index": 2, "relevance_score": 0.5}]}
# Responses of engines, by path.
ENGINE_RESPONSES: Mapping[str, Any] = {
    "/tokenize": {"tokens": [5, 6], "count": 2, "max_model_len": 64},
    "/detokenize": {"prompt": "Hi you"},
    "/rerank": {**RANKED, "usage": USAGE},
    "/score": {"object": "list", "data": [{"index": 0, "object": "score", "score": 0.5}], "usage": USAGE},
    "/pooling": {"object": "list", "data": [{"index": 0, "object": "pooling", "data": [0.5]}], "usage": USAGE},
    "/classify": {"object": "list", "data": [{"index": 0, "label": "L", "probs": [1.0], "num_classes": 1}], "usage": USAGE},
}
REQUEST_BODIES: Mapping[str, Any] = {
    "tokenize": {"prompt": "Hi you"},
    "detokenize": {"tokens": [5, 6]},
    "encode": {"input": "Hi you"},
    "rerank": RANK,
    "score": {"text_1": "a", "text_2": "b"},
    "pooling": {"input": "a"},
    "classify": {"input": "a"},
}


def set_response(engine: ScriptedEngine, body: Any = None, status: int = 200) -> None:
    async def script(request: ReceivedRequest) -> None:
        await request.respond(status, json.dumps(ENGINE_RESPONSES[request.path] if body is None else body).encode())

    engine.script = script


def error_of(answer: httpx2.Response) -> tuple[int, str, Any, str]:
    error = answer.json()["error"]
    return answer.status_code, error["type"], error["param"], error["message"]


@pytest.mark.parametrize("path", [path for path, route in ROUTE_BY_PATH.items() if route in REQUEST_BODIES])
async def test_each_engine_route_is_proxied_and_its_usage_recorded(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, path: str
):
    route = ROUTE_BY_PATH[path]
    set_response(engine)
    episode = uuid7.mint()
    answer = await client.post(path, json={"model": "vllm", **REQUEST_BODIES[route], "episode_id": episode, "user": "u"})
    assert answer.status_code == 200, answer.text
    assert (answer.headers["x-narthex-served"], answer.headers["x-narthex-episode-id"]) == ("vllm/engine-model", episode)
    [request] = [each for each in engine.requests if each.path != "/version"]
    assert (request.body["model"], "episode_id" in request.body) == ("engine-model", False)
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    used = 0 if route in ("tokenize", "detokenize", "encode") else 7
    assert (row["model"], row["route"], row["input_tokens"], row["output_tokens"]) == ("vllm", route, used, 0)
    if "model" in answer.json():
        assert answer.json()["model"] == "vllm"


async def test_sandbox_tokenize_and_detokenize_round_trip(client: httpx2.AsyncClient):
    text = "Grüß dich"
    tokenized = (await client.post("/v1/tokenize", json={"model": "sandbox", "prompt": text, "return_token_strs": True})).json()
    assert tokenized["tokens"] == list(text.encode()) and tokenized["count"] == len(tokenized["tokens"]) == len(tokenized["token_strs"])
    assert (tokenized["token_strs"][0], tokenized["max_model_len"] > 1000) == ("G", True)
    assert (await client.post("/detokenize", json={"model": "sandbox", "tokens": tokenized["tokens"]})).json() == {"prompt": text}
    encoded = (await client.post("/v1/encode", json={"model": "sandbox", "input": "Hi"})).json()
    assert encoded == {"input_ids": [72, 105], "length": 2}
    chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hi"}]}
    complete = bytes((await client.post("/tokenize", json=chat)).json()["tokens"]).decode()
    open_ended = bytes((await client.post("/tokenize", json={**chat, "continue_final_message": True})).json()["tokens"]).decode()
    assert (complete, open_ended) == ("user: Hi\nassistant: ", "user: Hi")


async def test_sandbox_rerank_and_score_rank_similar_documents_first(service: Service, client: httpx2.AsyncClient):
    answer = await client.post("/v2/rerank", json={"model": "sandbox-embed", **RANK, "top_n": 2})
    ranking = answer.json()
    assert [each["document"]["text"] for each in ranking["results"]] == ["a red fox runs", "the red house"]
    assert (ranking["model"], ranking["id"]) == ("sandbox-embed", f"rerank-{answer.headers['x-narthex-inference-id']}")
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert row["input_tokens"] == ranking["usage"]["prompt_tokens"] > 0
    pairs = {"model": "sandbox-embed", "queries": RANK["query"], "documents": RANK["documents"]}
    scores = [each["score"] for each in (await client.post("/score", json=pairs)).json()["data"]]
    assert scores[1] == ranking["results"][0]["relevance_score"] == max(scores)
    plain = await client.post("/rerank", json={"model": "sandbox-embed", **RANK, "return_documents": False})
    assert [set(each) for each in plain.json()["results"]] == [{"index", "relevance_score"}] * 3


async def test_engine_route_errors_use_the_openai_envelope_without_an_upstream_call(client: httpx2.AsyncClient, engine: ScriptedEngine):
    invalid = error_of(await client.post("/tokenize", json={"model": "vllm", "prompt": 5}))
    assert invalid[:3] == (400, "invalid_request_error", "prompt")
    without_model = error_of(await client.post("/tokenize", json={"prompt": "a"}))
    assert without_model[:3] == (400, "invalid_request_error", "model")
    unknown = error_of(await client.post("/rerank", json={"model": "no-such-model", **RANK}))
    assert unknown[:2] == (404, "not_found_error")
    of_llamacpp = error_of(await client.post("/tokenize", json={"model": "vllm", "content": "a"}))
    assert of_llamacpp[:3] == (422, "unsupported", "content") and "`prompt`" in of_llamacpp[3]
    unserved = error_of(await client.post("/rerank", json={"model": "claude", **RANK}))
    assert unserved[:2] == (501, "unsupported") and "anthropic" in unserved[3] and "vllm" in unserved[3]
    pinned = error_of(await client.post("/tokenize", json={"model": "pinned", "prompt": "a"}))
    assert pinned[:2] == (501, "unsupported")
    assert not [request for request in engine.requests if request.path != "/version"]
    assert (await client.get("/tokenize")).status_code == 405
    headers = {"authorization": ""}
    assert (await client.post("/tokenize", json={"model": "vllm", "prompt": "a"}, headers=headers)).status_code == 401


async def test_route_missing_on_the_engine_is_501_and_engine_errors_keep_their_meaning(client: httpx2.AsyncClient, engine: ScriptedEngine):
    set_response(engine, {"detail": "Not Found"}, 404)
    status, kind, _, message = error_of(await client.post("/rerank", json={"model": "vllm", **RANK}))
    assert (status, kind, "vllm does not serve /rerank" in message) == (501, "unsupported", True)
    set_response(engine, {"error": {"message": "The model `engine-model` does not exist.", "type": "NotFoundError", "code": 404}}, 404)
    assert error_of(await client.post("/rerank", json={"model": "vllm", **RANK}))[:2] == (404, "not_found_error")
    set_response(engine, {"object": "error", "message": "too many documents", "type": "BadRequestError", "code": 400}, 400)
    assert error_of(await client.post("/rerank", json={"model": "vllm", **RANK}))[3] == "too many documents"
    set_response(engine, {"results": []})
    assert error_of(await client.post("/rerank", json={"model": "vllm", **RANK}))[:2] == (502, "backend_error")


async def test_server_ignoring_a_tokenize_request_is_501_every_time(client: httpx2.AsyncClient, engine: ScriptedEngine):
    """Requests for a missing route, however many, do not open the breaker of the endpoint."""
    set_response(engine, {"tokens": []})
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
    for _ in range(12):
        status, kind, _, message = error_of(await client.post("/v1/tokenize", json=body))
        assert (status, kind, "adapter" in message) == (501, "unsupported", True)


async def test_out_of_vocabulary_token_is_a_400(client: httpx2.AsyncClient, engine: ScriptedEngine):
    llamacpp_message = "vector::_M_range_check: __n (which is 999999) >= this->size() (which is 149)"
    set_response(engine, {"error": {"code": 500, "message": llamacpp_message, "type": "server_error"}}, 500)
    for _ in range(12):
        status, _, _, message = error_of(await client.post("/detokenize", json={"model": "scripted", "tokens": [999999]}))
        assert (status, message) == (400, llamacpp_message)


async def test_missing_route_falls_back_to_the_next_target(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    set_response(engine, {"detail": "Not Found"}, 404)
    set_response(second_engine, {"tokens": [1], "count": 1})
    answer = await client.post("/tokenize", json={"model": "pair", "prompt": "a"})
    assert (answer.json()["tokens"], answer.headers["x-narthex-served"]) == ([1], "second/other-model")


async def test_unsupported_field_is_refused_or_dropped_and_reported(client: httpx2.AsyncClient, engine: ScriptedEngine):
    set_response(engine)
    body = {"model": "vllm", **RANK, "rank_fields": ["text"]}
    assert error_of(await client.post("/rerank", json=body))[:3] == (422, "unsupported", "rank_fields")
    dropped = await client.post("/rerank", json=body, headers={"x-narthex-drop": "rank_fields"})
    assert (dropped.status_code, dropped.headers["x-narthex-dropped"]) == (200, "rank_fields")
    assert "rank_fields" not in engine.requests[-1].body


async def test_limits_count_rerank_usage_or_estimate_and_nothing_for_tokenize(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, engines: Any
):
    await asyncio.to_thread(
        service.apply,
        """
        [models]
        only-routes = { targets = [{ provider = "vllm", model = "engine-model" }] }
        [[limits]]
        name = "a hundred tokens an hour for routes"
        scope = { model = "only-routes" }
        resource = "tokens"
        amount = 100
        per = "hour"
        """,
    )

    async def remaining_tokens() -> float:
        return (await client.get("/v1/limits", params={"model": "only-routes"})).json()["data"][0]["remaining"]

    set_response(engine)
    assert (await client.post("/tokenize", json={"model": "only-routes", "prompt": "a long text " * 100})).status_code == 200
    assert await remaining_tokens() == 100
    assert (await client.post("/rerank", json={"model": "only-routes", **RANK})).status_code == 200
    assert await remaining_tokens() == 93
    set_response(engine, RANKED)
    assert (await client.post("/rerank", json={"model": "only-routes", "query": "abc", "documents": ["abc"] * 3})).status_code == 200
    assert await remaining_tokens() == 87  # without usage: the estimate, in which the query counts with each document
    assert (await client.post("/rerank", json={"model": "only-routes", "query": "q", "documents": ["x" * 270]})).status_code == 429
    assert (await client.post("/rerank", json={"model": "only-routes", "query": "q", "documents": ["x" * 900]})).status_code == 400
