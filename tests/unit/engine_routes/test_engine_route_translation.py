"""Engine routes beside chat: each engine is called in its own format, and its response is translated to the caller's format."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_route import translate_route
from app.gateway.response_translation.translate import translate_response
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Provider
from providers.canonical.errors import (
    InvalidRequest,
    InvalidUpstreamResponse,
    OperationNotSupported,
    Overloaded,
    RequestIgnored,
    RouteNotServed,
    Unsupported,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import read_error
from providers.catalogue import ADAPTERS, DIALECTS, ROUTES
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.missing_route import explain_missing_route
from providers.engine_routes.paths import ROUTE_BY_PATH
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source
from tests.support.strategies.chat_strategies import META, bounded

ENGINES = ("vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python", "sandbox", "openai")


def provider_for(adapter: str) -> Provider:
    """The adapter's own class where there is one: what it changes in chat bodies must not change these."""
    kind = ADAPTERS.get(adapter) or type("Named", (OpenAICompatible,), {"name": adapter})
    return kind("it", {}, None, "http://engine:8000/v1")


def call_route(route: str, adapter: str, body: dict[str, Any], drop: bool = False) -> tuple[str, dict[str, Any], list[str], Any]:
    """The path, the body and the dropped fields of the upstream request, and a function that translates a response to it."""
    dialect = ROUTES[route]
    request = dialect.parse_request(json.dumps({"model": "m", **body}).encode())
    source = make_source(request, b"", dialect, MEDIA, drop_everything if drop else drop_nothing)
    translated = translate_route(source, dialect, Recipient(provider_for(adapter), Target("it", "engine-model")))
    meta = ResponseMeta(META.id, META.episode_id, "m", META.created, True, Body(request.body))
    url = str(provider_for(adapter).url("http://engine:8000/v1", translated.dialect.name)).removeprefix("http://engine:8000")

    def read(response: Any) -> OutboundResponse:
        return translate_response(json.dumps(response).encode(), dialect, translated.dialect, meta)

    return url, json.loads(translated.raw), translated.dropped, read


USAGE = {"prompt_tokens": 9, "total_tokens": 9}
PROMPT = {"prompt": "Hi you"}
HI = [{"role": "user", "content": "Hi"}]
TOKENS = {"count": 2, "max_model_len": None, "tokens": [5, 6], "token_strs": None}
RANK = {"query": "q", "documents": ["a", "b"]}
RANKED = [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}, {"index": 0, "relevance_score": 0.1, "document": {"text": "a"}}]
VLLM_RANKED = [{**each, "document": {"text": "?", "multi_modal": None}} for each in RANKED]

