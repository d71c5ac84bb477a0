"""The sandbox engine of `narthex up`: it obeys every documented field, in the words of the hosted gateway's API."""

from collections.abc import Mapping
from typing import Any, ClassVar

from providers import guided
from providers.provider import Provider
from providers.wire import Body


class Sandbox(Provider):
    name: ClassVar[str] = "sandbox"
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_completions", "openai_embeddings"),
        *("anthropic_count_tokens", "vllm_generate"),
    )
    default_base_url: ClassVar[str | None] = None
    probe_path: ClassVar[str | None] = "/version"
    known_options: ClassVar[Mapping[str, str]] = {}

    refuses: frozenset[str] = frozenset()
    hints = frozenset({"guided_decoding_backend", "user", "store", "metadata", "service_tier"})

    def native_words(self, body: Body) -> bool:
        return True

    def guide(self, output: guided.Output) -> dict[str, Any]:
        return guided.as_guided_fields(output)
