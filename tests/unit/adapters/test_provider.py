"""Providers: a request is adapted to what its host accepts, nothing else in it changes, and no field is lost unreported."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import BadConfiguration
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translate_request import translate_request
from app.store.configuration.validation.validate import validate
from providers import structured_output
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.urls import server_root, with_version_segment
from providers.canonical.errors import InvalidRequest, Unreachable, Unsupported
from providers.canonical.output_format import Choice, JsonObject, JsonSchema
from providers.canonical.raw_json import Body
from providers.catalogue import ADAPTERS, build_provider, provider_url
from providers.credentials import CredentialReader
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.engines.auto.adapter import Auto
from providers.engines.vllm.adapter import VLLM
from providers.structured_output import Constraint, read_constraint
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source
from tests.support.request_translation import translate_request as sent_for
from tests.support.strategies.chat_strategies import bounded

GATEWAY_FIELDS = {"episode_id": "01990000-0000-7000-8000-00000000000b", "tensorzero::episode_id": None, "tensorzero::tags": {"a": "b"}}
HINTS = {"guided_decoding_backend": "xgrammar", "user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto"}
CHAT_TEMPLATE_FIELDS = {
    "chat_template": "{{ x }}",
    "chat_template_kwargs": {"enable_thinking": True},
    "mm_processor_kwargs": {"n": 1},
    "guided_whitespace_pattern": "[ ]?",
}
CONSTRAINT_FIELDS: dict[str, Any] = {
    "guided_json": {"type": "object"},
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "g",
    "structural_tag": {"format": {}},
    "structured_outputs": {"regex": "a"},
}
PROVIDERS = [
    OpenAICompatible("p", {}),
    ADAPTERS["sandbox"]("s", {}),
    VLLM("v", {}),
    VLLM("v", {}, (0, 11, 2)),
    VLLM("v", {"version": "0.11"}),
    VLLM("v", {}, (0, 32)),
]
providers = st.sampled_from(PROVIDERS)
unknown = st.dictionaries(
    st.sampled_from(["x", "temperature", "messages", "top_k", "vllm_xargs", "ümlaut", "cache_salt", "response"]),
    st.none() | st.integers() | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=3), st.booleans(), max_size=2),
)
known = st.lists(st.sampled_from([*GATEWAY_FIELDS, *HINTS, *CHAT_TEMPLATE_FIELDS, *CONSTRAINT_FIELDS]), unique=True, max_size=6).map(
    lambda names: {name: {**GATEWAY_FIELDS, **HINTS, **CHAT_TEMPLATE_FIELDS, **CONSTRAINT_FIELDS}[name] for name in names}
)


def adapt_body(provider: Provider, fields: dict[str, Any], may_drop: Callable[[str], bool]) -> tuple[dict[str, Any], list[str]]:
    body = Body.read(json.dumps(fields).encode())
    dropped = provider.adapt_request(body, "openai_chat", may_drop, structured_output.read_constraint("openai_chat", body)).dropped
    return json.loads(body.write()), dropped


@bounded
@given(providers, unknown, known, st.booleans())
def test_unknown_fields_are_never_lost(provider: Provider, extra: dict[str, Any], fields: dict[str, Any], drop: bool) -> None:
    try:
        sent, _ = adapt_body(provider, {**extra, **fields}, drop_everything if drop else drop_nothing)
    except (Unsupported, InvalidRequest):
        return
    assert extra.items() <= sent.items()
    assert not GATEWAY_FIELDS.keys() & sent.keys()


@bounded
@given(providers, known)
def test_every_field_is_sent_converted_or_reported_if_dropping_is_allowed(provider: Provider, fields: dict[str, Any]) -> None:
    """Each field is sent unchanged, converted to the engine's field, or reported as dropped: exactly one of these."""
    constraints = [name for name in fields if name in CONSTRAINT_FIELDS]
    if len(constraints) > 1:
        with pytest.raises(InvalidRequest):
            adapt_body(provider, fields, drop_everything)
        return
    sent, dropped = adapt_body(provider, fields, drop_everything)
    added = sent.keys() - fields.keys()
    for field in fields.keys() - GATEWAY_FIELDS.keys():
        outcomes = [field in sent, field in dropped, field in CONSTRAINT_FIELDS and bool(added)]
        assert outcomes.count(True) == 1, (field, sent, dropped)
    assert len(dropped) == len(set(dropped))
    assert set(dropped) <= fields.keys()


@bounded
@given(providers, known)
def test_unsupported_field_is_refused_by_name_and_only_hints_drop_without_permission(provider: Provider, fields: dict[str, Any]) -> None:
    try:
        sent, dropped = adapt_body(provider, fields, drop_nothing)
    except Unsupported as refused:
        assert refused.param in fields
        assert f"`{refused.param}` cannot be honoured" in refused.message
        assert f". Leave it out, choose another model, or send the header `x-narthex-drop: {refused.param}`" in refused.message
        # Permission for the named field leads to the next refusal; in the end every permitted field is reported as dropped.
        allowed = permissions_needed(provider, fields)
        assert allowed is None or allowed <= set(adapt_body(provider, fields, allowed.__contains__)[1])
    except InvalidRequest:
        assert len(CONSTRAINT_FIELDS.keys() & fields.keys()) > 1
    else:
        assert set(dropped) <= provider.hint_fields
        assert not any(field in dropped for field in sent)