# Route, engine, the caller's fields, the upstream path, the upstream body, the upstream response, the caller's response.
CASES: list[tuple[str, str, Any, str, Any, Any, Any]] = [
    (
        "tokenize",
        "vllm",
        PROMPT,
        "/tokenize",
        {**PROMPT, "model": "engine-model"},
        {**TOKENS, "max_model_len": 8},
        {**TOKENS, "max_model_len": 8},
    ),
    (
        *("tokenize", "vllm", {"messages": HI, "add_generation_prompt": False, "new_field": 1}, "/tokenize"),
        {"messages": HI, "add_generation_prompt": False, "new_field": 1, "model": "engine-model"},
        *(TOKENS, TOKENS),
    ),
    (
        *("tokenize", "sglang", {**PROMPT, "return_token_strs": False, "episode_id": META.episode_id}, "/tokenize"),
        {**PROMPT, "model": "engine-model"},
        {"tokens": [5, 6], "count": 2, "max_model_len": int(1e30)},
        TOKENS,
    ),
    (
        *("tokenize", "sglang", {"prompt": ["a", "b"]}, "/tokenize", {"prompt": ["a", "b"], "model": "engine-model"}),
        {"tokens": [[5], [6, 7]], "count": [1, 2], "max_model_len": 64},
        {"tokens": [[5], [6, 7]], "count": [1, 2], "max_model_len": 64, "token_strs": None},
    ),
    (
        *("tokenize", "lmdeploy", {**PROMPT, "add_special_tokens": False}, "/v1/encode"),
        {"input": "Hi you", "add_bos": False, "do_preprocess": False},
        *({"input_ids": [5, 6], "length": 2}, TOKENS),
    ),
    (
        *("tokenize", "llamacpp", PROMPT, "/tokenize", {"content": "Hi you", "add_special": True, "model": "engine-model"}),
        *({"tokens": [5, 6]}, TOKENS),
    ),
    (
        *("tokenize", "llamacpp", {**PROMPT, "return_token_strs": True, "add_special_tokens": False}, "/tokenize"),
        {"content": "Hi you", "add_special": False, "with_pieces": True, "model": "engine-model"},
        {"tokens": [{"id": 5, "piece": "Hi"}, {"id": 6, "piece": [226, 130]}]},
        {**TOKENS, "token_strs": ["Hi", "<0xE2><0x82>"]},
    ),
    (
        *("tokenize", "tgi", {**PROMPT, "return_token_strs": True, "add_special_tokens": True}, "/tokenize"),
        {"inputs": "Hi you", "model": "engine-model"},
        [{"id": 5, "text": "Hi", "start": 0, "stop": 2}, {"id": 6, "text": " you", "start": 2, "stop": 6}],
        {**TOKENS, "token_strs": ["Hi", " you"]},
    ),
    (
        *("tokenize", "tgi", {"messages": HI, "tools": [{"a": 1}]}, "/chat_tokenize"),
        {"messages": HI, "tools": [{"a": 1}], "model": "engine-model"},
        {"tokenize_response": [{"id": 5, "text": "H"}, {"id": 6, "text": "i"}], "templated_text": "Hi"},
        TOKENS,
    ),
    ("tokenize", "llamacpp_python", PROMPT, "/extras/tokenize", {"input": "Hi you", "model": "engine-model"}, {"tokens": [5, 6]}, TOKENS),
    ("detokenize", "vllm", {"tokens": [5]}, "/detokenize", {"tokens": [5], "model": "engine-model"}, {"prompt": "a"}, {"prompt": "a"}),
    (
        *("detokenize", "sglang", {"tokens": [5]}, "/detokenize", {"tokens": [5], "skip_special_tokens": False, "model": "engine-model"}),
        *({"text": "a"}, {"text": "a", "prompt": "a"}),
    ),
    (
        *("detokenize", "llamacpp", {"tokens": [5]}, "/detokenize", {"tokens": [5], "model": "engine-model"}),
        *({"content": "a"}, {"content": "a", "prompt": "a"}),
    ),
    (
        *("encode", "lmdeploy", {"input": ["a", "b"], "do_preprocess": True}, "/v1/encode", {"input": ["a", "b"], "do_preprocess": True}),
        *({"input_ids": [[5], [6]], "length": [1, 1]}, {"input_ids": [[5], [6]], "length": [1, 1]}),
    ),
    (
        *("encode", "vllm", {"input": "a", "add_bos": False, "do_preprocess": False}, "/tokenize"),
        {"prompt": "a", "add_special_tokens": False, "model": "engine-model"},
        *(TOKENS, {"input_ids": [5, 6], "length": 2}),
    ),
    (
        *("encode", "tgi", {"input": "a", "add_bos": True}, "/tokenize", {"inputs": "a", "model": "engine-model"}),
        *([{"id": 5, "text": "a"}], {"input_ids": [5], "length": 1}),
    ),
    (
        *("rerank", "vllm", {**RANK, "top_n": 1, "truncate_prompt_tokens": 9}, "/rerank"),
        {**RANK, "truncate_prompt_tokens": 9, "model": "engine-model"},
        {"id": "x", "model": "engine-model", "results": VLLM_RANKED, "usage": USAGE},
        {"results": RANKED[:1], "usage": USAGE},
    ),
    (
        *("rerank", "sglang", {**RANK, "instruction": "i"}, "/v1/rerank", {**RANK, "instruct": "i"}),
        [
            {"score": 0.1, "document": "a", "index": 0, "meta_info": {"prompt_tokens": 4}},
            {"score": 0.9, "document": "b", "index": 1, "meta_info": {"prompt_tokens": 5}},
        ],
        {"results": RANKED, "usage": USAGE},
    ),
    (
        *("rerank", "sglang", {**RANK, "return_documents": False, "documents": [{"text": "a"}, "b"]}, "/v1/rerank", RANK),
        [{"score": 0.1, "index": 0}, {"score": 0.9, "index": 1}],
        {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]},
    ),
    (
        *("rerank", "llamacpp", RANK, "/v1/rerank", {**RANK, "model": "engine-model"}),
        {
            "object": "list",
            "model": "x",
            "usage": USAGE,
            "results": [{k: each[k] for k in ("index", "relevance_score")} for each in RANKED],
        },
        {"object": "list", "results": RANKED, "usage": USAGE},
    ),
    (
        *("score", "vllm", {"text_1": "a", "text_2": ["b", "c"]}, "/score", {"text_1": "a", "text_2": ["b", "c"], "model": "engine-model"}),
        {"object": "list", "data": [{"index": 0, "score": 1.5}, {"index": 1, "score": -2}], "usage": USAGE, "model": "engine-model"},
        {"object": "list", "data": [{"index": 0, "score": 1.5}, {"index": 1, "score": -2}], "usage": USAGE},
    ),
    (
        *("classify", "sglang", {"input": "a", "add_special_tokens": True}, "/v1/classify", {"input": "a", "model": "engine-model"}),
        {"object": "list", "data": [{"index": 0, "label": "L", "probs": [1], "num_classes": 1}], "usage": USAGE},
        {"object": "list", "data": [{"index": 0, "label": "L", "probs": [1], "num_classes": 1}], "usage": USAGE},
    ),
    (
        *("pooling", "lmdeploy", {"input": "a", "encoding_format": "float"}, "/pooling", {"input": "a", "model": "engine-model"}),
        {"object": "list", "data": [{"index": 0, "object": "pooling", "data": [0.5]}], "usage": USAGE},
        {"object": "list", "data": [{"index": 0, "object": "pooling", "data": [0.5]}], "usage": USAGE},
    ),
]
CASE_PARAMS = [pytest.param(*case, id=f"{case[0]}-{case[1]}-{at}") for at, case in enumerate(CASES)]


