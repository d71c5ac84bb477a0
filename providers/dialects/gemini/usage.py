"""Tokens as Gemini counts them, in OpenAI's arithmetic: its thoughts, and what its own tools read, stand beside the rest, not in it.

What is 0 it leaves out. Source: https://ai.google.dev/api/generate-content#UsageMetadata, read 2026-11; recordings google_ai_studio/17, 18.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from providers.chat import Usage

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40
# How it was served, as AI Studio and as Vertex say it, where that has a price of its own.
_TIERS: Mapping[str, str] = {
    **{tier: tier for tier in ("flex", "priority", "batch")},
    "ON_DEMAND_FLEX": "flex",
    "ON_DEMAND_PRIORITY": "priority",
}


class Details(Struct):
    modality: str = ""
    tokenCount: int | None = None


class Metadata(Struct):
    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    cachedContentTokenCount: int | None = None
    toolUsePromptTokenCount: int | None = None
    totalTokenCount: int | None = None
    promptTokensDetails: list[Details] | None = None
    toolUsePromptTokensDetails: list[Details] | None = None
    candidatesTokensDetails: list[Details] | None = None
    serviceTier: str | None = None
    trafficType: str | None = None


def read_usage(told: Metadata) -> Usage | None:
    """None: nothing was counted (yet)."""
    read = _sum(told.promptTokenCount, told.toolUsePromptTokenCount)
    if read is None:
        return None
    written = _sum(told.candidatesTokenCount, told.thoughtsTokenCount)
    of_input = [*(told.promptTokensDetails or ()), *(told.toolUsePromptTokensDetails or ())]
    return Usage(
        input=read,
        # Of the first frames of a stream it counts the prompt alone: nothing is written yet.
        output=0 if written is None else written,
        cached=_sum(told.cachedContentTokenCount),
        reasoning=_sum(told.thoughtsTokenCount),
        audio_input=_of("AUDIO", of_input),
        image_input=_of("IMAGE", of_input),
        audio_output=_of("AUDIO", told.candidatesTokensDetails or ()),
        tier=_TIERS.get(told.serviceTier or told.trafficType or ""),
    )


def _sum(*counts: int | None) -> int | None:
    """None if none is told. An impossible count is none."""
    possible = [count for count in counts if count is not None and 0 <= count <= _MOST_TOKENS]
    return sum(possible) if possible else None


def _of(modality: str, details: Sequence[Details]) -> int | None:
    return _sum(*(each.tokenCount for each in details if each.modality == modality))
