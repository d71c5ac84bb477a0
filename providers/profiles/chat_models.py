"""Grok, DeepSeek, Mistral, Kimi, GLM, Qwen and others: what each version takes in a chat, whoever hosts it.

Sources: docs/sources.md#model-families, read 2026-11-28; what a line does not say otherwise is from there.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import Effort
from providers.profiles.gemini import GEMINI
from providers.profiles.model_family import ModelFamily
from providers.profiles.rules_by_version import Version


class ChatModelRules(Struct, frozen=True, kw_only=True):
    """The rules of a model for chats."""

    # The family's title, by find_chat_rules().
    family: str = ""
    # The levels that it tells apart, least first, without "none"; empty: it has none; None: unknown, and each is sent.
    efforts: tuple[Effort, ...] | None = None
    # The level that an effort stands for, where that is not the nearest one.
    renamed_efforts: Mapping[Effort, Effort] = {}
    # "always", or whether it thinks where the request does not say; None: unknown.
    thinking: Literal["always", "by default", "on request", "never"] | None = None
    # Whether tool_choice may demand a call while it thinks.
    forces_calls: bool = True
    # The values that its maker's API takes for a field.
    fixed: Mapping[str, tuple[Any, ...]] = {}
    # The fields that it ignores or refuses.
    ignored: tuple[str, ...] = ()
    # None: unknown.
    reads_images: bool | None = None
    # True: arguments that a tool's schema describes by a $ref come back as strings.
    inlines_references: bool = False
    # More tokens are refused.
    max_output: int | None = None


_UNKNOWN = ChatModelRules()
_LOW_TO_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_LOW_HIGH_MAX: tuple[Effort, ...] = ("low", "high", "max")


def _read_grok_version(line: str, version: Version) -> Version:
    return (4, 2) if version == (4, 20) else version  # 4.20 came before 4.3


_GROK_WITHOUT_EFFORT = ChatModelRules(efforts=(), thinking="always")
_GROK_WITHOUT_THINKING = ChatModelRules(efforts=(), thinking="never")
_GROK_4_5 = ChatModelRules(efforts=_LOW_TO_HIGH, thinking="always")
GROK = ModelFamily(
    "Grok",
    r"(?<![a-z0-9])grok-(?:(?:build-|code-fast-)?(?P<major>\d+)(?:[.-](?P<minor>\d{1,2})(?![\da-z]))?|(?=[a-z]))",
    {
        "non-reasoning": [((4,), _GROK_WITHOUT_THINKING), ((4, 1), _GROK_WITHOUT_THINKING), ((4, 2), _GROK_WITHOUT_THINKING)],
        "multi-agent": [((4, 2), _GROK_4_5)],
        "mini": [((3,), ChatModelRules(efforts=("low", "high"), thinking="by default"))],  # none: live 2026-10-22, PA profiles/grok.py
        "code": [((1,), _GROK_WITHOUT_EFFORT)],
        "build": [((0, 1), _GROK_4_5)],  # its alias `grok-build-latest` is 4.5
        "": [
            *[((2,), _GROK_WITHOUT_THINKING), ((3,), _GROK_WITHOUT_THINKING)],
            *[((4,), _GROK_WITHOUT_EFFORT), ((4, 1), _GROK_WITHOUT_EFFORT), ((4, 2), _GROK_WITHOUT_EFFORT)],
            ((4, 3), ChatModelRules(efforts=_LOW_TO_HIGH, thinking="by default")),
            *[((4, 5), _GROK_4_5), ((4, 6), _GROK_4_5)],
            ((4, 7), ChatModelRules(efforts=(*_LOW_TO_HIGH, "xhigh"), thinking="always")),
        ],
    },
    _read_grok_version,
)

# Its API takes a demand for a call only while it does not think: 400 "Thinking mode does not support this tool_choice".
# xhigh is high by its own table: https://api-docs.deepseek.com/guides/thinking_mode.
_DEEPSEEK_V4 = ChatModelRules(
    efforts=_LOW_HIGH_MAX, renamed_efforts={"xhigh": "high"}, thinking="by default", forces_calls=False, reads_images=False
)
_DEEPSEEK_V4_FLASH = replace(_DEEPSEEK_V4, reads_images=True)
_DEEPSEEK_R1 = ChatModelRules(thinking="always", forces_calls=False, reads_images=False)
_DEEPSEEK_V3 = ChatModelRules(reads_images=False)
DEEPSEEK = ModelFamily(
    "DeepSeek",
    r"(?<![a-z0-9])deepseek[-.](?:(?:llm-|coder-|vl|ocr|prover-)*[vr]?(?P<major>\d)(?![\dbm])(?:[.-](?P<minor>\d)(?!\d))?|(?=[a-z]))",
    {
        "flash": [((4,), _DEEPSEEK_V4_FLASH), ((4, 1), _DEEPSEEK_V4_FLASH)],
        "r1": [((1,), _DEEPSEEK_R1)],
        "deepseek-reasoner": [((4,), replace(_DEEPSEEK_V4, thinking="always"))],
        "deepseek-chat": [((4,), replace(_DEEPSEEK_V4, thinking="on request"))],
        # Models of other kinds, which read images or are older than the rules.
        **{kind: [((1,), _UNKNOWN), ((2,), _UNKNOWN)] for kind in ("ocr", "vl", "coder", "llm", "math", "prover")},
        "": [((2,), _DEEPSEEK_V3), ((3,), _DEEPSEEK_V3), ((3, 1), _DEEPSEEK_V3), ((3, 2), _DEEPSEEK_V3), ((4,), _DEEPSEEK_V4)],
    },
)

_MISTRAL_DATES: Mapping[str, tuple[tuple[int, Version], ...]] = {
    "large": ((2407, (2,)), (2512, (3,))),
    "medium": ((2505, (3,)), (2508, (3, 1)), (2604, (3, 5))),
    "small": ((2409, (2,)), (2501, (3,)), (2506, (3, 2)), (2603, (4,))),
}


def _read_mistral_version(line: str, version: Version) -> Version:
    """Mistral's releases are dates (`mistral-small-2603`), for which it counts versions, too. A date after all known ones stays."""
    dates = _MISTRAL_DATES.get(line)
    if version[0] < 1000 or dates is None or version[0] > dates[-1][0]:
        return version
    return next((named for date, named in reversed(dates) if date <= version[0]), dates[0][1])


