"""The rules of Gemini models, by their names. A name without a generation counts as one of the newest, as Google's aliases are.

Sources: https://ai.google.dev/gemini-api/docs/thinking, .../latest-model and .../generate-content/whats-new-gemini-3.6,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/3-5-flash-lite, litellm-docs#1505, opencode#38924
(which models honour sampling), OmniRoute#13463 and gai#369 (3.7 and 3.8 ignore budgets); of Gemini 4: docs/sources.md#model-families;
all read 2026-11.
"""

from functools import lru_cache

from msgspec import Struct

from providers.canonical.chat import Effort
from providers.profiles.model_family import ModelFamily

_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")


class GeminiProfile(Struct, frozen=True, kw_only=True):
    """The rules of one model."""

    # Its values of thinkingLevel, lowest first (from Gemini 3 on); empty: it has `budget_range` instead.
    levels: tuple[Effort, ...] = ()
    # The least and the most tokens of a budget, where `levels` is empty; None: it does not reason.
    budget_range: tuple[int, int] | None = None
    can_disable_thinking: bool = False
    # Whether temperature, topP and topK have an effect.
    honours_sampling: bool = True
    # Whether it refuses a history in which calls have no signature.
    requires_signatures: bool = False
    media_in_results: bool = False
    # Whether tools may accompany a schema of the answer.
    tools_with_schema: bool = False


def _from_3(*levels: Effort, honours_sampling: bool = False) -> GeminiProfile:
    return GeminiProfile(
        levels=levels, honours_sampling=honours_sampling, requires_signatures=True, media_in_results=True, tools_with_schema=True
    )


_OLDEST = GeminiProfile(can_disable_thinking=True)
_FLASH_2_5 = GeminiProfile(budget_range=(1, 24_576), can_disable_thinking=True)
_LITE_2_5 = GeminiProfile(budget_range=(512, 24_576), can_disable_thinking=True)
_PRO_2_5 = GeminiProfile(budget_range=(128, 32_768))
_NEWEST = _from_3(*_LEVELS)
_NEWEST_WITH_XHIGH = _from_3(*_LEVELS, "xhigh")
_FLASH_3 = _from_3("minimal", *_LEVELS, honours_sampling=True)
_LITE_3_5 = _from_3("minimal", *_LEVELS)
_PRO_3 = _from_3(*_LEVELS, honours_sampling=True)

# From 3.5 Flash-Lite and 3.6 on, sampling is ignored. `minimal` is a 400 at 3.7 and later, except Flash-Lite, and at each Pro.
# Argon: PA profiles/google.py ("Verified live 2026-10-13": MINIMAL is a 400); Neon and Hydrogen have xhigh: docs/sources.md.
GEMINI: ModelFamily[GeminiProfile] = ModelFamily(
    "Gemini",
    r"(?<![a-z0-9])gemini-(?:(?P<major>\d+)(?:[.-](?P<minor>\d)(?!\d))?|(?=[a-z]))",
    {
        "flash-lite": [((1,), _OLDEST), ((2, 5), _LITE_2_5), ((3,), _FLASH_3), ((3, 1), _FLASH_3), ((3, 5), _LITE_3_5)],
        "flash-image": [((2, 5), _OLDEST), ((3, 1), _FLASH_3)],  # 2.5: any thinkingConfig is a 400 (the same file, live 2026-10-23)
        "flash": [
            *[((1,), _OLDEST), ((1, 5), _OLDEST), ((2,), _OLDEST), ((2, 5), _FLASH_2_5), ((3,), _FLASH_3), ((3, 5), _FLASH_3)],
            *[((3, 6), _LITE_3_5), ((3, 7), _NEWEST), ((3, 8), _NEWEST)],
        ],
        "pro": [
            *[((1,), _OLDEST), ((1, 5), _OLDEST), ((2,), _OLDEST), ((2, 5), _PRO_2_5), ((3,), _PRO_3), ((3, 1), _PRO_3)],
            ((3, 6), _NEWEST),  # the first version of any line that ignores sampling
        ],
        "argon": [((4,), _NEWEST)],
        "carbon": [((4,), _NEWEST)],
        "hydrogen": [((4,), _NEWEST_WITH_XHIGH)],
        "neon": [((4,), _NEWEST_WITH_XHIGH)],
        "": [((1,), _OLDEST), ((2, 5), _FLASH_2_5), ((3,), _FLASH_3), ((3, 6), _LITE_3_5), ((3, 7), _NEWEST), ((4,), _NEWEST)],
    },
)
# A name that is not Gemini's, such as that of a tuned model or of Gemma, is not known to ignore sampling.
_OTHER = _from_3(*_LEVELS, honours_sampling=True)
_OTHER_WITH_MINIMAL = _FLASH_3


@lru_cache(maxsize=512)
def find_profile(model: str) -> GeminiProfile:
    profile = GEMINI.rules(model)
    if profile is not None:
        return profile
    return _OTHER_WITH_MINIMAL if "lite" in model.lower() else _OTHER