@pytest.mark.parametrize(("route", "adapter", "fields", "path", "sent", "upstream_response", "expected"), CASE_PARAMS)
def test_engine_is_called_in_its_own_format_and_its_response_is_normalized(
    route: str, adapter: str, fields: Any, path: str, sent: Any, upstream_response: Any, expected: Any
):
    url, body, dropped, read = call_route(route, adapter, fields)
    assert (url, body, dropped) == (path, sent, [])
    edited = read(upstream_response)
    response = json.loads(edited.raw)
    gateway_fields = {key: response.pop(key) for key in ("id", "model") if key in response and "id" not in expected}
    assert response == expected
    if route in ("tokenize", "detokenize", "encode"):
        assert (gateway_fields, edited.usage.input if edited.usage else None) == ({}, 0)
    else:
        assert gateway_fields["model"] == "m" and gateway_fields["id"].endswith(META.id)
        assert edited.usage is not None and (edited.usage.input, edited.usage.output) == (9 if "usage" in expected else None, 0)


# A request format of one engine only: it is sent unchanged, and so is the response.
ENGINE_SPECIFIC: list[tuple[str, str, Any, str, bool, Any]] = [
    (
        "tokenize",
        "llamacpp",
        {"content": ["a", 5], "with_pieces": True, "new": 1},
        "/tokenize",
        True,
        {"tokens": [{"id": 5, "piece": "a"}]},
    ),
    ("tokenize", "tgi", {"inputs": "a", "parameters": {"truncate": 5}}, "/tokenize", True, [{"id": 5, "text": "a", "start": 0, "stop": 1}]),
    ("tokenize", "llamacpp_python", {"input": "a"}, "/extras/tokenize", True, {"tokens": [5]}),
    (
        "rerank",
        "llamacpp",
        {"query": "q", "texts": ["a"], "return_text": True},
        "/v1/rerank",
        True,
        [{"index": 0, "score": 1, "text": "a"}],
    ),
    (
        *("score", "sglang", {"query": "q", "items": ["a"], "label_token_ids": [1, 2], "apply_softmax": True}, "/v1/score", True),
        {"scores": [[0.1, 0.9]], "object": "scoring"},
    ),
    ("classify", "sglang", {"text": ["a"]}, "/classify", False, [{"embedding": [0.5], "meta_info": {"prompt_tokens": 9}}]),
    ("sglang_encode", "sglang", {"text": "a"}, "/encode", False, {"embedding": [0.5], "meta_info": {"prompt_tokens": 9}}),
    ("pooling", "vllm", {"data": {"any": "thing"}, "task": "plugin"}, "/pooling", True, {"request_id": "r", "data": [1]}),
]