def permissions_needed(provider: Provider, fields: dict[str, Any]) -> set[str] | None:
    """The fields to permit until none is refused; None if the fields exclude each other."""
    allowed: set[str] = set()
    while True:
        try:
            adapt_body(provider, fields, allowed.__contains__)
        except InvalidRequest:
            return None
        except Unsupported as refused:
            assert refused.param is not None
            assert refused.param not in allowed
            allowed.add(refused.param)
        else:
            return allowed


@bounded
@given(providers, st.sampled_from([*HINTS, *CHAT_TEMPLATE_FIELDS, *CONSTRAINT_FIELDS]))
def test_null_field_is_neither_refused_nor_reported(provider: Provider, field: str) -> None:
    _, dropped = adapt_body(provider, {"model": "m", field: None}, drop_nothing)
    assert dropped == []


REQUEST: dict[str, Any] = {"model": "a name", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("streams", ["both", "only", "never"])
@pytest.mark.parametrize("stream_usage", [True, False])
def test_upstream_request_streams_as_the_provider_options_say(streamed: bool, streams: str, stream_usage: bool) -> None:
    fields = {**REQUEST, "stream": streamed, **({"stream_options": {"include_usage": False, "x": 1}} if streamed else {}), "n": 2}
    request = OpenAIChat().parse_request(json.dumps(fields).encode())
    before = json.dumps({key: bytes(value).decode() for key, value in request.body.items()})
    provider = OpenAICompatible("p", {"stream": streams, "stream_usage": stream_usage})
    translated = sent_for(request, provider, Target("p", "engine-model"))
    sent = json.loads(translated.raw)
    streams_upstream = streamed if streams == "both" else streams == "only"
    assert translated.stream == streams_upstream
    assert sent.get("stream", False) == streams_upstream
    options = {**({"x": 1} if streamed else {}), "include_usage": True} if streams_upstream and stream_usage else None
    assert sent.get("stream_options") == options
    assert (sent["model"], sent["n"], sent["messages"]) == ("engine-model", 2, REQUEST["messages"])
    # The next target gets what the caller sent, not what the previous target was sent.
    assert json.dumps({key: bytes(value).decode() for key, value in request.body.items()}) == before


@pytest.mark.parametrize(
    ("base", "with_version", "root"),
    [
        ("http://h:8000", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000/v1", "http://h:8000"),
        ("https://h/api/v1", "https://h/api/v1", "https://h/api"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("https://h/vllm", "https://h/vllm/v1", "https://h/vllm"),
        ("http://v1", "http://v1/v1", "http://v1"),
        ("http://v1/v1", "http://v1/v1", "http://v1"),
    ],
)
def test_base_url_is_accepted_with_and_without_a_version(base: str, with_version: str, root: str) -> None:
    assert with_version_segment(base) == with_version
    assert server_root(base) == root
    assert str(OpenAICompatible("p", {}).url(base, "openai_chat")) == with_version + "/chat/completions"


@pytest.mark.parametrize(
    ("adapter", "options", "named"),
    [
        ("nothing", {}, "nothing"),
        ("openai", {"colour": 1}, "colour"),
        ("openai", {"stream": "sometimes"}, "stream"),
        ("openai", {"accepts": "chat_template"}, "accepts"),
        ("openai", {"accepts": [1]}, "accepts"),
        ("openai", {"stops_after_calls": "yes"}, "stops_after_calls"),
        ("sandbox", {"stream": "only"}, "stream"),
    ],
)
def test_invalid_option_is_refused_by_name(adapter: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        build_provider(adapter, "mine", options)


def test_field_listed_in_accepts_is_sent() -> None:
    fields = {"chat_template": "{{ x }}", "guided_decoding_backend": "xgrammar"}
    sent, dropped = adapt_body(build_provider("openai", "mine", {"accepts": list(fields)}), fields, drop_nothing)
    assert (sent, dropped) == (fields, [])
    assert str(build_provider("openai", "other", {}).at_version((1, 2)).version) == "(1, 2)"


@pytest.mark.parametrize(
    ("schema", "enforcement"),
    [
        ({"name": "n", "strict": True}, "enforced"),
        ({"name": "n", "strict": False}, "validated"),
        ({"name": "n"}, "validated"),
        ({}, "enforced"),  # from an engine's own field: it is sent as strict
    ],
)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_openai_schema_guarantee_depends_on_strict(dialect: str, schema: dict[str, Any], enforcement: str):
    output = JsonSchema(msgspec.Raw(b"{}"), **schema)
    constraint = structured_output.Constraint(output, "f")
    constraint_plan = OpenAICompatible("openai", {}).plan_constraint(constraint, dialect, in_own_fields=False)
    assert constraint_plan is not None and constraint_plan.enforcement == enforcement


def test_responses_constraint_fields_are_trusted_only_at_openai():
    assert "openai_responses" in OpenAICompatible("openai", {}).constrained_dialects
    assert "openai_responses" not in OpenAICompatible("other", {}, base_url="http://10.0.0.1").constrained_dialects


@pytest.mark.parametrize(("fields", "in_thread"), [({"guided_choice": ["a" * 20_000]}, True), ({"guided_choice": ["a"]}, False)], ids=str)
async def test_only_large_constraints_are_translated_in_another_thread(fields: dict[str, Any], in_thread: bool) -> None:
    threads: list[int] = []

    class SlowProvider(OpenAICompatible):
        def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
            threads.append(threading.get_ident())
            return Adapted([], None)

    chat = CHAT_DIALECTS["openai_chat"]
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()
    request = chat.parse_request(raw)
    source = make_source(request, raw, chat, MEDIA, lambda _: False, constraint=read_constraint(request.dialect, request.body))
    slow = SlowProvider("p", {})
    endpoint = Endpoint(ProviderConfig("openai"), slow, "http://127.0.0.1", CredentialReader(lambda _: "", ()), _fetch_nothing)
    await translate_request(source, endpoint, Target("p", "m"))
    await translate_chat(source, chat, Recipient(slow, Target("p", "m")))
    assert [each != threading.get_ident() for each in threads] == [in_thread, in_thread]


async def _fetch_nothing(_: httpx2.Request) -> tuple[int, bytes]:
    raise AssertionError("no token is fetched for a translation")


def test_constraint_for_an_undetected_engine_is_validated_or_unreachable():
    auto = Auto("box", {})
    schema = auto.plan_constraint(structured_output.Constraint(JsonObject(), "response_format"), "openai_chat", in_own_fields=False)
    assert schema is not None and schema.enforcement == "validated"
    with pytest.raises(Unreachable, match="not known yet"):
        auto.plan_constraint(structured_output.Constraint(Choice(("a",)), "guided_choice"), "openai_chat", in_own_fields=False)


@pytest.mark.parametrize(
    ("adapter", "options", "expected_url"),
    [
        ("openai", {}, "https://api.openai.com/v1"),
        ("vllm", {}, None),
        ("azure", {"resource": "mine"}, "https://mine.openai.azure.com"),
        ("azure", {"resource": "mine", "api": "models"}, "https://mine.services.ai.azure.com"),
        ("bedrock", {}, "https://bedrock-runtime.{region}.amazonaws.com"),
        ("bedrock", {"region": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("bedrock", {"region": "cn-north-1"}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("bedrock", {"region": "eu-west-1", "api": "mantle"}, "https://bedrock-mantle.eu-west-1.api.aws"),
        ("sagemaker", {"region": "eu-west-1"}, "https://runtime.sagemaker.eu-west-1.amazonaws.com"),
        ("vertex", {}, "https://aiplatform.googleapis.com"),
        ("vertex", {"location": "us-east5"}, "https://us-east5-aiplatform.googleapis.com"),
    ],
)
def test_host_address_is_derived_from_its_options(adapter: str, options: dict[str, Any], expected_url: str | None) -> None:
    assert provider_url(adapter, "host", options) == expected_url
    assert provider_url(adapter, "host", options, "https://elsewhere.example/v1") == "https://elsewhere.example/v1"
    if expected_url is not None and "{" not in expected_url:
        provider = build_provider(adapter, "host", options, expected_url)
        assert str(provider.url(expected_url, provider.spoken_dialects[0], "m")).startswith(expected_url), (
            "the address that is shown is the one that is called"
        )


def test_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidOption, match=r"'org' .*: stream, .*organization, project \(`narthex providers list --adapters`"):
        build_provider("openai", "host", {"org": "x"})


@pytest.mark.parametrize(
    ("adapter", "dialect", "speaks"),
    [
        ("vertex", "gemini", ""),
        ("vertex", "openai_embeddings", ""),
        ("vertex", "openai_responses", "gemini, anthropic_messages"),
        ("bedrock", "bedrock_converse", ""),
        ("cohere", "openai_chat", "cohere_chat"),
        ("openai", "anthropic_messages", ""),  # any server at its address may speak it
        ("openai", "gemini", "openai_responses, openai_chat"),
        ("vllm", "openai_responses", ""),
    ],
)
def test_target_dialect_that_its_host_lacks_is_refused(adapter: str, dialect: str, speaks: str) -> None:
    base_url = None if ADAPTERS[adapter].default_base_url else "http://127.0.0.1:9"
    providers = {"p": ProviderConfig(adapter, base_url)}
    snapshot = Snapshot(1, "", providers, {"m": ModelConfig((Target("p", "x", dialect=dialect),))})
    if not speaks:
        validate(snapshot)
        return
    with pytest.raises(BadConfiguration, match=rf"^models\.m\.targets\[0\]\.dialect: adapter '{adapter}' .*It speaks: {speaks}"):
        validate(snapshot)
