"""SageMaker: endpoint URLs, requests to containers, and responses inside AWS's frames."""

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import BadConfiguration
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.request_translation.candidate_dialects import candidate_dialects
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.store.configuration.validation.validate import validate
from providers.adapters.options import InvalidOption
from providers.canonical.chat import Text, Usage
from providers.canonical.errors import OperationNotSupported, StreamTruncated, Unsupported, UpstreamFailed, UpstreamNotFound
from providers.canonical.events import Event, assemble_response
from providers.catalogue import DIALECTS, build_provider
from providers.credentials import CredentialError
from providers.dialects.catalogue import ENGINE_DIALECTS
from providers.hosted.sagemaker.adapter import SageMaker
from providers.structured_output import read_constraint
from tests.replay.hosts.recordings import Recording, recordings
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import MEDIA, drop_nothing, make_source
from tests.support.strategies import aws_event_frames as frames
from tests.support.strategies.chat_strategies import bounded

HOME = "https://runtime.sagemaker.{region}.amazonaws.com"
AWS_KEYS = '{"access_key_id": "AKIDEXAMPLE", "secret_access_key": "a-secret", "region": "us-east-2"}'
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RECORDED = [each for each in recordings("aws_sagemaker", "payload-only", "constructed-framing") if each.fidelity != "constructed"]


def make_sagemaker(base_url: str | None = HOME, **options: Any) -> SageMaker:
    provider = build_provider("sagemaker", "sm", options, base_url)
    assert isinstance(provider, SageMaker)
    return provider


def translate_request(
    provider: SageMaker, body: dict[str, Any], caller: str = "openai_chat", dialect: str | None = None
) -> TranslatedRequest:
    """The upstream request for one in the caller's dialect, in the given dialect or the one that suits the container best."""
    inbound = DIALECTS[caller].parse_request(json.dumps(body).encode())
    source = make_source(inbound, b"", DIALECTS[caller], MEDIA, drop_nothing, constraint=read_constraint(caller, inbound.body))
    target = Target("sm", "my-endpoint")
    dialects = candidate_dialects(source, provider, provider.spoken_dialects if dialect is None else (dialect,))
    translation = translate_chat(source, dialects[0], Recipient(provider, target))  # pyright: ignore[reportArgumentType]
    try:
        translation.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("no media has to be fetched")


@pytest.mark.parametrize(
    ("base_url", "options", "stream", "url"),
    [
        (HOME, {"region": "eu-west-1"}, False, "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/e-1/invocations"),
        (HOME, {"region": "cn-north-1"}, False, "https://runtime.sagemaker.cn-north-1.amazonaws.com.cn/endpoints/e-1/invocations"),
        (HOME, {}, True, "https://runtime.sagemaker.us-east-2.amazonaws.com/endpoints/e-1/invocations-response-stream"),
        ("http://127.0.0.1:9/pre/", {}, False, "http://127.0.0.1:9/pre/endpoints/e-1/invocations"),
    ],
)
def test_sagemaker_url_has_the_endpoint_in_its_path_and_the_region_in_its_host(
    base_url: str, options: dict[str, Any], stream: bool, url: str
) -> None:
    provider = make_sagemaker(base_url, **options)
    built_url = provider.url(base_url, "openai_chat", "e-1", stream)
    assert provider.complete_url(built_url, AWS_KEYS) == httpx2.URL(url)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "a_b", "-a", "a" * 64])
def test_invalid_endpoint_name_is_refused_before_a_url_is_built(name: str) -> None:
    with pytest.raises(UpstreamNotFound):
        make_sagemaker(region="eu-west-1").url(HOME, "openai_chat", name)


def test_machine_credentials_are_sent_only_to_aws_or_loopback_unless_the_base_url_is_trusted() -> None:
    """A server at another address must not get them, unless the operator says so."""
    provider = make_sagemaker(region="eu-west-1")
    for address in (
        HOME,
        "https://vpce-1.runtime.sagemaker.eu-west-1.vpce.amazonaws.com",
        "http://127.0.0.1:9",
        "http://[::1]:9",
        "http://localhost",
    ):
        url = provider.url(address, "openai_chat", "e")
        assert provider.complete_url(url, "aws:default") == url
    for address in ("https://example.com", "https://amazonaws.com.example.com", "https://notamazonaws.com"):
        url = provider.url(address, "openai_chat", "e")
        with pytest.raises(CredentialError, match="trusts_base_url"):
            provider.complete_url(url, "aws:default")
        assert provider.complete_url(url, AWS_KEYS) == url
        assert make_sagemaker(region="eu-west-1", trusts_base_url=True).complete_url(url, "aws:profile:p") == url


