"""Token ids to text. The common answer is vLLM's `prompt`; it stands beside what the engine itself says (`text`, `content`).

Sources: as in tokenize.py.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from providers.dialect import Edited, Stamp
from providers.routes.replies import decoded, read_object
from providers.routes.route import Route, Shape
from providers.routes.tokenize import TokenId
from providers.routes.way import Way
from providers.wire import Body


class Tokens(Struct):
    """A list of lists is SGLang's."""

    tokens: list[TokenId | list[TokenId]]
    skip_special_tokens: bool | None = None


_text = msgspec.json.Decoder(str | list[str])


def _one_list(said: Any) -> str | None:
    return "it takes one list of token ids in a request." if said and isinstance(said[0], list) else None


def _text_as(word: str) -> Any:
    """Reads an answer whose text has this name. It is said in both."""

    def read(raw: bytes, asked: Body) -> bytes:
        body = read_object(raw)
        body["prompt"] = body.get(word)
        return body.write()

    return read


_ONE = {"tokens": _one_list}
_TOKENS = {"tokens": "tokens"}
# vLLM's text has the special tokens in it, and it does nothing about a wish to have them out.
_ALL = {"skip_special_tokens": False}
# What they say of a token that is not in their vocabulary: llama.cpp b11549, in GCC's words, and in its own; SentencePiece.
_NO_TOKEN = ("_M_range_check", "invalid token", "out of range")
_VLLM = Way(name="/detokenize", refuses=frozenset(_ALL), misfits=_ONE, nothing=_ALL, asked_wrong=_NO_TOKEN)


class Detokenize(Route):
    name: ClassVar[str] = "detokenize"
    does: ClassVar[str] = "makes text of token ids"
    free: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, Shape]] = {"tokens": msgspec.json.Decoder(Tokens)}
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": {"tokens": _VLLM},
        "sandbox": {"tokens": _VLLM},
        "openai": {"tokens": Way(name="/detokenize", asked_wrong=_NO_TOKEN)},
        # Left out, it would leave out special tokens, which are a part of the text to all others.
        "sglang": {
            "tokens": Way(
                name="/detokenize",
                words={**_TOKENS, "skip_special_tokens": "skip_special_tokens"},
                says={"skip_special_tokens": False},
                read=_text_as("text"),
                asked_wrong=_NO_TOKEN,
            )
        },
        # llama-cpp-python has /extras/detokenize, and ends over a token that is not in its vocabulary (0.3.36): nobody is let near it.
        "llamacpp": {
            "tokens": Way(name="/detokenize", words=_TOKENS, misfits=_ONE, nothing=_ALL, read=_text_as("content"), asked_wrong=_NO_TOKEN)
        },
    }

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        body = read_object(raw)
        decoded(body, "prompt", _text, "text")
        return self.edited(body)
