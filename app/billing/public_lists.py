"""Lists of models, prices and rules that others keep, as an operator names them: read into one form. Their formats are detected."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeGuard, cast

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.hosted.anthropic.model_list import read_model_list

ListFormat = Literal["litellm", "genai-prices", "models.dev", "anthropic", "xai", "openai"]

# Providers as lists name them -> as price_list.toml does: adapters.
_PROVIDERS: Mapping[str, str] = {
    **{name: name for name in ("anthropic", "openai", "gemini", "deepseek", "mistral", "xai", "groq", "cohere", "cerebras", "perplexity")},
    **{"together_ai": "together", "togetherai": "together", "fireworks_ai": "fireworks", "fireworks-ai": "fireworks"},
    **{"bedrock": "bedrock", "bedrock_converse": "bedrock", "amazon-bedrock": "bedrock", "aws": "bedrock", "cohere_chat": "cohere"},
    **{"vertex_ai": "vertex", "vertex_ai-language-models": "vertex", "vertex_ai-anthropic_models": "vertex", "google-vertex": "vertex"},
    **{"google": "gemini", "x-ai": "xai", "moonshot": "moonshot", "moonshotai": "moonshot", "zai": "zai"},
    **{"dashscope": "alibaba", "alibaba": "alibaba"},
}
_LITELLM_PRICES: Mapping[str, str] = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_hour",
    "cache_creation_input_token_cost_above_12hr": "cache_write_12_hours",
}
_GENAI_PRICES: Mapping[str, str] = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
}
_MODELS_DEV: Mapping[str, str] = {"input": "input", "output": "output", "cache_read": "cached_input", "cache_write": "cache_write"}
# Of xAI, in 10,000ths of a dollar for a million tokens. Source: xai_sdk 1.21 and https://docs.x.ai/docs/api-reference, read 2026-11.
_XAI_PRICES: Mapping[str, str] = {
    "prompt_text_token_price": "input",
    "completion_text_token_price": "output",
    "cached_prompt_text_token_price": "cached_input",
}
_EFFORT_FLAG = re.compile(r"supports_(none|minimal|low|xhigh|max)_reasoning_effort")
_RULE_FLAGS = ("supports_forced_tool_use", "supports_sampling_params", "supports_assistant_prefill", "supports_mid_conversation_system")
_MILLION = 1_000_000


class UnreadableList(ValueError):
    """Raised when a file is not one of the lists that can be read."""


class ListedModel(Struct, frozen=True):
    """A model of a list."""

    provider: str
    model: str
    prices: Mapping[str, float] = {}  # by field of a price, in US dollars for a million tokens
    flags: Mapping[str, bool] = {}  # what it accepts, as the list names it
    efforts: tuple[str, ...] | None = None  # None: the list does not say
    thinking: Mapping[str, bool] = {}  # by type, whether it is accepted


def read_list(raw: bytes, provider: str | None = None) -> tuple[ListFormat, list[ListedModel]]:
    """Recognizes which list it is, and reads it. Raises UnreadableList.

    `provider` is the one whose models these are, for lists that do not say.
    """
    try:
        document = msgspec.json.decode(raw)
    except DECODE_ERRORS as fault:
        raise UnreadableList(f"it is not JSON: {fault}") from None
    match document:
        case {"data": [{"type": "model"}, *_]}:
            return "anthropic", _read_anthropic(raw)
        case {"models": [{"prompt_text_token_price": _}, *_] as models}:
            return "xai", [_priced("xai", each, "id", _XAI_PRICES, 1 / 10_000) for each in cast(list[Any], models)]
        case {"data": [*models]}:
            return "openai", [ListedModel(provider or "openai", name) for name in _ids(models)]
        case [{"id": _, "models": [*_]}, *_]:
            return "genai-prices", list(_read_genai_prices(document))
        case dict() if _has(document, "litellm_provider"):
            return "litellm", list(_read_litellm(cast(dict[str, Any], document)))
        case dict() if _has(document, "models"):
            return "models.dev", list(_read_models_dev(cast(dict[str, Any], document)))
        case _:
            known = "LiteLLM's map, genai-prices, models.dev, or GET /v1/models (OpenAI, Anthropic) and /v1/language-models (xAI)"
            raise UnreadableList(f"it is JSON, and none of the lists that can be read: {known}")


def _has(document: Any, key: str) -> bool:
    return any(isinstance(each, dict) and key in each for each in cast(dict[str, Any], document).values())


def _ids(models: list[Any]) -> Iterator[str]:
    for each in models:
        if isinstance(each, dict) and isinstance(name := cast(dict[str, Any], each).get("id"), str):
            yield name


def _read_anthropic(raw: bytes) -> list[ListedModel]:
    try:
        models, _ = read_model_list(raw)
    except ValueError as fault:
        raise UnreadableList(f"Anthropic's list has another shape than known: {fault}") from None
    return [
        ListedModel("anthropic", each.id, {}, {}, _accepted(each.efforts), each.thinking_types)
        for each in models
        if each.lifecycle != "retired"
    ]


def _accepted(efforts: Mapping[str, bool]) -> tuple[str, ...] | None:
    return tuple(effort for effort, is_accepted in efforts.items() if is_accepted) if efforts else None


def _numbers(fields: Any, names: Mapping[str, str], factor: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for theirs, ours in names.items():
        amount = cast(dict[str, Any], fields).get(theirs) if isinstance(fields, dict) else None
        if isinstance(amount, dict):  # genai-prices: with steps
            amount = cast(dict[str, Any], amount).get("base")
        if isinstance(amount, int | float) and not isinstance(amount, bool):
            found[ours] = float(f"{amount * factor:.10g}")
    return found


def _priced(provider: str, fields: Any, key: str, names: Mapping[str, str], factor: float) -> ListedModel:
    return ListedModel(provider, str(fields.get(key, "")), _numbers(fields, names, factor))


def _read_litellm(document: dict[str, Any]) -> Iterator[ListedModel]:
    for name, entry in document.items():
        if not isinstance(entry, dict):
            continue
        fields = cast(dict[str, Any], entry)
        their_provider = fields.get("litellm_provider")
        provider = _PROVIDERS.get(their_provider) if isinstance(their_provider, str) else None
        if provider is None or fields.get("mode") not in ("chat", "responses", "embedding"):
            continue
        model = name.split("/", 1)[1] if "/" in name and name.split("/", 1)[0] in _PROVIDERS else name
        flags = {flag: fields[flag] for flag in _RULE_FLAGS if isinstance(fields.get(flag), bool)}
        flags |= {flag: value for flag, value in fields.items() if _EFFORT_FLAG.fullmatch(flag) and isinstance(value, bool)}
        levels = fields.get("reasoning_effort_levels")
        efforts = tuple(map(str, cast(list[Any], levels))) if isinstance(levels, list) else None
        yield ListedModel(provider, model, _numbers(fields, _LITELLM_PRICES, _MILLION), flags, efforts)


def _read_genai_prices(document: Any) -> Iterator[ListedModel]:
    for entry in filter(_is_object, document):
        provider = _PROVIDERS.get(str(entry.get("id")))
        for model in filter(_is_object, entry.get("models") or ()):
            prices = model.get("prices")
            if isinstance(prices, list):  # with days and hours: the last without a condition, or the last
                dated = [each for each in cast(list[Any], prices) if _is_object(each)]
                plain = [each for each in dated if not each.get("constraint")]
                prices = (plain or dated or [{}])[-1].get("prices")
            if provider is not None and _is_object(prices):
                yield ListedModel(provider, str(model.get("id", "")), _numbers(prices, _GENAI_PRICES, 1))


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _read_models_dev(document: dict[str, Any]) -> Iterator[ListedModel]:
    for id, entry in document.items():
        provider = _PROVIDERS.get(id)
        models = cast(Any, entry).get("models") if isinstance(entry, dict) else None
        for name, model in cast(dict[str, Any], models).items() if provider is not None and isinstance(models, dict) else ():
            cost = cast(Any, model).get("cost") if isinstance(model, dict) else None
            yield ListedModel(provider or "", name, _numbers(cost, _MODELS_DEV, 1))


def effort_flags(flags: Mapping[str, bool]) -> Iterator[tuple[str, str, bool]]:
    """The flags that are about one effort: the flag, the effort, and whether it is accepted."""
    for flag, value in flags.items():
        matched = _EFFORT_FLAG.fullmatch(flag)
        if matched is not None:
            yield flag, matched[1], value