@pytest.mark.parametrize("field", ["base_url", "endpoints"])
def test_configuration_sending_machine_credentials_outside_aws_is_refused(field: str) -> None:
    def configured(address: str, **options: Any) -> Snapshot:
        provider = ProviderConfig("sagemaker", address if field == "base_url" else None, "aws:default", options)
        target = Target("sm", "e", endpoints=(address,) if field == "endpoints" else ())
        return Snapshot(1, "", providers={"sm": provider}, models={"m": ModelConfig((target,))})

    validate(configured("https://example.com", trusts_base_url=True))
    validate(configured("https://runtime.sagemaker.eu-west-1.amazonaws.com"))
    with pytest.raises(BadConfiguration, match=f"{field}.*trusts_base_url"):
        validate(configured("https://example.com"))


def test_credential_without_a_region_is_refused_before_a_request() -> None:
    provider = make_sagemaker()
    with pytest.raises(CredentialError, match="region"):
        provider.complete_url(provider.url(HOME, "openai_chat", "e"), '{"access_key_id": "a", "secret_access_key": "b"}')


@pytest.mark.parametrize(
    "options",
    [
        {"region": "evil.example/"},
        {"region": 1},
        {"payload": "xml"},
        {"container": "openai"},
        {"target_model": "a\nb"},
        {"model": ""},
        {"trusts_base_url": 1},
    ],
)
def test_invalid_sagemaker_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        make_sagemaker(**options)


def test_inference_component_and_target_model_are_sent_as_headers() -> None:
    provider = make_sagemaker(inference_component="ic", target_model="m.tar.gz", custom_attributes="a=1")
    assert dict(provider.headers("a-secret")) == {
        "x-amzn-sagemaker-inference-component": "ic",
        "x-amzn-sagemaker-target-model": "m.tar.gz",
        "x-amzn-sagemaker-custom-attributes": "a=1",
    }
    assert provider.streams == "never"  # an endpoint with several models cannot stream


def test_model_field_is_sent_to_the_container_only_if_configured() -> None:
    assert json.loads(translate_request(make_sagemaker(), {**CHAT, "model": "caller-model"}, dialect="openai_chat").raw) == {
        "messages": CHAT["messages"]
    }
    assert (
        json.loads(translate_request(make_sagemaker(model="container-model"), CHAT, dialect="openai_chat").raw)["model"]
        == "container-model"
    )


def test_known_container_gets_the_constraint_fields_of_its_engine() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    sent, _, constraint_plan = adapt_body(make_sagemaker(container="tgi"), {**CHAT, "response_format": schema})
    assert "value" in sent["response_format"] and constraint_plan is not None and constraint_plan.enforcement == "validated"
    with pytest.raises(Unsupported, match="top_k"):
        adapt_body(make_sagemaker(container="tgi"), {**CHAT, "top_k": 5})
    sent, _, constraint_plan = adapt_body(make_sagemaker(container="vllm"), {**CHAT, "guided_json": {"type": "object"}})
    assert "guided_json" not in sent and constraint_plan is not None and constraint_plan.enforcement == "enforced"
    _, _, constraint_plan = adapt_body(make_sagemaker(), {**CHAT, "response_format": schema})
    assert constraint_plan is not None and constraint_plan.enforcement == "validated"


def test_container_shares_output_limit_and_tool_call_behaviour_with_its_engine() -> None:
    for container in ("vllm", "sglang", "lmdeploy", "tgi"):
        engine = build_provider(container, container, {})
        sagemaker = make_sagemaker(container=container)
        assert (sagemaker.no_limit_fields, sagemaker.stops_after_calls) == (engine.no_limit_fields, engine.stops_after_calls)


def test_chat_is_not_offered_by_a_container_that_takes_prompts() -> None:
    for payload in ("tgi_generate", "openai_completions"):
        with pytest.raises(OperationNotSupported):
            translate_request(make_sagemaker(payload=payload), CHAT)


def test_lmi_gets_prompts_as_generate_inputs_and_chats_as_messages() -> None:
    prompt = {"model": "m", "prompt": "Once", "max_tokens": 9}
    body = json.loads(translate_request(make_sagemaker(payload="lmi"), prompt, "openai_completions").raw)
    assert body["inputs"] == "Once" and body["parameters"]["max_new_tokens"] == 9 and "model" not in body
    assert json.loads(translate_request(make_sagemaker(payload="lmi"), CHAT, dialect="openai_chat").raw)["messages"] == CHAT["messages"]


@pytest.mark.parametrize(
    ("field", "value", "how", "grammar"),
    [
        ("guided_json", {"type": "object"}, "validated", {"type": "json", "value": {"type": "object"}}),
        ("guided_regex", "^a+$", "enforced", {"type": "regex", "value": "a+"}),
        ("guided_choice", ["a", "b"], "converted", {"type": "regex", "value": "(a|b)"}),
    ],
)
def test_constraint_becomes_a_tgi_generate_grammar_and_is_refused_for_lmi(field: str, value: Any, how: str, grammar: Any) -> None:
    translated = translate_request(
        make_sagemaker(payload="tgi_generate"), {"model": "m", "prompt": "Once", field: value}, "openai_completions"
    )
    assert json.loads(translated.raw)["parameters"]["grammar"] == grammar
    assert translated.constraint_plan is not None and translated.constraint_plan.enforcement == how
    with pytest.raises(Unsupported):
        translate_request(make_sagemaker(payload="lmi"), {"model": "m", "prompt": "Once", field: value}, "openai_completions")


