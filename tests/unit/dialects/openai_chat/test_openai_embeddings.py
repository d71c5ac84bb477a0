"""Embeddings: the caller receives the encoding and size that it requested, or an error, whatever the engine sent."""

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, RequestIgnored, UpstreamError, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from tests.support.case_tables import failed_cases
from tests.support.strategies.chat_strategies import META, bounded

REQUEST: dict[str, Any] = {"model": "m", "input": "Hi"}
USAGE = {"prompt_tokens": 3, "total_tokens": 3}

# Each documented field: valid values of each documented type, and invalid values.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "input": (
        ["a", ["a"], ["a", "b"], [1, 2], [[1], [2, 3]], [0], ["x"] * 2048],
        ["", [], [""], ["a", ""], ["a", 1], [1, "a"], [[1], "a"], [[]], [-1], [[-1]], [1.5], [True], {}, 5, ["a", None]],
    ),
    "dimensions": ([1, 3072], [0, -1, 1.5, "five", True]),
    "encoding_format": (["float", "base64"], ["hex", 1, ""]),
    "user": (["u"], [True, {}]),
    "metadata": ([{"team": "a"}], [{"n": 1}, "x"]),
    "stream": ([False], [True, "x"]),
    "embed_dtype": (["float16"], [16]),
    "endianness": (["little"], [1]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
    "tensorzero::episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
    "tensorzero::tags": ([{"a": "b"}], [{"a": 1}]),
}
VALID = [(field, value) for field, (valid, _) in DOCUMENTED.items() for value in valid]
INVALID = [(field, value) for field, (_, invalid) in DOCUMENTED.items() for value in invalid]

# Exact in 32 bits, so that both encodings can express them.
numbers = st.floats(-1, 1, width=32)
vectors = st.integers(1, 5).flatmap(lambda size: st.lists(st.lists(numbers, min_size=size, max_size=size), min_size=1, max_size=4))
encodings = st.sampled_from(["float", "base64"])


def encode_base64(vector: list[float], code: str = "f") -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}{code}", *vector)).decode()


def decode_vector(embedding: str | list[float]) -> list[float]:
    return (
        list(struct.unpack(f"<{len(base64.b64decode(embedding)) // 4}f", base64.b64decode(embedding)))
        if isinstance(embedding, str)
        else embedding
    )


def response_body(vectors: list[Any], **more: Any) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps(
        {"object": "list", "data": data, "model": "engine", "usage": {"prompt_tokens": 3, "total_tokens": 3}, **more}
    ).encode()


def meta_for(**fields: Any) -> ResponseMeta:
    body = Body.read(json.dumps({**REQUEST, **fields}).encode())
    return ResponseMeta(META.id, META.episode_id, "a name", META.created, wants_usage=True, request_body=body)


def edit_response(raw: bytes, **fields: Any) -> tuple[Any, OutboundResponse]:
    outbound = OpenAIEmbeddings().edit_response(raw, meta_for(**fields))
    return json.loads(outbound.raw), outbound


def rejection_message(raw: bytes, **fields: Any) -> str:
    with pytest.raises(InvalidUpstreamResponse) as rejected:
        edit_response(raw, **fields)
    return rejected.value.message


def test_documented_and_unknown_fields_are_accepted_and_kept():
    def check(field: str, value: Any) -> None:
        fields = {**REQUEST, field: value, "unheard_of": {"x": [1.50]}}
        request = OpenAIEmbeddings().parse_request(json.dumps(fields).encode())
        assert json.loads(request.body.write()) == fields
        assert (request.model, request.stream, request.output_tokens, request.choices) == ("m", False, 0, 1)

    assert failed_cases(check, VALID) == []


def test_wrongly_typed_field_is_refused_by_path():
    def check(field: str, value: Any) -> None:
        with pytest.raises(InvalidRequest) as refused:
            OpenAIEmbeddings().parse_request(json.dumps({**REQUEST, field: value}).encode())
        assert refused.value.param is not None
        assert refused.value.param.startswith(field.removeprefix("tensorzero::") if value == "" else field)

    assert failed_cases(check, INVALID) == []


def test_invalid_input_item_is_refused_by_path():
    for inputs, path in (([["a"]], "input[0][0]"), (["a", "b", 3], "input[2]"), ([[1], [2], []], "input[2]")):
        with pytest.raises(InvalidRequest) as refused:
            OpenAIEmbeddings().parse_request(json.dumps({"model": "m", "input": inputs}).encode())
        assert refused.value.param == path
        assert path in refused.value.message


@pytest.mark.parametrize("without", ["input", "model"])
def test_missing_field_is_refused_by_name(without: str):
    with pytest.raises(InvalidRequest) as refused:
        OpenAIEmbeddings().parse_request(json.dumps({key: value for key, value in REQUEST.items() if key != without}).encode())
    assert refused.value.param == without


