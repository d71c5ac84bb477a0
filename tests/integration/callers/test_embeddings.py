"""Embeddings through the official SDK, with the sandbox and with a scripted engine."""

import asyncio
import base64
import json
import struct
from typing import Any

import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

PATH = "/v1/embeddings"
# Numbers that 32-bit floats hold exactly.
VECTORS = [[0.5, -0.25, 1.0], [0.125, 2.0, -3.5]]


def embeddings_body(*vectors: Any) -> bytes:
    items = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0}
    return json.dumps({"object": "list", "data": items, "model": "engine-model", "usage": usage}).encode()


def base64_floats(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def set_response(engine: ScriptedEngine, body: bytes, status: int = 200) -> None:
    async def script(request: ReceivedRequest) -> None:
        await request.respond(status, body)

    engine.script = script


async def test_sdk_embeddings_from_sandbox_support_text_token_ids_dimensions_and_encodings(
    sdk: openai.AsyncOpenAI, client: httpx2.AsyncClient
):
    by_default = await sdk.embeddings.create(model="sandbox-embed", input=["a text", "a text", "else"], dimensions=64)
    first, second, third = [each.embedding for each in by_default.data]
    assert first == second != third
    assert (len(first), [each.index for each in by_default.data]) == (64, [0, 1, 2])
    assert (by_default.model, by_default.object, by_default.usage.prompt_tokens) == ("sandbox-embed", "list", 5)
    as_floats = await sdk.embeddings.create(model="sandbox-embed", input="a text", dimensions=64, encoding_format="float")
    assert as_floats.data[0].embedding == pytest.approx(first)
    as_base64 = await client.post(PATH, json={"model": "sandbox-embed", "input": "a text", "dimensions": 64, "encoding_format": "base64"})
    assert list(struct.unpack("<64f", base64.b64decode(as_base64.json()["data"][0]["embedding"]))) == pytest.approx(first)
    by_ids = await sdk.embeddings.create(model="sandbox-embed", input=[[1, 2], [1, 2], [2, 1]])
    assert by_ids.data[0].embedding == by_ids.data[1].embedding != by_ids.data[2].embedding
    assert (await sdk.embeddings.create(model="sandbox-embed", input=[1, 2, 3])).usage.prompt_tokens == 3


async def test_embedding_ids_are_in_headers_and_tokens_in_the_record(service: Service, client: httpx2.AsyncClient):
    episode = uuid7.mint()
    answer = await client.post(PATH, json={"model": "sandbox-embed", "input": [[1, 2], [3]], "episode_id": episode, "user": "u"})
    assert answer.headers["x-narthex-episode-id"] == episode
    assert set(answer.json()) == {"object", "data", "model", "usage"}
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["model"], row["route"], row["input_tokens"], row["output_tokens"]) == ("sandbox-embed", "openai_embeddings", 3, 0)


@pytest.mark.parametrize("vectors", [[base64_floats(each) for each in VECTORS], VECTORS], ids=["base64", "numbers"])
async def test_embeddings_use_the_requested_encoding_whatever_the_engine_returns(
    sdk: openai.AsyncOpenAI, client: httpx2.AsyncClient, engine: ScriptedEngine, vectors: Any
):
    set_response(engine, embeddings_body(*vectors))
    assert [each.embedding for each in (await sdk.embeddings.create(model="scripted", input=["a", "b"])).data] == VECTORS
    assert engine.requests[-1].path == PATH
    assert engine.requests[-1].body == {"model": "engine-model", "input": ["a", "b"], "encoding_format": "base64"}
    numbers = await client.post(PATH, json={"model": "scripted", "input": ["a", "b"]})
    assert [each["embedding"] for each in numbers.json()["data"]] == VECTORS


@pytest.mark.parametrize(
    ("body", "fields", "status", "message"),
    [
        (embeddings_body([1, 2, 3]), {"dimensions": 2}, 422, "3 numbers, but `dimensions` is 2"),
        (embeddings_body([[1, 2], [3, 4]]), {}, 502, "a vector for each token"),
        (embeddings_body([1], [2]), {}, 502, "2 embeddings for 1 inputs"),
        (b"<html>", {}, 502, "not the JSON object"),
    ],
    ids=["dimensions ignored", "no pooling", "too many", "no JSON"],
)
async def test_embeddings_that_do_not_match_the_request_are_refused(
    client: httpx2.AsyncClient, engine: ScriptedEngine, body: bytes, fields: Any, status: int, message: str
):
    set_response(engine, body)
    refused = await client.post(PATH, json={"model": "scripted", "input": "a", **fields})
    error = refused.json()["error"]
    assert (refused.status_code, message in error["message"]) == (status, True), error
    assert error["param"] == ("dimensions" if fields else None)
    set_response(engine, embeddings_body([1, 2]))
    assert (await client.post(PATH, json={"model": "scripted", "input": "a"})).status_code == 200


async def test_embedding_errors_raise_the_matching_sdk_exceptions(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.embeddings.create(model="scripted", input=["a", ""])
    assert refused.value.param == "input[1]"
    with pytest.raises(openai.BadRequestError) as streamed:
        await sdk.embeddings.create(model="scripted", input="a", extra_body={"stream": True})
    assert streamed.value.param == "stream"
    with pytest.raises(openai.NotFoundError):
        await sdk.embeddings.create(model="no-such-model", input="a")
    assert not [request for request in engine.requests if request.path == PATH]
    set_response(engine, b'{"error": {"message": "input is too long", "param": "input"}}', 400)
    with pytest.raises(openai.BadRequestError, match="input is too long"):
        await sdk.embeddings.create(model="scripted", input="a")


async def test_embedding_limits_count_reported_or_estimated_input_and_no_output(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, engines: Any
):
    await asyncio.to_thread(
        service.apply,
        """
        [models]
        only-embeds = { targets = [{ provider = "first", model = "engine-model" }] }
        [[limits]]
        name = "a hundred tokens an hour"
        scope = { model = "only-embeds" }
        resource = "tokens"
        amount = 100
        per = "hour"
        """,
    )

    async def remaining_tokens() -> float:
        return (await client.get("/v1/limits", params={"model": "only-embeds"})).json()["data"][0]["remaining"]

    async def embed(input: Any) -> httpx2.Response:
        return await client.post(PATH, json={"model": "only-embeds", "input": input})

    set_response(engine, embeddings_body([1.0] * 100))
    assert (await embed("a" * 90)).status_code == 200
    assert await remaining_tokens() == 96
    set_response(engine, json.dumps({"data": [{"embedding": [1.0] * 100}]}).encode())
    assert (await embed([1, 2, 3, 4, 5, 6])).status_code == 200
    assert await remaining_tokens() == 90
    assert (await embed(list(range(91)))).status_code == 429
    assert (await embed("a" * 303)).status_code == 400
