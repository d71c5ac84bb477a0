"""The generate routes of TGI and LMI: every field is sent, refused, or dropped with permission; responses of every shape lose nothing."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import ChatRequest, ChatResponse, Choice, Message, Text, Thinking, Tool, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, Unsupported, UpstreamFailed
from providers.canonical.events import assemble_response
from providers.canonical.output_format import Grammar, JsonObject
from providers.dialect import EngineDialect
from providers.dialects.tgi_generate import LMIGenerate, TGIGenerate
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import bounded, texts

TGI, LMI = TGIGenerate(), LMIGenerate()
BOTH = pytest.mark.parametrize("dialect", [TGI, LMI], ids=["tgi", "lmi"])


def stable_id(value: object) -> str:
    """Returns an id without addresses: every process that runs tests must give a case the same one."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def prompt_request(**fields: Any) -> ChatRequest:
    return ChatRequest(origin="openai_completions", model="m", prompt="Once", **fields)


def refusing_policy() -> DropPolicy:
    return DropPolicy(lambda field: False, {}, "an engine")


def dropping_policy() -> DropPolicy:
    return DropPolicy(lambda field: True, {}, "an engine")


def parameters(dialect: EngineDialect, **fields: Any) -> dict[str, Any]:
    return json.loads(dialect.write_request(prompt_request(**fields), refusing_policy()).write())["parameters"]


@BOTH
def test_bare_prompt_asks_for_sampling_details_and_no_echoed_prompt(dialect: EngineDialect) -> None:
    """JumpStart's containers repeat the prompt, and neither engine samples or counts tokens, unless told otherwise."""
    body = json.loads(dialect.write_request(prompt_request(), refusing_policy()).write())
    assert body == {"inputs": "Once", "parameters": {"return_full_text": False, "details": True, "do_sample": True}}


