"""Cohere beside chat: embeddings in its own format, and reranking."""

import json
from typing import Any

import httpx2
import pytest

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_route import translate_host_operation, translate_route
from app.gateway.response_translation.translate import translate_response
from providers.adapters.options import InvalidOption
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported, Unsupported, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS, ROUTES
from providers.dialect import ResponseMeta
from providers.hosted.cohere.adapter import Cohere
from providers.hosted.cohere.embeddings import COHERE_EMBEDDINGS
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source
from tests.support.strategies.chat_strategies import META

COHERE = Cohere("it", {})
BASE = "http://127.0.0.1:9/some/prefix"


def translate_embeddings(drop: bool = False, **body: Any) -> tuple[Any, dict[str, Any], list[str], ResponseMeta]:
    dialect = DIALECTS["openai_embeddings"]
    request = dialect.parse_request(json.dumps({"model": "m", **body}).encode())
    source = make_source(request, b"", dialect, MEDIA, drop_everything if drop else drop_nothing)
    translated = translate_host_operation(
        source, COHERE.host_operations["openai_embeddings"], Recipient(COHERE, Target("it", "embed-v4.0"))
    )
    meta = ResponseMeta(META.id, META.episode_id, "m", META.created, wants_usage=True, request_body=Body(request.body))
    return translated.dialect, json.loads(translated.raw), translated.dropped, meta


def test_embeddings_are_translated_to_and_from_cohere():
    operation, body, dropped, meta = translate_embeddings(
        input=["a", "b"], dimensions=2, user="u", episode_id=META.episode_id, truncate="END"
    )
    assert body == {
        "model": "embed-v4.0",
        "texts": ["a", "b"],
        "embedding_types": ["float"],
        "input_type": "search_document",
        "output_dimension": 2,
        "truncate": "END",
    }
    assert dropped == ["user"] and str(COHERE.url(BASE, operation.name)) == f"{BASE}/v2/embed"
    upstream_body = {"id": "x", "embeddings": {"float": [[1, 2], [3, 4]]}, "meta": {"billed_units": {"input_tokens": 5.0}}}
    response = translate_response(json.dumps(upstream_body).encode(), DIALECTS["openai_embeddings"], operation, meta, httpx2.Headers())
    body_for_caller = json.loads(response.raw)
    assert [(each["index"], each["embedding"]) for each in body_for_caller["data"]] == [(0, [1, 2]), (1, [3, 4])]
    assert response.usage is not None and (response.usage.input, body_for_caller["usage"]) == (5, {"prompt_tokens": 5, "total_tokens": 5})


def test_processed_tokens_of_embeddings_are_the_usage_and_billed_ones_stand_beside_it():
    _, _, _, meta = translate_embeddings(input="a")
    counts = {"billed_units": {"input_tokens": 5.0}, "tokens": {"input_tokens": 8}}
    upstream_body = json.dumps({"id": "x", "embeddings": {"float": [[1, 2]]}, "meta": counts}).encode()
    response = translate_response(upstream_body, DIALECTS["openai_embeddings"], COHERE_EMBEDDINGS, meta, httpx2.Headers())
    assert response.usage == Usage(8, 0, billed_input=5)
    assert json.loads(response.raw)["usage"] == {"prompt_tokens": 8, "total_tokens": 8}


def test_embedding_input_type_may_be_given():
    assert translate_embeddings(input="a", input_type="search_query")[1]["input_type"] == "search_query"


@pytest.mark.parametrize(
    ("body", "param"),
    [({"input": [1, 2]}, "input"), ({"input": ["a"] * 97}, "input"), ({"input": "a", "embed_dtype": "float16"}, "embed_dtype")],
)
def test_unsupported_embedding_field_is_refused(body: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        translate_embeddings(**body)
    assert refused.value.param == param


@pytest.mark.parametrize(("response", "kind"), [({"message": "broke"}, UpstreamFailed), ({"embeddings": [[1]]}, InvalidUpstreamResponse)])
def test_invalid_embeddings_response_is_an_error(response: dict[str, Any], kind: type[Exception]):
    operation, _, _, meta = translate_embeddings(input="a")
    with pytest.raises(kind):
        translate_response(json.dumps(response).encode(), DIALECTS["openai_embeddings"], operation, meta)


def test_rerank_uses_coheres_v2_api():
    route = ROUTES["rerank"]
    request = route.parse_request(json.dumps({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}).encode())
    translated = translate_route(
        make_source(request, b"", route, MEDIA, drop_nothing), route, Recipient(COHERE, Target("it", "rerank-v4.0"))
    )
    assert json.loads(translated.raw) == {"model": "rerank-v4.0", "query": "q", "documents": ["a", "b"]}
    assert str(COHERE.url(BASE, translated.dialect.name)) == f"{BASE}/v2/rerank"
    upstream_body: dict[str, Any] = {
        "id": "x",
        "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}],
        "meta": {},
    }
    meta = ResponseMeta(META.id, META.episode_id, "m", META.created, wants_usage=True, request_body=Body(request.body))
    response = json.loads(translate_response(json.dumps(upstream_body).encode(), route, translated.dialect, meta).raw)
    assert response["results"] == [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}]


def test_engine_only_routes_are_not_offered():
    route = ROUTES["tokenize"]
    request = route.parse_request(b'{"model":"m","prompt":"a"}')
    with pytest.raises(OperationNotSupported):
        translate_route(make_source(request, b"", route, MEDIA, drop_nothing), route, Recipient(COHERE, Target("it", "m")))


@pytest.mark.parametrize(
    "base", ["https://api.cohere.com", "https://api.cohere.com/", "https://api.cohere.com/v1", "https://api.cohere.com/v2"]
)
def test_chat_url_is_v2_whatever_version_the_base_url_names(base: str):
    assert str(COHERE.url(base, "cohere_chat")) == "https://api.cohere.com/v2/chat"


def test_options_of_other_providers_are_refused():
    with pytest.raises(InvalidOption):
        Cohere("it", {"region": "eu"})