@pytest.mark.parametrize(
    ("route", "adapter", "fields", "path", "names_model", "upstream_response"),
    ENGINE_SPECIFIC,
    ids=[f"{o[0]}-{o[1]}" for o in ENGINE_SPECIFIC],
)
def test_engine_specific_request_is_sent_unchanged_and_refused_elsewhere(
    route: str, adapter: str, fields: Any, path: str, names_model: bool, upstream_response: Any
):
    url, body, dropped, read = call_route(route, adapter, fields)
    assert (url, body, dropped) == (path, {**fields, **({"model": "engine-model"} if names_model else {})}, [])
    assert json.loads(read(upstream_response).raw) == upstream_response
    assert json.loads(read({"model": "engine-model", "x": 1}).raw) == {"model": "m", "x": 1}
    for other in {"vllm", "sglang", "llamacpp", "tgi", "openai"} - {adapter}:
        with pytest.raises((Unsupported, OperationNotSupported)) as refused:
            call_route(route, other, fields)
        assert refused.value.param in fields or isinstance(refused.value, OperationNotSupported)


def test_usage_is_summed_and_unknown_if_any_item_lacks_it():
    read = call_route("classify", "sglang", {"text": ["a", "b"]})[3]
    both = read([{"embedding": [1], "meta_info": {"prompt_tokens": 4}}, {"embedding": [1], "meta_info": {"prompt_tokens": 5}}])
    assert both.usage is not None and both.usage.input == 9
    partial = read([{"embedding": [1], "meta_info": {"prompt_tokens": 4}}, {"embedding": [1]}])
    assert partial.usage is not None and partial.usage.input is None


# Fields that an engine ignores or does not know: a value that asks for something, and a neutral one that is left out.
IGNORED_FIELDS: list[tuple[str, str, dict[str, Any], str, Any, Any]] = [
    ("tokenize", "sglang", PROMPT, "return_token_strs", True, False),
    ("tokenize", "sglang", {"messages": HI}, "add_generation_prompt", False, True),
    ("tokenize", "sglang", {"messages": HI}, "add_special_tokens", True, False),
    ("tokenize", "lmdeploy", PROMPT, "return_token_strs", True, None),
    ("tokenize", "tgi", PROMPT, "add_special_tokens", False, True),
    ("tokenize", "llamacpp_python", PROMPT, "add_special_tokens", False, True),
    ("detokenize", "vllm", {"tokens": [1]}, "skip_special_tokens", True, False),
    ("detokenize", "llamacpp", {"tokens": [1]}, "skip_special_tokens", True, False),
    ("encode", "vllm", {"input": "a"}, "do_preprocess", True, False),
    ("rerank", "vllm", RANK, "rank_fields", ["a"], None),
    ("rerank", "llamacpp", RANK, "truncate_prompt_tokens", 5, None),
    ("rerank", "sglang", RANK, "max_tokens_per_doc", 5, None),
    ("pooling", "lmdeploy", {"input": "a"}, "encoding_format", "base64", "float"),
    ("pooling", "lmdeploy", {"input": "a"}, "dimensions", 5, None),
    ("classify", "sglang", {"input": "a"}, "use_activation", False, None),
]


@pytest.mark.parametrize(("route", "adapter", "fields", "field", "value", "neutral"), IGNORED_FIELDS)
def test_ignored_field_is_refused_unless_neutral_or_droppable(
    route: str, adapter: str, fields: dict[str, Any], field: str, value: Any, neutral: Any
):
    with pytest.raises(Unsupported, match=f"`{field}` cannot be honoured by it") as refused:
        call_route(route, adapter, {**fields, field: value})
    assert refused.value.param == field
    _, body, dropped, _ = call_route(route, adapter, {**fields, field: value}, drop=True)
    assert (field in body and body[field] == value, dropped) == (False, [field])
    _, without, dropped, _ = call_route(route, adapter, {**fields, field: neutral})
    assert (without, dropped) == (call_route(route, adapter, fields)[1], [])


