"""Fields that vLLM lacks or ignores, and their neutral values. It answers 200 to all of them.

Observed on 0.32 (tests/engines/vllm/test_vllm_direct_fields.py compares this with its /openapi.json), and read in the sources of 0.10.2 to
0.29, in 2026-11. What vLLM itself rejects with a 400 is not listed: chat_template and mm_processor_kwargs without its --trust-request-*
flags, more stop strings than VLLM_MAX_STOP_STRINGS, a cache_salt with a slash.
"""

from collections.abc import Mapping

from providers.fields import HINT_FIELDS, RARE_NEUTRAL_VALUES, NeutralValues, neutral_values, restricted_fields

# Without effect in all of its dialects.
IGNORED_FIELDS = frozenset(
    {
        *("top_a", "typical_p", "tfs_z", "no_repeat_ngram_size", "best_of", "lora_path", "separate_reasoning"),
        *("guided_whitespace_pattern", "do_preprocess"),
    }
)
_TEMPLATE_FIELDS = frozenset({"chat_template", "add_generation_prompt", "continue_final_message"})
_SAMPLING_FIELDS = frozenset(
    {
        *("allowed_token_ids", "bad_words", "length_penalty", "min_tokens", "min_new_tokens"),
        *("spaces_between_special_tokens", "truncate_prompt_tokens", "use_beam_search", "return_token_ids"),
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

VLLM_NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    **neutral_values(("separate_reasoning", "spaces_between_special_tokens", "session_id")),
    "mcp_servers": ([],),
}

IGNORED_HINT_FIELDS = HINT_FIELDS

# Chat parts that vLLM rejects with 400, by type.
UNSUPPORTED_CHAT_PARTS: Mapping[bytes, str] = {b'"file"': "it reads no documents."}

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(
    (
        *("kv_transfer_params", "ec_transfer_params", "vllm_xargs.kv_transfer_params", "vllm_xargs.ec_transfer_params"),
        *("sampling_params.extra_args", "data_parallel_rank", "priority", "cache_salt", "logits_processors", "prompt_embeds"),
    )
)
