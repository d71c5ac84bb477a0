"""Fields that llama.cpp's server lacks or ignores, and their neutral values. It ignores unknown fields without an error.

Those of SHARED_UNKNOWN_FIELDS are unknown to llama-cpp-python's server as well.
"""

from providers.fields import HINT_FIELDS, NeutralValues, neutral_values, only_null, restricted_fields

SHARED_UNKNOWN_FIELDS: NeutralValues = {
    **neutral_values(
        (
            *("stop_token_ids", "bad_words", "allowed_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
            *("spaces_between_special_tokens", "truncate_prompt_tokens", "top_a", "tfs_z", "length_penalty", "no_repeat_ngram_size"),
            *("best_of", "use_beam_search", "chat_template", "mm_processor_kwargs", "lora_path", "separate_reasoning"),
            *("enable_thinking", "thinking_token_budget", "verbosity", "modalities", "audio", "web_search_options"),
            *("functions", "function_call", "guided_whitespace_pattern", "do_preprocess"),
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
    **neutral_values(("n", "logprobs", "parallel_tool_calls", "tools")),
    "n_cmpl": (1,),  # its own name for n
    **only_null(("repetition_penalty",)),
}

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(("lora", "id_slot", "slot_id"))
