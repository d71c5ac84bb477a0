"""`transformers serve`: Hugging Face's own small server. It constrains nothing, demands no calls, and stops for those alone who stream.

It answers 422 to a field that it has not heard of, and passes over many that it has, with a line in its log. Sampling beyond
temperature and top_p goes in the string `generation_config`; without `do_sample` in that, temperature and top_p change nothing either.
Asked by chat and completions alone: its Responses stream unless told not to, and have times that strict clients refuse.
Seen on 5.23.0, 2026-11, whose cli/serving was read too; tests/engines/small/test_transformers_direct.py says it again.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers import guided
from providers.errors import Malformed
from providers.guided import Constraint
from providers.losses import Idle, Losses
from providers.provider import Bent, Provider
from providers.thoughts import drop_parts, name_system
from providers.tools import bend_functions
from providers.wire import UNREADABLE, Body

# All that it acts on; what is not here is left out, dropped or refused.
_CHAT = frozenset(
    {
        *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "logit_bias"),
        *("tools", "chat_template_kwargs", "generation_config"),
    }
)
_COMPLETIONS = frozenset({"model", "prompt", "stream", "max_tokens", "temperature", "top_p", "seed", "stop", "generation_config", "suffix"})

# Into generation_config, by the names that transformers has for them.
_GENERATION: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "min_tokens": "min_new_tokens",
}
_SAMPLES = ("temperature", "top_p", "top_k", "min_p", "typical_p")

_IDLE: Idle = {
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
    **dict.fromkeys(guided.WORDS, ()),
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

_HINTS = frozenset(
    {
        *("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prediction", "guided_decoding_backend", "priority", "cache_salt", "session_id"),
    }
)
# Dealt with in bending: by the road, by what constrains, or below.
_ELSEWHERE = guided.WORDS | {"response_format", "stream_options", "episode_id", "tensorzero::episode_id", "tensorzero::tags"}

_WHY: Mapping[str, str] = {
    "tool_choice": "it calls a tool or does not, as its model likes.",
    "logprobs": "it tells none.",
    "n": "it gives one answer.",
    "frequency_penalty": "it takes it for a repetition penalty, which is something else.",
}

_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}


class Transformers(Provider):
    name: ClassVar[str] = "transformers"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    strict_tools: ClassVar[bool] = False

    refuses: frozenset[str] = frozenset()
    hints = _HINTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if "stream" not in options:
            self.streams = "only"
        self.stream_usage = False  # it tells usage on the chunk with the finish reason, asked or not

    @property
    def guided(self) -> guided.Ways:
        return {}

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        if dialect not in self.guided_in:
            return super().bend(body, dialect, may_drop, constraint)
        losses = Losses(self, body, may_drop)
        losses.leave_out(_IDLE)
        if dialect == "openai_chat":
            self._bend_choice(body)
            bend_functions(body, losses)
            drop_parts(body, _PARTS, losses)
            name_system(body)
        if body.said("logit_bias") and dialect == "openai_chat":
            # Whole numbers are a 500 there (seen on 5.23).
            body["logit_bias"] = {id: float(bias) for id, bias in body.value("logit_bias").items()}
        known = _CHAT if dialect == "openai_chat" else _COMPLETIONS
        for field in sorted(body.keys() - known - _GENERATION.keys() - _ELSEWHERE - self.hints):
            losses.without(field, _WHY.get(field, "it has no such field, or does nothing about it."))
        _move_sampling(body)
        bent = super().bend(body, dialect, may_drop, constraint)
        body.pop("stream_options", None)
        bent.dropped[:0] = losses.dropped
        return bent

    def _bend_choice(self, body: Body) -> None:
        """Without tools nothing is called, whatever the choice; with `none` it is surest to send no tools."""
        if body.value("tool_choice") == "none" or not body.value("tools"):
            for field in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(field, None)


def _move_sampling(body: Body) -> None:
    """Into generation_config, beside what the caller says there. Greedy, at temperature 0, it is without."""
    greedy = body.value("temperature") == 0
    moved = {theirs: body.value(ours) for ours, theirs in _GENERATION.items() if ours in body}
    samples = not greedy and any(field in body for field in _SAMPLES)
    if not moved and not samples:
        return
    told: dict[str, Any] = {}
    if "generation_config" in body:
        try:
            told = msgspec.json.decode(body.value("generation_config"), type=dict[str, Any])
        except (*UNREADABLE, TypeError):
            raise Malformed("`generation_config` must be a string that holds a JSON object.", param="generation_config") from None
    elif "max_tokens" not in body and "max_completion_tokens" not in body:
        told["max_new_tokens"] = 1024  # what it would take without a generation_config; with one: 20
    if samples:
        told["do_sample"] = True
    body["generation_config"] = msgspec.json.encode(told | moved).decode()
    for field in _GENERATION:
        body.pop(field, None)
