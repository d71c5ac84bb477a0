"""A caller of Gemini with the official SDK, which also checks the stream against the API's contract."""

import json
from typing import Any, ClassVar

import httpx2
from google import genai
from google.genai import types

from tests.conformance.sdk_responses import (
    ESTIMATED_INPUT,
    ESTIMATED_USAGE,
    FixedStreamTransport,
    SdkPart,
    SdkResponse,
    event_payloads,
    merge_adjacent,
)
from tests.conformance.situations import GEMINI

_HELLO: Any = {"role": "user", "parts": [{"text": "Hello"}]}


class GeminiCaller:
    name = GEMINI
    request_body: ClassVar[dict[str, Any]] = {
        "model": "a name",
        "contents": [_HELLO],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}, "responseLogprobs": True},
    }

    def __init__(self) -> None:
        self._transport = FixedStreamTransport()
        client = httpx2.Client(transport=self._transport)
        options = types.HttpOptions(base_url="http://narthex", httpx_client=client)  # pyright: ignore[reportArgumentType]
        self._sdk = genai.Client(api_key="key", http_options=options)

    def parse(self, body: bytes, *, streamed: bool) -> types.GenerateContentResponse:
        """The response; of a stream, its chunks as one, as callers of the SDK put them together."""
        if not streamed:
            return types.GenerateContentResponse.model_validate(json.loads(body))
        _assert_stream_contract(body)
        self._transport.set_stream(body)
        models: Any = self._sdk.models  # its methods have parameters whose types are not known
        chunks = list(models.generate_content_stream(model="a name", contents="Hello"))
        return _joined(chunks)

    def summarize(self, response: types.GenerateContentResponse) -> SdkResponse:
        candidates = response.candidates or []
        first = candidates[0]
        usage = response.usage_metadata
        grounding, logprobs = first.grounding_metadata, first.logprobs_result
        chunks = (grounding.grounding_chunks if grounding is not None else None) or ()
        return SdkResponse(
            parts=merge_adjacent([_part(part) for part in _parts(first)]),
            finish="" if first.finish_reason is None else first.finish_reason.value,
            usage=None if usage is None else _usage(usage),
            cited_urls=tuple(each.web.uri for each in chunks if each.web is not None and each.web.uri),
            logprob_tokens=tuple(each.token or "" for each in (logprobs.chosen_candidates if logprobs else None) or ()),
            other_choices=tuple("".join(part.text or "" for part in _parts(each)) for each in candidates[1:]),
        )

    def next_request_body(self, response: types.GenerateContentResponse) -> dict[str, Any]:
        """The body of the same caller's next request: the content unchanged, each call with a result."""
        content = (response.candidates or [])[0].content
        assert content is not None
        results = [
            {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": "done"}}}
            for part in content.parts or ()
            if (call := part.function_call) is not None
        ]
        sent = content.model_dump(mode="json", exclude_none=True, by_alias=True)
        return {**self.request_body, "contents": [_HELLO, sent, {"role": "user", "parts": results or [{"text": "Go on."}]}]}


def _usage(usage: types.GenerateContentResponseUsageMetadata) -> tuple[int, int, int, int, int]:
    thoughts = usage.thoughts_token_count or 0
    if usage.prompt_token_count == ESTIMATED_INPUT:
        return ESTIMATED_USAGE
    output = (usage.candidates_token_count or 0) + thoughts
    return (usage.prompt_token_count or 0, output, usage.cached_content_token_count or 0, thoughts, 0)


def _parts(candidate: types.Candidate) -> list[types.Part]:
    return list((candidate.content.parts if candidate.content is not None else None) or ())


def _part(part: types.Part) -> SdkPart:
    if part.function_call is not None:
        call = part.function_call
        return ("call", call.id or "", call.name or "", json.dumps(call.args))
    return ("reasoning" if part.thought else "text", part.text or "")


def _joined(chunks: list[types.GenerateContentResponse]) -> types.GenerateContentResponse:
    """The chunks as one response: the parts of each candidate in order, and what came last of all else."""
    candidates: dict[int, types.Candidate] = {}
    for candidate in [each for chunk in chunks for each in chunk.candidates or ()]:
        index = candidate.index or 0
        before = candidates.get(index)
        fields = candidate.model_dump(exclude_none=True, exclude={"content"})
        merged = {**({} if before is None else before.model_dump(exclude_none=True, exclude={"content"})), **fields}
        parts = [*(() if before is None else _parts(before)), *_parts(candidate)]
        candidates[index] = types.Candidate.model_validate({**merged, "content": types.Content(role="model", parts=parts)})
    last = chunks[-1]
    return last.model_copy(update={"candidates": [candidates[index] for index in sorted(candidates)]})


def _assert_stream_contract(body: bytes) -> None:
    """Asserts that each event is a response with one id, and that each candidate finishes once, with the usage of all."""
    events = event_payloads(body)
    assert len({event["responseId"] for event in events}) == 1 and b"[DONE]" not in body
    finished = [candidate["index"] for event in events for candidate in event["candidates"] if "finishReason" in candidate]
    assert sorted(finished) == sorted({candidate["index"] for event in events for candidate in event["candidates"]})
    assert ["usageMetadata" in event for event in events].count(True) <= 1
    assert all(part for event in events for candidate in event["candidates"] for part in candidate.get("content", {}).get("parts", ()))
