"""Bedrock's adapter: URLs, credentials, APIs and errors; embeddings and token counts."""

import base64
import json
from typing import Any

import httpx2
import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import (
    CredentialRefused,
    InvalidUpstreamResponse,
    OperationNotSupported,
    Overloaded,
    TimedOut,
    Unsupported,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS, build_provider
from providers.credentials import CredentialError, UnsignedRequest
from providers.dialect import ResponseMeta
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from providers.hosted.bedrock.adapter import Bedrock
from tests.support.strategies.chat_strategies import META

HOME = "https://bedrock-runtime.{region}.amazonaws.com"
CLAUDE, NOVA, LLAMA, GPT = "us.anthropic.claude-opus-4-6-v1", "amazon.nova-lite-v1:0", "meta.llama3-70b-instruct-v1:0", "openai.gpt-oss-20b"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
KEYS = '{"access_key_id":"AKID","secret_access_key":"of a test","region":"eu-west-1"}'


def bedrock(**options: Any) -> Provider:
    return build_provider("bedrock", "aws", {"region": "us-east-1", **options})


def drop_nothing(field: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("dialect", "model", "stream", "path"),
    [
        ("bedrock_converse", NOVA, False, "/model/amazon.nova-lite-v1%3A0/converse"),
        ("bedrock_converse", NOVA, True, "/model/amazon.nova-lite-v1%3A0/converse-stream"),
        ("anthropic_messages", CLAUDE, False, f"/model/{CLAUDE}/invoke"),
        ("anthropic_messages", CLAUDE, True, f"/model/{CLAUDE}/invoke-with-response-stream"),
        ("bedrock_llama", LLAMA, False, "/model/meta.llama3-70b-instruct-v1%3A0/invoke"),
        ("bedrock_embeddings", "amazon.titan-embed-text-v2:0", False, "/model/amazon.titan-embed-text-v2%3A0/invoke"),
        ("bedrock_count_tokens", CLAUDE, False, "/model/anthropic.claude-opus-4-6-v1/count-tokens"),
        (
            *("bedrock_converse", ARN, False),
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse",
        ),
    ],
)
def test_url_escapes_the_model_id_once(dialect: str, model: str, stream: bool, path: str):
    url = bedrock().url(HOME, dialect, model, stream)
    assert (url.host, url.raw_path.decode()) == ("bedrock-runtime.us-east-1.amazonaws.com", path)
    prefixed = bedrock().url("http://127.0.0.1:9/some/prefix/", dialect, model, stream)
    assert prefixed.raw_path.decode() == "/some/prefix" + path


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic_messages", "/anthropic/v1/messages"),
    ],
)
def test_mantle_api_uses_its_own_urls(dialect: str, path: str):
    url = bedrock(api="mantle").url(HOME, dialect, GPT)
    assert (url.host, url.path) == ("bedrock-mantle.us-east-1.api.aws", path)
    assert bedrock(api="mantle").url("http://127.0.0.1:9/p/v1", dialect, GPT).path == "/p" + path


@pytest.mark.parametrize(
    ("api", "model", "spoken"),
    [
        (None, CLAUDE, ("bedrock_converse", "anthropic_messages")),
        (None, NOVA, ("bedrock_converse",)),
        (None, LLAMA, ("bedrock_converse", "bedrock_llama")),
        (None, ARN, ("bedrock_converse",)),
        ("converse", CLAUDE, ("bedrock_converse",)),
        ("invoke", CLAUDE, ("anthropic_messages",)),
        ("invoke", NOVA, ()),
        ("mantle", GPT, ("openai_chat", "openai_responses")),
        ("mantle", CLAUDE, ("anthropic_messages",)),
    ],
)
def test_spoken_dialects_depend_on_api_and_model(api: str | None, model: str, spoken: tuple[str, ...]):
    assert bedrock(**({} if api is None else {"api": api})).spoken_dialects_for(model) == spoken


async def no_fetch(request: httpx2.Request) -> tuple[int, bytes]:
    raise AssertionError("nothing here has to be fetched")


