"""What Gemini models differ in, by their names. A name that tells no generation is taken for one of the newest: Google's aliases are.

Sources: https://ai.google.dev/gemini-api/docs/thinking, .../latest-model and .../generate-content/whats-new-gemini-3.6,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite, litellm-docs#1505, opencode#38924
(which models heed sampling), OmniRoute#13463 and gai#369 (3.7 and 3.8 pass over budgets), all read 2026-11.
"""

import re

from msgspec import Struct

_MODEL_NAME = re.compile(r"gemini-(\d+)(?:[.-](\d)(?!\d))?")
_NEWEST_GENERATION: tuple[int, int] = (99, 0)


class GeminiProfile(Struct, frozen=True):
    """`levels`: it takes thinkingLevel, from 3 on; before, a budget of `budgets` tokens at least and at most; None: it does not think.

    `can_rest`: its thinking can be switched off. `minimal`: it takes that level. `samples`: it heeds temperature, topP and topK.
    `signs`: it refuses a history in which calls have no signature. `shows`: results of tools may hold media. `mixes`: tools may stand
    beside a schema for the answer.
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
            # What is no Gemini by its name (a tuned model, Gemma) is not known to pass over them; Google's aliases are of the newest.
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
