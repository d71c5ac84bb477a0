"""`transformers serve`: Hugging Face's own small server. It constrains nothing, demands no calls, and stops for those alone who stream.

It answers 422 to a field that it has not heard of, and passes over many that it has, with a line in its log. Sampling beyond
temperature and top_p goes in the string `generation_config`; without `do_sample` in that, temperature and top_p change nothing either.
Asked by chat and completions alone: its Responses stream unless told not to, and have times that strict clients refuse.
Seen on 5.23.0, 2026-11, whose cli/serving was read too; tests/engines/small/test_transformers_direct.py says it again.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tools import adapt_functions
from providers.adapters.unsupported_fields import NeutralValues, UnsupportedFields
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.structured_output import Constraint

# All that it acts on; what is not here is left out, dropped or refused.
_CHAT_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "logit_bias"),
        *("tools", "chat_template_kwargs", "generation_config"),
    }
)
_COMPLETIONS_FIELDS = frozenset(
    {"model", "prompt", "stream", "max_tokens", "temperature", "top_p", "seed", "stop", "generation_config", "suffix"}
)

# Into generation_config, by the names that transformers has for them.
_GENERATION_CONFIG_NAMES: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "min_tokens": "min_new_tokens",
}
_SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "min_p", "typical_p")

_NEUTRAL_VALUES: NeutralValues = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "parallel_tool_calls": (True,),
    "tool_choice": ("auto",),
    "tools": ([],),
    "functions": ([],),
    "function_call": ("none", "auto"),
    **dict.fromkeys(structured_output.CONSTRAINT_FIELDS, ()),
    "stream_options": (),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "verbosity": ("medium",),
    "reasoning_effort": (),
    "web_search_options": (),
    "top_k": (-1, 0),
    "min_p": (0,),
    "typical_p": (1,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "top_a": (0,),
    "tfs_z": (1,),
    "use_beam_search": (False,),
    "prompt_logprobs": (0,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "include_reasoning": (True,),
    "separate_reasoning": (True,),
    "stop": ([],),
    "max_tokens": (),
    "max_completion_tokens": (),
    "seed": (),
    "temperature": (),
    "top_p": (),
    "chat_template_kwargs": (),
    "generation_config": ("",),
}

_HINT_FIELDS = frozenset(
    {
        *("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prediction", "guided_decoding_backend", "priority", "cache_salt", "session_id"),
    }
)
# Dealt with in bending: by the road, by what constrains, or below.
_HANDLED_ELSEWHERE = structured_output.CONSTRAINT_FIELDS | {
    "response_format",
    "stream_options",
    "episode_id",
    "tensorzero::episode_id",
    "tensorzero::tags",
}

_DROP_REASONS: Mapping[str, str] = {
    "tool_choice": "it calls a tool or does not, as its model likes.",
    "logprobs": "it tells none.",
    "n": "it gives one answer.",
    "frequency_penalty": "it takes it for a repetition penalty, which is something else.",
}

_UNSUPPORTED_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}


class Transformers(Provider):
    name: ClassVar[str] = "transformers"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    strict_tools: ClassVar[bool] = False

    unsupported_fields: frozenset[str] = frozenset()
    hint_fields = _HINT_FIELDS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if "stream" not in options:
            self.streams = "only"
        self.stream_usage = False  # it tells usage on the chunk with the finish reason, asked or not

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {}

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
        if dialect == "openai_chat":
            self._adapt_tool_choice(body)
            adapt_functions(body, unsupported_fields)
            drop_unsupported_parts(body, _UNSUPPORTED_PARTS, unsupported_fields)
            rename_developer_role(body)
        if body.has_value("logit_bias") and dialect == "openai_chat":
            # Whole numbers are a 500 there (seen on 5.23).
            body["logit_bias"] = {id: float(bias) for id, bias in body.value("logit_bias").items()}
        supported = _CHAT_FIELDS if dialect == "openai_chat" else _COMPLETIONS_FIELDS
        for field in sorted(body.keys() - supported - _GENERATION_CONFIG_NAMES.keys() - _HANDLED_ELSEWHERE - self.hint_fields):
            unsupported_fields.drop_or_refuse(field, _DROP_REASONS.get(field, "it has no such field, or does nothing about it."))
        _move_sampling_fields(body)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        body.pop("stream_options", None)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def _adapt_tool_choice(self, body: Body) -> None:
        """Without tools nothing is called, whatever the choice; with `none` it is surest to send no tools."""
        if body.value("tool_choice") == "none" or not body.value("tools"):
            for field in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(field, None)


def _move_sampling_fields(body: Body) -> None:
    """Into generation_config, beside what the caller says there. Greedy, at temperature 0, it is without."""
    is_greedy = body.value("temperature") == 0
    moved = {engine_name: body.value(field_name) for field_name, engine_name in _GENERATION_CONFIG_NAMES.items() if field_name in body}
    is_sampling = not is_greedy and any(field in body for field in _SAMPLING_FIELDS)
    if not moved and not is_sampling:
        return
    config: dict[str, Any] = {}
    if "generation_config" in body:
        try:
            config = msgspec.json.decode(body.value("generation_config"), type=dict[str, Any])
        except (*DECODE_ERRORS, TypeError):
            raise InvalidRequest("`generation_config` must be a string that holds a JSON object.", param="generation_config") from None
    elif "max_tokens" not in body and "max_completion_tokens" not in body:
        config["max_new_tokens"] = 1024  # what it would take without a generation_config; with one: 20
    if is_sampling:
        config["do_sample"] = True
    body["generation_config"] = msgspec.json.encode(config | moved).decode()
    for field in _GENERATION_CONFIG_NAMES:
        body.pop(field, None)
