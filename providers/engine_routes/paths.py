"""The paths at which callers request engine routes, and the name of the route at each."""

from collections.abc import Mapping

# The names of these routes in vLLM, SGLang, LMDeploy and Jina.
ROUTE_BY_PATH: Mapping[str, str] = {
    "/tokenize": "tokenize",
    "/v1/tokenize": "tokenize",
    "/detokenize": "detokenize",
    "/v1/detokenize": "detokenize",
    "/v1/encode": "encode",
    "/encode": "sglang_encode",
    "/rerank": "rerank",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/score": "score",
    "/v1/score": "score",
    "/pooling": "pooling",
    "/classify": "classify",
    "/v1/classify": "classify",
    "/generate": "generate",
}