@pytest.mark.parametrize(
    ("fields", "tgi", "lmi"),
    [
        ({"max_tokens": 9}, {"max_new_tokens": 9}, {"max_new_tokens": 9}),
        ({"temperature": 0.0}, {"do_sample": False}, {"do_sample": False}),
        ({"temperature": 0.5}, {"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 0.5}, {"top_p": 0.5}, {"top_p": 0.5}),
        ({"top_p": 1.0}, {}, {}),
        ({"top_k": 5}, {"top_k": 5}, {"top_k": 5}),
        ({"top_k": -1}, {}, {}),
        ({"seed": 7}, {"seed": 7}, {"seed": 7}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"logprobs": True, "top_logprobs": 2}, {"top_n_tokens": 2}, None),
        ({"frequency_penalty": 0.5}, {"frequency_penalty": 0.5}, None),
        ({"frequency_penalty": 0.0}, {}, {}),
        ({"extra": {"repetition_penalty": Raw(b"1.1")}}, {"repetition_penalty": 1.1}, {"repetition_penalty": 1.1}),
        ({"extra": {"typical_p": Raw(b"0.9")}}, {"typical_p": 0.9}, None),
        ({"extra": {"truncate_prompt_tokens": Raw(b"9")}}, {"truncate": 9}, None),
    ],
    ids=stable_id,
)
def test_sampling_fields_become_generate_parameters_or_are_refused(
    fields: dict[str, Any], tgi: dict[str, Any], lmi: dict[str, Any] | None
) -> None:
    defaults = {"return_full_text": False, "details": True, "do_sample": True}
    assert parameters(TGI, **fields) == defaults | tgi
    if lmi is not None:
        assert parameters(LMI, **fields) == defaults | lmi
    else:
        with pytest.raises(Unsupported):
            parameters(LMI, **fields)


@BOTH
@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"presence_penalty": 0.5},
        {"logit_bias": Raw(b'{"5": 1}')},
        {"seed": -1},
        {"thinking": Thinking("low")},
        {"tools": (Tool("f"),)},
        {"output": Grammar("root ::= x")},
        {"output": JsonObject()},
        {"extra": {"echo": Raw(b"true")}},
        {"extra": {"suffix": Raw(b'"end"')}},
        {"extra": {"min_p": Raw(b"0.1")}},
        {"extra": {"ignore_eos": Raw(b"true")}},
        {"extra": {"bad_words": Raw(b'["x"]')}},
        {"extra": {"a_field_of_tomorrow": Raw(b"1")}},
    ],
    ids=stable_id,
)
def test_unsupported_field_is_refused_or_dropped_with_permission(dialect: EngineDialect, fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        dialect.write_request(prompt_request(**fields), refusing_policy())
    drop_policy = dropping_policy()
    body = json.loads(dialect.write_request(prompt_request(**fields), drop_policy).write())
    assert drop_policy.dropped and body["parameters"] == {"return_full_text": False, "details": True, "do_sample": True}


@BOTH
def test_neutral_values_are_dropped_silently_and_hints_are_reported(dialect: EngineDialect) -> None:
    neutral_values = {"echo": b"false", "best_of": b"1", "min_p": b"0", "ignore_eos": b"false", "bad_words": b"[]", "suffix": b"null"}
    drop_policy = refusing_policy()
    dialect.write_request(
        prompt_request(user="u", metadata={"a": "b"}, extra={key: Raw(value) for key, value in neutral_values.items()}), drop_policy
    )
    assert drop_policy.dropped == ["user", "metadata"]


@BOTH
def test_chat_messages_are_refused_instead_of_being_rendered_as_a_prompt(dialect: EngineDialect) -> None:
    """The gateway does not know the model's chat template."""
    with pytest.raises(Unsupported) as refused:
        dialect.write_request(ChatRequest(origin="openai_chat", model="m", messages=(Message("user", (Text("Hi"),)),)), dropping_policy())
    assert refused.value.param == "messages"


def test_missing_max_tokens_lifts_the_tgi_default_limit_and_is_refused_for_lmi() -> None:
    chat = ChatRequest(origin="openai_chat", model="m", prompt="Once")
    assert json.loads(TGI.write_request(chat, refusing_policy()).write())["parameters"]["max_new_tokens"] is None
    with pytest.raises(Unsupported, match="30 tokens"):
        LMI.write_request(chat, refusing_policy())


DETAILS: dict[str, Any] = {"finish_reason": "eos_token", "generated_tokens": 2}
HELLO = Choice((Text("Hello."),), "stop")


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ([{"generated_text": "Hello."}], ChatResponse((HELLO,), "")),
        ({"generated_text": "Hello.", "details": DETAILS}, ChatResponse((HELLO,), "", None, Usage(None, 2))),
        (
            [{"generated_text": "Hello.", "details": {**DETAILS, "prefill": [{"id": 1, "text": "a"}]}}],
            ChatResponse((HELLO,), "", None, Usage(1, 2)),
        ),
        ({"generated_text": "He", "details": {"finish reason": "length"}}, ChatResponse((Choice((Text("He"),), "length"),), "")),
        (
            {"generated_text": "He", "details": {"finish_reason": "stop_sequence"}},
            ChatResponse((Choice((Text("He"),), "stop", None, "stop_sequence"),), ""),
        ),
        ({"generated_text": "", "details": DETAILS}, ChatResponse((Choice((), "stop"),), "", None, Usage(None, 2))),
    ],
    ids=stable_id,
)
def test_each_shape_of_whole_response_is_read(body: Any, answer: ChatResponse) -> None:
    assert TGI.read_response(json.dumps(body).encode()) == answer


def token(text: str, special: bool = False, **more: Any) -> dict[str, Any]:
    return {"token": {"id": 1, "text": text, "logprob": -0.5, "special": special}, "generated_text": None, "details": None, **more}


END = token("</s>", special=True, generated_text="Hello.", details={**DETAILS, "input_length": 5})


def frame_lines(lines: list[dict[str, Any]], framing: str) -> bytes:
    raw = [json.dumps(line).encode() for line in lines]
    return b"".join(
        {"events": b"data:" + line + b"\n\n", "spaced": b"data: " + line + b"\r\n\r\n", "lines": line + b"\n"}[framing] for line in raw
    )


