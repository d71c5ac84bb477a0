"""Laws of Google AI Studio as a host: its addresses, its errors, embeddings and the count of tokens."""

import json
from typing import Any

import httpx
import pytest

from app.domain import Target
from app.gateway.request_translation.translator import RequestTranslator
from providers.adapters.provider import InvalidOption
from providers.canonical.errors import (
    CredentialRefused,
    InvalidUpstreamResponse,
    Overloaded,
    QuotaExhausted,
    Unsupported,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.catalogue import build_provider
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from tests.laws.asking import MEDIA, everything, nothing
from tests.laws.chats import STAMP

STUDIO = build_provider("gemini", "google", {})
MODEL = "gemini-embedding-2"


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:9/some/prefix", "http://127.0.0.1:9/some/prefix/", "http://127.0.0.1:9/some/prefix/v1beta"]
)
def test_the_address_names_the_model_and_whether_it_streams(base: str):
    assert str(STUDIO.url(base, "gemini", "gemini-x")) == "http://127.0.0.1:9/some/prefix/v1beta/models/gemini-x:generateContent"
    streaming = "http://127.0.0.1:9/some/prefix/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert str(STUDIO.url(base, "gemini", "models/gemini-x", stream=True)) == streaming
    assert str(STUDIO.url(base, "gemini", "tunedModels/mine")).endswith("/v1beta/tunedModels/mine:generateContent")
    assert str(STUDIO.url(base, "gemini", "a?b#c")).endswith("/v1beta/models/a%3Fb%23c:generateContent")
    foreign = {key: STUDIO.host_operations[key].name for key in ("openai_embeddings", "anthropic_count_tokens")}
    assert str(STUDIO.url(base, foreign["openai_embeddings"], "e")).endswith("/v1beta/models/e:batchEmbedContents")
    assert str(STUDIO.url(base, foreign["anthropic_count_tokens"], "e", stream=True)).endswith("/v1beta/models/e:countTokens")


def test_the_key_is_in_a_header_and_not_in_the_address():
    assert STUDIO.headers("AIzaKey") == [("x-goog-api-key", "AIzaKey")] and STUDIO.headers(None) == []
    assert STUDIO.model_in_url and STUDIO.default_base_url == "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize("options", [{"guided": "always"}, {"region": "us"}, {"stream": "perhaps"}])
def test_an_option_that_it_could_not_take_is_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        build_provider("gemini", "g", options)


def error(status: int, *details: dict[str, Any], said: str = "It is so.", word: str = "X", wrapped: bool = False) -> UpstreamError:
    told = {"error": {"code": status, "message": said, "status": word, "details": list(details)}}
    return STUDIO.read_error(status, {}, json.dumps([told] if wrapped else told).encode())


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_quota_by_the_minute_is_waited_for_and_one_by_the_day_is_not(wrapped: bool):
    minute = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
    told = error(429, minute, RETRY, word="RESOURCE_EXHAUSTED", wrapped=wrapped)
    assert type(told) is Overloaded and (told.retry_after_s, told.upstream_code, told.status) == (34.4, "RESOURCE_EXHAUSTED", 429)
    day = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    spent = error(429, day, RETRY, word="RESOURCE_EXHAUSTED", wrapped=wrapped)
    assert type(spent) is QuotaExhausted and spent.upstream_code == "RESOURCE_EXHAUSTED"
    assert spent.retry_after_s is not None and 0 < spent.retry_after_s <= 86_400


def test_its_errors_are_of_the_kind_that_they_are():
    invalid = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    assert isinstance(error(400, invalid), CredentialRefused)
    assert isinstance(error(403, word="PERMISSION_DENIED"), CredentialRefused)
    gone = error(403, said="CachedContent not found (or permission denied)", word="PERMISSION_DENIED")
    assert isinstance(gone, UpstreamNotFound) and gone.upstream_code == "PERMISSION_DENIED"
    assert isinstance(error(400, word="INVALID_ARGUMENT"), UpstreamRejected) and isinstance(error(404, word="NOT_FOUND"), UpstreamNotFound)
    assert isinstance(error(503, word="UNAVAILABLE"), Overloaded) and isinstance(error(500, word="INTERNAL"), UpstreamFailed)
    assert isinstance(STUDIO.read_error(502, {}, b"<html>"), UpstreamFailed)


