"""Models on Vertex: the publisher by the model's name, and the dialects and URL paths of that publisher."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

GEMINI = "gemini"
EMBEDDINGS = "vertex_embeddings"
COUNT_TOKENS = "vertex_count_tokens"

# Publishers whose models have their own URLs and speak OpenAI's chat; the models of all others share one URL.
# Source: https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral, read 2026-11.
_RAW_PREDICT_PUBLISHERS = frozenset({"mistralai"})
_PUBLISHER_BY_PREFIX: Mapping[str, str] = {"claude": "anthropic", "mistral": "mistralai", "codestral": "mistralai"}

_DIALECTS_BY_PUBLISHER: Mapping[str, tuple[str, ...]] = {
    "google": (GEMINI,),
    "anthropic": ("anthropic_messages", "anthropic_count_tokens"),
}
# The method at the end of a URL: without and with streaming.
_METHODS: Mapping[str, tuple[str, str]] = {
    GEMINI: ("generateContent", "streamGenerateContent?alt=sse"),
    COUNT_TOKENS: ("countTokens", "countTokens"),
    "anthropic_messages": ("rawPredict", "streamRawPredict"),
    "openai_chat": ("rawPredict", "streamRawPredict"),
}


class VertexModel(Struct, frozen=True):
    """A model of a publisher. With an empty `publisher`, `name` is the number of an endpoint in the project."""

    publisher: str
    name: str

    @property
    def dialects(self) -> tuple[str, ...]:
        return _DIALECTS_BY_PUBLISHER.get(self.publisher, ("openai_chat",))

    @property
    def version(self) -> str:
        """The API version. Gemini uses the beta, as Google's own SDKs do: new features are there first."""
        return "v1beta1" if self.publisher == "google" else "v1"

    @property
    def uses_embed_content(self) -> bool:
        """Whether its embeddings need :embedContent instead of :predict."""
        return self.name.startswith("gemini-embedding-") and not self.name.startswith("gemini-embedding-001")

    @property
    def name_in_body(self) -> str | None:
        """The value of `model` in the body; None: only the URL names the model."""
        if self.publisher in _DIALECTS_BY_PUBLISHER or not self.publisher:
            return None
        return self.name if self.publisher in _RAW_PREDICT_PUBLISHERS else f"{self.publisher}/{self.name}"

    def path(self, dialect: str, stream: bool) -> str:
        """The URL path below the project's location."""
        name = quote(self.name, safe="@")
        if not self.publisher:
            endpoint_path = f"/endpoints/{name}"
            return f"{endpoint_path}:{_METHODS[dialect][stream]}" if dialect == GEMINI else f"{endpoint_path}/chat/completions"
        models_path = f"/publishers/{quote(self.publisher, safe='')}/models/"
        if dialect == "anthropic_count_tokens":
            return f"{models_path}count-tokens:rawPredict"
        if dialect == EMBEDDINGS:
            return f"{models_path}{name}:{'embedContent' if self.uses_embed_content else 'predict'}"
        if dialect == "openai_chat" and self.publisher not in _RAW_PREDICT_PUBLISHERS:
            return "/endpoints/openapi/chat/completions"
        return f"{models_path}{name}:{_METHODS[dialect][stream]}"


def parse_model(model: str) -> VertexModel:
    """Reads `claude-...`, `gemini-...`, `PUBLISHER/MODEL`, `publishers/PUBLISHER/models/MODEL`, or the number of an endpoint."""
    parts = model.removeprefix("publishers/").replace("/models/", "/").split("/", 1)
    if parts[0] == "endpoints" and len(parts) == 2:
        return VertexModel("", parts[1])
    if len(parts) == 2:
        return VertexModel(parts[0], parts[1])
    if model.isdecimal():
        return VertexModel("", model)
    return VertexModel(_PUBLISHER_BY_PREFIX.get(model.partition("-")[0], "google"), model)
