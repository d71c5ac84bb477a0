"""The routes beside chat, and where callers ask for them: the only list of them."""

from collections.abc import Mapping

from providers.engine_routes.detokenize import Detokenize
from providers.engine_routes.pooling import Classify, Pooling, SGLangEncode
from providers.engine_routes.rerank import Rerank
from providers.engine_routes.route import Route
from providers.engine_routes.score import Score
from providers.engine_routes.tokenize import Encode, Tokenize

ROUTES: Mapping[str, Route] = {
    each.name: each for each in (Tokenize(), Detokenize(), Encode(), SGLangEncode(), Rerank(), Score(), Pooling(), Classify())
}

# With the names that vLLM, SGLang, LMDeploy and Jina have for them.
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
}
