"""Text, or a chat, to token ids. The common shape is vLLM's; `encode` below is LMDeploy's, which means the same.

Sources: vLLM 0.33 entrypoints/serve/tokenize/protocol.py, /reference/engines.md 1.1 to 1.5, and for SGLang its openai/serving_tokenize.py;
all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from providers.dialect import Edited, Stamp
from providers.errors import Garbled, Ignored
from providers.routes.replies import decoded, read_list, read_object
from providers.routes.route import Route, Shape
from providers.routes.way import Way
from providers.wire import Body

# Engines hold them in 32 bits: llama.cpp takes what is larger for another (2**33 for 0), and others fail.
TokenId = Annotated[int, Meta(ge=0, lt=2**31)]
_LARGEST = 2**53


class Prompt(Struct):
    """vLLM's; a list of prompts is SGLang's."""

    prompt: str | list[str]
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class Messages(Struct):
    messages: Annotated[list[dict[str, Raw]], Meta(min_length=1)]
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    return_token_strs: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Raw] | None = None
    tools: list[dict[str, Raw]] | None = None


class Content(Struct):
    """llama.cpp's: a text, or texts and token ids in turn."""

    content: str | list[str | int]
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class Inputs(Struct):
    """TGI's, which is a whole request to generate."""

    inputs: str
    parameters: dict[str, Raw] | None = None


class Input(Struct):
    """llama-cpp-python's."""

    input: str


class Encoding(Struct):
    """LMDeploy's."""

    input: str | list[str]
    do_preprocess: bool | None = None
    add_bos: bool | None = None


_ids = msgspec.json.Decoder(list[TokenId | list[TokenId]])
_count = msgspec.json.Decoder(int | list[int])


def one_text(said: Any) -> str | None:
    return None if isinstance(said, str) else "it takes one text in a request."


def _ids_as(ids: str, count: str | None = None, strings: str | None = None) -> Any:
    """Reads an object whose token ids, their number and their texts have these names."""

    def read(raw: bytes, asked: Body) -> bytes:
        told = read_object(raw)
        body = Body({key: value for key, value in told.items() if key not in (ids, count)})
        body["tokens"] = told.get(ids)
        if count is not None:
            body["count"] = told.get(count)
        return body.write()

    return read


def _read_counted(raw: bytes, asked: Body) -> bytes:
    """Of an engine that is not known: llama.cpp, for one, passes over `prompt` and `messages` and tells no tokens, with 200."""
    told = read_object(raw)
    if not told.said("count"):
        raise Garbled("it told no `count` of tokens.")
    if not told.value("tokens") and any(asked.value(field) for field in ("prompt", "messages", "input")):
        raise Garbled("it told no tokens.")
    return raw


def _read_pieces(raw: bytes, asked: Body) -> bytes:
    """llama.cpp's {"tokens": [1, ...]}, or with pieces [{"id": 1, "piece": "a" or [226]}]: bytes that are no text of their own."""
    told = read_object(raw)
    if not asked.value("return_token_strs"):
        return told.write()
    pieces = decoded(told, "tokens", _pieces, "tokens with their pieces")
    told["tokens"] = [each.id for each in pieces]
    told["token_strs"] = [
        each.piece if isinstance(each.piece, str) else "".join(f"<0x{byte:02X}>" for byte in each.piece) for each in pieces
    ]
    return told.write()


class _Piece(Struct):
    id: TokenId
    piece: str | list[Annotated[int, Meta(ge=0, le=255)]]


_pieces = msgspec.json.Decoder(list[_Piece])


def _read_simple(raw: bytes, asked: Body) -> bytes:
    """TGI's [{"id", "text", "start", "stop"}]; of a chat, beside the text that its template made."""
    if asked.said("messages"):
        tokens = decoded(read_object(raw), "tokenize_response", _simple, "tokens")
    else:
        tokens = decoded({"tokens": read_list(raw)}, "tokens", _simple, "tokens")
    texts = [each.text for each in tokens] if asked.value("return_token_strs") else None
    return msgspec.json.encode({"tokens": [each.id for each in tokens], "token_strs": texts})


class _Simple(Struct):
    id: TokenId
    text: str


_simple = msgspec.json.Decoder(list[_Simple])

_STRINGS = frozenset({"return_token_strs"})
_NO_STRINGS = {"return_token_strs": False}
_ONE = {"prompt": one_text}
_OWN_FIELDS = {"prompt": "prompt", "add_special_tokens": "add_special_tokens"}

_VLLM = Way(name="/tokenize", misfits=_ONE)
_SGLANG_CHAT = (
    *("messages", "tools", "tool_choice", "reasoning_effort", "continue_final_message", "chat_template_kwargs"),
    *("separate_reasoning", "stream_reasoning"),
)

_SANDBOXES = {field: field for field in ("return_token_strs", "sandbox")}
_SANDBOX_CHAT = Way(
    name="/tokenize",
    words={field: field for field in ("messages", "add_special_tokens", "add_generation_prompt", "continue_final_message")} | _SANDBOXES,
)


