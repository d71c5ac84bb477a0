"""Google AI Studio: Gemini models with an API key. Those of Google Cloud, which knows no such keys, are at Vertex.

Sources: https://ai.google.dev/api, https://ai.google.dev/gemini-api/docs/api-key, read 2026-11; /reference/providers.md parts 1 to 7.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar
from urllib.parse import quote

import httpx

from providers.dialects.gemini.errors import read_google_error
from providers.dialects.gemini.parts import is_googles
from providers.errors import UpstreamError
from providers.foreign import Foreign
from providers.guided import Constraint, Guiding
from providers.hosted.gemini_counting import COUNT, resource
from providers.hosted.gemini_embedding import EMBED
from providers.hosted.gemini_guiding import gemini_guiding, left
from providers.media import Kind
from providers.provider import Bent, Provider
from providers.wire import Body

_CHAT = "gemini"
_METHODS: Mapping[str, str] = {EMBED.name: "batchEmbedContents", COUNT.name: "countTokens"}


class GoogleAIStudio(Provider):
    name: ClassVar[str] = "gemini"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT,)
    default_base_url: ClassVar[str | None] = "https://generativelanguage.googleapis.com"
    addresses_models: ClassVar[bool] = True
    foreign: ClassVar[Mapping[str, Foreign]] = {"openai_embeddings": EMBED, "anthropic_count_tokens": COUNT}
    known_options: ClassVar[Mapping[str, str]] = {
        "stream": Provider.known_options["stream"],
        "guided": '"enforced": answers are trusted to obey schemas whose keywords Google does not say it holds to; "validated" (default)',
    }
    # By their addresses it reads files of its own alone, and YouTube's videos.
    # Source: https://ai.google.dev/gemini-api/docs/file-input-methods, read 2026-11.
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"image", "file", "audio"})
    guided_in = frozenset({_CHAT})

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """`base_url` with or without its version segment (/v1beta) is understood."""
        base = base_url.rstrip("/")
        last = httpx.URL(base).path.rpartition("/")[2]
        method = _METHODS.get(dialect) or ("streamGenerateContent" if stream else "generateContent")
        versioned = base if last[:1] == "v" and last[1:2].isdigit() else base + "/v1beta"
        query = "?alt=sse" if stream and dialect == _CHAT else ""
        return httpx.URL(f"{versioned}/{quote(resource(model), safe='/:@')}:{method}{query}")

    def takes_address(self, address: str, dialect: str) -> bool:
        return is_googles(address)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """Never in the address, where logs would keep it."""
        return [("x-goog-api-key", credential)] if credential else []

    def name_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """The address names it."""
        body.pop("model", None)

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        return gemini_guiding(constraint, vouched=self.vouched)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        return super().bend(body, dialect, may_drop, left(constraint, body))

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_google_error(status, headers, body)
