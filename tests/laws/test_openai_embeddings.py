"""Laws of embeddings: what is asked is what comes, whatever the engine gave, and what cannot be made so is never passed off as it."""

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
from tests.laws.chats import STAMP, bounded

ASK: dict[str, Any] = {"model": "m", "input": "Hi"}
USAGE = {"prompt_tokens": 3, "total_tokens": 3}

# Every documented field: values of each documented type, and values of none.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "input": (
        ["a", ["a"], ["a", "b"], [1, 2], [[1], [2, 3]], [0], ["x"] * 2048],
        ["", [], [""], ["a", ""], ["a", 1], [1, "a"], [[1], "a"], [[]], [-1], [[-1]], [1.5], [True], {}, 5, ["a", None]],
    ),
    "dimensions": ([1, 3072], [0, -1, 1.5, "5", True]),
    "encoding_format": (["float", "base64"], ["hex", 1, ""]),
    "user": (["u"], [1, {}]),
    "metadata": ([{"team": "a"}], [{"n": 1}, "x"]),
    "stream": ([False], [True, "x"]),
    "embed_dtype": (["float16"], [16]),
    "endianness": (["little"], [1]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
    "tensorzero::episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
    "tensorzero::tags": ([{"a": "b"}], [{"a": 1}]),
}
RIGHT = [(field, value) for field, (right, _) in DOCUMENTED.items() for value in right]
WRONG = [(field, value) for field, (_, wrong) in DOCUMENTED.items() for value in wrong]

# What a 32-bit float holds, so that both encodings can say it.
numbers = st.floats(-1, 1, width=32)
vectors = st.integers(1, 5).flatmap(lambda size: st.lists(st.lists(numbers, min_size=size, max_size=size), min_size=1, max_size=4))
encodings = st.sampled_from(["float", "base64"])


def as_base64(vector: list[float], code: str = "f") -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}{code}", *vector)).decode()


def as_numbers(said: str | list[float]) -> list[float]:
    return list(struct.unpack(f"<{len(base64.b64decode(said)) // 4}f", base64.b64decode(said))) if isinstance(said, str) else said


def answer(vectors: list[Any], **more: Any) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps(
        {"object": "list", "data": data, "model": "engine", "usage": {"prompt_tokens": 3, "total_tokens": 3}, **more}
    ).encode()


def asked(**fields: Any) -> ResponseMeta:
    body = Body.read(json.dumps({**ASK, **fields}).encode())
    return ResponseMeta(STAMP.id, STAMP.episode_id, "a name", STAMP.created, wants_usage=True, request_body=body)


def edited(raw: bytes, **fields: Any) -> tuple[Any, OutboundResponse]:
    made = OpenAIEmbeddings().edit_response(raw, asked(**fields))
    return json.loads(made.raw), made


def misfit(raw: bytes, **fields: Any) -> str:
    with pytest.raises(InvalidUpstreamResponse) as fault:
        edited(raw, **fields)
    return fault.value.message


@pytest.mark.parametrize(("field", "value"), RIGHT, ids=repr)
def test_what_is_documented_is_taken_and_travels_as_it_came(field: str, value: Any):
    said = {**ASK, field: value, "unheard_of": {"x": [1.50]}}
    ask = OpenAIEmbeddings().parse_request(json.dumps(said).encode())
    assert json.loads(ask.body.write()) == said
    assert (ask.model, ask.stream, ask.output_tokens, ask.choices) == ("m", False, 0, 1)


@pytest.mark.parametrize(("field", "value"), WRONG, ids=repr)
def test_what_is_of_a_wrong_type_is_refused_by_its_path(field: str, value: Any):
    with pytest.raises(InvalidRequest) as fault:
        OpenAIEmbeddings().parse_request(json.dumps({**ASK, field: value}).encode())
    assert fault.value.param is not None
    assert fault.value.param.startswith(field.removeprefix("tensorzero::") if value == "" else field)


def test_the_input_at_fault_is_named():
    for inputs, path in (([["a"]], "input[0][0]"), (["a", "b", 3], "input[2]"), ([[1], [2], []], "input[2]")):
        with pytest.raises(InvalidRequest) as fault:
            OpenAIEmbeddings().parse_request(json.dumps({"model": "m", "input": inputs}).encode())
        assert fault.value.param == path
        assert path in fault.value.message


@pytest.mark.parametrize("without", ["input", "model"])
def test_a_missing_field_is_named(without: str):
    with pytest.raises(InvalidRequest) as fault:
        OpenAIEmbeddings().parse_request(json.dumps({key: value for key, value in ASK.items() if key != without}).encode())
    assert fault.value.param == without


