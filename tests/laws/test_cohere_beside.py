"""Laws of what Cohere is asked beside chats: embeddings in a shape of its own, and documents ranked."""

import json
from typing import Any

import httpx
import pytest

from app.domain import Target
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.response_translation.translate import translate_response
from providers.adapters.provider import InvalidOption
from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported, Unsupported, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import DIALECTS
from providers.engine_routes.catalogue import ROUTES
from providers.hosted.cohere.adapter import Cohere
from tests.laws.asking import MEDIA, everything, nothing
from tests.laws.chats import STAMP

COHERE = Cohere("it", {})
BASE = "http://127.0.0.1:9/some/prefix"


def embedding(drop: bool = False, **body: Any) -> tuple[Any, dict[str, Any], list[str], ResponseMeta]:
    dialect = DIALECTS["openai_embeddings"]
    ask = dialect.parse_request(json.dumps({"model": "m", **body}).encode())
    asked = RequestTranslator(ask, b"", dialect, MEDIA, everything if drop else nothing)
    prepared = asked.translate_host_operation(COHERE.host_operations["openai_embeddings"], COHERE, Target("it", "embed-v4.0"))
    stamp = ResponseMeta(STAMP.id, STAMP.episode_id, "m", STAMP.created, wants_usage=True, request_body=Body(ask.body))
    return prepared.dialect, json.loads(prepared.raw), prepared.dropped, stamp


def test_texts_are_embedded_in_its_words():
    foreign, body, dropped, stamp = embedding(input=["a", "b"], dimensions=2, user="u", episode_id=STAMP.episode_id, truncate="END")
    assert body == {
        "model": "embed-v4.0",
        "texts": ["a", "b"],
        "embedding_types": ["float"],
        "input_type": "search_document",
        "output_dimension": 2,
        "truncate": "END",
    }
    assert dropped == ["user"] and str(COHERE.url(BASE, foreign.name)) == f"{BASE}/v2/embed"
    told = {"id": "x", "embeddings": {"float": [[1, 2], [3, 4]]}, "meta": {"billed_units": {"input_tokens": 5.0}}}
    edited = translate_response(json.dumps(told).encode(), DIALECTS["openai_embeddings"], foreign, stamp, httpx.Headers())
    answer = json.loads(edited.raw)
    assert [(each["index"], each["embedding"]) for each in answer["data"]] == [(0, [1, 2]), (1, [3, 4])]
    assert edited.usage is not None and (edited.usage.input, answer["usage"]) == (5, {"prompt_tokens": 5, "total_tokens": 5})


def test_what_they_are_for_may_be_said():
    assert embedding(input="a", input_type="search_query")[1]["input_type"] == "search_query"


@pytest.mark.parametrize(
    ("body", "param"),
    [({"input": [1, 2]}, "input"), ({"input": ["a"] * 97}, "input"), ({"input": "a", "embed_dtype": "float16"}, "embed_dtype")],
)
def test_what_it_cannot_embed_is_refused(body: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        embedding(**body)
    assert refused.value.param == param


@pytest.mark.parametrize(("told", "kind"), [({"message": "broke"}, UpstreamFailed), ({"embeddings": [[1]]}, InvalidUpstreamResponse)])
def test_what_are_no_embeddings_is_an_error(told: dict[str, Any], kind: type[Exception]):
    foreign, _, _, stamp = embedding(input="a")
    with pytest.raises(kind):
        translate_response(json.dumps(told).encode(), DIALECTS["openai_embeddings"], foreign, stamp)


def test_documents_are_ranked_by_its_second_version():
    route = ROUTES["rerank"]
    ask = route.parse_request(json.dumps({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}).encode())
    prepared = RequestTranslator(ask, b"", route, MEDIA, nothing).translate_route(route, COHERE, Target("it", "rerank-v4.0"))
    assert json.loads(prepared.raw) == {"model": "rerank-v4.0", "query": "q", "documents": ["a", "b"]}
    assert str(COHERE.url(BASE, prepared.dialect.name)) == f"{BASE}/v2/rerank"
    told: dict[str, Any] = {"id": "x", "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}], "meta": {}}
    stamp = ResponseMeta(STAMP.id, STAMP.episode_id, "m", STAMP.created, wants_usage=True, request_body=Body(ask.body))
    answer = json.loads(translate_response(json.dumps(told).encode(), route, prepared.dialect, stamp).raw)
    assert answer["results"] == [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}]


def test_it_has_no_route_of_engines():
    route = ROUTES["tokenize"]
    ask = route.parse_request(b'{"model":"m","prompt":"a"}')
    with pytest.raises(OperationNotSupported):
        RequestTranslator(ask, b"", route, MEDIA, nothing).translate_route(route, COHERE, Target("it", "m"))


@pytest.mark.parametrize(
    "base", ["https://api.cohere.com", "https://api.cohere.com/", "https://api.cohere.com/v1", "https://api.cohere.com/v2"]
)
def test_its_chat_is_where_it_is_whatever_version_is_named(base: str):
    assert str(COHERE.url(base, "cohere_chat")) == "https://api.cohere.com/v2/chat"


def test_options_of_others_are_refused():
    with pytest.raises(InvalidOption):
        Cohere("it", {"region": "eu"})
