"""The sandbox engine of `narthex up`: it honours every documented field, under the names of the hosted gateway's API."""

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from providers import structured_output
from providers.adapters.openai_compatible import OpenAICompatible
from providers.canonical.output_format import OutputKind
from providers.structured_output import ConstraintSupport

_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    kind: ConstraintSupport("enforced", structured_output.write_guided_fields, keeps_response_format=True) for kind in get_args(OutputKind)
}


class Sandbox(OpenAICompatible):
    """The engine with every field, so that a caller can try each of them."""

    name: ClassVar[str] = "sandbox"
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_completions", "openai_embeddings"),
        *("anthropic_count_tokens", "vllm_generate"),
    )
    constrained_dialects = frozenset({"openai_chat", "openai_completions", "vllm_generate"})
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {"openai_chat": {"continue_final_message": True}}
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    known_options: ClassVar[Mapping[str, str]] = {}

    unsupported_fields: frozenset[str] = frozenset({"do_preprocess"})
    renamed_fields: Mapping[str, str] = {"min_new_tokens": "min_tokens"}
    hint_fields = frozenset({"guided_decoding_backend", "user", "store", "metadata", "service_tier"})
    restricted_fields: Mapping[str, str] = {}
    own_constraint_fields = structured_output.CONSTRAINT_FIELDS - {"regex", "ebnf", "grammar", "json_schema"}

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _CONSTRAINT_SUPPORT
