"""What Gemini models differ in, by their names. A name that tells no generation is taken for one of the newest: Google's aliases are.

Sources: https://ai.google.dev/gemini-api/docs/thinking, .../latest-model and .../generate-content/whats-new-gemini-3.6,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite, litellm-docs#1505, opencode#38924
(which models heed sampling), OmniRoute#13463 and gai#369 (3.7 and 3.8 pass over budgets), all read 2026-11.
"""

import re

from msgspec import Struct

_NAME = re.compile(r"gemini-(\d+)(?:[.-](\d)(?!\d))?")
_NEWEST: tuple[int, int] = (99, 0)


class Rules(Struct, frozen=True):
    """`levels`: it takes thinkingLevel, from 3 on; before, a budget of `budgets` tokens at least and at most; None: it does not think.

    `can_rest`: its thinking can be switched off. `minimal`: it takes that level. `samples`: it heeds temperature, topP and topK.
    `signs`: it refuses a history in which calls have no signature. `shows`: results of tools may hold media. `mixes`: tools may stand
    beside a schema for the answer.
    """

    levels: bool
    budgets: tuple[int, int] | None
    can_rest: bool
    minimal: bool
    samples: bool
    signs: bool
    shows: bool
    mixes: bool


def rules_of(model: str) -> Rules:
    name = model.rpartition("/")[2].lower()
    found = _NAME.match(name)
    generation: tuple[int, int] = (int(found[1]), int(found[2] or 0)) if found else _NEWEST
    lite, pro = "lite" in name, "pro" in name
    if generation >= (3, 0):
        return Rules(
            levels=True,
            budgets=None,
            can_rest=False,
            minimal=not pro and (lite or generation < (3, 7)),
            # What is no Gemini by its name (a tuned model, Gemma) is not known to pass over them; Google's aliases are of the newest.
            samples=not name.startswith("gemini") or generation < (3, 5) or (generation == (3, 5) and not lite),
            signs=True,
            shows=True,
            mixes=True,
        )
    budgets = None if generation < (2, 5) else (128, 32_768) if pro else (512, 24_576) if lite else (1, 24_576)
    return Rules(False, budgets, not pro, minimal=False, samples=True, signs=False, shows=False, mixes=False)