@pytest.mark.parametrize(
    ("route", "adapter", "fields", "field"),
    [
        ("tokenize", "vllm", {"prompt": ["a"]}, "prompt"),
        ("tokenize", "llamacpp", {"messages": HI}, "messages"),
        ("tokenize", "lmdeploy", {"messages": HI}, "messages"),
        ("detokenize", "vllm", {"tokens": [[1]]}, "tokens"),
        ("encode", "llamacpp", {"input": ["a"]}, "input"),
        ("rerank", "llamacpp", {"query": "q", "documents": [{"content": [{"type": "text", "text": "a"}]}]}, "documents"),
        ("score", "sglang", {"text_1": "a", "text_2": "b"}, "text_1"),
        ("pooling", "lmdeploy", {"messages": HI}, "messages"),
    ],
)
def test_field_the_engine_cannot_express_is_refused_even_if_droppable(route: str, adapter: str, fields: Any, field: str):
    with pytest.raises(Unsupported) as refused:
        call_route(route, adapter, fields, drop=True)
    assert (refused.value.param, "x-narthex-drop" in refused.value.message) == (field, False)


@pytest.mark.parametrize("route", ROUTES)
def test_engine_without_the_route_gives_a_501_naming_those_with_it(route: str):
    value = {"tokens": [1], "documents": ["a"], "text_1": "a"}.get(next(iter(ROUTES[route].request_decoders)), "a")
    fields = {next(iter(ROUTES[route].request_decoders)): value, "query": "q", "text_2": "b"}
    for adapter in sorted(ADAPTERS.keys() - ROUTES[route].bindings.keys() - {"auto"} | {"anthropic"}):
        with pytest.raises(OperationNotSupported, match="These have: ") as refused:
            call_route(route, adapter, fields)
        assert refused.value.param == "model"
    openai = ADAPTERS["openai"]("it", {}, None, None)
    source = make_source(
        ROUTES[route].parse_request(json.dumps({"model": "m", **fields}).encode()), b"", ROUTES[route], MEDIA, drop_nothing
    )
    with pytest.raises(OperationNotSupported):
        translate_route(source, ROUTES[route], Recipient(openai, Target("it", "engine-model")))
    with pytest.raises(OperationNotSupported, match="only"):
        translate_route(source, ROUTES[route], Recipient(provider_for("vllm"), Target("it", "engine-model", dialect="openai_chat")))


@pytest.mark.parametrize("adapter", ["openai", "auto"])
@pytest.mark.parametrize(
    ("route", "fields", "upstream_response"),
    [
        ("tokenize", {"messages": HI}, {"tokens": []}),
        ("tokenize", PROMPT, {"tokens": [5, 6]}),
        ("tokenize", PROMPT, {"tokens": [], "count": 0}),
        ("encode", {"input": "a"}, {"tokens": []}),
        ("detokenize", {"tokens": [5]}, {"content": "a"}),
        ("rerank", RANK, {"results": []}),
    ],
)
def test_unusable_success_of_an_undetected_engine_is_a_501_and_no_failure(adapter: str, route: str, fields: Any, upstream_response: Any):
    """llama.cpp responds with 200 and no tokens to fields that it does not know."""
    with pytest.raises(RouteNotServed, match="adapter") as refused:
        call_route(route, adapter, fields)[3](upstream_response)
    assert (refused.value.status, refused.value.counts_as_failure) == (501, False)


@pytest.mark.parametrize("adapter", ["openai", "auto", "vllm"])
def test_empty_text_has_no_tokens(adapter: str):
    response = json.loads(call_route("tokenize", adapter, {"prompt": ""})[3]({"tokens": [], "count": 0}).raw)
    assert (response["tokens"], response["count"]) == ([], 0)


@pytest.mark.parametrize("adapter", ["llamacpp", "vllm", "sglang", "openai"])
@pytest.mark.parametrize(
    "message",
    ["vector::_M_range_check: __n (which is 999999) >= this->size() (which is 149)", "invalid token", "piece id is out of range."],
)
def test_token_outside_the_vocabulary_is_the_callers_error(adapter: str, message: str):
    binding, _ = ROUTES["detokenize"].translate_request(
        Body(tokens=msgspec.Raw(b"[999999]")), provider_for(adapter), "m", "engine-model", drop_nothing
    )
    for status, kind in ((500, UpstreamRejected), (503, Overloaded)):
        error = binding.explain_error(read_error(status, {}, json.dumps({"error": {"message": message, "code": status}}).encode()), "it")
        assert type(error) is kind
    assert (binding.explain_error(UpstreamFailed(message, upstream_status=500), "it").status, UpstreamRejected.counts_as_failure) == (
        400,
        False,
    )
    assert binding.explain_error(UpstreamFailed("out of memory", upstream_status=500), "it").counts_as_failure


