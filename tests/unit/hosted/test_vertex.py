"""Vertex: the model's vendor selects the URL and the dialect; projects, locations, and the rules of Claude and Gemini there."""

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.request_template import RequestTemplateKey
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translate_route import translate_host_operation
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.options import InvalidOption
from providers.canonical.errors import (
    CredentialRefused,
    InvalidUpstreamResponse,
    OperationNotSupported,
    Overloaded,
    QuotaExhausted,
    Unsupported,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.credentials import CredentialError, CredentialReader
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, ENGINE_DIALECTS
from providers.hosted.vertex.adapter import Vertex
from providers.profiles.claude import request_body
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source, translate_request
from tests.support.strategies.chat_strategies import bounded
from tests.support.strategies.google_tokens import TokenServer, service_account_json

HOST = "https://aiplatform.googleapis.com"
CLAUDE = "claude-sonnet-4-5@20250929"
GEMINI = "gemini-3-flash-preview"
AT_ANTHROPIC, AT_GOOGLE = "publishers/anthropic/models/", "publishers/google/models/"
META = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)


def vertex(**options: Any) -> Vertex:
    return Vertex("cloud", {"project": "p", "location": "us-east5", **options})


def target(model: str) -> Target:
    return Target(provider="cloud", model=model)


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "https://aiplatform.googleapis.com"),
        ("us-east5", "https://us-east5-aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
        ("us", "https://aiplatform.us.rep.googleapis.com"),
    ],
)
def test_location_selects_the_host_unless_a_base_url_is_set(location: str, host: str) -> None:
    provider = vertex(location=location)
    path = f"/v1/projects/p/locations/{location}/publishers/anthropic/models/{CLAUDE}:rawPredict"
    assert str(provider.url(HOST, "anthropic_messages", CLAUDE)) == host + path
    for base_url in ("http://127.0.0.1:9/some/prefix", "http://127.0.0.1:9/some/prefix/", "http://127.0.0.1:9/some/prefix/v1"):
        assert str(provider.url(base_url, "anthropic_messages", CLAUDE)) == "http://127.0.0.1:9/some/prefix" + path


@pytest.mark.parametrize(
    ("model", "spoken", "path", "stream_path"),
    [
        (CLAUDE, "anthropic_messages", f"{AT_ANTHROPIC}{CLAUDE}:rawPredict", f"{AT_ANTHROPIC}{CLAUDE}:streamRawPredict"),
        ("publishers/anthropic/models/claude-opus-5", "anthropic_messages", "publishers/anthropic/models/claude-opus-5:rawPredict", None),
        (GEMINI, "gemini", f"{AT_GOOGLE}{GEMINI}:generateContent", f"{AT_GOOGLE}{GEMINI}:streamGenerateContent?alt=sse"),
        ("google/gemini-2.5-pro", "gemini", "publishers/google/models/gemini-2.5-pro:generateContent", None),
        ("meta/llama-3.3-70b-instruct-maas", "openai_chat", "endpoints/openapi/chat/completions", "endpoints/openapi/chat/completions"),
        ("mistral-medium-3", "openai_chat", "publishers/mistralai/models/mistral-medium-3:rawPredict", None),
        ("1234567890", "openai_chat", "endpoints/1234567890/chat/completions", "endpoints/1234567890/chat/completions"),
        ("endpoints/1234567890", "gemini", "endpoints/1234567890:generateContent", "endpoints/1234567890:streamGenerateContent?alt=sse"),
    ],
)  # fmt: skip
def test_model_name_selects_the_path_and_the_dialect(model: str, spoken: str, path: str, stream_path: str | None) -> None:
    provider = vertex()
    version = "v1beta1" if "publishers/google/" in path else "v1"
    prefix = f"{HOST.replace('https://', 'https://us-east5-')}/{version}/projects/p/locations/us-east5/"
    assert str(provider.url(HOST, spoken, model)) == prefix + path
    if stream_path is not None:
        assert str(provider.url(HOST, spoken, model, stream=True)) == prefix + stream_path
    # A tuned Gemini has a numbered endpoint like others, so the target's dialect must name it.
    assert provider.spoken_dialects_for(model)[0] == ("openai_chat" if model.startswith("endpoints/") else spoken)


