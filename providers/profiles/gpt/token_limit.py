"""The name of the token limit that OpenAI's models take in Chat."""

import re
from typing import Any

from providers.canonical.raw_json import NULL, Body

# Names: https://platform.openai.com/docs/models, read 2026-11.
_REASONING_MODEL = re.compile(r"(?:ft:)?(?:o\d|gpt-(?:[5-9]|[12]\d))(?![a-z0-9])")
_OTHER_MODEL = re.compile(r"(?:ft:)?(?:chatgpt|gpt-?[34])")


def is_reasoning_model(model: Any) -> bool:
    """Whether this is the name of an OpenAI model that reasons."""
    return isinstance(model, str) and _REASONING_MODEL.match(model) is not None


def may_reason(deployment: str) -> bool:
    """Whether a deployment of this name may reason: Azure's have any name, often that of their model."""
    return is_reasoning_model(deployment) or _OTHER_MODEL.match(deployment) is None


def rename_max_tokens(body: Body) -> None:
    """Renames `max_tokens` to `max_completion_tokens` in a chat body for a reasoning model; a value of the newer field wins.

    Reasoning models refuse `max_tokens` (recorded: openai/39-error-400-d); other models accept both names.
    """
    if "max_tokens" in body and is_reasoning_model(body.value("model")):
        use_newer_limit(body)


def use_newer_limit(body: Body) -> None:
    max_tokens = body.pop("max_tokens", NULL)
    if max_tokens != NULL and not body.has_value("max_completion_tokens"):
        body["max_completion_tokens"] = max_tokens
