"""vLLM's /tokenize and /detokenize. There is no vocabulary, so a token id is a byte of the text in UTF-8."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from app.sandbox.prompt_tokens import read_message
from app.sandbox.protocol.errors import ContextLengthExceeded, InvalidRequest
from app.sandbox.protocol.request_schema import Control, Message
from app.sandbox.text.tokens import CONTEXT_LENGTH

T = TypeVar("T", bytes, list[int])


class TokenizeBody(Struct, frozen=True, kw_only=True):
    """Has a prompt or messages. `add_special_tokens` has no effect: there are no special tokens."""

    model: str
    prompt: str | None = None
    messages: Annotated[list[Message], Meta(min_length=1)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    return_token_strs: bool = False
    sandbox: Control | None = None


class DetokenizeBody(Struct, frozen=True, kw_only=True):
    model: str
    tokens: list[Annotated[int, Meta(ge=0)]]
    sandbox: Control | None = None


def tokenize(body: TokenizeBody) -> dict[str, Any]:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("prompt, messages: send one of them", "prompt")
    text = "".join(render_chat(body.messages, body)) if body.messages is not None else body.prompt or ""
    ids = list(check_number("prompt" if body.messages is None else "messages", text.encode()))
    return {
        "count": len(ids),
        "max_model_len": CONTEXT_LENGTH,
        "tokens": ids,
        "token_strs": [chr(id) if 32 <= id < 127 else f"<0x{id:02X}>" for id in ids] if body.return_token_strs else None,
    }


def render_chat(messages: Sequence[Message], body: TokenizeBody) -> Iterator[str]:
    """The sandbox's chat template: a line for each message."""
    for message in messages:
        yield f"{message.role}: {read_message(message).text}"
        if not (body.continue_final_message and message is messages[-1]):
            yield "\n"
    if body.add_generation_prompt and not body.continue_final_message:
        yield "assistant: "


def detokenize(body: DetokenizeBody) -> dict[str, Any]:
    return {"prompt": bytes(id % 256 for id in check_number("tokens", body.tokens)).decode("utf-8", "replace")}


def check_number(field: str, tokens: T) -> T:
    """Raises ContextLengthExceeded for more than a prompt may have: an answer of megabytes would hold up all others."""
    if len(tokens) > CONTEXT_LENGTH:
        raise ContextLengthExceeded(f"{field}: has {len(tokens)} tokens; the sandbox takes {CONTEXT_LENGTH}.", field)
    return tokens