class Tokenize(Route):
    name: ClassVar[str] = "tokenize"
    does: ClassVar[str] = "tokenizes"
    free: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, Shape]] = {
        "prompt": msgspec.json.Decoder(Prompt),
        "messages": msgspec.json.Decoder(Messages),
        "content": msgspec.json.Decoder(Content),
        "inputs": msgspec.json.Decoder(Inputs),
        "input": msgspec.json.Decoder(Input),
    }
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": {"prompt": _VLLM, "messages": Way(name="/tokenize")},
        "sandbox": {"prompt": Way(name="/tokenize", words=_OWN_FIELDS | _SANDBOXES, misfits=_ONE), "messages": _SANDBOX_CHAT},
        "openai": {"prompt": Way(name="/tokenize", read=_read_counted), "messages": Way(name="/tokenize", read=_read_counted)},
        "sglang": {
            "prompt": Way(name="/tokenize", words=_OWN_FIELDS, nothing=_NO_STRINGS),
            # With messages it throws add_special_tokens away, and its template always opens the answer.
            "messages": Way(
                name="/tokenize",
                words={field: field for field in _SGLANG_CHAT},
                nothing={**_NO_STRINGS, "add_special_tokens": False, "add_generation_prompt": True},
            ),
        },
        "lmdeploy": {
            "prompt": Way(
                name="/v1/encode",
                words={"prompt": "input", "add_special_tokens": "add_bos"},
                nothing=_NO_STRINGS,
                says={"do_preprocess": False},
                says_model=False,
                read=_ids_as("input_ids", "length"),
            )
        },
        "llamacpp": {
            # Left out, add_special is false there, and what it means to the caller is true.
            "prompt": Way(
                name="/tokenize",
                words={"prompt": "content", "add_special_tokens": "add_special", "return_token_strs": "with_pieces"},
                misfits=_ONE,
                says={"add_special": True},
                read=_read_pieces,
            ),
            "content": Way(name="/tokenize", own=True),
        },
        "tgi": {
            # It adds special tokens to every prompt, and to no chat, whose template has them.
            "prompt": Way(
                name="/tokenize",
                words={"prompt": "inputs"},
                here=_STRINGS,
                misfits=_ONE,
                nothing={"add_special_tokens": True},
                read=_read_simple,
            ),
            "messages": Way(
                name="/chat_tokenize",
                words={field: field for field in ("messages", "tools", "tool_choice")},
                here=_STRINGS,
                nothing={"add_special_tokens": False, "add_generation_prompt": True, "continue_final_message": False},
                read=_read_simple,
            ),
            "inputs": Way(name="/tokenize", own=True),
        },
        "llamacpp_python": {
            "prompt": Way(
                name="/extras/tokenize",
                words={"prompt": "input"},
                misfits=_ONE,
                nothing={**_NO_STRINGS, "add_special_tokens": True},
            ),
            "input": Way(name="/extras/tokenize", own=True),
        },
    }

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """Of several prompts, a list of ids each. How long a prompt may be is null where the engine does not tell it."""
        body = checked(read_object(raw))
        if Body(stamp.asked).value("return_token_strs") and not body.said("token_strs"):
            raise Ignored(
                "The engine told no token strings, which older ones do not. Leave `return_token_strs` out, or choose another model.",
                told=422,
                param="return_token_strs",
            )
        return self.edited(body)


def checked(body: Body) -> Body:
    ids: list[int | list[int]] = decoded(body, "tokens", _ids, "token ids")
    counts = [len(each) for each in ids if isinstance(each, list)]
    if counts and len(counts) != len(ids):
        raise Garbled("The engine's answer mixes token ids with lists of them.")
    counted = counts or len(ids)
    if body.said("count") and decoded(body, "count", _count, "count of tokens") != counted:
        raise Garbled("The engine's count of tokens is not that of the tokens which it told.")
    body["count"] = counted
    longest = body.value("max_model_len")
    # SGLang tells 1e30 of a tokenizer that names no length, or -1.
    body["max_model_len"] = longest if isinstance(longest, int) and 0 < longest < _LARGEST else None
    body.setdefault("token_strs", None)
    return body


def _as_encoding(way: Way) -> Way:
    """A way to tokenize a prompt, for those who ask as LMDeploy is asked."""
    theirs = {"prompt": "prompt", "add_special_tokens": "add_special_tokens"} if way.words is None else way.words
    words = {"input": theirs["prompt"]}
    nothing: dict[str, Any] = {"do_preprocess": False}
    if "add_special_tokens" in theirs:
        words["add_bos"] = theirs["add_special_tokens"]
    else:
        nothing["add_bos"] = True
    return Way(
        name=way.name,
        words=words,
        nothing=nothing,
        misfits={"input": way.misfits["prompt"]} if "prompt" in way.misfits else {},
        says=way.says,
        says_model=way.says_model,
        here=way.here,
        read=way.read,
    )


class Encode(Route):
    """LMDeploy's /v1/encode."""

    name: ClassVar[str] = "encode"
    does: ClassVar[str] = "encodes texts as token ids"
    free: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, Shape]] = {"input": msgspec.json.Decoder(Encoding)}
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        **{adapter: {"input": _as_encoding(ways["prompt"])} for adapter, ways in Tokenize.ways.items()},
        "lmdeploy": {"input": Way(name="/v1/encode", says_model=False, read=_ids_as("input_ids", "length"))},
    }

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        body = checked(read_object(raw))
        return self.edited(Body({"input_ids": body["tokens"], "length": body["count"]}))