@bounded
@given(st.lists(texts.filter(bool), max_size=4), st.sampled_from(["events", "spaced", "lines"]), st.lists(st.integers(0, 600), max_size=6))
def test_stream_yields_the_same_text_for_every_framing_and_split(pieces: list[str], framing: str, offsets: list[int]) -> None:
    last = {**END, "generated_text": "".join(pieces)}
    raw = frame_lines([*(token(piece) for piece in pieces), last], framing)
    ends = sorted({min(offset, len(raw)) for offset in offsets} | {len(raw)})
    reader = TGI.stream_reader()
    events = [each for start, end in zip([0, *ends], ends, strict=False) for each in reader.feed(raw[start:end])]
    answer = assemble_response([*events, *reader.finish()])
    assert reader.done and answer.usage == Usage(5, 2)
    (choice,) = answer.choices
    assert choice.parts == ((Text("".join(pieces)),) if pieces else ()) and choice.finish_reason == "stop"
    assert len(choice.logprobs or ()) == len(pieces)  # the token that ends the text is not part of it


def read_lmi_stream(raw: bytes) -> ChatResponse:
    reader = LMI.stream_reader()
    return assemble_response([*reader.feed(raw), *reader.finish()])


def test_logprobs_are_read_into_the_openai_shape() -> None:
    """LMI names them differently; TGI also sends alternative tokens."""
    alternatives = [{"id": 2, "text": "J", "logprob": -1.5, "special": False}]
    lmi = {"token": {"id": 1, "text": "H", "log_prob": -0.5}}
    for line, tops in ((token("H", top_tokens=alternatives), [{"token": "J", "logprob": -1.5, "bytes": None}]), (lmi, [])):
        (choice,) = read_lmi_stream(frame_lines([line, END], "lines")).choices
        assert choice.logprobs is not None
        assert json.loads(bytes(choice.logprobs[0])) == {"token": "H", "logprob": -0.5, "bytes": None, "top_logprobs": tops}


def test_stream_of_outputs_lines_ends_with_finish_reason_stop() -> None:
    assert read_lmi_stream(b'{"outputs": ["Hel"]}\n{"outputs": ["lo."]}\n').choices == (HELLO,)


def test_text_sent_only_in_the_final_event_is_kept() -> None:
    assert read_lmi_stream(frame_lines([END], "lines")).choices == (HELLO,)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (frame_lines([token("Hel")], "events"), StreamTruncated),
        (b"", StreamTruncated),
        (frame_lines([token("Hel")], "events") + b'data:{"token": {"te', StreamTruncated),
        (b'data:{"error":"Request failed during generation","error_type":"generation"}\n\n', UpstreamFailed),
        (
            b'{"token": {"id": -1, "text": "", "special_token": true}, "generated_text": "", "details": {"finish_reason": "error"}}\n',
            UpstreamFailed,
        ),
        (b'{"error": "bad", "code": 424}\n', UpstreamFailed),
        (b"data:{]\n\n", InvalidUpstreamResponse),
        (b'data:{"token": 5}\n\n', InvalidUpstreamResponse),
    ],
)
def test_invalid_stream_raises_the_matching_upstream_error(raw: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        read_lmi_stream(raw)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"[]", InvalidUpstreamResponse),
        (b"{}", InvalidUpstreamResponse),
        (b"[5]", InvalidUpstreamResponse),
        (b"hm", InvalidUpstreamResponse),
        (b'{"error":"x","error_type":"y"}', UpstreamFailed),
    ],
)
def test_invalid_whole_response_raises_the_matching_upstream_error(raw: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        TGI.read_response(raw)


def test_endless_stream_line_is_refused_at_the_size_limit() -> None:
    reader = type(TGI.stream_reader())(limit_bytes=100)
    with pytest.raises(InvalidUpstreamResponse):
        list(reader.feed(b"data:" + b"x" * 200))