@pytest.mark.parametrize(
    ("inputs", "tokens"), [("abc", 1), ("\u4e2d\u6587", 2), (["abcd", "a"], 3), ([7, 8, 9], 3), ([[7], [8, 9]], 3)], ids=repr
)
def test_token_ids_are_counted_and_texts_are_estimated_by_bytes(inputs: Any, tokens: int):
    assert OpenAIEmbeddings().parse_request(json.dumps({"model": "m", "input": inputs}).encode()).input_tokens == tokens


def test_messages_may_replace_input_as_in_vllm():
    fields = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert OpenAIEmbeddings().parse_request(json.dumps(fields).encode()).input_tokens > 0
    meta = ResponseMeta(META.id, META.episode_id, "m", 0, wants_usage=True, request_body=Body.read(json.dumps(fields).encode()))
    assert OpenAIEmbeddings().edit_response(response_body([[0.5]]), meta).usage == Usage(3, 0)
    with pytest.raises(InvalidUpstreamResponse):
        OpenAIEmbeddings().edit_response(response_body([[0.5], [1]]), meta)


@bounded
@given(vectors, encodings, encodings, st.booleans(), st.randoms())
def test_requested_encoding_is_returned_whatever_the_engine_sent(
    vectors: Any, wanted: str, engine_encoding: str, with_dimensions: bool, rng: Any
):
    data = [
        {"object": "embedding", "index": index, "embedding": encode_base64(vector) if engine_encoding == "base64" else vector}
        for index, vector in enumerate(vectors)
    ]
    rng.shuffle(data)
    raw = response_body([], data=data, id="theirs")
    fields: dict[str, Any] = (
        {"input": ["x"] * len(vectors), "dimensions": len(vectors[0])} if with_dimensions else {"input": ["x"] * len(vectors)}
    )
    response, outbound = edit_response(raw, **fields, encoding_format=wanted)
    assert [decode_vector(each["embedding"]) for each in response["data"]] == vectors
    assert all(isinstance(each["embedding"], str) == (wanted == "base64") for each in response["data"])
    assert [each["index"] for each in response["data"]] == list(range(len(vectors)))
    assert (response["object"], response["model"], response["id"], response["usage"]) == (
        "list",
        "a name",
        "theirs",
        {"prompt_tokens": 3, "total_tokens": 3},
    )
    assert (outbound.usage, outbound.finish_reason) == (Usage(3, 0), None)
    assert CreateEmbeddingResponse.model_validate({**response, "data": [{**each, "embedding": vectors[0]} for each in response["data"]]})


@bounded
@given(vectors)
def test_embeddings_in_the_requested_encoding_keep_their_bytes(vectors: Any):
    data = json.dumps([{"index": index, "x": 1.50, "object": "embedding", "embedding": each} for index, each in enumerate(vectors)])
    raw = b'{"object": "list", "data": %s, "model": "engine"}' % data.encode()
    assert data.encode() in OpenAIEmbeddings().edit_response(raw, meta_for(input=["x"] * len(vectors))).raw


def test_fields_the_sdk_needs_are_added_if_the_engine_omits_them():
    response, _ = edit_response(json.dumps({"data": [{"embedding": [0.5]}, {"embedding": [1], "index": None}]}).encode(), input=["a", "b"])
    assert response == {
        "object": "list",
        "model": "a name",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}, {"object": "embedding", "index": 1, "embedding": [1]}],
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }


@pytest.mark.parametrize("wanted", ["float", "base64"])
@pytest.mark.parametrize("vector", [[0.5, 1, 2], encode_base64([0.5, 1, 2])], ids=["numbers", "base64"])
def test_engine_that_ignores_dimensions_is_reported_as_422(vector: Any, wanted: str):
    with pytest.raises(RequestIgnored) as rejected:
        edit_response(response_body([vector]), dimensions=2, encoding_format=wanted)
    assert (rejected.value.status, rejected.value.param) == (422, "dimensions")
    assert (rejected.value.counts_as_failure, "3 numbers" in rejected.value.message) == (False, True)


@pytest.mark.parametrize("wanted", ["float", "base64"])
def test_per_token_vectors_are_rejected(wanted: str):
    assert "a vector for each token (2 of them)" in rejection_message(response_body([[[0.5, 1], [1, 2]]]), encoding_format=wanted)
    assert "a vector for each token (1 of them)" in rejection_message(response_body([[[0.5, 1]]]), encoding_format=wanted)


@pytest.mark.parametrize(
    "vector",
    [
        None,
        [],
        "",
        {},
        5,
        ["a"],
        [None],
        [True],
        {"0": 1},
        "!!!!!!==",
        "AAA=",
        encode_base64([math.nan]),
        encode_base64([math.inf]),
        "AAAAAAA=",
    ],
    ids=repr,
)
def test_invalid_vector_is_rejected(vector: Any):
    assert rejection_message(response_body([vector]), encoding_format="float")


@pytest.mark.parametrize("vector", [[], [[]], ["a"], [None], {}, [1e39], [1, 2, "3"]], ids=repr)
def test_vector_that_base64_cannot_encode_is_rejected(vector: Any):
    assert rejection_message(response_body([vector]), encoding_format="base64")


