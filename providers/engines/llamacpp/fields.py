"""Fields that llama.cpp's server has, those that it lacks or ignores, and their neutral values.

It ignores unknown fields without an error.

Those of SHARED_UNKNOWN_FIELDS are unknown to llama-cpp-python's server as well.
"""

from providers.fields import HINT_FIELDS, NeutralValues, neutral_values, only_null, restricted_fields

SHARED_UNKNOWN_FIELDS: NeutralValues = {
    **neutral_values(
        (
            *("stop_token_ids", "bad_words", "allowed_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
            *("spaces_between_special_tokens", "truncate_prompt_tokens", "top_a", "tfs_z", "length_penalty", "no_repeat_ngram_size"),
            *("best_of", "use_beam_search", "chat_template", "mm_processor_kwargs", "lora_path", "separate_reasoning"),
            *("thinking_token_budget", "verbosity", "modalities", "audio", "web_search_options"),
            *("functions", "function_call", "guided_whitespace_pattern", "do_preprocess", "return_token_ids"),
        )
    ),
    "documents": ([],),
    "include_reasoning": (True,),
    "prompt_logprobs": (0,),
    "vllm_xargs": ({},),
}
SHARED_HINT_FIELDS = HINT_FIELDS | {"priority", "cache_salt", "session_id"}

UNKNOWN_FIELDS: NeutralValues = {
    **SHARED_UNKNOWN_FIELDS,
    **neutral_values(("min_tokens", "min_new_tokens", "echo", "suffix")),
    # With these a grammar applies only after a trigger, so that the constraint would not hold from the first token on.
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
}
NEUTRAL_VALUES: NeutralValues = {
    **UNKNOWN_FIELDS,
    **neutral_values(("n", "logprobs", "parallel_tool_calls", "tools", "session_id")),
    "n_cmpl": (1,),  # its own name for n
    **only_null(("repetition_penalty",)),
}

# All fields that it reads. Source: tools/server/server-task.cpp and server-common.cpp, read 2026-11, and the names in the server of
# xllamacpp 2026.10.11549.
_SAMPLING_FIELDS = frozenset(
    {
        *("temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "top_n_sigma", "typical_p", "seed"),
        *("xtc_probability", "xtc_threshold", "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "samplers"),
        *("mirostat", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay", "min_keep", "logit_bias", "ignore_eos"),
        *("backend_sampling", "n_probs", "post_sampling_probs", "reasoning_budget_tokens", "reasoning_budget_message"),
        *("speculative.n_min", "speculative.n_max", "speculative.p_min", "speculative.type"),
    }
)
_LENGTH_FIELDS = frozenset(
    {
        *("max_tokens", "max_completion_tokens", "n_predict", "n_indent", "n_keep", "n_discard", "n_cache_reuse", "stop"),
        "t_max_predict_ms",
    }
)
KNOWN_FIELDS = (
    _SAMPLING_FIELDS
    | _LENGTH_FIELDS
    | {
        *("model", "messages", "prompt", "stream", "stream_options", "n", "n_cmpl", "cache_prompt", "id_slot", "slot_id", "lora"),
        *("return_tokens", "return_progress", "timings_per_token", "response_fields", "verbose", "sse_ping_interval"),
        *("logprobs", "top_logprobs", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens", "json_schema"),
        *("response_format", "tools", "tool_choice", "parallel_tool_calls", "parse_tool_calls", "chat_template_kwargs"),
        *("reasoning_effort", "reasoning_format", "reasoning_control", "thinking_forced_open", "thinking_budget_tokens"),
        *("add_generation_prompt", "continue_final_message", "chat_format"),
    }
)

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(("lora", "id_slot", "slot_id"))
