"""Claude's models: what each takes that others refuse, by its name. What is not known of a model is left to Anthropic to refuse.

Sources: https://platform.claude.com/docs/en/build-with-claude/effort and /thinking, .../about-claude/models/whats-new-claude-4-6 and -4-7,
.../models/fable-5-1/migration-guide; profiles/anthropic.py of pydantic-ai; BerriAI/litellm#37510 (thinking that cannot be turned off),
langchain-ai/deepagents#1585 (no prefill), cloud-apim/otoroshi-llm-extension#140 (one way of sampling); read 2026-11.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from providers.chat import Effort

_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")
_WITH_MAX: tuple[Effort, ...] = (*_LEVELS, "max")
_ALL: tuple[Effort, ...] = (*_LEVELS, "xhigh", "max")


class Claude(Struct, frozen=True, kw_only=True):
    """`thinks`: how it is asked to. `rests`: thinking can be turned off. `efforts`: those it knows, lowest first; None: not known.

    `samples`: whether temperature, top_p and top_k may be said, or at most one of the first two. `forced`: a call may be demanded.
    `goes_on`: with an answer that the conversation ends with.
    """

    thinks: Literal["adaptive", "budget", "either", "never"] = "either"
    rests: bool = True
    efforts: tuple[Effort, ...] | None = None
    samples: Literal["freely", "one", "never"] = "freely"
    forced: bool = True
    goes_on: bool = True


def _newest(*, rests: bool = True, forced: bool = True) -> Claude:
    return Claude(thinks="adaptive", rests=rests, efforts=_ALL, samples="never", forced=forced, goes_on=False)


_UNKNOWN = Claude()
# The first that is found in a name.
_MODELS: Sequence[tuple[re.Pattern[str], Claude]] = tuple(
    (re.compile(pattern), model)
    for pattern, model in (
        (r"claude-(fable|mythos)-5-1(?!\d)", _newest(rests=False, forced=False)),
        (r"claude-(fable|mythos)-", _newest(rests=False)),
        (r"claude-(opus-4-[78]|(opus|sonnet)-5)(?!\d)", _newest()),
        (r"claude-(opus|sonnet)-4-6(?!\d)", Claude(efforts=_WITH_MAX, samples="one", goes_on=False)),
        (r"claude-opus-4-5(?!\d)", Claude(thinks="budget", efforts=_LEVELS, samples="one")),
        (r"claude-(opus-4-1|(sonnet|haiku)-4-5)(?!\d)", Claude(thinks="budget", efforts=(), samples="one")),
        (r"claude-((opus|sonnet)-4|3-7)(?!\d)", Claude(thinks="budget", efforts=())),
        (r"claude-3(?!\d)", Claude(thinks="never", efforts=())),
    )
)


def read_claude(model: str) -> Claude:
    return next((claude for pattern, claude in _MODELS if pattern.search(model)), _UNKNOWN)
