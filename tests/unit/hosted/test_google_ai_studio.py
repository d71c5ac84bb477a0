"""Google AI Studio as a host: its URLs, its errors, embeddings and token counts."""

import json
from typing import Any

import httpx2
import pytest

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_route import translate_host_operation
from providers.adapters.options import InvalidOption
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
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source
from tests.support.strategies.chat_strategies import META

STUDIO = build_provider("gemini", "google", {})
MODEL = "gemini-embedding-2"


@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:9/some/prefix", "http://127.0.0.1:9/some/prefix/", "http://127.0.0.1:9/some/prefix/v1beta"]
)
def test_url_names_the_model_and_the_operation(base: str):
    assert str(STUDIO.url(base, "gemini", "gemini-x")) == "http://127.0.0.1:9/some/prefix/v1beta/models/gemini-x:generateContent"
    streaming = "http://127.0.0.1:9/some/prefix/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert str(STUDIO.url(base, "gemini", "models/gemini-x", stream=True)) == streaming
    assert str(STUDIO.url(base, "gemini", "tunedModels/mine")).endswith("/v1beta/tunedModels/mine:generateContent")
    assert str(STUDIO.url(base, "gemini", "a?b#c")).endswith("/v1beta/models/a%3Fb%23c:generateContent")
    operation_names = {key: STUDIO.host_operations[key].name for key in ("openai_embeddings", "anthropic_count_tokens")}
    assert str(STUDIO.url(base, operation_names["openai_embeddings"], "e")).endswith("/v1beta/models/e:batchEmbedContents")
    assert str(STUDIO.url(base, operation_names["anthropic_count_tokens"], "e", stream=True)).endswith("/v1beta/models/e:countTokens")


def test_api_key_is_sent_in_a_header_and_models_are_named_in_the_url():
    assert STUDIO.headers("AIzaKey") == [("x-goog-api-key", "AIzaKey")] and STUDIO.headers(None) == []
    assert STUDIO.model_in_url and STUDIO.default_base_url == "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize("options", [{"guided": "always"}, {"region": "us"}, {"stream": "perhaps"}])
def test_invalid_option_is_refused_by_name(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        build_provider("gemini", "g", options)


def read_studio_error(
    status: int, *details: dict[str, Any], message: str = "It is so.", grpc_status: str = "X", wrapped: bool = False
) -> UpstreamError:
    body = {"error": {"code": status, "message": message, "status": grpc_status, "details": list(details)}}
    return STUDIO.read_error(status, {}, json.dumps([body] if wrapped else body).encode())


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}


@pytest.mark.parametrize("wrapped", [True, False])
def test_quota_per_minute_is_overloaded_and_quota_per_day_is_exhausted(wrapped: bool):
    minute = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
    minute_error = read_studio_error(429, minute, RETRY, grpc_status="RESOURCE_EXHAUSTED", wrapped=wrapped)
    assert type(minute_error) is Overloaded and (minute_error.retry_after_s, minute_error.upstream_code, minute_error.status) == (
        34.4,
        "RESOURCE_EXHAUSTED",
        429,
    )
    day = {**QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    day_error = read_studio_error(429, day, RETRY, grpc_status="RESOURCE_EXHAUSTED", wrapped=wrapped)
    assert type(day_error) is QuotaExhausted and day_error.upstream_code == "RESOURCE_EXHAUSTED"
    assert day_error.retry_after_s is not None and 0 < day_error.retry_after_s <= 86_400


def test_errors_are_classified_by_status_and_reason():
    invalid = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    assert isinstance(read_studio_error(400, invalid), CredentialRefused)
    assert isinstance(read_studio_error(403, grpc_status="PERMISSION_DENIED"), CredentialRefused)
    gone = read_studio_error(403, message="CachedContent not found (or permission denied)", grpc_status="PERMISSION_DENIED")
    assert isinstance(gone, UpstreamNotFound) and gone.upstream_code == "PERMISSION_DENIED"
    assert isinstance(read_studio_error(400, grpc_status="INVALID_ARGUMENT"), UpstreamRejected) and isinstance(
        read_studio_error(404, grpc_status="NOT_FOUND"), UpstreamNotFound
    )
    assert isinstance(read_studio_error(503, grpc_status="UNAVAILABLE"), Overloaded) and isinstance(
        read_studio_error(500, grpc_status="INTERNAL"), UpstreamFailed
    )
    assert isinstance(STUDIO.read_error(502, {}, b"<html>"), UpstreamFailed)


def embeddings_request(drop: bool = False, **fields: Any) -> tuple[Any, list[str]]:
    dialect = OpenAIEmbeddings()
    request = dialect.parse_request(json.dumps({"model": "e", **fields}).encode())
    source = make_source(request, b"", dialect, MEDIA, drop_everything if drop else drop_nothing)
    translated = translate_host_operation(source, STUDIO.host_operations["openai_embeddings"], Recipient(STUDIO, Target("google", MODEL)))
    assert translated.model == MODEL
    return json.loads(translated.raw), translated.dropped


def test_each_embedding_input_is_one_request_of_a_batch():
    body, dropped = embeddings_request(input=["a", "b"], dimensions=768, task_type="RETRIEVAL_QUERY", user="u", encoding_format="base64")
    options = {"model": f"models/{MODEL}", "outputDimensionality": 768, "taskType": "RETRIEVAL_QUERY"}
    assert body == {"requests": [{**options, "content": {"parts": [{"text": text}]}} for text in "ab"]} and dropped == ["user"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [1, 2]}, "input"),
        ({"input": ["a"] * 101}, "input"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"input": "a", "x": 1}, "x"),
    ],
)
def test_unsupported_embeddings_field_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        embeddings_request(**fields)
    assert refused.value.param == param


