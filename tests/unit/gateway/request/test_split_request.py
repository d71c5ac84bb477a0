"""Splitting: a request for several responses becomes requests for one each, and what they answer is put together in order."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.upstream.merged_responses import MergedEvents, merge_embeddings
from providers.canonical.chat import Text, Usage
from providers.canonical.errors import Overloaded, Unsupported, UpstreamError
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    UsageReported,
    assemble_response,
)
from providers.canonical.usage_sums import sum_usage
from providers.catalogue import DIALECTS, build_provider
from providers.dialect import OutboundResponse
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source


def split_bodies(adapter: str, dialect: str, model: str = "m", **fields: Any) -> list[dict[str, Any]]:
    """The bodies that are sent; none if the request is not split."""
    raw = json.dumps({"model": "m", **fields}).encode()
    source = make_source(DIALECTS[dialect].parse_request(raw), raw, DIALECTS[dialect], MEDIA, drop_nothing, inference_id="ID")
    base_url = (
        None
        if build_provider(adapter, "p", {"region": "eu-west-1"} if adapter == "bedrock" else {}).default_base_url
        else "http://127.0.0.1:1"
    )
    options = {"region": "eu-west-1"} if adapter == "bedrock" else {}
    endpoint = endpoint_of(build_provider(adapter, "p", options, base_url))

    async def translate() -> list[dict[str, Any]]:
        translated = await translate_request(source, endpoint, Target("p", model))
        return [json.loads((await part.make()).raw) for part in translated.parts]

    return asyncio.run(translate())


def test_each_choice_is_a_request_of_its_own_with_a_seed_of_its_own():
    bodies = split_bodies("anthropic", "openai_chat", n=3, max_tokens=5, messages=[{"role": "user", "content": "Hi"}])
    assert len(bodies) == 3 and all(body["messages"] == bodies[0]["messages"] for body in bodies)
    seeded = split_bodies("llamacpp", "openai_chat", n=3, seed=7, messages=[{"role": "user", "content": "Hi"}])
    assert [body["seed"] for body in seeded] == [7, 8, 9] and not any("n" in body for body in seeded)


def test_seeds_differ_where_the_chat_is_written_anew_and_at_the_end_of_their_range():
    fields: Any = {"n": 3, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    function: Any = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    rewritten = split_bodies("llamacpp", "openai_chat", **fields, seed=7, functions=[function])
    assert [body["seed"] for body in rewritten] == [7, 8, 9] and all("tools" in body for body in rewritten)
    for seed, seeds in ((2**31 - 1, [2**31 - 1, 2**31 - 2, 2**31 - 3]), (2**40, [2**40, 2**40 + 1, 2**40 + 2])):
        assert [body["seed"] for body in split_bodies("llamacpp", "openai_chat", **fields, seed=seed)] == seeds


def test_request_ids_of_the_parts_differ_and_none_begins_with_another():
    bodies = split_bodies("lmdeploy", "openai_completions", n=12, prompt="Hi", best_of=None)
    ids = [value for body in bodies for value in body.values() if isinstance(value, str) and "ID" in value]
    assert len(bodies) == 12 and len(set(ids)) == len(ids)
    assert not any(one != other and other.startswith(one) for one in ids for other in ids)


def test_several_prompts_are_sent_one_by_one_choices_of_the_first_prompt_first():
    bodies = split_bodies("llamacpp", "openai_completions", n=2, prompt=["a", "b"])
    assert [body["prompt"] for body in bodies] == ["a", "a", "b", "b"]
    assert [body["prompt"] for body in split_bodies("llamacpp", "openai_completions", prompt=[[1, 2], [3]])] == [[1, 2], [3]]
    sent_as_chats = split_bodies("anthropic", "openai_completions", prompt=["a", "b"], max_tokens=5)
    assert [body["messages"][0]["content"] for body in sent_as_chats] == ["a", "b"]


def test_embeddings_are_split_into_as_many_as_the_host_takes():
    bodies = split_bodies("bedrock", "openai_embeddings", model="cohere.embed-english-v3", input=[str(at) for at in range(200)])
    assert [len(body["texts"]) for body in bodies] == [96, 96, 8]


@pytest.mark.parametrize(
    ("adapter", "dialect", "fields"),
    [
        ("anthropic", "openai_chat", {"n": 129, "messages": [{"role": "user", "content": "Hi"}]}),
        ("llamacpp", "openai_completions", {"prompt": ["a"] * 129}),
        ("anthropic", "openai_completions", {"prompt": [[1, 2], [3]], "max_tokens": 5}),
    ],
    ids=["too many choices", "too many prompts", "token ids for a chat"],
)
def test_what_cannot_be_split_is_refused(adapter: str, dialect: str, fields: dict[str, Any]):
    with pytest.raises(Unsupported):
        split_bodies(adapter, dialect, **fields)


async def response_events(text: str, delay_s: float = 0, *, fails: UpstreamError | None = None) -> AsyncGenerator[Event]:
    yield ResponseStarted("m")
    await asyncio.sleep(delay_s)
    if fails is not None:
        raise fails
    yield PartStarted(0, 0, Text(""))
    yield PartDelta(0, 0, text)
    yield PartFinished(0, 0)
    yield ChoiceFinished(0, "stop")
    yield UsageReported(Usage(2, 3))


async def test_merged_responses_are_one_with_their_choices_in_order_and_the_sum_of_their_usage():
    merged = MergedEvents([lambda text=text, at=at: response_events(text, 0.01 * (3 - at)) for at, text in enumerate("abc")], 2)
    response = assemble_response([event async for event in merged])
    await merged.close()
    assert [[part for part in choice.parts] for choice in response.choices] == [[Text("a")], [Text("b")], [Text("c")]]
    assert response.usage == Usage(6, 9, requests=3)


async def test_failure_of_one_response_is_that_of_all_and_close_ends_the_others():
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[Event]:
        try:
            yield ResponseStarted("m")
            await asyncio.Event().wait()
        finally:
            ended.set()

    merged = MergedEvents([endless, lambda: response_events("", fails=Overloaded("no room"))], 8)
    with pytest.raises(Overloaded):
        [event async for event in merged]
    await merged.close()
    assert ended.is_set()


def test_summed_usage_keeps_what_nobody_reported_unreported():
    assert sum_usage([Usage(1, 2, cached=1), Usage(1, None)]) == Usage(2, 2, cached=1, requests=2)


def test_embeddings_are_numbered_anew():
    def response(*vectors: list[float]) -> OutboundResponse:
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        raw = json.dumps({"object": "list", "data": data[::-1], "model": "m", "usage": {"prompt_tokens": 2, "total_tokens": 2}}).encode()
        return OutboundResponse(raw, Usage(2), None)

    merged = merge_embeddings([response([1], [2]), response([3])])
    body = json.loads(merged.raw)
    assert [(each["index"], each["embedding"]) for each in body["data"]] == [(0, [1]), (1, [2]), (2, [3])]
    assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 4} and merged.usage == Usage(4, requests=2)
