"""SageMaker: where endpoints are, what leaves for a container, and what comes out of AWS's frames."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import ModelConfig, ProviderConfig, Snapshot, Target
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from app.store.config_file import BadConfiguration
from app.store.config_validation import validate
from providers.adapters.provider import InvalidOption
from providers.canonical.chat import Text, Usage
from providers.canonical.errors import OperationNotSupported, StreamTruncated, Unsupported, UpstreamFailed, UpstreamNotFound
from providers.canonical.events import Event, assemble_response
from providers.catalogue import build_provider
from providers.credentials import CredentialError
from providers.dialects.catalogue import DIALECTS, ENGINE_DIALECTS
from providers.hosted.sagemaker.adapter import SageMaker
from providers.structured_output import read_constraint
from tests.exchanges.hosts.recordings import Recording, recordings
from tests.laws import aws_frames as frames
from tests.laws.asking import MEDIA, nothing
from tests.laws.bending import bent
from tests.laws.chats import bounded

HOME = "https://runtime.sagemaker.{region}.amazonaws.com"
GIVEN = '{"access_key_id": "AKIDEXAMPLE", "secret_access_key": "a-secret", "region": "us-east-2"}'
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RECORDED = [each for each in recordings("aws_sagemaker", "payload-only", "constructed-framing") if each.fidelity != "constructed"]


def host(base_url: str | None = HOME, **options: Any) -> SageMaker:
    found = build_provider("sagemaker", "sm", options, base_url)
    assert isinstance(found, SageMaker)
    return found


def asked(provider: SageMaker, body: dict[str, Any], own: str = "openai_chat", dialect: str | None = None) -> TranslatedRequest:
    """What leaves for an ask in a dialect of the caller's, in the container's best, or that one."""
    ask = DIALECTS[own].parse_request(json.dumps(body).encode())
    asking = RequestTranslator(ask, b"", DIALECTS[own], MEDIA, nothing, constraint=read_constraint(own, ask.body))
    target = Target("sm", "my-endpoint")
    chosen = asking.candidate_dialects(provider, provider.spoken_dialects if dialect is None else (dialect,))
    crossing = asking.translate_chat(chosen[0], provider, target)  # pyright: ignore[reportArgumentType]
    try:
        crossing.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("nothing of this waits")


@pytest.mark.parametrize(
    ("base_url", "options", "stream", "url"),
    [
        (HOME, {"region": "eu-west-1"}, False, "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/e-1/invocations"),
        (HOME, {"region": "cn-north-1"}, False, "https://runtime.sagemaker.cn-north-1.amazonaws.com.cn/endpoints/e-1/invocations"),
        (HOME, {}, True, "https://runtime.sagemaker.us-east-2.amazonaws.com/endpoints/e-1/invocations-response-stream"),
        ("http://127.0.0.1:9/pre/", {}, False, "http://127.0.0.1:9/pre/endpoints/e-1/invocations"),
    ],
)
def test_the_endpoint_stands_in_the_address_and_the_region_in_the_host(
    base_url: str, options: dict[str, Any], stream: bool, url: str
) -> None:
    provider = host(base_url, **options)
    made = provider.url(base_url, "openai_chat", "e-1", stream)
    assert provider.complete_url(made, GIVEN) == httpx.URL(url)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "a_b", "-a", "a" * 64])
def test_a_name_that_no_endpoint_can_have_reaches_no_other_place(name: str) -> None:
    with pytest.raises(UpstreamNotFound):
        host(region="eu-west-1").url(HOME, "openai_chat", name)


def test_the_machines_own_credentials_are_shown_to_aws_alone() -> None:
    """Unless the operator says so: it is not for whoever stands at another address to be asked with them."""
    provider = host(region="eu-west-1")
    for address in (
        HOME,
        "https://vpce-1.runtime.sagemaker.eu-west-1.vpce.amazonaws.com",
        "http://127.0.0.1:9",
        "http://[::1]:9",
        "http://localhost",
    ):
        made = provider.url(address, "openai_chat", "e")
        assert provider.complete_url(made, "aws:default") == made
    for address in ("https://example.com", "https://amazonaws.com.example.com", "https://notamazonaws.com"):
        made = provider.url(address, "openai_chat", "e")
        with pytest.raises(CredentialError, match="trusts_base_url"):
            provider.complete_url(made, "aws:default")
        assert provider.complete_url(made, GIVEN) == made
        assert host(region="eu-west-1", trusts_base_url=True).complete_url(made, "aws:profile:p") == made


@pytest.mark.parametrize("where", ["base_url", "endpoints"])
def test_a_configuration_that_would_show_them_elsewhere_is_refused(where: str) -> None:
    def configured(address: str, **options: Any) -> Snapshot:
        provider = ProviderConfig("sagemaker", address if where == "base_url" else None, "aws:default", options)
        target = Target("sm", "e", endpoints=(address,) if where == "endpoints" else ())
        return Snapshot(1, "", providers={"sm": provider}, models={"m": ModelConfig((target,))})

    validate(configured("https://example.com", trusts_base_url=True))
    validate(configured("https://runtime.sagemaker.eu-west-1.amazonaws.com"))
    with pytest.raises(BadConfiguration, match=f"{where}.*trusts_base_url"):
        validate(configured("https://example.com"))


def test_without_a_region_nothing_is_asked() -> None:
    provider = host()
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
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        host(**options)


def test_what_routes_within_an_endpoint_goes_in_headers() -> None:
    provider = host(inference_component="ic", target_model="m.tar.gz", custom_attributes="a=1")
    assert dict(provider.headers("a-secret")) == {
        "x-amzn-sagemaker-inference-component": "ic",
        "x-amzn-sagemaker-target-model": "m.tar.gz",
        "x-amzn-sagemaker-custom-attributes": "a=1",
    }
    assert provider.streams == "never"  # an endpoint of several models has no stream


def test_the_container_is_told_of_a_model_only_where_it_wants_to_be() -> None:
    assert json.loads(asked(host(), {**CHAT, "model": "ours"}, dialect="openai_chat").raw) == {"messages": CHAT["messages"]}
    assert json.loads(asked(host(model="theirs"), CHAT, dialect="openai_chat").raw)["model"] == "theirs"


def test_a_known_container_is_asked_as_that_engine_wants_it() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    sent, _, guiding = bent(host(container="tgi"), {**CHAT, "response_format": schema})
    assert "value" in sent["response_format"] and guiding is not None and guiding.enforcement == "validated"
    with pytest.raises(Unsupported, match="top_k"):
        bent(host(container="tgi"), {**CHAT, "top_k": 5})
    sent, _, guiding = bent(host(container="vllm"), {**CHAT, "guided_json": {"type": "object"}})
    assert "guided_json" not in sent and guiding is not None and guiding.enforcement == "enforced"
    _, _, guiding = bent(host(), {**CHAT, "response_format": schema})
    assert guiding is not None and guiding.enforcement == "validated"


def test_a_container_is_as_its_engine_is_where_nobody_asks() -> None:
    for container in ("vllm", "sglang", "lmdeploy", "tgi"):
        engine = build_provider(container, container, {})
        told = host(container=container)
        assert (told.no_limit_fields, told.stops_after_calls) == (engine.no_limit_fields, engine.stops_after_calls)


def test_a_chat_is_not_asked_of_a_container_that_takes_prompts() -> None:
    for payload in ("tgi_generate", "openai_completions"):
        with pytest.raises(OperationNotSupported):
            asked(host(payload=payload), CHAT)


def test_prompts_go_to_generate_and_chats_to_the_chat_of_lmi() -> None:
    prompt = {"model": "m", "prompt": "Once", "max_tokens": 9}
    body = json.loads(asked(host(payload="lmi"), prompt, "openai_completions").raw)
    assert body["inputs"] == "Once" and body["parameters"]["max_new_tokens"] == 9 and "model" not in body
    assert json.loads(asked(host(payload="lmi"), CHAT, dialect="openai_chat").raw)["messages"] == CHAT["messages"]


@pytest.mark.parametrize(
    ("field", "value", "how", "grammar"),
    [
        ("guided_json", {"type": "object"}, "validated", {"type": "json", "value": {"type": "object"}}),
        ("guided_regex", "^a+$", "enforced", {"type": "regex", "value": "a+"}),
        ("guided_choice", ["a", "b"], "converted", {"type": "regex", "value": "(a|b)"}),
    ],
)
def test_a_constraint_is_one_of_generates_grammars(field: str, value: Any, how: str, grammar: Any) -> None:
    prepared = asked(host(payload="tgi_generate"), {"model": "m", "prompt": "Once", field: value}, "openai_completions")
    assert json.loads(prepared.raw)["parameters"]["grammar"] == grammar
    assert prepared.constraint_plan is not None and prepared.constraint_plan.enforcement == how
    with pytest.raises(Unsupported):
        asked(host(payload="lmi"), {"model": "m", "prompt": "Once", field: value}, "openai_completions")


def unwrapped(provider: SageMaker, blocks: list[bytes], dialect: str = "openai_chat") -> list[Event]:
    unwrapping = provider.stream_unwrapper(dialect)
    reader = ENGINE_DIALECTS[dialect].stream_reader()
    assert unwrapping is not None
    events = [event for block in [*blocks, b""] for event in reader.feed(unwrapping.feed(block))]
    return [*events, *reader.finish()]


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(raw)) for place in places} | {len(raw)})
    return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}).encode()


@bounded
@given(st.lists(st.integers(0, 400), max_size=5), st.lists(st.integers(0, 1200), max_size=6), st.booleans())
def test_a_containers_lines_may_cross_frames_and_frames_may_cross_blocks(inner: list[int], outer: list[int], lines: bool) -> None:
    """As server-sent events, and as the bare lines that LMI sends."""
    chunks = [chunk("Hel"), chunk("lo."), chunk("", "eos_token")]
    stream = b"".join(each + b"\n" if lines else b"data: " + each + b"\n\n" for each in chunks)
    raw = b"".join(frames.event("PayloadPart", part) for part in cut(stream, inner))
    answer = assemble_response(unwrapped(host(payload="lmi" if lines else "openai_chat"), cut(raw, outer)))
    assert [(choice.parts[0].text, choice.finish_reason) for choice in answer.choices] == [("Hello.", "stop")]  # pyright: ignore


def test_the_last_line_of_a_stream_needs_no_end() -> None:
    raw = frames.event("PayloadPart", chunk("Hel") + b"\n" + chunk("lo.", "stop"))
    (choice,) = assemble_response(unwrapped(host(payload="lmi"), [raw])).choices
    assert choice.parts == (Text("Hello."),)
    with pytest.raises(StreamTruncated):
        unwrapped(host(payload="lmi"), [frames.event("PayloadPart", chunk("Hel") + b"\n" + chunk("lo.", "stop")[:-9])])


def test_server_sent_events_of_lmi_stay_what_they_are() -> None:
    stream = b"".join(b"data: " + each + b"\n\n" for each in (chunk("Hi."), chunk("", "stop"))) + b"data: [DONE]\n\n"
    assert assemble_response(unwrapped(host(payload="lmi"), [frames.event("PayloadPart", stream)])).choices[0].finish_reason == "stop"


def test_an_exception_in_the_stream_is_told_after_what_came_before_it() -> None:
    raw = frames.event("PayloadPart", b"data: " + chunk("Hi") + b"\n\n")
    broken = frames.exception("ModelStreamError", b'{"Message":"The connection broke.","ErrorCode":"StreamBroken"}')
    unwrapping = host().stream_unwrapper("openai_chat")
    assert unwrapping is not None and b"Hi" in unwrapping.feed(raw + broken)
    with pytest.raises(UpstreamFailed, match="connection broke") as fault:
        unwrapping.feed(b"")
    assert fault.value.upstream_code == "ModelStreamError"


@pytest.mark.skipif(not RECORDED, reason="the recordings are not beside the project")
@pytest.mark.parametrize("recording", RECORDED, ids=lambda each: each.name)
def test_recorded_payloads_are_read(recording: Recording) -> None:
    """Real output of containers; the frames around the streams were made by hand, and none of it passed through SageMaker."""
    if recording.streamed:
        answer = assemble_response(unwrapped(host(), [recording.raw[at : at + 7] for at in range(0, len(recording.raw), 7)]))
        assert answer.usage == Usage(input=39, output=3)
        assert [(choice.parts[0].text, choice.finish_reason) for choice in answer.choices] == [("OK!", "stop")]  # pyright: ignore
        return
    answer = ENGINE_DIALECTS["openai_chat"].read_response(recording.raw)
    said = recording.body["choices"][0]
    assert [(choice.parts[0].text, choice.finish_reason) for choice in answer.choices] == [  # pyright: ignore
        (said["message"]["content"], said["finish_reason"])
    ]
    counted = recording.body["usage"]
    assert answer.usage == Usage(input=counted["prompt_tokens"], output=counted["completion_tokens"])
