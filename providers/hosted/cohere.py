"""Cohere's own API: Command models by /v2/chat, embeddings by /v2/embed, rerankers by /v2/rerank (providers/routes/rerank.py).

Sources: https://docs.cohere.com/reference/chat, /embed, /rerank and /errors, read 2026-11; /shared/exchanges/cohere.
"""

from collections.abc import Mapping
from typing import ClassVar

import httpx

from providers.dialects.cohere_chat.formats import is_held, write_format
from providers.errors import Exhausted, Overloaded, Unsupported, UpstreamError
from providers.foreign import Foreign
from providers.guided import Constraint, Guiding, Output
from providers.hosted.cohere_embed import EMBED
from providers.provider import Provider, server_root

_CHAT = "cohere_chat"
_PATHS: Mapping[str, str] = {_CHAT: "/v2/chat", EMBED.name: "/v2/embed"}


class Cohere(Provider):
    name: ClassVar[str] = "cohere"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT,)
    default_base_url: ClassVar[str | None] = "https://api.cohere.com"
    known_options: ClassVar[Mapping[str, str]] = {"stream": Provider.known_options["stream"]}
    foreign: ClassVar[Mapping[str, Foreign]] = {"openai_embeddings": EMBED}
    guided_in = frozenset({_CHAT})

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        path = _PATHS.get(dialect)
        return httpx.URL(server_root(base_url) + path) if path else super().url(base_url, dialect, model, stream)

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """The constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        output = constraint.output
        if output is None:
            return None
        try:
            write_format(output)
        except Unsupported:
            return None
        return super().guiding(constraint, dialect, as_said=as_said)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A trial key has so many calls in a minute, and so many in a month: those are used up.

        Source: cohere-ai/cohere-developer-experience#199, read 2026-11. In which words it says so is unproven.
        """
        error = super().read_error(status, headers, body)
        if type(error) is not Overloaded or b"/ month" not in body:
            return error
        spent = Exhausted(error.message, told=status, retry_after_s=error.retry_after_s)
        spent.said_code = error.said_code
        return spent

    def _is_held(self, output: Output) -> bool:
        return is_held(output)