def read_events(provider: SageMaker, blocks: list[bytes], dialect: str = "openai_chat") -> list[Event]:
    unwrapping = provider.stream_unwrapper(dialect)
    reader = ENGINE_DIALECTS[dialect].stream_reader()
    assert unwrapping is not None
    events = [event for block in [*blocks, b""] for event in reader.feed(unwrapping.feed(block))]
    return [*events, *reader.finish()]


def split_at(raw: bytes, offsets: list[int]) -> list[bytes]:
    ends = sorted({min(offset, len(raw)) for offset in offsets} | {len(raw)})
    return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}).encode()


@bounded
@given(st.lists(st.integers(0, 400), max_size=5), st.lists(st.integers(0, 1200), max_size=6), st.booleans())
def test_stream_is_read_whole_when_lines_span_frames_and_frames_span_blocks(inner: list[int], outer: list[int], lines: bool) -> None:
    """The stream has server-sent events, or the bare lines that LMI sends."""
    chunks = [chunk("Hel"), chunk("lo."), chunk("", "eos_token")]
    stream = b"".join(each + b"\n" if lines else b"data: " + each + b"\n\n" for each in chunks)
    raw = b"".join(frames.event("PayloadPart", part) for part in split_at(stream, inner))
    response = assemble_response(read_events(make_sagemaker(payload="lmi" if lines else "openai_chat"), split_at(raw, outer)))
    assert [(choice.parts[0].text, choice.finish_reason) for choice in response.choices] == [("Hello.", "stop")]  # pyright: ignore


def test_last_stream_line_needs_no_newline_but_must_be_whole_json() -> None:
    raw = frames.event("PayloadPart", chunk("Hel") + b"\n" + chunk("lo.", "stop"))
    (choice,) = assemble_response(read_events(make_sagemaker(payload="lmi"), [raw])).choices
    assert choice.parts == (Text("Hello."),)
    with pytest.raises(StreamTruncated):
        read_events(make_sagemaker(payload="lmi"), [frames.event("PayloadPart", chunk("Hel") + b"\n" + chunk("lo.", "stop")[:-9])])


def test_lmi_server_sent_events_are_read_without_conversion() -> None:
    stream = b"".join(b"data: " + each + b"\n\n" for each in (chunk("Hi."), chunk("", "stop"))) + b"data: [DONE]\n\n"
    assert (
        assemble_response(read_events(make_sagemaker(payload="lmi"), [frames.event("PayloadPart", stream)])).choices[0].finish_reason
        == "stop"
    )


def test_stream_exception_is_raised_after_the_data_before_it() -> None:
    raw = frames.event("PayloadPart", b"data: " + chunk("Hi") + b"\n\n")
    broken = frames.exception("ModelStreamError", b'{"Message":"The connection broke.","ErrorCode":"StreamBroken"}')
    unwrapping = make_sagemaker().stream_unwrapper("openai_chat")
    assert unwrapping is not None and b"Hi" in unwrapping.feed(raw + broken)
    with pytest.raises(UpstreamFailed, match="connection broke") as raised:
        unwrapping.feed(b"")
    assert raised.value.upstream_code == "ModelStreamError"


@pytest.mark.skipif(not RECORDED, reason="the recordings are not beside the project")
@pytest.mark.parametrize("recording", RECORDED, ids=lambda each: each.name)
def test_recorded_container_payloads_are_read(recording: Recording) -> None:
    """Real output of containers. The frames around the streams are constructed; none of it passed through SageMaker."""
    if recording.streamed:
        response = assemble_response(read_events(make_sagemaker(), [recording.raw[at : at + 7] for at in range(0, len(recording.raw), 7)]))
        assert response.usage == Usage(input=39, output=3)
        assert [(choice.parts[0].text, choice.finish_reason) for choice in response.choices] == [("OK!", "stop")]  # pyright: ignore
        return
    response = ENGINE_DIALECTS["openai_chat"].read_response(recording.raw)
    recorded_choice = recording.body["choices"][0]
    assert [(choice.parts[0].text, choice.finish_reason) for choice in response.choices] == [  # pyright: ignore
        (recorded_choice["message"]["content"], recorded_choice["finish_reason"])
    ]
    counted = recording.body["usage"]
    assert response.usage == Usage(input=counted["prompt_tokens"], output=counted["completion_tokens"])
