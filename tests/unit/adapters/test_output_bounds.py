"""The smallest of several bounds on output tokens holds: it is reserved, and every target gets it alone, in its own field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from providers.canonical.errors import InvalidRequest
from providers.catalogue import ADAPTERS, DIALECTS, build_provider
from providers.fields import OUTPUT_BOUND_FIELDS
from tests.support.field_handling import translate_body

HI = [{"role": "user", "content": "Hello!"}]
# A minimal request of each dialect, and the names that it has for its bound.
REQUESTS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "openai_chat": ({"messages": HI}, ("max_tokens", "max_completion_tokens")),
    "openai_completions": ({"prompt": "Once"}, ("max_tokens",)),
    "openai_responses": ({"input": "Hello!", "store": False}, ("max_output_tokens",)),
    "anthropic_messages": ({"messages": HI, "max_tokens": 60}, ("max_tokens",)),
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "azure": {"api_version": "2024-10-21"},
    "sagemaker": {"region": "us-east-1"},
    "bedrock": {"region": "us-east-1"},
    "vertex": {"project": "p", "location": "us-central1"},
}
MODELS = {"bedrock": "anthropic.claude-3-5-sonnet-20240620-v1:0", "vertex": "gemini-2.0-flash"}
# As engines would have them, each a bound of its own.
OTHER_BOUNDS: tuple[tuple[Mapping[str, Any], str], ...] = (
    *(({name: 3}, name) for name in sorted(OUTPUT_BOUND_FIELDS)),
    ({"generation_config": '{"max_new_tokens": 3}'}, "generation_config.max_new_tokens"),
    ({"generation_config": {"max_new_tokens": 3}}, "generation_config.max_new_tokens"),
    ({"options": {"num_predict": 3}}, "options.num_predict"),
    ({"parameters": {"max_new_tokens": 3}}, "parameters.max_new_tokens"),
    ({"sampling_params": {"max_tokens": 3}}, "sampling_params.max_tokens"),
)


def request_body(dialect: str, **fields: Any) -> bytes:
    return json.dumps({"model": "m", **REQUESTS[dialect][0], **fields}).encode()


def numbers(value: Any) -> Iterator[int]:
    """Yields all numbers anywhere in a body, those in strings of JSON included."""
    match value:
        case bool():
            return
        case int():
            yield value
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType]
                yield from numbers(each)
        case str() if value.startswith("{"):
            yield from numbers(json.loads(value))
        case _:
            return


@pytest.mark.parametrize("dialect", REQUESTS)
@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_target_gets_the_smallest_of_all_bounds_once(adapter: str, dialect: str):
    base_url = "http://127.0.0.1:1" if ADAPTERS[adapter].default_base_url is None else None
    provider = build_provider(adapter, adapter, OPTIONS.get(adapter, {}), base_url)
    larger = {name: 91_000 + at for at, name in enumerate(sorted(OUTPUT_BOUND_FIELDS))}
    nested = {outer: {"max_new_tokens": 92_000} for outer in ("generation_config", "options", "parameters", "sampling_params")}
    for smallest in ("n_predict", "max_new_tokens", *REQUESTS[dialect][1]):
        raw = request_body(dialect, **{**larger, **nested, smallest: 3})
        assert DIALECTS[dialect].parse_request(raw).output_tokens == 3
        sent = json.loads(translate_body(provider, dialect, raw, model=MODELS.get(adapter, "m")).raw)
        found = list(numbers(sent))
        assert found.count(3) == 1 and max(found) < 91_000, sent


@pytest.mark.parametrize("dialect", REQUESTS)
def test_each_bound_is_reserved_whatever_its_name_and_is_the_only_one_left(dialect: str):
    own_names = REQUESTS[dialect][1]
    for fields, _ in OTHER_BOUNDS:
        request = DIALECTS[dialect].parse_request(request_body(dialect, **fields))
        assert request.output_tokens == 3, fields
        left = {name: request.body.value(name) for name in request.body if name in OUTPUT_BOUND_FIELDS}
        assert len(left) == 1 and left.items() <= dict.fromkeys(own_names, 3).items(), (fields, left)
        assert request.body.keys().isdisjoint(fields.keys() - set(own_names))


def test_other_fields_beside_a_nested_bound_are_kept_as_they_were():
    parse = DIALECTS["openai_chat"].parse_request
    config = parse(request_body("openai_chat", generation_config='{"max_new_tokens": 3, "top_k": 5}')).body
    assert json.loads(config.value("generation_config")) == {"top_k": 5}
    options = parse(request_body("openai_chat", options={"num_predict": 3, "num_ctx": 9}, n_predict=None)).body
    assert options["options"].write() == b'{"num_ctx":9}' and "n_predict" not in options
    for other in ("text", 5, [{"max_new_tokens": 3}], "{", {"num_ctx": 9}):
        untouched = parse(request_body("openai_chat", options=other, max_tokens=8))
        assert untouched.body.value("options") == other and untouched.output_tokens == 8


def test_negative_bound_means_none():
    """-1 and -2 are llama.cpp's and Ollama's words for no limit; beside a real one they must not win."""
    parse = DIALECTS["openai_chat"].parse_request
    unlimited = parse(request_body("openai_chat", n_predict=-1))
    assert unlimited.output_tokens is None and "n_predict" not in unlimited.body
    assert parse(request_body("openai_chat", n_predict=-1, max_tokens=4)).output_tokens == 4


@pytest.mark.parametrize("dialect", REQUESTS)
@pytest.mark.parametrize("value", ["3", 1.5, 3.0, True, [3], {}])
def test_bound_that_is_no_number_of_tokens_is_refused_by_its_name(dialect: str, value: Any):
    """An engine that reads a number differently would not stop where the reservation ends."""
    for fields, path in (({"n_predict": value}, "n_predict"), ({"options": {"num_predict": value}}, "options.num_predict")):
        with pytest.raises(InvalidRequest, match="number of tokens") as refused:
            DIALECTS[dialect].parse_request(request_body(dialect, **fields))
        assert refused.value.param == path


def test_reservation_counts_the_bound_for_every_choice():
    parse = DIALECTS["openai_completions"].parse_request
    request = parse(request_body("openai_completions", prompt=["a", "b"], n=2, max_tokens=100, max_completion_tokens=3))
    assert request.output_tokens == 12
    assert request.body.value("max_tokens") == 3
