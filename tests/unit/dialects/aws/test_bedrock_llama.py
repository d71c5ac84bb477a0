"""Raw prompts for Llama on Bedrock: three parameters and no others; responses whole and streamed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Text, Tool, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, Unsupported
from providers.canonical.events import Event, assemble_response
from providers.canonical.sse import sse_frame
from providers.dialects.bedrock_llama import BedrockLlama
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import bounded

LLAMA = BedrockLlama()


def write_request(may_drop: bool = False, **more: Any) -> tuple[Any, list[str]]:
    drop_policy = DropPolicy(lambda _: may_drop, {}, "bedrock")
    body = LLAMA.write_request(ChatRequest("openai_completions", "m", prompt="Once", **more), drop_policy)
    return json.loads(body.write()), drop_policy.dropped


def test_prompt_is_sent_with_the_three_supported_parameters():
    body, dropped = write_request(max_tokens=5, temperature=0.5, top_p=0.9, user="u", n=1, extra={"echo": Raw(b"false")})
    assert body == {"model": "m", "prompt": "Once", "max_gen_len": 5, "temperature": 0.5, "top_p": 0.9} and dropped == ["user"]


def test_neutral_values_of_engine_fields_are_left_out():
    values = {"best_of": 1, "repetition_penalty": 1, "typical_p": 1, "ignore_eos": False, "skip_special_tokens": True}
    body, dropped = write_request(extra={field: Raw(json.dumps(value).encode()) for field, value in values.items()})
    assert body == {"model": "m", "prompt": "Once"} and dropped == []


@pytest.mark.parametrize(
    "more",
    [
        *({"stop": ("x",)}, {"n": 2}, {"top_k": 5}, {"logprobs": True}, {"max_tokens": 4096}, {"temperature": 1.5}),
        *({"tools": (Tool("now"),)}, {"extra": {"echo": Raw(b"true")}}, {"extra": {"min_p": Raw(b"0.1")}}),
        *({"extra": {field: Raw(b"false")}} for field in ("skip_special_tokens", "add_generation_prompt", "enable_thinking")),
    ],
)
def test_unsupported_field_is_refused_or_dropped(more: dict[str, Any]):
    with pytest.raises(Unsupported):
        write_request(**more)
    assert write_request(True, **more)[0].keys() == {"model", "prompt"}


PIECES = [
    {"generation": "A ", "prompt_token_count": 3, "generation_token_count": 1, "stop_reason": None},
    {"generation": "span.", "prompt_token_count": None, "generation_token_count": 2, "stop_reason": None},
    {"generation": "", "prompt_token_count": None, "generation_token_count": 3, "stop_reason": "stop"},
]


@bounded
@given(st.integers(0, 400))
def test_stream_reads_like_the_whole_response_however_it_is_split(cut: int):
    raw = b"".join(sse_frame(json.dumps(each).encode()) for each in PIECES)
    reader = LLAMA.stream_reader()
    events: list[Event] = [*reader.feed(raw[:cut]), *reader.feed(raw[cut:]), *reader.finish()]
    whole = {"generation": "A span.", "prompt_token_count": 3, "generation_token_count": 3, "stop_reason": "stop"}
    assert assemble_response(events) == LLAMA.read_response(json.dumps(whole).encode())
    assert (
        assemble_response(events).choices[0].parts == (Text("A span."),) and assemble_response(events).usage == Usage(3, 3) and reader.done
    )


def test_truncated_stream_and_invalid_response_are_refused():
    reader = LLAMA.stream_reader()
    list(reader.feed(sse_frame(json.dumps(PIECES[0]).encode())))
    with pytest.raises(StreamTruncated):
        reader.finish()
    with pytest.raises(InvalidUpstreamResponse):
        LLAMA.read_response(b'{"outputs":[]}')
