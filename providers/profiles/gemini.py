"""What Gemini models accept, by their names. A name without a generation counts as one of the newest, as Google's aliases are.

Sources: https://ai.google.dev/gemini-api/docs/thinking, .../latest-model and .../generate-content/whats-new-gemini-3.6,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite, litellm-docs#1505, opencode#38924
(which models honour sampling), OmniRoute#13463 and gai#369 (3.7 and 3.8 ignore budgets), all read 2026-11.
"""

import re

from msgspec import Struct

_MODEL_NAME = re.compile(r"gemini-(\d+)(?:[.-](\d)(?!\d))?")
_NEWEST_GENERATION: tuple[int, int] = (99, 0)


class GeminiProfile(Struct, frozen=True):
    """What a model accepts.

    `thinking_levels`: it takes thinkingLevel (from Gemini 3 on); else `budget_range` is the least and the most tokens of a budget, None
    if it does not reason. `minimal_level`: it takes the level `minimal`. `honours_sampling`: temperature, topP and topK have an effect.
    `requires_signatures`: it refuses a history in which calls have no signature. `tools_with_schema`: tools may accompany a schema of
    the answer.
    """

    thinking_levels: bool
    budget_range: tuple[int, int] | None
    can_disable_thinking: bool
    minimal_level: bool
    honours_sampling: bool
    requires_signatures: bool
    media_in_results: bool
    tools_with_schema: bool


def find_profile(model: str) -> GeminiProfile:
    name = model.rpartition("/")[2].lower()
    matched = _MODEL_NAME.match(name)
    generation: tuple[int, int] = (int(matched[1]), int(matched[2] or 0)) if matched else _NEWEST_GENERATION
    lite, pro = "lite" in name, "pro" in name
    if generation >= (3, 0):
        return GeminiProfile(
            thinking_levels=True,
            budget_range=None,
            can_disable_thinking=False,
            minimal_level=not pro and (lite or generation < (3, 7)),
            # A name that is not Gemini's (a tuned model, Gemma) is not known to ignore sampling; Google's aliases are of the newest.
            honours_sampling=not name.startswith("gemini") or generation < (3, 5) or (generation == (3, 5) and not lite),
            requires_signatures=True,
            media_in_results=True,
            tools_with_schema=True,
        )
    budgets = None if generation < (2, 5) else (128, 32_768) if pro else (512, 24_576) if lite else (1, 24_576)
    return GeminiProfile(
        False,
        budgets,
        not pro,
        minimal_level=False,
        honours_sampling=True,
        requires_signatures=False,
        media_in_results=False,
        tools_with_schema=False,
    )
