"""Google AI Studio: Gemini models with an API key. Gemini on Google Cloud is providers/hosted/vertex.

Sources: https://ai.google.dev/api, https://ai.google.dev/gemini-api/docs/api-key, read 2026-11; docs/sources.md#gemini-and-vertex.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar
from urllib.parse import quote

import httpx2

from providers.adapters.provider import Adapted, Provider
from providers.adapters.tool_names import ToolNames
from providers.canonical.errors import UpstreamError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.gemini.errors import read_google_error
from providers.dialects.gemini.media import is_google_url
from providers.host_operation import HostOperation
from providers.hosted.gemini.count_tokens import GEMINI_COUNT_TOKENS, model_resource
from providers.hosted.gemini.embeddings import GEMINI_EMBEDDINGS
from providers.hosted.gemini.own_rules import RESTRICTED_FIELDS, breaks_rules
from providers.hosted.gemini.structured_output import plan_gemini_constraint, without_dropped_output
from providers.profiles.gemini import find_profile
from providers.structured_output import Constraint, ConstraintPlan

_GEMINI = "gemini"
_METHODS: Mapping[str, str] = {GEMINI_EMBEDDINGS.name: "batchEmbedContents", GEMINI_COUNT_TOKENS.name: "countTokens"}


class GoogleAIStudio(Provider):
    name: ClassVar[str] = "gemini"
    dialects: ClassVar[tuple[str, ...]] = (_GEMINI,)
    default_base_url: ClassVar[str | None] = "https://generativelanguage.googleapis.com"
    tool_names = ToolNames("[a-zA-Z0-9_.:-]")  # FunctionDeclaration.name: https://ai.google.dev/api/caching#FunctionDeclaration
    model_in_url: ClassVar[bool] = True
    adapts_own_dialects: ClassVar[bool] = True
    restricted_fields: Mapping[str, str] = RESTRICTED_FIELDS
    host_operations: Mapping[str, HostOperation] = {
        "openai_embeddings": GEMINI_EMBEDDINGS,
        "anthropic_count_tokens": GEMINI_COUNT_TOKENS,
    }
    known_options: ClassVar[Mapping[str, str]] = {
        **{key: Provider.known_options[key] for key in ("stream", "stops_on_disconnect")},
        "guided": '"enforced": trust Google with schema keywords that it does not document; "validated" (default): check those responses',
    }
    # Of URLs it only reads its own files and YouTube videos.
    # Source: https://ai.google.dev/gemini-api/docs/file-input-methods, read 2026-11.
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image", "file", "audio"})
    constrained_dialects = frozenset({_GEMINI})

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        """The address of a request. `base_url` may have its version segment (/v1beta) or not."""
        base = base_url.rstrip("/")
        last_segment = httpx2.URL(base).path.rpartition("/")[2]
        method = _METHODS.get(dialect) or ("streamGenerateContent" if stream else "generateContent")
        versioned_base = base if last_segment[:1] == "v" and last_segment[1:2].isdigit() else base + "/v1beta"
        query = "?alt=sse" if stream and dialect == _GEMINI else ""
        return httpx2.URL(f"{versioned_base}/{quote(model_resource(model), safe='/:@')}:{method}{query}")

    def accepts_media_url(self, address: str, dialect: str) -> bool:
        return is_google_url(address)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """The key is never in the URL, where logs would keep it."""
        return [("x-goog-api-key", credential)] if credential else []

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        return dialect == _GEMINI and breaks_rules(body, find_profile(model))

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """The URL names the model, not the body."""
        body.pop("model", None)

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        return plan_gemini_constraint(constraint, trusted=self.trusted)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, without_dropped_output(constraint, body))
        if body.pop("labels", None) is not None:  # Vertex alone has them, and they change no response
            adapted.dropped.append("labels")
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_google_error(status, headers, body)