@pytest.mark.parametrize(
    ("given", "tokens"), [("abc", 1), ("\u4e2d\u6587", 2), (["abcd", "a"], 3), ([7, 8, 9], 3), ([[7], [8, 9]], 3)], ids=repr
)
def test_token_ids_are_counted_and_texts_estimated_by_their_bytes(given: Any, tokens: int):
    assert OpenAIEmbeddings().parse_request(json.dumps({"model": "m", "input": given}).encode()).input_tokens == tokens


def test_a_conversation_may_stand_in_place_of_input_as_vllm_has_it():
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert OpenAIEmbeddings().parse_request(json.dumps(said).encode()).input_tokens > 0
    stamp = ResponseMeta(STAMP.id, STAMP.episode_id, "m", 0, wants_usage=True, request_body=Body.read(json.dumps(said).encode()))
    assert OpenAIEmbeddings().edit_response(answer([[0.5]]), stamp).usage == Usage(3, 0)
    with pytest.raises(InvalidUpstreamResponse):
        OpenAIEmbeddings().edit_response(answer([[0.5], [1]]), stamp)


@bounded
@given(vectors, encodings, encodings, st.booleans(), st.randoms())
def test_the_encoding_asked_for_comes_whatever_the_engine_gave(vectors: Any, wanted: str, given: str, says: bool, dice: Any):
    data = [
        {"object": "embedding", "index": index, "embedding": as_base64(vector) if given == "base64" else vector}
        for index, vector in enumerate(vectors)
    ]
    dice.shuffle(data)
    raw = answer([], data=data, id="theirs")
    fields: dict[str, Any] = {"input": ["x"] * len(vectors), "dimensions": len(vectors[0])} if says else {"input": ["x"] * len(vectors)}
    told, made = edited(raw, **fields, encoding_format=wanted)
    assert [as_numbers(each["embedding"]) for each in told["data"]] == vectors
    assert all(isinstance(each["embedding"], str) == (wanted == "base64") for each in told["data"])
    assert [each["index"] for each in told["data"]] == list(range(len(vectors)))
    assert (told["object"], told["model"], told["id"], told["usage"]) == (
        "list",
        "a name",
        "theirs",
        {"prompt_tokens": 3, "total_tokens": 3},
    )
    assert (made.usage, made.finish_reason) == (Usage(3, 0), None)
    assert CreateEmbeddingResponse.model_validate({**told, "data": [{**each, "embedding": vectors[0]} for each in told["data"]]})


@bounded
@given(vectors)
def test_what_is_as_asked_stays_the_engines_own_bytes(vectors: Any):
    data = json.dumps([{"index": index, "x": 1.50, "object": "embedding", "embedding": each} for index, each in enumerate(vectors)])
    raw = b'{"object": "list", "data": %s, "model": "engine"}' % data.encode()
    assert data.encode() in OpenAIEmbeddings().edit_response(raw, asked(input=["x"] * len(vectors))).raw


def test_what_the_sdk_needs_is_there_though_the_engine_forgets_it():
    told, _ = edited(json.dumps({"data": [{"embedding": [0.5]}, {"embedding": [1], "index": None}]}).encode(), input=["a", "b"])
    assert told == {
        "object": "list",
        "model": "a name",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}, {"object": "embedding", "index": 1, "embedding": [1]}],
    }


@pytest.mark.parametrize("wanted", ["float", "base64"])
@pytest.mark.parametrize("vector", [[0.5, 1, 2], as_base64([0.5, 1, 2])], ids=["numbers", "base64"])
def test_an_engine_that_ignores_dimensions_does_not_pass(vector: Any, wanted: str):
    with pytest.raises(RequestIgnored) as fault:
        edited(answer([vector]), dimensions=2, encoding_format=wanted)
    assert (fault.value.status, fault.value.param) == (422, "dimensions")
    assert (fault.value.counts_as_failure, "3 numbers" in fault.value.message) == (False, True)


@pytest.mark.parametrize("wanted", ["float", "base64"])
def test_a_vector_for_each_token_is_no_embedding(wanted: str):
    assert "a vector for each token (2 of them)" in misfit(answer([[[0.5, 1], [1, 2]]]), encoding_format=wanted)
    assert "a vector for each token (1 of them)" in misfit(answer([[[0.5, 1]]]), encoding_format=wanted)


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
        as_base64([math.nan]),
        as_base64([math.inf]),
        "AAAAAAA=",
    ],
    ids=repr,
)
def test_what_is_no_vector_is_garbled(vector: Any):
    assert misfit(answer([vector]), encoding_format="float")