def test_token_id_outside_31_bits_is_refused():
    """llama.cpp reads 2**33 as 0."""
    for token in (2**31, 2**33, -1):
        with pytest.raises(InvalidRequest) as refused:
            ROUTES["detokenize"].parse_request(json.dumps({"model": "m", "tokens": [token]}).encode())
        assert refused.value.param is not None and refused.value.param.startswith("tokens")


def test_llama_cpp_python_detokenize_is_not_supported():
    with pytest.raises(OperationNotSupported):
        call_route("detokenize", "llamacpp_python", {"tokens": [5]})


def test_undetected_engine_is_called_like_a_generic_openai_one():
    for route, fields in (("tokenize", PROMPT), ("rerank", RANK), ("pooling", {"input": "a"})):
        assert call_route(route, "auto", fields)[:3] == call_route(route, "openai", fields)[:3]


def test_every_route_binding_has_a_known_engine_and_request_shape():
    assert {adapter for route in ROUTES.values() for adapter in route.bindings} == {*ENGINES, "cohere"}
    for route in ROUTES.values():
        assert [shape for bindings in route.bindings.values() for shape in bindings if shape not in route.request_decoders] == []
        assert DIALECTS[route.name] is route
    assert {ROUTE_BY_PATH[path] for path in ROUTE_BY_PATH} == set(ROUTES)


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        ("tokenize", {}, "prompt"),
        ("tokenize", {"prompt": 5}, "prompt"),
        ("tokenize", {"prompt": "a", "messages": HI}, "messages"),
        ("tokenize", {"prompt": "a", "stream": True}, "stream"),
        ("tokenize", {"prompt": "a", "add_special_tokens": "yes"}, "add_special_tokens"),
        ("detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("detokenize", {"tokens": "a"}, "tokens"),
        ("rerank", {"documents": ["a"]}, "query"),
        ("rerank", {"query": "q", "documents": []}, "documents"),
        ("rerank", {"query": "q", "documents": ["a", {"title": "t"}]}, "documents[1]"),
        ("rerank", {"query": "q", "documents": ["a"], "top_n": -1}, "top_n"),
        ("score", {"text_1": "a"}, "text_2"),
        ("score", {"text_1": ["a", "b"], "text_2": "c"}, "text_1"),
        ("score", {"queries": "a"}, "documents"),
        ("score", {"queries": "a", "items": "b", "documents": "c"}, "items"),
        ("pooling", {"input": []}, "input"),
        ("pooling", {"input": "a", "encoding_format": "bytes"}, "encoding_format"),
        ("classify", {"input": 5}, "input"),
        ("sglang_encode", {}, "text"),
    ],
)
def test_invalid_route_request_is_refused_by_path(route: str, body: Any, param: str):
    with pytest.raises(InvalidRequest) as refused:
        ROUTES[route].parse_request(json.dumps({"model": "m", **body}).encode())
    assert refused.value.param == param


INVALID_RESPONSES: list[tuple[str, Any, Any]] = [
    ("tokenize", PROMPT, {"count": 3, "tokens": [1, 2]}),
    ("tokenize", PROMPT, {"tokens": "a"}),
    ("tokenize", PROMPT, {"tokens": [[1], 2]}),
    ("tokenize", PROMPT, [1]),
    ("detokenize", {"tokens": [1]}, {"text": "a"}),
    ("rerank", RANK, {"results": RANKED[:1]}),
    ("rerank", RANK, {"results": [RANKED[0], RANKED[0]]}),
    ("rerank", RANK, {"results": [{"index": 2, "relevance_score": 1}, RANKED[0]]}),
    ("rerank", RANK, {"results": [{"index": 0}, RANKED[0]]}),
    ("score", {"text_1": "a", "text_2": "b"}, {"data": []}),
    ("score", {"text_1": "a", "text_2": ["b", "c"]}, {"data": [{"index": 1, "score": 1}, {"index": 0, "score": 1}]}),
    ("pooling", {"input": ["a", "b"]}, {"data": [{}]}),
    ("classify", {"input": [1, 2]}, {"data": [{}, {}]}),
]


@pytest.mark.parametrize(("route", "fields", "upstream_response"), INVALID_RESPONSES)
def test_response_that_does_not_match_the_request_is_invalid(route: str, fields: Any, upstream_response: Any):
    with pytest.raises(InvalidUpstreamResponse):
        call_route(route, "vllm", fields)[3](upstream_response)