@bounded
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_no_model_name_can_change_the_host_or_project_of_the_url(name: str) -> None:
    provider = vertex()
    url = provider.url(HOST, provider.spoken_dialects_for(name)[0], name)
    assert url.host == "us-east5-aiplatform.googleapis.com" and url.path.startswith("/v1")
    assert url.raw_path.split(b"/")[2:6] == [b"projects", b"p", b"locations", b"us-east5"] and not url.fragment


async def test_project_defaults_to_the_service_account_project() -> None:
    provider = Vertex("cloud", {})
    url = provider.url(HOST, "gemini", GEMINI)
    assert provider.complete_url(url, service_account_json()).path.startswith("/v1beta1/projects/a-project/locations/global/")
    assert "/projects/p/" in str(vertex().complete_url(vertex().url(HOST, "gemini", GEMINI), service_account_json()))
    for credential in ("ya29.token", "google:default", None, service_account_json(project_id="a/b")):
        with pytest.raises(CredentialError, match="set its option project"):
            provider.complete_url(url, credential)


async def test_each_credential_is_used_with_its_own_project() -> None:
    provider, server = Vertex("cloud", {}), TokenServer()
    secrets = {each: service_account_json(project_id=each) for each in ("first", "second")}
    credential_clients = [CredentialClient(f"store:{each}", CredentialReader(secrets.__getitem__, ()), server) for each in secrets]
    for model in (CLAUDE, "claude-opus-5"):
        requests = [
            await each.build_request(provider, HOST, RequestTemplateKey("anthropic_messages", model), b"{}", {})
            for each in credential_clients
        ]
        assert [str(each.url).split("/")[5] for each in requests] == ["first", "second"]
        assert [each.headers["authorization"] for each in requests] == ["Bearer token-1", "Bearer token-2"]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "options", [{"project": "a/b"}, {"project": 7}, {"location": "US"}, {"location": "a.b"}, {"max_tokens": 0}, {"region": "x"}]
)
def test_invalid_vertex_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Vertex("cloud", options)


def build_source(dialect: str, body: dict[str, Any], betas: bytes = b"", may_drop: Any = drop_nothing) -> SourceRequest:
    raw = json.dumps({"model": "m", **body}).encode()
    inbound = DIALECTS[dialect].parse_request(raw)
    return make_source(
        inbound, raw, DIALECTS[dialect], MEDIA, may_drop, betas=betas, constraint=read_constraint(inbound.dialect, inbound.body)
    )


HELLO = [{"role": "user", "content": "Hello"}]


def body_of(translated: TranslatedRequest) -> dict[str, Any]:
    return json.loads(translated.raw)


def test_claude_request_keeps_the_caller_fields_except_model_and_version() -> None:
    body = {"max_tokens": 10, "messages": HELLO, "a_field_of_tomorrow": [1, 2]}
    for stream in (False, True):
        inbound = DIALECTS["anthropic_messages"].parse_request(json.dumps({"model": "m", "stream": stream, **body}).encode())
        translated = translate_request(inbound, vertex(), target(CLAUDE))
        assert body_of(translated) == {**body, "anthropic_version": "vertex-2023-10-16", **({"stream": True} if stream else {})}
        assert (translated.model, translated.stream, translated.dropped) == (CLAUDE, stream, [])


async def test_claude_request_from_another_dialect_gets_the_configured_max_tokens() -> None:
    source = build_source("openai_chat", {"messages": HELLO})
    translated = await translate_chat(source, ENGINE_DIALECTS["anthropic_messages"], Recipient(vertex(max_tokens=77), target(CLAUDE)))
    assert body_of(translated)["max_tokens"] == 77 and "model" not in body_of(translated)


def test_anthropic_betas_are_sent_as_a_header() -> None:
    source = build_source("anthropic_messages", {"max_tokens": 10, "messages": HELLO}, b"interleaved-thinking-2025-05-14")
    translated = edit_request(source, Recipient(vertex(), target(CLAUDE)))
    assert translated is not None and translated.betas == b"interleaved-thinking-2025-05-14" and "anthropic_beta" not in body_of(translated)
    configured = vertex(anthropic_beta=["a", "b"])
    assert configured.headers("secret", "anthropic_messages") == [("anthropic-beta", "a,b")]
    assert configured.headers("secret", "gemini") == [] == vertex().headers("secret", "anthropic_messages")


