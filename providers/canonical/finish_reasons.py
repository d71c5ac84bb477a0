"""Finish reasons: the words of all engines and hosts as OpenAI's, as failures, and as the record has them.

One table for every dialect: hosts behind gateways, and engines behind others' APIs, send words of other APIs. A word counts in any
spelling: `content-filter`, `CONTENT_FILTER` and `contentFilter` are one.

Sources, read 2026-11: OpenAI, Anthropic, Google, Cohere, Mistral, Bedrock and TGI as their dialects name them; Z.ai's `sensitive`,
`model_context_window_exceeded` and `network_error` (https://docs.z.ai/api-reference/llm/chat-completion); DeepSeek's
`insufficient_system_resource`; `abort`, `parse_error` and `error` of vLLM, SGLang and LMDeploy; `load` and `unload` of Ollama, which
loaded or unloaded its model and wrote nothing; `failed`, `cancelled`, `timeout` and `token_limit` of gateways in front of hosts.
"""

import re
from collections.abc import Mapping

from msgspec import Raw

from providers.canonical.errors import Overloaded, TimedOut, UnparsableModelOutput, UpstreamError, UpstreamFailed
from providers.canonical.raw_json import NULL
from providers.canonical.upstream_errors import find_error, is_error

_WORDS: Mapping[str, tuple[str, ...]] = {
    "stop": (
        *("stop", "stop_sequence", "stop_string", "stop_token", "pause_turn", "end_turn", "eos", "eos_token", "end_of_text"),
        *("end_of_sequence", "end", "complete", "completed", "finish", "finished", "compaction"),
    ),
    "length": (
        *("length", "max_tokens", "max_token", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length"),
        *("max_tokens_reached", "token_limit", "token_limit_reached", "limit", "length_limit", "output_limit", "model_length"),
        *("context_length", "context_length_exceeded", "context_window_exceeded", "model_context_window_exceeded", "error_limit"),
        *("incomplete", "truncated"),
    ),
    "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"),
    "content_filter": (
        *("content_filter", "content_filtered", "content_filtering", "content_blocked", "content_policy_violation", "filtered"),
        *("safety", "sensitive", "refusal", "refused", "blocked", "blocklist", "moderation", "policy_violation", "error_toxic"),
        *("guardrail_intervened", "guardrail", "recitation", "prohibited_content", "spii", "model_armor", "jailbreak"),
        *("image_safety", "image_prohibited_content", "image_recitation"),
    ),
}
_FAILURES: Mapping[type[UpstreamError], tuple[str, ...]] = {
    UpstreamFailed: (
        *("error", "failed", "failure", "abort", "aborted", "cancel", "cancelled", "canceled", "user_cancel", "network_error"),
        *("connection_error", "disconnected", "disconnect", "internal_error", "server_error", "engine_error", "exception"),
        *("insufficient_system_resource", "parse_error", "load", "unload"),
    ),
    TimedOut: ("timeout", "timed_out"),
    Overloaded: ("overloaded", "server_overloaded", "rate_limit", "rate_limited", "rate_limit_exceeded"),
    UnparsableModelOutput: (
        *("malformed_function_call", "malformed_tool_use", "malformed_tool_call", "malformed_response", "malformed_model_output"),
        *("unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature"),
    ),
}
_not_a_letter = re.compile("[^a-z]+")
_MAX_WORD_CHARS = 100


def _letters(word: str) -> str:
    return _not_a_letter.sub("", word.lower())


_KNOWN = {_letters(word): reason for reason, words in _WORDS.items() for word in words}
_FAILED = {_letters(word): error for error, words in _FAILURES.items() for word in words}

# OpenAI's own in any of its APIs: what needs no look at the tables.
OPENAI_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})


def known_reason(word: str) -> str | None:
    """OpenAI's finish reason (stop, length, tool_calls or content_filter) for the word of an engine; None: the word is not known."""
    return _KNOWN.get(_letters(word[:_MAX_WORD_CHARS]))


def openai_reason(word: str, error: Raw = NULL) -> str:
    """The same, where an unknown word is a stop: the answer is not thrown away. Raises the UpstreamError of a word that means failure."""
    reason = known_reason(word)
    if reason is None:
        check_failure(word, error)
    return reason or "stop"


def check_failure(word: str | None, error: Raw = NULL) -> None:
    """Raises UpstreamError if an engine's finish reason means that the response failed; or has an error beside it, as at OpenRouter.

    `error` is that of the choice, which says more than the word. Source: https://openrouter.ai/docs/api-reference/overview
    (NonStreamingChoice, StreamingChoice), read 2026-11.
    """
    if error is not NULL and is_error(error):
        found = find_error({"error": error})
        if found is not None:
            raise found
    if not word or word in OPENAI_REASONS:
        return
    failed = _FAILED.get(_letters(word[:_MAX_WORD_CHARS]))
    if failed is not None:
        failure = failed(f"The engine aborted its response (finish_reason {word[:_MAX_WORD_CHARS]!r}).")
        failure.upstream_code = word[:_MAX_WORD_CHARS]
        raise failure


def recorded_finish_reason(reason: str | None, upstream_finish_reason: str | None) -> str | None:
    """OpenAI's finish reason; where it stands for one of the host that is not known, the host's own."""
    if reason in (None, "content_filter") or not upstream_finish_reason or upstream_finish_reason in OPENAI_REASONS:
        return reason
    return reason if known_reason(upstream_finish_reason) is not None else upstream_finish_reason[:_MAX_WORD_CHARS]
