"""Claude models: what each supports, by its name. An unknown model is assumed to support everything, and Anthropic refuses the rest.

Sources: https://platform.claude.com/docs/en/build-with-claude/effort and /thinking, .../about-claude/models/whats-new-claude-4-6 and -4-7,
.../models/fable-5-1/migration-guide; profiles/anthropic.py of pydantic-ai; BerriAI/litellm#37510 (thinking that cannot be turned off),
langchain-ai/deepagents#1585 (no prefill), cloud-apim/otoroshi-llm-extension#140 (temperature or top_p); read 2026-11.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from providers.canonical.chat import Effort

_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")
_LEVELS_WITH_MAX: tuple[Effort, ...] = (*_LEVELS, "max")
_ALL_LEVELS: tuple[Effort, ...] = (*_LEVELS, "xhigh", "max")


class ClaudeProfile(Struct, frozen=True, kw_only=True):
    """What a Claude model supports.

    `thinking_mode`: how thinking is requested. `efforts`: the supported ones, lowest first; None: unknown. `sampling`: whether temperature,
    top_p and top_k may be set ("one": not both of the first two). `supports_prefill`: it continues a final assistant message.
    """

    thinking_mode: Literal["adaptive", "budget", "either", "never"] = "either"
    can_disable_thinking: bool = True
    efforts: tuple[Effort, ...] | None = None
    sampling: Literal["freely", "one", "never"] = "freely"
    can_force_tool_call: bool = True
    supports_prefill: bool = True


def _newest_profile(*, can_disable_thinking: bool = True, can_force_tool_call: bool = True) -> ClaudeProfile:
    return ClaudeProfile(
        thinking_mode="adaptive",
        can_disable_thinking=can_disable_thinking,
        efforts=_ALL_LEVELS,
        sampling="never",
        can_force_tool_call=can_force_tool_call,
        supports_prefill=False,
    )


_UNKNOWN_PROFILE = ClaudeProfile()
# The first pattern found in the name counts.
_PROFILES: Sequence[tuple[re.Pattern[str], ClaudeProfile]] = tuple(
    (re.compile(pattern), model)
    for pattern, model in (
        (r"claude-(fable|mythos)-5-1(?!\d)", _newest_profile(can_disable_thinking=False, can_force_tool_call=False)),
        (r"claude-(fable|mythos)-", _newest_profile(can_disable_thinking=False)),
        (r"claude-(opus-4-[78]|(opus|sonnet)-5)(?!\d)", _newest_profile()),
        (r"claude-(opus|sonnet)-4-6(?!\d)", ClaudeProfile(efforts=_LEVELS_WITH_MAX, sampling="one", supports_prefill=False)),
        (r"claude-opus-4-5(?!\d)", ClaudeProfile(thinking_mode="budget", efforts=_LEVELS, sampling="one")),
        (r"claude-(opus-4-1|(sonnet|haiku)-4-5)(?!\d)", ClaudeProfile(thinking_mode="budget", efforts=(), sampling="one")),
        (r"claude-((opus|sonnet)-4|3-7)(?!\d)", ClaudeProfile(thinking_mode="budget", efforts=())),
        (r"claude-3(?!\d)", ClaudeProfile(thinking_mode="never", efforts=())),
    )
)


def continues_text(dialect: str, model: str) -> bool:
    """Whether a Claude model goes on after a final assistant message, in Messages."""
    return dialect == "anthropic_messages" and find_profile(model).supports_prefill


def find_profile(model: str) -> ClaudeProfile:
    return next((profile for pattern, profile in _PROFILES if pattern.search(model)), _UNKNOWN_PROFILE)