def test_claude_token_count_uses_the_shared_count_tokens_url() -> None:
    inbound = DIALECTS["anthropic_count_tokens"].parse_request(json.dumps({"model": "m", "messages": HELLO}).encode())
    translated = translate_request(inbound, vertex(), target(CLAUDE))
    assert body_of(translated) == {"messages": HELLO, "model": CLAUDE, "anthropic_version": "vertex-2023-10-16"}
    assert vertex().url(HOST, "anthropic_count_tokens", CLAUDE).path.endswith("/publishers/anthropic/models/count-tokens:rawPredict")


def test_gemini_token_count_is_translated_to_count_tokens() -> None:
    operation = vertex().host_operations["anthropic_count_tokens"]
    translated = translate_host_operation(
        build_source("anthropic_count_tokens", {"messages": HELLO, "system": "Be brief."}), operation, Recipient(vertex(), target(GEMINI))
    )
    assert body_of(translated)["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]
    assert body_of(translated)["systemInstruction"]["parts"] == [{"text": "Be brief."}] and "model" not in body_of(translated)
    assert vertex().url(HOST, operation.name, GEMINI).path.endswith(f"/publishers/google/models/{GEMINI}:countTokens")
    assert json.loads(operation.read_response(b'{"totalTokens": 7, "totalBillableCharacters": 20}', httpx2.Headers(), META)) == {
        "input_tokens": 7
    }
    with pytest.raises(OperationNotSupported):
        translate_host_operation(
            build_source("anthropic_count_tokens", {"messages": HELLO}), operation, Recipient(vertex(), target("meta/llama"))
        )


@pytest.mark.parametrize(("model", "expected"), [("meta/llama-maas", "meta/llama-maas"), ("codestral-2", "codestral-2"), ("123", None)])
def test_model_field_of_open_models_depends_on_the_kind_of_url(model: str, expected: str | None) -> None:
    inbound = DIALECTS["openai_chat"].parse_request(json.dumps({"model": "m", "messages": HELLO}).encode())
    assert body_of(translate_request(inbound, vertex(), target(model))).get("model") == expected


# The bound of its number is not enforced.
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}
SCHEMA_OUTPUT = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def test_request_with_an_image_url_for_claude_is_not_edited_in_place() -> None:
    with_image = build_source("anthropic_messages", {"max_tokens": 1, "messages": [{"role": "user", "content": [IMAGE]}]})
    assert edit_request(with_image, Recipient(vertex(), target(CLAUDE))) is None
    text_only = build_source(
        "anthropic_messages", {"max_tokens": 1, "messages": [{"role": "user", "content": 'a "url": https://example.org'}]}
    )
    assert edit_request(text_only, Recipient(vertex(), target(CLAUDE))) is not None


@pytest.mark.parametrize("address", ["https://example.org/a.png", "gs://bucket/a.png"])
async def test_gemini_gets_media_urls_with_a_known_type_as_file_uris(address: str) -> None:
    source = build_source(
        "openai_chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}]}
    )
    translated = await translate_chat(source, ENGINE_DIALECTS["gemini"], Recipient(vertex(), target(GEMINI)))
    assert body_of(translated)["contents"][0]["parts"] == [{"fileData": {"mimeType": "image/png", "fileUri": address}}]
    assert not vertex().accepts_media_url("https://example.org/a", "gemini") and not vertex().accepts_media_url(
        address, "anthropic_messages"
    )


async def test_json_schema_is_enforced_for_claude_and_gemini() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
    output = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}}
    for dialect, model in (("anthropic_messages", CLAUDE), ("gemini", GEMINI)):
        translated = await translate_chat(
            build_source("openai_chat", {"messages": HELLO, **output}), ENGINE_DIALECTS[dialect], Recipient(vertex(), target(model))
        )
        assert translated.constraint_plan is not None and translated.constraint_plan.enforcement == "enforced", dialect


