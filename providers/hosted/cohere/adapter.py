"""Cohere's own API: Command models by /v2/chat, embeddings by /v2/embed, rerankers by /v2/rerank (providers/engine_routes/rerank.py).

Sources: https://docs.cohere.com/reference/chat, /embed, /rerank and /errors, read 2026-11; /shared/exchanges/cohere.
"""

from collections.abc import Mapping
from typing import ClassVar

import httpx

from providers.adapters.provider import Provider, server_root
from providers.canonical.errors import Overloaded, QuotaExhausted, Unsupported, UpstreamError
from providers.dialects.cohere_chat.output_format import is_enforced, write_format
from providers.host_operation import HostOperation
from providers.hosted.cohere.embeddings import COHERE_EMBEDDINGS
from providers.structured_output import Constraint, ConstraintPlan, OutputFormat

_COHERE_CHAT = "cohere_chat"
_PATHS: Mapping[str, str] = {_COHERE_CHAT: "/v2/chat", COHERE_EMBEDDINGS.name: "/v2/embed"}


class Cohere(Provider):
    name: ClassVar[str] = "cohere"
    dialects: ClassVar[tuple[str, ...]] = (_COHERE_CHAT,)
    default_base_url: ClassVar[str | None] = "https://api.cohere.com"
    known_options: ClassVar[Mapping[str, str]] = {"stream": Provider.known_options["stream"]}
    host_operations: ClassVar[Mapping[str, HostOperation]] = {"openai_embeddings": COHERE_EMBEDDINGS}
    constrained_dialects = frozenset({_COHERE_CHAT})

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        path = _PATHS.get(dialect)
        return httpx.URL(server_root(base_url) + path) if path else super().url(base_url, dialect, model, stream)

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """The constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        output = constraint.output
        if output is None:
            return None
        try:
            write_format(output)
        except Unsupported:
            return None
        return super().plan_constraint(constraint, dialect, as_said=as_said)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A trial key has so many calls in a minute, and so many in a month: those are used up.

        Source: cohere-ai/cohere-developer-experience#199, read 2026-11. In which words it says so is unproven.
        """
        error = super().read_error(status, headers, body)
        if type(error) is not Overloaded or b"/ month" not in body:
            return error
        exhausted = QuotaExhausted(error.message, upstream_status=status, retry_after_s=error.retry_after_s)
        exhausted.upstream_code = error.upstream_code
        return exhausted

    def _is_enforced(self, output: OutputFormat) -> bool:
        return is_enforced(output)
