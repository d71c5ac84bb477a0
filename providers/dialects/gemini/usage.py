"""Token counts of Gemini in OpenAI's arithmetic. Gemini counts thoughts, and the input of its own tools, beside the other tokens.

A count of 0 is left out. Source: https://ai.google.dev/api/generate-content#UsageMetadata, read 2026-11; recordings
google_ai_studio/17, 18.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from providers.canonical.chat import Usage
from providers.canonical.token_counts import plausible_count

# Service tiers with their own price, in the names of AI Studio and of Vertex.
_TIERS: Mapping[str, str] = {
    **{tier: tier for tier in ("flex", "priority", "batch")},
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
}


class ModalityDetails(Struct):
    modality: str = ""
    tokenCount: int | None = None


class UsageMetadata(Struct):
    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    cachedContentTokenCount: int | None = None
    toolUsePromptTokenCount: int | None = None
    totalTokenCount: int | None = None
    promptTokensDetails: list[ModalityDetails] | None = None
    toolUsePromptTokensDetails: list[ModalityDetails] | None = None
    candidatesTokensDetails: list[ModalityDetails] | None = None
    serviceTier: str | None = None
    trafficType: str | None = None


def read_usage(metadata: UsageMetadata, tool_uses: Mapping[str, int] | None = None) -> Usage | None:
    """Returns None if nothing was counted (yet). `tool_uses` is explained in grounded_searches.py."""
    input_tokens = _sum_plausible(metadata.promptTokenCount, metadata.toolUsePromptTokenCount)
    if input_tokens is None:
        return None
    output_tokens = _sum_plausible(metadata.candidatesTokenCount, metadata.thoughtsTokenCount)
    input_details = [*(metadata.promptTokensDetails or ()), *(metadata.toolUsePromptTokensDetails or ())]
    return Usage(
        input=input_tokens,
        # The first frames of a stream count the prompt only: nothing is written yet.
        output=0 if output_tokens is None else output_tokens,
        cached=_sum_plausible(metadata.cachedContentTokenCount),
        reasoning=_sum_plausible(metadata.thoughtsTokenCount),
        audio_input=_modality_tokens("AUDIO", input_details),
        image_input=_modality_tokens("IMAGE", input_details),
        audio_output=_modality_tokens("AUDIO", metadata.candidatesTokensDetails or ()),
        tier=_TIERS.get(metadata.serviceTier or metadata.trafficType or ""),
        tool_uses=tool_uses,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """The counts. `candidatesTokenCount` is without thoughts; what was not reported is left out, but for the sums.

    An estimate is not marked: the types of Google's SDKs are closed.
    """
    reasoning = usage.reasoning or 0
    counts: dict[str, Any] = {
        "promptTokenCount": usage.input or 0,
        "candidatesTokenCount": max(0, (usage.output or 0) - reasoning),
        "totalTokenCount": (usage.input or 0) + (usage.output or 0),
    }
    if usage.cached is not None:
        counts["cachedContentTokenCount"] = usage.cached
    if reasoning:
        counts["thoughtsTokenCount"] = min(reasoning, usage.output or 0)
    input_details = _write_details(usage.input or 0, AUDIO=usage.audio_input, IMAGE=usage.image_input)
    if input_details:
        counts["promptTokensDetails"] = input_details
    output_details = _write_details(counts["candidatesTokenCount"], AUDIO=usage.audio_output)
    if output_details:
        counts["candidatesTokensDetails"] = output_details
    if usage.tier in _TIERS:
        counts["serviceTier"] = usage.tier
    return counts


def _write_details(total: int, **counted: int | None) -> list[dict[str, Any]]:
    """The tokens by modality, with the text as what is left; empty if nothing else was counted."""
    others = {modality: count for modality, count in counted.items() if count}
    if not others:
        return []
    with_text = {"TEXT": max(0, total - sum(others.values())), **others}
    return [{"modality": modality, "tokenCount": count} for modality, count in with_text.items()]


def _sum_plausible(*counts: int | None) -> int | None:
    """Returns the sum of the plausible counts, or None if there are none."""
    plausible = [count for each in counts if (count := plausible_count(each)) is not None]
    return sum(plausible) if plausible else None


def _modality_tokens(modality: str, details: Sequence[ModalityDetails]) -> int | None:
    return _sum_plausible(*(each.tokenCount for each in details if each.modality == modality))
