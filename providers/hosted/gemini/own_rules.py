"""Whether a caller's own request to generateContent breaks a rule of the model that it goes to, so that it has to be written anew.

Clients take one model for another: they send a budget of thinking to a model that has levels, or a history that another model wrote.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.profiles.gemini import GeminiProfile

# By these a request would be answered by another model than the one that its address names.
RESTRICTED_FIELDS: Mapping[str, str] = {
    "generationConfig.routingConfig": "another model",
    "generationConfig.modelSelectionConfig": "another model",
}
_CALL = b'"functionCall"'
_REFUSED_SAMPLING = ("frequencyPenalty", "presencePenalty")


def breaks_rules(body: Body, profile: GeminiProfile) -> bool:
    """Whether Google would refuse it for this model, or not think as requested."""
    try:
        return _breaks_thinking(body, profile) or (profile.requires_signatures and any(_unsigned_turns(body)))
    except DECODE_ERRORS:
        return False  # the host says what is wrong


def _breaks_thinking(body: Body, profile: GeminiProfile) -> bool:
    config: Any = body.value("generationConfig")
    if not isinstance(config, dict):
        return False
    fields = cast("dict[str, Any]", config)
    if not profile.honours_sampling and any(fields.get(name) for name in _REFUSED_SAMPLING):
        return True
    thinking: Any = fields.get("thinkingConfig")
    if not isinstance(thinking, dict):
        return False
    level, budget = cast("dict[str, Any]", thinking).get("thinkingLevel"), cast("dict[str, Any]", thinking).get("thinkingBudget")
    if profile.levels:
        return budget is not None or (isinstance(level, str) and level.lower() not in profile.levels)
    if profile.budget_range is None:
        return True
    least, most = profile.budget_range
    if isinstance(budget, int) and budget > 0:
        return not least <= budget <= most
    return level is not None or (budget == 0 and not profile.can_disable_thinking)


def _unsigned_turns(body: Body) -> Iterator[bool]:
    """Yields for each content with calls whether the first of them has no signature."""
    raw = as_raw(body.get("contents", NULL))
    if _CALL not in bytes(raw):
        return
    for content in cast("list[Any]", msgspec.json.decode(raw)):
        match content:
            case {"role": "model", "parts": [*parts]}:
                calls = [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict) and "functionCall" in part]
                yield bool(calls) and not calls[0].get("thoughtSignature")
            case _:
                continue
