"""The sentences with which chat templates refuse the order of messages, and the rule that each of them is about.

A template raises its sentence while the engine renders the prompt. The engine passes it on with a 400 or 422, or as if it had failed
itself: llama.cpp, LM Studio, llama-cpp-python and Ollama answer with a 500, although the request would fail again anywhere.
"""

import re
from collections.abc import Sequence
from typing import Literal

from providers.canonical.relayed_errors import unwrap_relayed

TemplateRule = Literal["leading_instructions", "alternate_turns", "no_instructions"]
"""Each is stricter than the one before it: instructions in one first message; and turns in order; and no instructions."""
TEMPLATE_RULES: tuple[TemplateRule, ...] = ("leading_instructions", "alternate_turns", "no_instructions")

TEMPLATE_SOURCES = (
    "ggml-org/llama.cpp#20733, ollama/ollama#18241 and #17774, vllm-project/vllm#41114, lmstudio-ai/lmstudio-bug-tracker#2298 (Qwen);"
    " vllm-project/vllm#6862, SWE-agent/mini-swe-agent#759, charmbracelet/crush#279, NousResearch/hermes-agent#20154 (Mistral);"
    " vllm-project/vllm#2964, sgl-project/sglang#892, huggingface/chat-ui#1386 (Gemma); read 2026-11"
)

_MAX_CHARS = 1000
# What engines write around the sentence. llama.cpp quotes the template's own line; TGI says where in the template it was.
_BEFORE = (
    r"(?:(?:Unable to generate parser for this template\. Automatic parser generation failed:\s+)?-{12}\s+While executing \w{1,40} at"
    r" line \d{1,6}, column \d{1,6} in source:\n[\s\S]{0,400}?\nError: )?"
    r"(?:Jinja Exception: |Template error: (?:[a-z ]{1,40}: )?|Error rendering prompt with jinja template: \"?)?"
)
_AFTER = r"(?: \(in <string>:\d{1,6}\)|\"\.? ?[\w .,'`/:()-]{0,300})?"


def _sentence(sentence: str) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{sentence}){_AFTER}", re.IGNORECASE)


TEMPLATE_ERRORS: Sequence[tuple[TemplateRule, re.Pattern[str]]] = (
    (
        "leading_instructions",
        _sentence(
            r"System (?:message|prompt|role)s? (?:must|can only|may only|should|needs to)(?: only)? be (?:placed )?"
            r"(?:at the (?:very )?(?:beginning|start)|(?:the )?first(?: message)?)(?: of the (?:conversation|chat|messages))?[.!]?"
        ),
    ),
    ("leading_instructions", _sentence(r"Unexpected message role\.?")),  # Qwen's, of `developer`
    (
        "leading_instructions",
        _sentence(r"Expected last role User or Tool \(or Assistant with prefix[\w ]{0,60}\) for serving but got (?:system|developer)\.?"),
    ),
    (
        "alternate_turns",
        _sentence(
            r"(?:After the optional system message, )?(?:conversation )?roles must alternate (?:between )?"
            r"(?:user/assistant/user/assistant/\.{2,3}|user and assistant(?: roles)?(?: except for tool calls and results)?\.?)"
        ),
    ),
    ("alternate_turns", _sentence(r"Unexpected role '(?:system|developer|user|assistant)' after role '\w{1,20}'\.?")),
    ("alternate_turns", _sentence(r"(?:A )?conversation must (?:start|begin) with a user (?:message|prompt|turn)\.?")),
    ("no_instructions", _sentence(r"System (?:role|message|prompt)s?(?: is| are)? not supported[.!]?")),
    ("no_instructions", _sentence(r"Only user and assistant roles are supported[.!]?")),
)


def names_template_rule(message: str) -> bool:
    """Whether an engine's error, as a whole, is a template's refusal of the order of messages."""
    text = unwrap_relayed(message)
    return len(message) <= _MAX_CHARS and any(pattern.fullmatch(text) for _, pattern in TEMPLATE_ERRORS)