def test_bedrock_api_key_is_sent_as_bearer_and_nothing_is_signed():
    provider = bedrock()
    assert dict(provider.headers("bedrock-api-key", "bedrock_converse"))["authorization"] == "Bearer bedrock-api-key"
    assert provider.signer("bedrock-api-key", no_fetch) is None and provider.signer(None, no_fetch) is None
    assert "authorization" not in dict(provider.headers(KEYS, "bedrock_converse"))


@pytest.mark.parametrize(("options", "service"), [({}, "us-east-1/bedrock/"), ({"api": "mantle"}, "us-east-1/bedrock-mantle/")])
async def test_aws_keys_sign_for_the_service_of_the_configured_api(options: dict[str, Any], service: str):
    signer = bedrock(**options).signer(KEYS, no_fetch)
    assert signer is not None
    signed = dict(await signer.sign(UnsignedRequest("POST", bedrock(**options).url(HOME, "anthropic_messages", CLAUDE), [], b"{}")))
    assert service.encode() in signed[b"authorization"] and b"of a test" not in signed[b"authorization"]


def test_region_may_come_with_aws_keys_but_not_with_an_api_key():
    provider = build_provider("bedrock", "aws", {})
    url = provider.url(HOME, "bedrock_converse", NOVA)
    assert provider.complete_url(url, KEYS).host == "bedrock-runtime.eu-west-1.amazonaws.com"
    with pytest.raises(CredentialError, match="region"):
        provider.complete_url(url, "bedrock-api-key")
    assert (
        bedrock()
        .complete_url(bedrock().url(HOME, "bedrock_converse", NOVA), "bedrock-api-key")
        .host.startswith("bedrock-runtime.us-east-1.")
    )


@pytest.mark.parametrize(
    "options",
    [
        {"api": "convers"},
        {"region": "over there"},
        {"guardrail": {"id": "g"}},
        {"guardrail": {"id": "g", "version": "newest"}},
        {"guardrail": {"id": "g", "version": "1"}, "api": "mantle"},
        {"guardrail": {"id": "g", "version": "1"}, "api": "invoke"},
        {"guardrail": {"id": "g", "version": "1"}, "dialects": ["anthropic_messages"]},
        {"reads_s3": "yes"},
        {"max_tokens": 0},
    ],
)
def test_invalid_provider_options_are_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOption):
        bedrock(**options)