@pytest.mark.parametrize("vector", [[], [[]], ["a"], [None], {}, [1e39], [1, 2, "3"]], ids=repr)
def test_what_cannot_be_said_in_base64_is_garbled(vector: Any):
    assert misfit(answer([vector]), encoding_format="base64")


@pytest.mark.parametrize("given", [[[1]], [[1], [2], [3]], []], ids=len)
def test_as_many_come_as_were_asked_for(given: Any):
    assert f"{len(given)} embeddings for 2 inputs" in misfit(answer(given), input=["a", "b"])
    assert edited(answer([[1], [2]]), input=[[5], [6]])[1].usage
    assert edited(answer([[1]]), input=[5, 6])[1].usage


@pytest.mark.parametrize("indexes", [[0, 0], [1, 2], [0, None], ["0", "1"], [0.5, 1]], ids=repr)
def test_a_numbering_that_is_none_is_garbled(indexes: list[Any]):
    data = [{"object": "embedding", "index": index, "embedding": [1]} for index in indexes]
    assert "numbered" in misfit(answer([], data=data), input=["a", "b"])


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": "x"}, {"data": [1]}], ids=repr)
def test_an_answer_without_embeddings_is_garbled(body: Any):
    assert "no embeddings" in misfit(json.dumps(body).encode())


def test_an_error_told_with_status_200_is_an_error():
    with pytest.raises(UpstreamFailed) as fault:
        edited(json.dumps({"error": {"message": "out of memory", "code": 500}}).encode())
    assert "out of memory" in fault.value.message


def test_base64_of_other_numbers_passes_and_is_never_taken_for_32_bit_floats():
    halves = as_base64([0.5, 1, -2], "e")
    told, _ = edited(answer([halves]), encoding_format="base64", embed_dtype="float16", dimensions=3)
    assert told["data"][0]["embedding"] == halves
    assert misfit(answer([halves]), encoding_format="float", embed_dtype="float16")
    assert misfit(answer([[0.5]]), encoding_format="base64", endianness="big")
    with pytest.raises(RequestIgnored):
        edited(answer([halves]), encoding_format="base64", embed_dtype="float16", dimensions=2)


def test_base64_may_be_written_with_escaped_slashes():
    vector = [-0.5, 3.999999761581421, -1.9999998807907104]
    assert "/" in as_base64(vector)
    raw = answer([as_base64(vector)]).replace(b"/", b"\\/")
    assert as_numbers(edited(raw, dimensions=3)[0]["data"][0]["embedding"]) == vector
    assert as_numbers(edited(raw, dimensions=3, encoding_format="base64")[0]["data"][0]["embedding"]) == vector


@pytest.mark.parametrize(
    ("told", "usage"),
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
def test_usage_is_read_and_nothing_is_ever_written(told: Any, usage: Usage):
    said, made = edited(answer([[1]], usage=told))
    assert (made.usage, said["usage"]) == (usage, told)


def test_a_stream_is_refused_before_and_garbled_after():
    dialect = OpenAIEmbeddings()
    with pytest.raises(InvalidUpstreamResponse):
        dialect.stream_editor(STAMP)
    body = Body(model="m", stream=False, stream_options={})
    dialect.prepare_upstream_body(body, stream=True, tell_usage=True)
    assert body == {"model": "m"}


def test_errors_are_told_in_openais_envelope():
    told = json.loads(OpenAIEmbeddings().write_error(InvalidRequest("No.", param="input[1]")))
    assert told == {"error": {"message": "No.", "type": "invalid_request_error", "code": 400, "param": "input[1]"}}
    assert OpenAIEmbeddings().write_error_frame(InvalidRequest("No.")).startswith(b'data: {"error"')


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "AAAA", "\\ud800", "/", "="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["embedding", "index", "object", "x"]), inner, max_size=3),
    max_leaves=8,
)


@bounded
@given(
    st.dictionaries(st.sampled_from(["data", "usage", "error", "object", "model"]), odd), st.lists(odd, min_size=1, max_size=2), encodings
)
def test_whatever_an_engine_sends_is_an_answer_or_the_engines_failure(body: Any, vectors: Any, wanted: str):
    items = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    for said in (body, {**body, "error": None, "data": items}):
        raw = json.dumps(said).encode().replace(b"\\\\ud800", b"\\ud800")
        try:
            told, _ = edited(raw, input=["a"] * len(items), encoding_format=wanted, dimensions=1)
        except UpstreamError:
            continue
        assert all(len(as_numbers(each["embedding"])) == 1 for each in told["data"])
