"""Cohere's own API: /v2/chat, /v2/embed and /v2/rerank (routes.py).

Sources: https://docs.cohere.com/reference/chat, /embed, /rerank and /errors, read 2026-11; recordings cohere/*.
"""

from collections.abc import Mapping
from typing import ClassVar

import httpx2

from providers.adapters.provider import Provider
from providers.adapters.urls import server_root
from providers.canonical.errors import Overloaded, QuotaExhausted, Unsupported, UpstreamError
from providers.canonical.output_format import OutputFormat
from providers.canonical.reclassify_error import reclassify
from providers.dialects.cohere_chat.output_format import is_enforced, write_format
from providers.host_operation import HostOperation
from providers.hosted.cohere.embeddings import COHERE_EMBEDDINGS
from providers.structured_output import Constraint, ConstraintPlan

_COHERE_CHAT = "cohere_chat"
_PATHS: Mapping[str, str] = {_COHERE_CHAT: "/v2/chat", COHERE_EMBEDDINGS.name: "/v2/embed"}


class Cohere(Provider):
    name: ClassVar[str] = "cohere"
    dialects: ClassVar[tuple[str, ...]] = (_COHERE_CHAT,)
    default_base_url: ClassVar[str | None] = "https://api.cohere.com"
    known_options: ClassVar[Mapping[str, str]] = {key: Provider.known_options[key] for key in ("stream", "stops_on_disconnect")}
    host_operations: Mapping[str, HostOperation] = {"openai_embeddings": COHERE_EMBEDDINGS}
    constrained_dialects = frozenset({_COHERE_CHAT})

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        path = _PATHS.get(dialect)
        return httpx2.URL(server_root(base_url) + path) if path else super().url(base_url, dialect, model, stream)

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """The dialect has already written the constraint into the request, or refused or dropped it."""
        output = constraint.output
        if output is None:
            return None
        try:
            write_format(output)
        except Unsupported:
            return None
        return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A 429 that mentions the monthly limit of a trial key is an exhausted quota, not a rate limit.

        Source: cohere-ai/cohere-developer-experience#199, read 2026-11. The exact message is unverified.
        """
        error = super().read_error(status, headers, body)
        if type(error) is not Overloaded or b"/ month" not in body:
            return error
        return reclassify(error, QuotaExhausted(error.message, upstream_status=status))

    def _is_enforced(self, output: OutputFormat) -> bool:
        return is_enforced(output)
