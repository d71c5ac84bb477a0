"""What vLLM reads and does nothing about, or does not read at all: it answers 200 to all of it.

Seen on 0.32 (its /openapi.json says what it reads; tests/engines/test_vllm_direct_fields.py holds this to that), and in the sources of
0.10.2 to 0.29; read 2026-11. What it refuses itself with a 400 is left to it: chat_template and mm_processor_kwargs without its
--trust-request-* flags, more stop strings than VLLM_MAX_STOP_STRINGS, a cache_salt with a slash.
"""

from collections.abc import Mapping

from providers.adapters.provider import HINT_FIELDS
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, NeutralValues

# In none of its dialects.
IGNORED_FIELDS = frozenset(
    {
        *("top_a", "typical_p", "tfs_z", "no_repeat_ngram_size", "best_of", "lora_path", "separate_reasoning"),
        *("guided_whitespace_pattern",),
    }
)
_TEMPLATE_FIELDS = frozenset({"chat_template", "add_generation_prompt", "continue_final_message"})
_SAMPLING_FIELDS = frozenset(
    {
        *("allowed_token_ids", "bad_words", "length_penalty", "min_tokens", "spaces_between_special_tokens"),
        *("truncate_prompt_tokens", "use_beam_search"),
    }
)
IGNORED_FIELDS_BY_DIALECT: Mapping[str, frozenset[str]] = {
    "openai_chat": frozenset({"verbosity", "modalities", "audio", "web_search_options", "functions", "function_call"}),
    "openai_completions": _TEMPLATE_FIELDS | {"chat_template_kwargs", "mm_processor_kwargs", "enable_thinking"},
    "openai_responses": IGNORED_FIELDS | _TEMPLATE_FIELDS | _SAMPLING_FIELDS | {"conversation"},
    "anthropic_messages": IGNORED_FIELDS
    | _TEMPLATE_FIELDS
    | _SAMPLING_FIELDS
    | {"mcp_servers", "container", "mm_processor_kwargs", "min_p", "repetition_penalty", "stop_token_ids", "ignore_eos"}
    | {"include_stop_str_in_output", "skip_special_tokens", "priority"},
}

# Values that ask for nothing.
VLLM_NEUTRAL_VALUES: NeutralValues = {
    **NEUTRAL_VALUES,
    "separate_reasoning": (True,),
    "spaces_between_special_tokens": (True,),
    "mcp_servers": ([],),
}

# Read and thrown away, or not read; no answer is another without them.
IGNORED_HINT_FIELDS = HINT_FIELDS | {"prediction"}

# Parts of content that it answers with a 400, by dialect: where they stand, and their type.
_NO_DOCUMENTS = "it reads no documents."
UNSUPPORTED_CHAT_PARTS: Mapping[bytes, str] = {b'"file"': _NO_DOCUMENTS}
