"""Vertex: whose model it is tells where it is asked, in which words; projects, locations, and what Claude and Gemini want there."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import Target
from app.gateway.credentials.client import CredentialClient, RequestTemplateKey
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from providers.adapters.provider import InvalidOption
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
from providers.credentials import CredentialError
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import DIALECTS, ENGINE_DIALECTS
from providers.hosted.vertex.adapter import Vertex
from providers.profiles.claude import request_body
from providers.structured_output import read_constraint
from tests.laws.asking import MEDIA, everything, nothing, sent
from tests.laws.chats import bounded
from tests.laws.googles import TokenServer, service_account

HOST = "https://aiplatform.googleapis.com"
CLAUDE = "claude-sonnet-4-5@20250929"
GEMINI = "gemini-3-flash-preview"
AT_ANTHROPIC, AT_GOOGLE = "publishers/anthropic/models/", "publishers/google/models/"
STAMP = ResponseMeta(
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
def test_the_location_tells_the_host_unless_the_base_url_does(location: str, host: str) -> None:
    provider = vertex(location=location)
    path = f"/v1/projects/p/locations/{location}/publishers/anthropic/models/{CLAUDE}:rawPredict"
    assert str(provider.url(HOST, "anthropic_messages", CLAUDE)) == host + path
    for base_url in ("http://127.0.0.1:9/some/prefix", "http://127.0.0.1:9/some/prefix/", "http://127.0.0.1:9/some/prefix/v1"):
        assert str(provider.url(base_url, "anthropic_messages", CLAUDE)) == "http://127.0.0.1:9/some/prefix" + path


@pytest.mark.parametrize(
    ("model", "spoken", "whole", "stream"),
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
def test_the_models_name_tells_where_and_in_which_words_it_is_asked(model: str, spoken: str, whole: str, stream: str | None) -> None:
    provider = vertex()
    version = "v1beta1" if "publishers/google/" in whole else "v1"
    place = f"{HOST.replace('https://', 'https://us-east5-')}/{version}/projects/p/locations/us-east5/"
    assert str(provider.url(HOST, spoken, model)) == place + whole
    if stream is not None:
        assert str(provider.url(HOST, spoken, model, stream=True)) == place + stream
    # A tuned Gemini has a number, as other endpoints have, and is told by the target's dialect.
    assert provider.spoken_dialects_for(model)[0] == ("openai_chat" if model.startswith("endpoints/") else spoken)


@bounded
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_no_name_of_a_model_leaves_its_place_in_the_address(name: str) -> None:
    provider = vertex()
    url = provider.url(HOST, provider.spoken_dialects_for(name)[0], name)
    assert url.host == "us-east5-aiplatform.googleapis.com" and url.path.startswith("/v1")
    assert url.raw_path.split(b"/")[2:6] == [b"projects", b"p", b"locations", b"us-east5"] and not url.fragment


async def test_the_project_may_be_the_service_accounts() -> None:
    provider = Vertex("cloud", {})
    url = provider.url(HOST, "gemini", GEMINI)
    assert provider.complete_url(url, service_account()).path.startswith("/v1beta1/projects/a-project/locations/global/")
    assert "/projects/p/" in str(vertex().complete_url(vertex().url(HOST, "gemini", GEMINI), service_account()))
    for credential in ("ya29.token", "google:default", None, service_account(project_id="a/b")):
        with pytest.raises(CredentialError, match="set its option project"):
            provider.complete_url(url, credential)


async def test_each_credential_of_a_provider_is_asked_in_its_own_project() -> None:
    provider, server = Vertex("cloud", {}), TokenServer()
    secrets = {each: service_account(project_id=each) for each in ("first", "second")}
    identities = [CredentialClient(f"store:{each}", secrets.__getitem__, server) for each in secrets]
    for model in (CLAUDE, "claude-opus-5"):
        requests = [
            await each.build_request(provider, HOST, RequestTemplateKey("anthropic_messages", model), b"{}", {}) for each in identities
        ]
        assert [str(each.url).split("/")[5] for each in requests] == ["first", "second"]
        assert [each.headers["authorization"] for each in requests] == ["Bearer token-1", "Bearer token-2"]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "options", [{"project": "a/b"}, {"project": 7}, {"location": "US"}, {"location": "a.b"}, {"max_tokens": 0}, {"region": "x"}]
)
def test_options_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Vertex("cloud", options)


def asked_of(dialect: str, body: dict[str, Any], betas: bytes = b"", may_drop: Any = nothing) -> RequestTranslator:
    raw = json.dumps({"model": "m", **body}).encode()
    ask = DIALECTS[dialect].parse_request(raw)
    return RequestTranslator(ask, raw, DIALECTS[dialect], MEDIA, may_drop, betas, read_constraint(ask.dialect, ask.body))


HELLO = [{"role": "user", "content": "Hello"}]


def told(prepared: TranslatedRequest) -> dict[str, Any]:
    return json.loads(prepared.raw)


def test_claude_is_asked_in_the_callers_own_bytes_but_for_the_model_and_the_version() -> None:
    body = {"max_tokens": 10, "messages": HELLO, "a_field_of_tomorrow": [1, 2]}
    for stream in (False, True):
        asked = DIALECTS["anthropic_messages"].parse_request(json.dumps({"model": "m", "stream": stream, **body}).encode())
        prepared = sent(asked, vertex(), target(CLAUDE))
        assert told(prepared) == {**body, "anthropic_version": "vertex-2023-10-16", **({"stream": True} if stream else {})}
        assert (prepared.model, prepared.stream, prepared.dropped) == (CLAUDE, stream, [])


async def test_claude_is_told_how_long_an_answer_may_be_where_a_caller_of_another_dialect_does_not_say() -> None:
    asked = asked_of("openai_chat", {"messages": HELLO})
    prepared = await asked.translate_chat(ENGINE_DIALECTS["anthropic_messages"], vertex(max_tokens=77), target(CLAUDE))
    assert told(prepared)["max_tokens"] == 77 and "model" not in told(prepared)


def test_betas_are_a_header_on_vertex() -> None:
    asked = asked_of("anthropic_messages", {"max_tokens": 10, "messages": HELLO}, b"interleaved-thinking-2025-05-14")
    prepared = asked.edit_request(vertex(), target(CLAUDE))
    assert prepared is not None and prepared.betas == b"interleaved-thinking-2025-05-14" and "anthropic_beta" not in told(prepared)
    configured = vertex(anthropic_beta=["a", "b"])
    assert configured.headers("secret", "anthropic_messages") == [("anthropic-beta", "a,b")]
    assert configured.headers("secret", "gemini") == [] == vertex().headers("secret", "anthropic_messages")


def test_claudes_tokens_are_counted_where_all_of_them_are() -> None:
    asked = DIALECTS["anthropic_count_tokens"].parse_request(json.dumps({"model": "m", "messages": HELLO}).encode())
    prepared = sent(asked, vertex(), target(CLAUDE))
    assert told(prepared) == {"messages": HELLO, "model": CLAUDE, "anthropic_version": "vertex-2023-10-16"}
    assert vertex().url(HOST, "anthropic_count_tokens", CLAUDE).path.endswith("/publishers/anthropic/models/count-tokens:rawPredict")


def test_geminis_tokens_are_counted_in_googles_words() -> None:
    foreign = vertex().host_operations["anthropic_count_tokens"]
    prepared = asked_of("anthropic_count_tokens", {"messages": HELLO, "system": "Be brief."}).translate_host_operation(
        foreign, vertex(), target(GEMINI)
    )
    assert told(prepared)["contents"] == [{"role": "user", "parts": [{"text": "Hello"}]}]
    assert told(prepared)["systemInstruction"]["parts"] == [{"text": "Be brief."}] and "model" not in told(prepared)
    assert vertex().url(HOST, foreign.name, GEMINI).path.endswith(f"/publishers/google/models/{GEMINI}:countTokens")
    assert json.loads(foreign.read_response(b'{"totalTokens": 7, "totalBillableCharacters": 20}', httpx.Headers(), STAMP)) == {
        "input_tokens": 7
    }
    with pytest.raises(OperationNotSupported):
        asked_of("anthropic_count_tokens", {"messages": HELLO}).translate_host_operation(foreign, vertex(), target("meta/llama"))


@pytest.mark.parametrize(("model", "named"), [("meta/llama-maas", "meta/llama-maas"), ("codestral-2", "codestral-2"), ("123", None)])
def test_open_models_are_named_as_their_address_needs_it(model: str, named: str | None) -> None:
    asked = DIALECTS["openai_chat"].parse_request(json.dumps({"model": "m", "messages": HELLO}).encode())
    assert told(sent(asked, vertex(), target(model))).get("model") == named


# What it says of a number is not held to.
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}
A = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def test_an_image_that_is_named_is_fetched_for_claude_and_other_asks_stay_as_they_are() -> None:
    named = asked_of("anthropic_messages", {"max_tokens": 1, "messages": [{"role": "user", "content": [IMAGE]}]})
    assert named.edit_request(vertex(), target(CLAUDE)) is None
    spoken_of = asked_of("anthropic_messages", {"max_tokens": 1, "messages": [{"role": "user", "content": 'a "url": https://example.org'}]})
    assert spoken_of.edit_request(vertex(), target(CLAUDE)) is not None


@pytest.mark.parametrize("address", ["https://example.org/a.png", "gs://bucket/a.png"])
async def test_gemini_reads_addresses_that_tell_their_type(address: str) -> None:
    asked = asked_of("openai_chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}]})
    prepared = await asked.translate_chat(ENGINE_DIALECTS["gemini"], vertex(), target(GEMINI))
    assert told(prepared)["contents"][0]["parts"] == [{"fileData": {"mimeType": "image/png", "fileUri": address}}]
    assert not vertex().accepts_media_url("https://example.org/a", "gemini") and not vertex().accepts_media_url(
        address, "anthropic_messages"
    )


async def test_schemas_are_held_by_both() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
    output = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}}
    for dialect, model in (("anthropic_messages", CLAUDE), ("gemini", GEMINI)):
        prepared = await asked_of("openai_chat", {"messages": HELLO, **output}).translate_chat(
            ENGINE_DIALECTS[dialect], vertex(), target(model)
        )
        assert prepared.constraint_plan is not None and prepared.constraint_plan.enforcement == "enforced", dialect


async def test_claude_is_asked_by_its_own_rules_here_too() -> None:
    for field in ("top_p", "messages[1]"):
        body: dict[str, Any] = {"messages": HELLO, "temperature": 0.5, "top_p": 0.5}
        if field == "messages[1]":
            body = {"messages": [*HELLO, {"role": "assistant", "content": "He"}], **A}
        with pytest.raises(Unsupported) as refused:
            await asked_of("openai_chat", body).translate_chat(ENGINE_DIALECTS["anthropic_messages"], vertex(), target(CLAUDE))
        assert refused.value.param == field
    asked = asked_of("openai_chat", {"messages": HELLO, **A})
    prepared = await asked.translate_chat(ENGINE_DIALECTS["anthropic_messages"], vertex(), target(CLAUDE))
    assert prepared.constraint_plan is not None and prepared.constraint_plan.enforcement == "validated"


def test_more_breakpoints_of_caches_than_claude_takes_are_hints() -> None:
    text = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    body = Body({"max_tokens": 1, "messages": [{"role": "user", "content": [dict(text) for _ in range(6)]}]})
    assert vertex().adapt_request(body, "anthropic_messages", nothing).dropped == ["cache_control"]
    assert ["cache_control" in each for each in body["messages"][0]["content"]] == [False, False, True, True, True, True]


# Embeddings


def embedded(model: str, body: dict[str, Any], may_drop: Any = nothing) -> TranslatedRequest:
    provider = vertex()
    return asked_of("openai_embeddings", body, may_drop=may_drop).translate_host_operation(
        provider.host_operations["openai_embeddings"], provider, target(model)
    )


def test_embeddings_are_predictions_of_instances_that_are_never_cut_short() -> None:
    prepared = embedded("text-embedding-005", {"input": ["a", "b"], "dimensions": 256, "task_type": "RETRIEVAL_QUERY", "user": "me"})
    instances = [{"content": text, "task_type": "RETRIEVAL_QUERY"} for text in ("a", "b")]
    assert told(prepared) == {"instances": instances, "parameters": {"autoTruncate": False, "outputDimensionality": 256}}
    assert prepared.dropped == ["user"]
    url = vertex().url(HOST, "vertex_embeddings", "text-embedding-005")
    assert url.path.endswith("/publishers/google/models/text-embedding-005:predict")


def test_newer_embeddings_are_of_one_content() -> None:
    prepared = embedded("gemini-embedding-2", {"input": "a", "dimensions": 256, "task_type": "CLUSTERING"})
    content = {"parts": [{"text": "a"}]}
    assert told(prepared) == {"content": content, "autoTruncate": False, "taskType": "CLUSTERING", "outputDimensionality": 256}
    assert vertex().url(HOST, "vertex_embeddings", "gemini-embedding-2").path.endswith("/gemini-embedding-2:embedContent")


@pytest.mark.parametrize(
    ("model", "body", "param", "why"),
    [
        ("gemini-embedding-001", {"input": ["a", "b"]}, "input", "one input in a request"),
        ("gemini-embedding-2", {"input": ["a", "b"]}, "input", "one input in a request"),
        ("text-embedding-005", {"input": [1, 2]}, "input", "no token ids"),
        ("text-embedding-005", {"input": "a", "embed_dtype": "float16"}, "embed_dtype", "no such field"),
    ],
)
def test_what_embeddings_cannot_is_refused_with_the_rule(model: str, body: dict[str, Any], param: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why) as refused:
        embedded(model, body)
    assert refused.value.param == param


def test_a_field_that_may_go_goes_and_models_of_others_have_no_embeddings() -> None:
    assert embedded("text-embedding-005", {"input": "a", "embed_dtype": "float16"}, everything).dropped == ["embed_dtype"]
    with pytest.raises(OperationNotSupported):
        embedded(CLAUDE, {"input": "a"})


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"predictions": [{"embeddings": {"values": [0.5, 1], "statistics": {"token_count": 3, "truncated": False}}}]}, 3),
        ({"predictions": [{"embeddings": {"values": [0.5, 1]}}]}, None),
        ({"embedding": {"values": [0.5, 1]}, "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4}, "truncated": False}, 4),
    ],
)
def test_embeddings_are_told_in_the_callers_words(answer: dict[str, Any], tokens: int | None) -> None:
    said = vertex().host_operations["openai_embeddings"].read_response(json.dumps(answer).encode(), httpx.Headers(), STAMP)
    edited = DIALECTS["openai_embeddings"].edit_response(said, STAMP)
    assert json.loads(edited.raw)["data"] == [{"object": "embedding", "index": 0, "embedding": [0.5, 1]}]
    assert edited.usage is not None and edited.usage.input == tokens


@pytest.mark.parametrize(
    "answer",
    [
        {"predictions": [{"embeddings": {"values": [1], "statistics": {"truncated": True}}}]},
        {"embedding": {"values": [1]}, "truncated": True},
    ],
)
def test_an_input_that_was_cut_short_is_no_answer(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidUpstreamResponse, match="cut"):
        vertex().host_operations["openai_embeddings"].read_response(json.dumps(answer).encode(), httpx.Headers(), STAMP)


# Errors


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
def test_errors_are_read_in_googles_envelope_and_anthropics(status: int, body: bytes, kind: type[Exception], code: str) -> None:
    error = vertex().read_error(status, {}, body)
    assert type(error) is kind and error.upstream_code == code


# What any cloud wants of a body for Claude


def test_a_body_for_a_cloud_names_no_model_and_its_betas_where_they_are_read() -> None:
    body = Body.read(b'{"model": "m", "stream": true, "anthropic_beta": ["a"], "anthropic_version": "2023-06-01", "max_tokens": null}')
    request_body.adapt_for_cloud(body, "a-cloud-2023", keeps_stream=False)
    request_body.add_betas(body, ["b", " a", ""])
    request_body.RequestDefaults(5).fill_in(body)
    assert json.loads(body.write()) == {"anthropic_beta": ["a", "b"], "anthropic_version": "a-cloud-2023", "max_tokens": 5}
    kept = Body.read(b'{"stream": true, "max_tokens": 9}')
    request_body.adapt_for_cloud(kept, "v", keeps_stream=True)
    request_body.add_betas(kept, [])
    request_body.RequestDefaults(5).fill_in(kept)
    assert json.loads(kept.write()) == {"stream": True, "max_tokens": 9, "anthropic_version": "v"}


async def test_a_tool_that_need_not_be_strict_says_nothing_of_it() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": False}}
    prepared = await asked_of("openai_chat", {"messages": HELLO, "tools": [tool]}).translate_chat(
        ENGINE_DIALECTS["anthropic_messages"], vertex(), target(CLAUDE)
    )
    assert told(prepared)["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]
