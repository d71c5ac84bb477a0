"""The table of fields: which values of a field request nothing, and which fields are hints.

A neutral value requests what every target does anyway (`n` of 1, an empty list of tools). A target without such a field can leave it out
and still honour the request. A hint changes no response; a target without it drops it, and the drop is reported. Any other field that a
target cannot honour is refused, or dropped where the caller allows that (providers/drop_policy.py).

An engine that differs from this table states only the difference, in engines/NAME/fields.py.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from providers.canonical.chat import ChatRequest, Extra
from providers.drop_policy import DropPolicy

NeutralValues = Mapping[str, tuple[Any, ...]]
"""The neutral values of each field. Null is neutral for all of them, and stands in no list."""


class Field(NamedTuple):
    """The facts about a field that hold wherever it is sent."""

    neutral_values: tuple[Any, ...] = ()
    is_hint: bool = False


# Fields of engines beyond those of the dialects; a caller who sends one, in whichever dialect, means the same by it.
_ENGINE_FIELDS: Mapping[str, Field] = {
    # Sampling.
    "top_k": Field((-1, 0)),
    "min_p": Field((0,)),
    "top_a": Field((0,)),
    "typical_p": Field((1,)),
    "tfs_z": Field((1,)),
    "repetition_penalty": Field((1,)),
    "length_penalty": Field((1,)),
    "no_repeat_ngram_size": Field((0,)),
    "best_of": Field((1,)),
    "use_beam_search": Field((False,)),
    "allowed_token_ids": Field(([],)),
    # Where a response ends.
    "min_tokens": Field((0,)),
    "min_new_tokens": Field((0,)),
    "ignore_eos": Field((False,)),
    "stop_token_ids": Field(([],)),
    "bad_words": Field(([],)),
    "include_stop_str_in_output": Field((False,)),
    "skip_special_tokens": Field((True,)),
    "spaces_between_special_tokens": Field((True,)),
    # How the prompt is made.
    "truncate_prompt_tokens": Field(),
    "chat_template": Field(),
    "chat_template_kwargs": Field(({},)),
    "mm_processor_kwargs": Field(({},)),
    "add_generation_prompt": Field((True,)),
    "do_preprocess": Field((True,)),
    "continue_final_message": Field((False,)),
    "enable_thinking": Field(),
    "separate_reasoning": Field((True,)),
    # How the request is run.
    "priority": Field((0,)),
    "cache_salt": Field(),
    "lora_path": Field(),
    "session_id": Field((-1,)),
    "return_token_ids": Field((False,)),
    "vllm_xargs": Field(),
    "guided_whitespace_pattern": Field(),
    "guided_decoding_backend": Field(is_hint=True),
}

FIELDS: Mapping[str, Field] = {
    **_ENGINE_FIELDS,
    # OpenAI's dialects.
    "n": Field((1,)),
    "stop": Field(([],)),
    "echo": Field((False,)),
    "suffix": Field(("",)),
    "presence_penalty": Field((0,)),
    "frequency_penalty": Field((0,)),
    "logit_bias": Field(({},)),
    "logprobs": Field((False,)),
    "top_logprobs": Field((0,)),
    "prompt_logprobs": Field(),
    "response_format": Field(({"type": "text"},)),
    "modalities": Field((["text"],)),
    "verbosity": Field(("medium",)),
    "tools": Field(([],)),
    "tool_choice": Field(("auto",)),
    "parallel_tool_calls": Field((True,)),
    "functions": Field(([],)),
    "function_call": Field(("none", "auto")),
    "user": Field(is_hint=True),
    "safety_identifier": Field(is_hint=True),
    "metadata": Field(is_hint=True),
    "store": Field(is_hint=True),
    "service_tier": Field(is_hint=True),
    "prompt_cache_key": Field(is_hint=True),
    "prompt_cache_retention": Field(is_hint=True),
    "prediction": Field(is_hint=True),
    # Fields of single engines that others are sent too.
    "id_slot": Field((-1,)),
    "documents": Field(),
    "include_reasoning": Field(),
    "thinking_token_budget": Field(),
}

ENGINE_FIELDS = frozenset(_ENGINE_FIELDS)
HINT_FIELDS = frozenset(name for name, field in FIELDS.items() if field.is_hint)
# A prediction is the expected text of a chat; on a route that writes no text it is no hint.
NON_CHAT_HINT_FIELDS = HINT_FIELDS - {"prediction"}

# Fields that most engines and hosts do not have.
RARE_FIELDS = frozenset(
    {
        *("top_a", "typical_p", "tfs_z", "length_penalty", "no_repeat_ngram_size", "bad_words", "truncate_prompt_tokens"),
        *("allowed_token_ids", "best_of", "use_beam_search", "chat_template", "add_generation_prompt", "vllm_xargs", "suffix"),
        *("guided_whitespace_pattern", "verbosity", "modalities", "audio", "web_search_options", "functions", "function_call"),
        *("thinking_token_budget", "include_reasoning", "documents", "prompt_logprobs", "do_preprocess", "return_token_ids"),
    }
)

# Fields of a chat that the completions of most engines lack.
CHAT_ONLY_FIELDS = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort", "chat_template_kwargs"),
        "enable_thinking",
    }
)

# Fields by which a request chooses what only an operator may choose, with what that is. Each adapter lists those that its engine or host
# reads (engines/NAME/fields.py, hosted/hosts.toml); for an unknown server all of them count. A dot leads into an object.
# Source: docs/sources.md#restricted-fields.
RESTRICTED_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("lora_path", "lora", "adapter_name", "adapter_id", "adapters"), "a LoRA adapter"),
    **dict.fromkeys(("models", "route", "preset", "fallbacks", "compound_custom"), "another model"),
    **dict.fromkeys(("provider", "api_base", "user_config"), "another provider"),
    **dict.fromkeys(("id_slot", "slot_id"), "a slot of the engine"),
    **dict.fromkeys(("data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank"), "a rank of the engine"),
    **dict.fromkeys(
        (
            *("bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key", "decode_tp_size", "migration_request"),
            *("kv_transfer_params", "ec_transfer_params", "vllm_xargs.kv_transfer_params", "vllm_xargs.ec_transfer_params"),
            *("sampling_params.extra_args", "with_cache", "preserve_cache"),
        ),
        "where the engine keeps and fetches the state of requests",
    ),
    "session_params": "a session of the engine, which may be another caller's",
    **dict.fromkeys(("cache_salt", "extra_key"), "with whom a cache is shared"),
    "priority": "which request comes first",
    **dict.fromkeys(("custom_logit_processor", "logits_processors", "plugins"), "code to run"),
    "prompt_embeds": "a tensor to load",
    "data_sources": "an index to read with the account's rights",
}

# Names that dialects and engines have for a bound on output tokens (providers/output_bounds.py): OpenAI's; n_predict of llama.cpp;
# max_new_tokens of SGLang, LMDeploy, TGI and transformers; num_predict of Ollama; the rest of older and of Bedrock's APIs.
OUTPUT_BOUND_FIELDS = frozenset(
    {
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "max_new_tokens", "num_predict"),
        *("max_tokens_to_sample", "max_gen_len"),
    }
)
# Objects that hold one of them: of transformers, Ollama, TGI and vLLM or SGLang.
OUTPUT_BOUND_OBJECTS = frozenset({"generation_config", "options", "parameters", "sampling_params"})

# Hints that ChatRequest does not name, so that they are among the extra fields of a chat.
_EXTRA_HINT_FIELDS = HINT_FIELDS - {"prompt_cache_key", *ChatRequest.__struct_fields__}
# Fields whose neutral values are also neutral where they are extra fields of a chat.
_EXTRA_FIELDS = (ENGINE_FIELDS | {"echo", "modalities"}) - {"top_k"}


def neutral_values(fields: Iterable[str]) -> NeutralValues:
    """The neutral values of these fields; of a field that is not in the table only null is neutral."""
    return {name: FIELDS[name].neutral_values if name in FIELDS else () for name in fields}


def restricted_fields(names: Iterable[str]) -> Mapping[str, str]:
    """These of RESTRICTED_FIELDS."""
    return {name: RESTRICTED_FIELDS[name] for name in names}


def only_null(fields: Iterable[str]) -> NeutralValues:
    """Returns no neutral values, for fields that an engine has and whose null it rejects.

    Only null is left out, and every value is sent.
    """
    return dict.fromkeys(fields, ())


RARE_NEUTRAL_VALUES = neutral_values(name for name in sorted(RARE_FIELDS & FIELDS.keys()) if FIELDS[name].neutral_values)


def drop_extra_fields(extra: Extra, drop_policy: DropPolicy, why: str, written: Container[str] = ()) -> None:
    """Drops or refuses the extra fields of a chat that a host has no field for. `written` are those that the request already holds.

    Raises Unsupported for a field that is neither a hint nor neutral, unless the caller allows the drop.
    """
    for key, value in extra.items():
        if key in written:
            continue
        if key in _EXTRA_HINT_FIELDS:
            drop_policy.drop_hint(key)
        elif key in _EXTRA_FIELDS and msgspec.json.decode(value) in FIELDS[key].neutral_values:
            continue
        elif key not in ENGINE_FIELDS:
            drop_policy.drop_extra_field(key, value, why)
        elif msgspec.json.decode(value) not in (None, [], ""):
            drop_policy.drop_or_refuse(key, why)