# none and high alone: 'low' refused, live 2026-10-22 (PA providers/mistral.py).
_MISTRAL_ADJUSTABLE = ChatModelRules(efforts=("high",), thinking="on request")
_MISTRAL_WITHOUT_THINKING = ChatModelRules(efforts=(), thinking="never")
_MAGISTRAL = ChatModelRules(efforts=(), thinking="always")
MISTRAL = ModelFamily(
    "Mistral",
    r"(?<![a-z0-9])(?:mistral-(?:large|medium|small)|m(?:ag|in)istral|codestral|devstral|pixtral|voxtral|open-mistral|mistral|mixtral)"
    r"(?:-[a-z]+|-\d+(?:\.\d+)?[bx]\w*)*(?:-(?P<major>\d{4}|\d)(?:[.-](?P<minor>\d)(?!\d))?)?(?![\da-z])",
    {
        "magistral": [((2506,), _MAGISTRAL), ((2507,), _MAGISTRAL), ((2509,), _MAGISTRAL)],
        "codestral": [((2501,), _MISTRAL_WITHOUT_THINKING), ((2508,), _MISTRAL_WITHOUT_THINKING)],
        "devstral": [((2505,), _MISTRAL_WITHOUT_THINKING), ((2512,), _MISTRAL_WITHOUT_THINKING)],
        "ministral": [((3,), _MISTRAL_WITHOUT_THINKING), ((2410,), _MISTRAL_WITHOUT_THINKING), ((2512,), _MISTRAL_WITHOUT_THINKING)],
        "pixtral": [((2409,), _MISTRAL_WITHOUT_THINKING), ((2411,), _MISTRAL_WITHOUT_THINKING)],
        "voxtral": [((2507,), _MISTRAL_WITHOUT_THINKING)],
        "large": [((2,), _MISTRAL_WITHOUT_THINKING), ((3,), _MISTRAL_WITHOUT_THINKING), ((4,), _MISTRAL_ADJUSTABLE)],
        "medium": [((3,), _MISTRAL_WITHOUT_THINKING), ((3, 1), _MISTRAL_WITHOUT_THINKING), ((3, 5), _MISTRAL_ADJUSTABLE)],
        "small": [
            *[((2,), _MISTRAL_WITHOUT_THINKING), ((3,), _MISTRAL_WITHOUT_THINKING), ((3, 2), _MISTRAL_WITHOUT_THINKING)],
            ((4,), _MISTRAL_ADJUSTABLE),
        ],
        "": [((1,), _UNKNOWN)],
    },
    _read_mistral_version,
)

# Moonshot's API answers 400 to every other value ("invalid temperature: only 1 is allowed for this model"), as its page
# platform.kimi.ai/docs/api/models-overview says.
_KIMI_SAMPLING: Mapping[str, tuple[Any, ...]] = {
    **{"temperature": (1,), "top_p": (0.95,), "n": (1,)},
    **{"presence_penalty": (0,), "frequency_penalty": (0,)},
}
_KIMI_K2 = ChatModelRules(efforts=(), thinking="never")
_KIMI_HYBRID = ChatModelRules(efforts=(), thinking="by default", fixed=_KIMI_SAMPLING, reads_images=True)
_KIMI_THINKING = ChatModelRules(efforts=(), thinking="always", fixed=_KIMI_SAMPLING)
_KIMI_K3 = ChatModelRules(efforts=_LOW_HIGH_MAX, thinking="always", fixed=_KIMI_SAMPLING, reads_images=True)
KIMI = ModelFamily(
    "Kimi",
    # Kimi Code's own names have no prefix: k3, k3-256k, k3.1-pro.
    r"(?:(?<![a-z0-9])kimi-(?:k|(?=[a-z]))|^k(?=\d(?:\.\d)?(?:-pro|-256k|$)))(?:(?<=k)(?P<major>\d)(?:[.-](?P<minor>\d)(?!\d))?)?",
    {
        **{kind: [((1,), _UNKNOWN)] for kind in ("vl", "dev", "linear", "audio")},
        "code": [((2, 7), _KIMI_THINKING)],
        "thinking": [((2,), _KIMI_THINKING)],
        "": [((2,), _KIMI_K2), ((2, 5), _KIMI_HYBRID), ((2, 6), _KIMI_HYBRID), ((3,), _KIMI_K3), ((3, 1), _KIMI_K3)],
    },
)

