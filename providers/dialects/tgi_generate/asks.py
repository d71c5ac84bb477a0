"""A raw prompt as a request to generate, and what it cannot say.

Sources: router/src/lib.rs (GenerateParameters) and validation.rs of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema";
read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import ENGINE_WORDS, ChatRequest
from providers.dialect import Concessions
from providers.dialects.tgi_generate.grammars import write_grammar
from providers.errors import Unsupported
from providers.wire import NULL, Body


class Words(Struct, frozen=True):
    """What one of the two calls things. `engine`: words of engines that it has too. `grammar`: whether it can be held to one.

    `top_tokens`: how many other tokens it may be asked to tell in each one's place. `no_limit`: what has it write as long as it can.
    `least`: how much it writes where nobody says.
    """

    who: str
    stop: str
    top_tokens: str | None
    grammar: bool
    frequency_penalty: bool
    no_limit: Raw | None
    least: int
    engine: Mapping[str, str]


TGI = Words(
    who="TGI's generate",
    stop="stop",
    top_tokens="top_n_tokens",
    grammar=True,
    frequency_penalty=True,
    no_limit=NULL,
    least=100,
    engine={"repetition_penalty": "repetition_penalty", "typical_p": "typical_p", "truncate_prompt_tokens": "truncate"},
)
# Those alone that it takes whichever engine is in the container: what another engine has, this one may pass over in silence.
LMI = Words(
    who="LMI's schema for prompts",
    stop="stop_sequences",
    top_tokens=None,
    grammar=False,
    frequency_penalty=False,
    no_limit=None,
    least=30,
    engine={"repetition_penalty": "repetition_penalty"},
)

# Whose callers mean the engine's own default, where they say no limit; all others, as long as an answer would be.
_COMPLETIONS = "openai_completions"

# Values that ask for nothing: it does so anyway.
_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "top_a": (0,),
    "tfs_z": (1,),
    "typical_p": (1,),
    "min_p": (0,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "priority": (0,),
    "repetition_penalty": (1,),
}
_HINTS = frozenset({"prompt_cache_retention", "guided_decoding_backend"})


def write_request(chat: ChatRequest, concessions: Concessions, words: Words) -> Body:
    """Raises Unsupported for messages."""
    if chat.prompt is None:
        raise Unsupported(f"Messages cannot be asked of {words.who}: it takes a raw prompt.", param="messages")
    parameters = {"return_full_text": False, "details": True, **_sampling(chat, concessions), **_tokens(chat, concessions, words)}
    if chat.output is not None:
        try:
            if not words.grammar:
                raise Unsupported("it has no word for what constrains an answer.")
            parameters["grammar"] = write_grammar(chat.output)
        except Unsupported as reason:
            concessions.without("output", reason.message)
    parameters |= _engine_words(chat, concessions, words)
    _unsayable(chat, concessions, words)
    return Body(inputs=chat.prompt, parameters={key: value for key, value in parameters.items() if value is not None})


def _sampling(chat: ChatRequest, concessions: Concessions) -> dict[str, Any]:
    """Both take the likeliest token unless told to sample, which a caller of ours means who does not say the contrary.

    At the bounds of a range, where a number asks for nothing, they refuse it.
    """
    if chat.seed is not None and chat.seed < 0:
        concessions.without("seed", "it takes numbers of 0 and more.")
    greedy = chat.temperature == 0
    return {
        "do_sample": not greedy,
        "temperature": None if greedy else chat.temperature,
        "top_p": None if chat.top_p is None or chat.top_p >= 1 else chat.top_p,
        "top_k": None if chat.top_k is None or chat.top_k < 1 else chat.top_k,
        "seed": None if chat.seed is None or chat.seed < 0 else chat.seed,
    }


def _tokens(chat: ChatRequest, concessions: Concessions, words: Words) -> dict[str, Any]:
    told: dict[str, Any] = {"max_new_tokens": chat.max_tokens, words.stop: chat.stop or None}
    if chat.max_tokens is None and chat.origin != _COMPLETIONS:
        if words.no_limit is None:
            concessions.without("max_tokens", f"it needs one: it writes {words.least} tokens where nobody says how many.")
        told["max_new_tokens"] = words.no_limit
    if words.frequency_penalty:
        told["frequency_penalty"] = chat.frequency_penalty or None
    elif chat.frequency_penalty:
        concessions.without("frequency_penalty", f"{words.who} has no such field for every engine.")
    if chat.logprobs and chat.top_logprobs:
        if words.top_tokens is None:
            concessions.without("top_logprobs", "it tells the chance of the chosen token alone.")
        else:
            told[words.top_tokens] = chat.top_logprobs
    return told


def _engine_words(chat: ChatRequest, concessions: Concessions, words: Words) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for key, value in chat.extra.items():
        said = msgspec.json.decode(value)
        if said is None or said in _NOTHING.get(key, ()):
            continue
        if key in words.engine:
            told[words.engine[key]] = value
        elif key in _HINTS:
            concessions.hint(key)
        elif key in ENGINE_WORDS:
            if said not in ([], "", {}):
                concessions.without(key, f"{words.who} has no such field.")
        else:
            concessions.extra(key, value, f"{words.who} has no such field.")
    return told


def _unsayable(chat: ChatRequest, concessions: Concessions, words: Words) -> None:
    why = f"{words.who} has no such field."
    if chat.n is not None and chat.n > 1:
        concessions.without("n", "it gives one answer.")
    if chat.presence_penalty:
        concessions.without("presence_penalty", why)
    if chat.logit_bias is not None and chat.logit_bias != Raw(b"{}"):
        concessions.without("logit_bias", why)
    for field in ("tools", "tool_choice", "thinking", "verbosity"):
        if getattr(chat, field) not in (None, ()):
            concessions.without(field, why)
    for field in ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            concessions.hint(field)