async def test_claude_rules_apply_on_vertex() -> None:
    body: dict[str, Any] = {"messages": [*HELLO, {"role": "assistant", "content": "He"}], **SCHEMA_OUTPUT}
    with pytest.raises(Unsupported) as refused:
        await translate_chat(build_source("openai_chat", body), ENGINE_DIALECTS["anthropic_messages"], Recipient(vertex(), target(CLAUDE)))
    assert refused.value.param == "messages[1]"
    source = build_source("openai_chat", {"messages": HELLO, **SCHEMA_OUTPUT})
    translated = await translate_chat(source, ENGINE_DIALECTS["anthropic_messages"], Recipient(vertex(), target(CLAUDE)))
    assert translated.constraint_plan is not None and translated.constraint_plan.enforcement == "validated"


def test_surplus_cache_breakpoints_are_dropped_and_reported() -> None:
    text = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    body = Body({"max_tokens": 1, "messages": [{"role": "user", "content": [dict(text) for _ in range(6)]}]})
    assert vertex().adapt_request(body, "anthropic_messages", drop_nothing).dropped == ["cache_control"]
    assert ["cache_control" in each for each in body["messages"][0]["content"]] == [False, False, True, True, True, True]


def translate_embeddings(model: str, body: dict[str, Any], may_drop: Any = drop_nothing) -> TranslatedRequest:
    provider = vertex()
    return translate_host_operation(
        build_source("openai_embeddings", body, may_drop=may_drop),
        provider.host_operations["openai_embeddings"],
        Recipient(provider, target(model)),
    )


def test_embeddings_request_becomes_a_predict_call_without_truncation() -> None:
    translated = translate_embeddings(
        "text-embedding-005", {"input": ["a", "b"], "dimensions": 256, "task_type": "RETRIEVAL_QUERY", "user": "me"}
    )
    instances = [{"content": text, "task_type": "RETRIEVAL_QUERY"} for text in ("a", "b")]
    assert body_of(translated) == {"instances": instances, "parameters": {"autoTruncate": False, "outputDimensionality": 256}}
    assert translated.dropped == ["user"]
    url = vertex().url(HOST, "vertex_embeddings", "text-embedding-005")
    assert url.path.endswith("/publishers/google/models/text-embedding-005:predict")


def test_gemini_embedding_2_request_becomes_one_embed_content_call() -> None:
    translated = translate_embeddings("gemini-embedding-2", {"input": "a", "dimensions": 256, "task_type": "CLUSTERING"})
    content = {"parts": [{"text": "a"}]}
    assert body_of(translated) == {"content": content, "autoTruncate": False, "taskType": "CLUSTERING", "outputDimensionality": 256}
    assert vertex().url(HOST, "vertex_embeddings", "gemini-embedding-2").path.endswith("/gemini-embedding-2:embedContent")


@pytest.mark.parametrize(
    ("model", "body", "param", "why"),
    [
        ("gemini-embedding-001", {"input": ["a", "b"]}, "input", "takes 1 in a request at most"),
        ("gemini-embedding-2", {"input": ["a", "b"]}, "input", "takes 1 in a request at most"),
        ("text-embedding-005", {"input": [1, 2]}, "input", "not token ids"),
        ("text-embedding-005", {"input": "a", "embed_dtype": "float16"}, "embed_dtype", "does not have this field"),
    ],
)
def test_unsupported_embeddings_input_is_refused_with_the_reason(model: str, body: dict[str, Any], param: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why) as refused:
        translate_embeddings(model, body)
    assert refused.value.param == param


def test_embeddings_field_can_be_dropped_and_claude_offers_no_embeddings() -> None:
    assert translate_embeddings("text-embedding-005", {"input": "a", "embed_dtype": "float16"}, drop_everything).dropped == ["embed_dtype"]
    with pytest.raises(OperationNotSupported):
        translate_embeddings(CLAUDE, {"input": "a"})