def test_claude_body_follows_bedrocks_invoke_format():
    provider = bedrock(anthropic_beta=["a"], max_tokens=77)
    body = Body.read(b'{"model":"x","stream":true,"messages":[]}')
    provider.adapt_request(body, "anthropic_messages", drop_nothing)
    assert provider.forward_betas(body, "anthropic_messages", b"b, a") == b""
    provider.set_model(body, "anthropic_messages", CLAUDE, True)
    written = json.loads(body.write())
    assert written == {"messages": [], "max_tokens": 77, "anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["b", "a"]}


def test_mantle_body_and_headers_follow_the_plain_dialects():
    provider = bedrock(api="mantle", anthropic_beta=["a"])
    body = Body.read(b'{"model":"x","messages":[]}')
    provider.set_model(body, "openai_chat", GPT, False)
    assert json.loads(body.write()) == {"model": GPT, "messages": []} and provider.stream_unwrapper("anthropic_messages") is None
    assert dict(provider.headers("k", "anthropic_messages")) == {
        "authorization": "Bearer k",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "a",
    }
    with pytest.raises(OperationNotSupported):
        provider.set_model(body, "bedrock_embeddings", "amazon.titan-embed-text-v2:0", False)


def test_operator_guardrail_applies_and_the_callers_own_is_refused_or_dropped():
    provider = bedrock(guardrail={"id": "g", "version": "1", "trace": True})
    configured = {"guardrailIdentifier": "g", "guardrailVersion": "1", "trace": "enabled"}
    body = Body(messages=[])
    assert provider.adapt_request(body, "bedrock_converse", drop_nothing).dropped == [] and body["guardrailConfig"] == configured
    with pytest.raises(Unsupported):
        provider.adapt_request(Body(guardrailConfig={"x": 1}), "bedrock_converse", drop_nothing)
    body = Body(guardrailConfig={"x": 1})
    assert (
        provider.adapt_request(body, "bedrock_converse", lambda _: True).dropped == ["guardrailConfig"]
        and body["guardrailConfig"] == configured
    )


def test_guardrail_limits_every_model_to_the_converse_dialect():
    for model in (CLAUDE, LLAMA, NOVA):
        guarded = bedrock(guardrail={"id": "g", "version": "1"})
        assert guarded.spoken_dialects_for(model) == guarded.spoken_dialects == ("bedrock_converse",)


def test_s3_urls_are_accepted_only_when_the_operator_allows_them():
    address = "s3://bucket/picture.png"
    assert bedrock(reads_s3=True).accepts_media_url(address, "bedrock_converse")
    assert not bedrock().accepts_media_url(address, "bedrock_converse")
    assert not bedrock(reads_s3=True).accepts_media_url("https://a.test/picture.png", "bedrock_converse")


@pytest.mark.parametrize(
    ("status", "code", "message", "error", "expected_status"),
    [
        (403, "UnrecognizedClientException", "The security token is invalid.", CredentialRefused, 502),
        (400, "ExpiredTokenException", "The security token is expired.", CredentialRefused, 502),
        (403, "AccessDeniedException", "User is not authorized to perform: bedrock:InvokeModel", CredentialRefused, 502),
        (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", UpstreamNotFound, 404),
        (400, "ValidationException", "The provided model identifier is invalid.", UpstreamNotFound, 404),
        (400, "ValidationException", "Invocation of model ID x with on-demand throughput isn't supported.", UpstreamNotFound, 404),
        (404, "ResourceNotFoundException", "Could not resolve the foundation model.", UpstreamNotFound, 404),
        (400, "ValidationException", "messages: roles must alternate", UpstreamRejected, 400),
        (429, "ThrottlingException", "Too many tokens, please wait.", Overloaded, 429),
        (400, "ServiceQuotaExceededException", "No more.", Overloaded, 429),
        (429, "ModelNotReadyException", "Loading.", Overloaded, 503),
        (503, "ServiceUnavailableException", "Down.", Overloaded, 503),
        (408, "ModelTimeoutException", "Slow.", TimedOut, 504),
        (424, "ModelErrorException", "It failed.", UpstreamFailed, 502),
        (500, "InternalServerException", "Oh.", UpstreamFailed, 500),
    ],
)
def test_error_is_classified_by_its_aws_code_and_hides_the_account(
    status: int, code: str, message: str, error: type[UpstreamError], expected_status: int
):
    body = json.dumps({"message": f"{message} (arn:aws:iam::123456789012:user/x)"}).encode()
    mapped = bedrock().read_error(status, {"x-amzn-errortype": f"{code}:http://internal.amazon.com/"}, body)
    assert (type(mapped), mapped.status, mapped.upstream_code) == (error, expected_status, code)
    assert "123456789012" not in mapped.message and message[:10] in mapped.message


def test_mantle_errors_are_read_as_openai_errors():
    mapped = bedrock(api="mantle").read_error(404, {}, b'{"error":{"message":"No such model","code":"model_not_found"}}')
    assert isinstance(mapped, UpstreamNotFound) and mapped.upstream_code == "model_not_found"


EMBEDDING = Bedrock.host_operations["openai_embeddings"]


def write_embeddings(model: str, **fields: Any) -> tuple[Any, list[str]]:
    raw = json.dumps({"model": "m", "input": "Hi!", **fields}).encode()
    body, dropped = EMBEDDING.write_request(Body(DIALECTS["openai_embeddings"].parse_request(raw).body), model, drop_nothing)
    return json.loads(body.write()), dropped


@pytest.mark.parametrize(
    ("model", "fields", "body"),
    [
        ("amazon.titan-embed-text-v2:0", {"dimensions": 256}, {"inputText": "Hi!", "dimensions": 256}),
        ("amazon.titan-embed-text-v1", {"input": ["Hi!"]}, {"inputText": "Hi!"}),
        ("us.cohere.embed-v4:0", {"dimensions": 512}, {"input_type": "search_document", "texts": ["Hi!"], "output_dimension": 512}),
        ("cohere.embed-english-v3", {"input_type": "search_query"}, {"input_type": "search_query", "texts": ["Hi!"]}),
        (
            "amazon.nova-2-multimodal-embeddings-v1:0",
            {"dimensions": 384},
            {
                "taskType": "SINGLE_EMBEDDING",
                "singleEmbeddingParams": {
                    "embeddingPurpose": "GENERIC_INDEX",
                    "embeddingDimension": 384,
                    "text": {"truncationMode": "NONE", "value": "Hi!"},
                },
            },
        ),
    ],
)
def test_embedding_request_is_written_in_each_vendors_format(model: str, fields: dict[str, Any], body: Any):
    assert write_embeddings(model, user="u", **fields) == (body, ["user"])


@pytest.mark.parametrize(
    ("model", "fields", "rule"),
    [
        ("amazon.titan-embed-text-v2:0", {"input": ["a", "b"]}, "takes 1 in a request at most, not 2"),
        ("cohere.embed-english-v3", {"input": ["a"] * 97}, "takes 96 in a request at most, not 97"),
        ("amazon.titan-embed-text-v2:0", {"dimensions": 300}, "one of 256, 512, 1024"),
        ("amazon.titan-embed-text-v1", {"dimensions": 256}, "one length of its own"),
        ("cohere.embed-v4:0", {"input": [1, 2]}, "not token ids"),
        ("cohere.embed-v4:0", {"normalize": True}, "does not have this field"),
    ],
)
def test_unsupported_embedding_request_is_refused_with_the_rule(model: str, fields: dict[str, Any], rule: str):
    with pytest.raises(Unsupported, match=rule):
        write_embeddings(model, **fields)


@pytest.mark.parametrize(
    ("response", "headers", "count"),
    [
        ({"embedding": [0.5, 1], "inputTextTokenCount": 3}, {}, 3),
        ({"embeddings": {"float": [[0.5, 1]]}}, {"x-amzn-bedrock-input-token-count": "4"}, 4),
        ({"embeddings": [[0.5, 1]]}, {}, None),
        ({"embeddings": [{"embeddingType": "TEXT", "embedding": [0.5, 1]}]}, {"x-amzn-bedrock-input-token-count": "x"}, None),
    ],
)
def test_embedding_response_is_read_from_each_vendors_format(response: Any, headers: dict[str, str], count: int | None):
    meta = ResponseMeta(META.id, META.episode_id, "a name", 1, wants_usage=True, request_body=Body.read(b'{"input":"Hi!"}'))
    edited = OpenAIEmbeddings().edit_response(EMBEDDING.read_response(json.dumps(response).encode(), httpx2.Headers(headers), meta), meta)
    assert json.loads(edited.raw)["data"] == [{"object": "embedding", "index": 0, "embedding": [0.5, 1]}]
    assert edited.usage is not None and edited.usage.input == count


def test_embeddings_are_not_offered_for_other_models_and_bad_vectors_are_refused():
    with pytest.raises(OperationNotSupported):
        write_embeddings(CLAUDE)
    with pytest.raises(InvalidUpstreamResponse):
        EMBEDDING.read_response(b'{"embeddings":{"int8":[]}}', httpx2.Headers(), META)


def test_token_count_wraps_the_body_that_claude_would_be_sent():
    counting = Bedrock.host_operations["anthropic_count_tokens"]
    request = Body.read(b'{"model":"m","messages":[{"role":"user","content":"Hi!"}],"thinking":{"type":"enabled","budget_tokens":2000}}')
    body, dropped = counting.write_request(request, CLAUDE, drop_nothing)
    inner = json.loads(base64.b64decode(body["input"]["invokeModel"]["body"]))
    assert dropped == [] and inner.keys() == {"messages", "thinking", "anthropic_version", "max_tokens"} and inner["max_tokens"] > 2000
    assert counting.read_response(b'{"inputTokens":11}', httpx2.Headers(), META) == b'{"input_tokens":11}'
    with pytest.raises(OperationNotSupported):
        counting.write_request(request, NOVA, drop_nothing)
    with pytest.raises(InvalidUpstreamResponse):
        counting.read_response(b"{}", httpx2.Headers(), META)