def embedding(drop: bool = False, **fields: Any) -> tuple[Any, list[str]]:
    dialect = OpenAIEmbeddings()
    ask = dialect.parse_request(json.dumps({"model": "e", **fields}).encode())
    asked = RequestTranslator(ask, b"", dialect, MEDIA, everything if drop else nothing)
    prepared = asked.translate_host_operation(STUDIO.host_operations["openai_embeddings"], STUDIO, Target("google", MODEL))
    assert prepared.model == MODEL
    return json.loads(prepared.raw), prepared.dropped


def test_each_text_is_a_request_of_a_batch():
    told, dropped = embedding(input=["a", "b"], dimensions=768, task_type="RETRIEVAL_QUERY", user="u", encoding_format="base64")
    wishes = {"model": f"models/{MODEL}", "outputDimensionality": 768, "taskType": "RETRIEVAL_QUERY"}
    assert told == {"requests": [{**wishes, "content": {"parts": [{"text": text}]}} for text in "ab"]} and dropped == ["user"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [1, 2]}, "input"),
        ({"input": ["a"] * 101}, "input"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"input": "a", "x": 1}, "x"),
    ],
)
def test_what_its_embeddings_cannot_be_asked_is_refused(fields: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        embedding(**fields)
    assert refused.value.param == param


def test_what_is_let_go_of_embeddings_is_reported():
    assert embedding(drop=True, input="a", x=1)[1] == ["x"]


def test_embeddings_come_as_openai_has_them():
    read = STUDIO.host_operations["openai_embeddings"].read_response
    raw = b'{"embeddings":[{"values":[0.5,1e-3]},{"values":[1]}],"usageMetadata":{"promptTokenCount":8}}'
    told = json.loads(read(raw, httpx.Headers(), STAMP))
    assert [each["embedding"] for each in told["data"]] == [[0.5, 0.001], [1]] and [each["index"] for each in told["data"]] == [0, 1]
    assert told["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    assert "usage" not in json.loads(read(b'{"embeddings":[]}', httpx.Headers(), STAMP))
    for broken in (b"{}", b'{"embeddings":5}', b"[]"):
        with pytest.raises(InvalidUpstreamResponse):
            read(broken, httpx.Headers(), STAMP)


def counting(drop: bool = False, **fields: Any) -> tuple[Any, list[str]]:
    dialect = AnthropicCountTokens()
    messages = [{"role": "user", "content": "Hi"}]
    ask = dialect.parse_request(json.dumps({"model": "e", "messages": messages, **fields}).encode())
    asked = RequestTranslator(ask, b"", dialect, MEDIA, everything if drop else nothing)
    prepared = asked.translate_host_operation(
        STUDIO.host_operations["anthropic_count_tokens"], STUDIO, Target("google", "gemini-2.5-flash")
    )
    return json.loads(prepared.raw), prepared.dropped


def test_what_is_counted_is_the_request_that_would_be_answered():
    tool = {"name": "now", "description": "The time.", "input_schema": {"type": "object"}}
    told, dropped = counting(system="Be brief.", tools=[tool], cache_control={"type": "ephemeral"})
    assert told == {
        "generateContentRequest": {
            "model": "models/gemini-2.5-flash",
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{"name": "now", "description": "The time.", "parametersJsonSchema": {"type": "object"}}]}],
        }
    }
    assert dropped == ["cache_control"]
    with pytest.raises(Unsupported) as refused:
        counting(mcp_servers=[{"type": "url", "url": "https://x.test", "name": "x"}])
    assert refused.value.param == "mcp_servers" and counting(drop=True, mcp_servers=[{"name": "x"}])[1] == ["mcp_servers"]


def test_a_count_comes_as_anthropic_has_it():
    read = STUDIO.host_operations["anthropic_count_tokens"].read_response
    assert json.loads(read(b'{"totalTokens":31,"promptTokensDetails":[]}', httpx.Headers(), STAMP)) == {"input_tokens": 31}
    with pytest.raises(InvalidUpstreamResponse):
        read(b'{"totalTokens":"many"}', httpx.Headers(), STAMP)