@pytest.mark.parametrize(
    ("response", "tokens"),
    [
        ({"predictions": [{"embeddings": {"values": [0.5, 1], "statistics": {"token_count": 3, "truncated": False}}}]}, 3),
        ({"predictions": [{"embeddings": {"values": [0.5, 1]}}]}, None),
        ({"embedding": {"values": [0.5, 1]}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}, "truncated": False}, 4),
    ],
)
def test_embeddings_response_is_translated_to_the_openai_shape(response: dict[str, Any], tokens: int | None) -> None:
    translated_body = vertex().host_operations["openai_embeddings"].read_response(json.dumps(response).encode(), httpx2.Headers(), META)
    edited = CALLER_DIALECTS["openai_embeddings"].edit_response(translated_body, META)
    assert json.loads(edited.raw)["data"] == [{"object": "embedding", "index": 0, "embedding": [0.5, 1]}]
    assert edited.usage is not None and edited.usage.input == tokens


@pytest.mark.parametrize(
    "response",
    [
        {"predictions": [{"embeddings": {"values": [1], "statistics": {"truncated": True}}}]},
        {"embedding": {"values": [1]}, "truncated": True},
    ],
)
def test_truncated_embeddings_input_is_an_invalid_upstream_response(response: dict[str, Any]) -> None:
    with pytest.raises(InvalidUpstreamResponse, match="truncated"):
        vertex().host_operations["openai_embeddings"].read_response(json.dumps(response).encode(), httpx2.Headers(), META)


def envelope(code: int, status: str, *details: dict[str, Any], message: str = "A message.") -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "status": status, "details": list(details)}}).encode()


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerProject"}]}


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (401, envelope(401, "UNAUTHENTICATED"), CredentialRefused, "UNAUTHENTICATED"),
        (403, envelope(403, "PERMISSION_DENIED"), CredentialRefused, "PERMISSION_DENIED"),
        (404, envelope(404, "NOT_FOUND"), UpstreamNotFound, "NOT_FOUND"),
        (429, envelope(429, "RESOURCE_EXHAUSTED"), Overloaded, "RESOURCE_EXHAUSTED"),
        (429, b"[" + envelope(429, "RESOURCE_EXHAUSTED") + b"]", Overloaded, "RESOURCE_EXHAUSTED"),
        (429, envelope(429, "RESOURCE_EXHAUSTED", QUOTA), QuotaExhausted, "RESOURCE_EXHAUSTED"),
        (400, envelope(400, "INVALID_ARGUMENT"), UpstreamRejected, "INVALID_ARGUMENT"),
        (400, b'{"type":"error","error":{"type":"invalid_request_error","message":"x"}}', UpstreamRejected, "invalid_request_error"),
        (429, b'{"type":"error","error":{"type":"rate_limit_error","message":"x"}}', Overloaded, "rate_limit_error"),
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', Overloaded, "overloaded_error"),
    ],
)
def test_errors_are_read_from_google_and_anthropic_envelopes(status: int, body: bytes, kind: type[Exception], code: str) -> None:
    error = vertex().read_error(status, {}, body)
    assert type(error) is kind and error.upstream_code == code


def test_claude_body_for_a_cloud_has_version_betas_and_max_tokens_but_no_model() -> None:
    body = Body.read(b'{"model": "m", "stream": true, "anthropic_beta": ["a"], "anthropic_version": "2023-06-01", "max_tokens": null}')
    request_body.adapt_for_cloud(body, "a-cloud-2023", keeps_stream=False)
    request_body.add_betas(body, ["b", " a", ""])
    request_body.RequestDefaults(5).fill_in(body)
    assert json.loads(body.write()) == {"anthropic_beta": ["a", "b"], "anthropic_version": "a-cloud-2023", "max_tokens": 5}
    with_max_tokens = Body.read(b'{"stream": true, "max_tokens": 9}')
    request_body.adapt_for_cloud(with_max_tokens, "v", keeps_stream=True)
    request_body.add_betas(with_max_tokens, [])
    request_body.RequestDefaults(5).fill_in(with_max_tokens)
    assert json.loads(with_max_tokens.write()) == {"stream": True, "max_tokens": 9, "anthropic_version": "v"}


async def test_strict_false_is_left_out_of_claude_tools() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": False}}
    translated = await translate_chat(
        build_source("openai_chat", {"messages": HELLO, "tools": [tool]}),
        ENGINE_DIALECTS["anthropic_messages"],
        Recipient(vertex(), target(CLAUDE)),
    )
    assert body_of(translated)["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]
