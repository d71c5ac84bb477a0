"""Why a host refused a request, where another model may take it: the prompt is too long for this one, or its content is refused."""

import re
from typing import Literal

from providers.canonical.errors import UpstreamError

RefusalReason = Literal["context_length", "content_refused"]

# Codes and words of hosts and engines, in their errors for prompts that do not fit. Sources: docs/sources.md#refusal-reasons.
_LENGTH_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_LENGTH_WORDS = re.compile(
    r"maximum context length|context (?:length|window|size|limit)[^.]{0,40}exceed|exceed[^.]{0,60}context (?:length|window|size|limit)"
    r"|longer than the (?:model's context|maximum model) length|prompt is too long|input is too long"
    r"|input token count[^.]{0,60}exceeds|tokens? \+ `?max_new_tokens|must have less than \d+ tokens"
    r"|too large for model with \d+ maximum context|maximum prompt length|too many tokens",
    re.IGNORECASE,
)
_CONTENT_CODES = frozenset(
    {
        *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"),
        *("data_inspection_failed", "datainspectionfailed", "prohibited_content", "safety"),
    }
)
_CONTENT_WORDS = re.compile(
    r"content (?:filter|management policy|policy violation|exists risk)|blocked by (?:content|our) |violates? (?:our )?(?:usage|content) ",
    re.IGNORECASE,
)


def refusal_reason(error: UpstreamError) -> RefusalReason | None:
    """Returns why a model refused a request, or None if another model is no more likely to take it."""
    if error.upstream_status is None or not 400 <= error.upstream_status < 500 or error.upstream_status == 429:
        return None
    code = (error.upstream_code or "").lower()
    if code in _LENGTH_CODES or _LENGTH_WORDS.search(error.message):
        return "context_length"
    if code in _CONTENT_CODES or _CONTENT_WORDS.search(error.message):
        return "content_refused"
    return None