def test_dropped_embeddings_field_is_reported():
    assert embeddings_request(drop=True, input="a", x=1)[1] == ["x"]


def test_embeddings_are_returned_in_openais_format():
    read = STUDIO.host_operations["openai_embeddings"].read_response
    raw = b'{"embeddings":[{"values":[0.5,1e-3]},{"values":[1]}],"usageMetadata":{"promptTokenCount":8}}'
    body = json.loads(read(raw, httpx2.Headers(), META))
    assert [each["embedding"] for each in body["data"]] == [[0.5, 0.001], [1]] and [each["index"] for each in body["data"]] == [0, 1]
    assert body["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    assert "usage" not in json.loads(read(b'{"embeddings":[]}', httpx2.Headers(), META))
    for broken in (b"{}", b'{"embeddings":5}', b"[]"):
        with pytest.raises(InvalidUpstreamResponse):
            read(broken, httpx2.Headers(), META)


def count_tokens_request(drop: bool = False, **fields: Any) -> tuple[Any, list[str]]:
    dialect = AnthropicCountTokens()
    messages = [{"role": "user", "content": "Hi"}]
    request = dialect.parse_request(json.dumps({"model": "e", "messages": messages, **fields}).encode())
    source = make_source(request, b"", dialect, MEDIA, drop_everything if drop else drop_nothing)
    translated = translate_host_operation(
        source, STUDIO.host_operations["anthropic_count_tokens"], Recipient(STUDIO, Target("google", "gemini-2.5-flash"))
    )
    return json.loads(translated.raw), translated.dropped


def test_count_tokens_counts_the_translated_generate_request():
    tool = {"name": "now", "description": "The time.", "input_schema": {"type": "object"}}
    body, dropped = count_tokens_request(system="Be brief.", tools=[tool], cache_control={"type": "ephemeral"})
    assert body == {
        "generateContentRequest": {
            "model": "models/gemini-2.5-flash",
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{"name": "now", "description": "The time.", "parametersJsonSchema": {"type": "object"}}]}],
        }
    }
    assert dropped == ["cache_control"]
    with pytest.raises(Unsupported) as refused:
        count_tokens_request(mcp_servers=[{"type": "url", "url": "https://x.test", "name": "x"}])
    assert refused.value.param == "mcp_servers" and count_tokens_request(drop=True, mcp_servers=[{"name": "x"}])[1] == ["mcp_servers"]


def test_token_count_is_returned_in_anthropics_format():
    read = STUDIO.host_operations["anthropic_count_tokens"].read_response
    assert json.loads(read(b'{"totalTokens":31,"promptTokensDetails":[]}', httpx2.Headers(), META)) == {"input_tokens": 31}
    with pytest.raises(InvalidUpstreamResponse):
        read(b'{"totalTokens":"many"}', httpx2.Headers(), META)
