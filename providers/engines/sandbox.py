"""The sandbox engine of `narthex up`: it obeys every documented field, in the words of the hosted gateway's API."""

from collections.abc import Mapping
from typing import ClassVar, get_args

from providers import guided
from providers.guided import Kind, Way
from providers.provider import Provider

_WAYS: guided.Ways = {kind: Way("enforced", guided.as_guided_fields, plain=True) for kind in get_args(Kind)}


class Sandbox(Provider):
    name: ClassVar[str] = "sandbox"
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_completions", "openai_embeddings"),
        *("anthropic_count_tokens", "vllm_generate"),
    )
    guided_in = frozenset({"openai_chat", "openai_completions", "vllm_generate"})
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {}

    refuses: frozenset[str] = frozenset()
    hints = frozenset({"guided_decoding_backend", "user", "store", "metadata", "service_tier"})

    own_words = guided.WORDS - {"regex", "ebnf", "grammar", "json_schema"}

    @property
    def guided(self) -> guided.Ways:
        return _WAYS
