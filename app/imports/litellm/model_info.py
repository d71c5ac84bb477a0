"""The `model_info` of an entry: what a model can do, and how long its context is."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from app.domain.routing import Capability
from app.imports.source_table import SourceTable

_MODES: Mapping[str, Capability] = {
    "chat": "chat",
    "completion": "chat",
    "responses": "chat",
    "embedding": "embeddings",
    "rerank": "reranking",
}
_SUPPORTS: Mapping[str, Capability] = {
    "supports_function_calling": "tools",
    "supports_vision": "vision",
    "supports_audio_input": "audio_input",
    "supports_audio_output": "audio_output",
    "supports_reasoning": "reasoning",
    "supports_response_schema": "structured_output",
}
_ADVICE: Mapping[str, str] = {
    "base_model": "Costs are by the target's own model: give that a price (`narthex prices suggest`).",
    "access_groups": "Keys name the models that they may use: `narthex keys create --team T --model NAME`.",
    "supported_environments": "Each installation has a configuration of its own.",
    "team_id": "Keys name the models that they may use: `narthex keys create --team T --model NAME`.",
    "team_public_model_name": "A model has one name for all teams.",
    "tier": "Keys name the models that they may use: `narthex keys create --team T --model NAME`.",
    "custom_tokenizer": "Tokens are counted by the engine itself, where it can.",
    "blocked": "A model cannot be paused: leave it out of the keys that may use it, or remove it from the file.",
}
# For people, or derived from the model.
_DESCRIPTIVE = ("id", "description", "version", "db_model", "created_at", "created_by", "updated_at", "updated_by", "mode", "max_tokens")
_MORE_DESCRIPTIVE = ("max_output_tokens", "litellm_provider", "key", "supports_system_messages", "supports_tool_choice")


class ModelInfo(Struct, frozen=True):
    """The facts about a model that its entry states."""

    id: str | None  # by which LiteLLM's fallbacks may name this one entry
    mode: str | None  # as LiteLLM names it; None: not given
    context_length: int | None
    capabilities: Sequence[Capability]


def read_model_info(info: SourceTable) -> ModelInfo:
    """Prices are read elsewhere (prices.py)."""
    id = info.read("id")
    mode = info.text("mode")
    for key in (*_DESCRIPTIVE, *_MORE_DESCRIPTIVE):
        info.read(key)
    supported: list[Capability] = [capability for key, capability in _SUPPORTS.items() if info.flag(key)]
    main = _MODES.get(mode or "")
    capabilities: list[Capability] = [main, *supported] if main is not None and supported else supported
    info.leave_all_out(_ADVICE)
    length = info.whole("max_input_tokens")
    return ModelInfo(None if id is None else str(id), mode, length if length is not None and length > 0 else None, capabilities)