_GLM_HYBRID = ChatModelRules(efforts=(), thinking="by default")
_GLM_THINKING = ChatModelRules(efforts=(), thinking="always")
GLM = ModelFamily(
    "GLM",
    r"(?<![a-z0-9])glm-(?:(?P<major>\d)(?:[.-](?P<minor>\d)(?![\db]))?|(?=[a-z]))",
    {
        # Its template begins each answer with <think>: https://huggingface.co/zai-org/GLM-Z1-32B-0414, read 2026-11.
        "z1": [((1,), _GLM_THINKING)],
        "": [
            # glm-4.1v-thinking alone, without a switch: https://huggingface.co/zai-org/GLM-4.1V-9B-Thinking, read 2026-11.
            *[((4,), ChatModelRules(efforts=(), thinking="never")), ((4, 1), _GLM_THINKING)],
            *[((4, 5), _GLM_HYBRID), ((4, 6), _GLM_HYBRID), ((4, 7), _GLM_HYBRID), ((5,), _GLM_HYBRID), ((5, 1), _GLM_HYBRID)],
            ((5, 2), ChatModelRules(thinking="by default")),  # takes every level (PA profiles/zai.py)
            # "This model always engages in thinking and cannot be disabled; please use low, high, or max": catwalk#603. Its template takes
            # any other level, `none` too, for max: club-3090#1129. References: pydantic-ai#10243. Output: 400 above 131,072.
            ((5, 3), ChatModelRules(efforts=_LOW_HIGH_MAX, thinking="always", inlines_references=True, max_output=131_072)),
        ],
    },
)

_QWEN_HYBRID = ChatModelRules(thinking="by default")
QWEN = ModelFamily(
    "Qwen",
    r"(?<![a-z0-9])qwen-?(?:(?P<major>\d)(?!\d*b)(?:[.-](?P<minor>\d)(?![\dbm]))?|(?=-?[a-z]))",
    {
        "coder": [((2, 5), ChatModelRules(thinking="never")), ((3,), ChatModelRules(thinking="never"))],
        "instruct": [((2, 5), ChatModelRules(thinking="never")), ((3,), ChatModelRules(thinking="never"))],
        "thinking": [((3,), ChatModelRules(thinking="always"))],
        "": [
            *[((2,), ChatModelRules(thinking="never")), ((2, 5), ChatModelRules(thinking="never")), ((3,), _QWEN_HYBRID)],
            *[((3, 5), _QWEN_HYBRID), ((3, 6), _QWEN_HYBRID), ((3, 7), _QWEN_HYBRID)],
            ((3, 8), ChatModelRules(efforts=("low", "medium", "xhigh"), thinking="by default")),
        ],
    },
)

# Its prompt has the levels of OpenAI's Harmony format: https://console.groq.com/docs/reasoning.
GPT_OSS = ModelFamily(
    "gpt-oss", r"(?<![a-z0-9])gpt-oss-(?:safeguard-)?\d", {"": [((1,), ChatModelRules(efforts=_LOW_TO_HIGH, thinking="always"))]}
)
# Of these no rule is known.
MINIMAX = ModelFamily(
    "MiniMax",
    r"(?<![a-z0-9])minimax-m(?P<major>\d)(?:[.-](?P<minor>\d)(?!\d))?",
    {"": [((2,), _UNKNOWN), ((2, 5), _UNKNOWN), ((3,), _UNKNOWN)]},
)

CHAT_MODELS: tuple[ModelFamily[ChatModelRules], ...] = (GROK, DEEPSEEK, MISTRAL, KIMI, GLM, QWEN, GPT_OSS, MINIMAX)


@lru_cache(maxsize=512)
def find_chat_rules(model: str) -> ChatModelRules | None:
    """The rules of a model by its name; None: it is of none of these families. Gemini is served in OpenAI's dialects, too."""
    for family in CHAT_MODELS:
        rules = family.rules(model)
        if rules is not None:
            return replace(rules, family=family.title)
    gemini = GEMINI.rules(model)
    if gemini is None or not gemini.levels:
        return None
    ignored = () if gemini.honours_sampling else ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")
    return ChatModelRules(family=GEMINI.title, efforts=gemini.levels, thinking="always", ignored=ignored)