@pytest.mark.parametrize("embeddings", [[[1]], [[1], [2], [3]], []], ids=len)
def test_number_of_embeddings_must_match_the_inputs(embeddings: Any):
    assert f"{len(embeddings)} embeddings for 2 inputs" in rejection_message(response_body(embeddings), input=["a", "b"])
    assert edit_response(response_body([[1], [2]]), input=[[5], [6]])[1].usage
    assert edit_response(response_body([[1]]), input=[5, 6])[1].usage


@pytest.mark.parametrize("indexes", [[0, 0], [1, 2], [0, None], ["0", "1"], [0.5, 1]], ids=repr)
def test_invalid_embedding_indexes_are_rejected(indexes: list[Any]):
    data = [{"object": "embedding", "index": index, "embedding": [1]} for index in indexes]
    assert "numbered" in rejection_message(response_body([], data=data), input=["a", "b"])


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": "x"}, {"data": [1]}], ids=repr)
def test_response_without_embeddings_is_rejected(body: Any):
    assert "no embeddings" in rejection_message(json.dumps(body).encode())


def test_error_body_with_status_200_raises_an_error():
    with pytest.raises(UpstreamFailed) as raised:
        edit_response(json.dumps({"error": {"message": "out of memory", "code": 500}}).encode())
    assert "out of memory" in raised.value.message


def test_base64_of_another_dtype_passes_and_is_never_decoded_as_float32():
    halves = encode_base64([0.5, 1, -2], "e")
    response, _ = edit_response(response_body([halves]), encoding_format="base64", embed_dtype="float16", dimensions=3)
    assert response["data"][0]["embedding"] == halves
    assert rejection_message(response_body([halves]), encoding_format="float", embed_dtype="float16")
    assert rejection_message(response_body([[0.5]]), encoding_format="base64", endianness="big")
    with pytest.raises(RequestIgnored):
        edit_response(response_body([halves]), encoding_format="base64", embed_dtype="float16", dimensions=2)


def test_base64_with_escaped_slashes_is_decoded():
    vector = [-0.5, 3.999999761581421, -1.9999998807907104]
    assert "/" in encode_base64(vector)
    raw = response_body([encode_base64(vector)]).replace(b"/", b"\\/")
    assert decode_vector(edit_response(raw, dimensions=3)[0]["data"][0]["embedding"]) == vector
    assert decode_vector(edit_response(raw, dimensions=3, encoding_format="base64")[0]["data"][0]["embedding"]) == vector


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"prompt_tokens": 2, "total_tokens": 2, "completion_tokens": 0}, Usage(2, 0)),
        ({"total_tokens": 4}, Usage(None, 0)),
        ({"prompt_tokens": 0, "total_tokens": 0}, Usage(None, 0)),
        ({"prompt_tokens": "two"}, Usage(None, 0)),
        ({"prompt_tokens": 2**70}, Usage(None, 0)),
        (None, Usage(None, 0)),
    ],
    ids=repr,
)
def test_usage_is_read_with_zero_output_tokens(reported: Any, expected: Usage):
    response, outbound = edit_response(response_body([[1]], usage=reported))
    assert (outbound.usage, response["usage"]) == (expected, reported or {"prompt_tokens": 0, "total_tokens": 0})


def test_stream_fields_are_not_sent_and_a_streamed_response_is_rejected():
    dialect = OpenAIEmbeddings()
    with pytest.raises(InvalidUpstreamResponse):
        dialect.stream_editor(META)
    body = Body(model="m", stream=False, stream_options={})
    dialect.prepare_upstream_body(body, stream=True, include_usage=True)
    assert body == {"model": "m"}


def test_errors_are_written_in_openais_envelope():
    error_body = json.loads(OpenAIEmbeddings().write_error(InvalidRequest("No.", param="input[1]")))
    assert error_body == {"error": {"message": "No.", "type": "invalid_request_error", "code": 400, "param": "input[1]"}}
    assert OpenAIEmbeddings().write_error_frame(InvalidRequest("No.")).startswith(b'data: {"error"')


arbitrary_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "AAAA", "\\ud800", "/", "="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["embedding", "index", "object", "x"]), inner, max_size=3),
    max_leaves=8,
)


@bounded
@given(
    st.dictionaries(st.sampled_from(["data", "usage", "error", "object", "model"]), arbitrary_json),
    st.lists(arbitrary_json, min_size=1, max_size=2),
    encodings,
)
def test_any_engine_response_is_valid_or_raises_an_upstream_error(body: Any, vectors: Any, wanted: str):
    items = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    for candidate in (body, {**body, "error": None, "data": items}):
        raw = json.dumps(candidate).encode().replace(b"\\\\ud800", b"\\ud800")
        try:
            response, _ = edit_response(raw, input=["a"] * len(items), encoding_format=wanted, dimensions=1)
        except UpstreamError:
            continue
        assert all(len(decode_vector(each["embedding"])) == 1 for each in response["data"])
