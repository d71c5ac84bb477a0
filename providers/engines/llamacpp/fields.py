"""What neither of llama.cpp's servers has a field for, or does anything about: both read bodies without a word about what is unknown."""

from providers.adapters.unsupported_fields import UNKNOWN_HINTS, NeutralValues

# With the values of each that ask for nothing.
UNKNOWN_FIELDS: NeutralValues = {
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "top_a": (0,),
    "tfs_z": (1,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (0,),
    "chat_template": (),
    "mm_processor_kwargs": ({},),
    "vllm_xargs": ({},),
    "documents": ([],),
    "lora_path": (),
    "separate_reasoning": (True,),
    "enable_thinking": (),
    "include_reasoning": (True,),
    "thinking_token_budget": (),
    "verbosity": ("medium",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "guided_whitespace_pattern": (),
}

# No answer is another without these.
HINT_FIELDS = UNKNOWN_HINTS | {"priority", "cache_salt", "session_id"}