def test_missing_token_strings_are_an_error_not_null():
    fields = {**PROMPT, "return_token_strs": True}
    assert json.loads(call_route("tokenize", "vllm", fields)[3]({"tokens": [1], "token_strs": ["a"]}).raw)["token_strs"] == ["a"]
    with pytest.raises(RequestIgnored) as ignored:
        call_route("tokenize", "vllm", fields)[3]({"tokens": [1]})
    assert (ignored.value.status, ignored.value.param) == (422, "return_token_strs")


def test_hints_an_engine_discards_are_reported():
    _, body, dropped, _ = call_route("rerank", "vllm", {**RANK, "user": "u", "metadata": {"a": "b"}})
    assert (body, dropped) == ({**RANK, "model": "engine-model"}, ["metadata", "user"])
    _, body, dropped, _ = call_route("rerank", "llamacpp", {**RANK, "user": "u"})
    assert (body, dropped) == ({**RANK, "model": "engine-model"}, ["user"])


def test_error_body_with_status_200_raises_an_error():
    for route, adapter, fields in (("tokenize", "vllm", PROMPT), ("rerank", "sglang", RANK), ("tokenize", "tgi", {"inputs": "a"})):
        with pytest.raises(UpstreamRejected, match="too long"):
            call_route(route, adapter, fields)[3]({"error": {"message": "too long", "code": 400}})


@bounded
@given(st.lists(st.floats(-9, 9), min_size=1, max_size=8), st.integers(0, 9), st.randoms())
def test_rerank_returns_the_top_results_in_descending_score_order(scores: list[float], top_n: int, rng: Any):
    documents = [f"d{at}" for at in range(len(scores))]
    results = [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]
    rng.shuffle(results)
    response = json.loads(call_route("rerank", "vllm", {"query": "q", "documents": documents, "top_n": top_n})[3]({"results": results}).raw)
    ranked = [(each["relevance_score"], each["document"]["text"]) for each in response["results"]]
    assert [score for score, _ in ranked] == sorted(scores, reverse=True)[: top_n or None]
    assert all(scores[int(text[1:])] == score for score, text in ranked) and len({text for _, text in ranked}) == len(ranked)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"detail":"Not Found"}', RouteNotServed),
        (404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}', RouteNotServed),
        (404, b"404 page not found\n", RouteNotServed),
        (404, b"", RouteNotServed),
        (405, b'{"detail":"Method Not Allowed"}', RouteNotServed),
        (501, b'{"error":{"message":"This server does not support reranking. Start it with `--reranking`"}}', RouteNotServed),
        (404, b'{"error":{"message":"The model `x` does not exist.","type":"NotFoundError"}}', UpstreamNotFound),
        (400, b'{"detail":"Not Found"}', UpstreamRejected),
        (500, b"", UpstreamFailed),
    ],
)
def test_route_missing_on_the_engine_is_not_served_and_other_errors_are_kept(status: int, body: bytes, kind: Any):
    error = explain_missing_route(read_error(status, {}, body), "/rerank", "it")
    assert type(error) is kind
    if kind is RouteNotServed:
        assert (error.status, error.counts_as_failure, "it does not serve /rerank" in error.message) == (501, False, True)


def test_tokenize_is_estimated_as_free_and_other_routes_by_their_input():
    assert ROUTES["tokenize"].parse_request(b'{"model":"m","prompt":"a long text"}').input_tokens == 0
    each = ROUTES["rerank"].parse_request(b'{"model":"m","query":"abc","documents":["abcdef","abc"]}')
    assert (each.input_tokens, each.output_tokens) == (1 + 2 + 1 + 1, 0)
    assert ROUTES["score"].parse_request(b'{"model":"m","text_1":"abc","text_2":"abc"}').input_tokens > 0
    assert ROUTES["pooling"].parse_request(b'{"model":"m","input":"abcdef"}').input_tokens > 0


@pytest.mark.parametrize(
    "fields", [{"queries": "a", "documents": ["b", "c"]}, {"queries": "a", "items": ["b", "c"]}, {"data_1": "a", "data_2": ["b", "c"]}]
)
def test_score_accepts_every_name_for_its_two_sides(fields: Any):
    _, body, _, read = call_route("score", "sandbox", fields)
    assert body == {"model": "engine-model", "text_1": "a", "text_2": ["b", "c"]}
    assert len(json.loads(read({"data": [{"index": 0, "score": 1}, {"index": 1, "score": 0}]}).raw)["data"]) == 2
