"""Mistral's own API: OpenAI's chat and embeddings, with bends, and without any field that it does not document (422 extra_forbidden).

Sources: mistralai/client-python, src/mistralai/client/models (ChatCompletionRequest, AssistantMessage, ThinkChunk, ...), read 2026-11;
/reference/providers.md parts 2 to 6; /shared/exchanges/mistral. Temperatures up to 1.5: its 422 in scottyeager/Pal#28 and
SillyTavern/SillyTavern#4856 (2025-12).
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Raw

from providers import guided
from providers.chat import ENGINE_WORDS
from providers.errors import Missing, Refused, Unsupported, UpstreamError
from providers.guided import Constraint, JsonSchema, Output
from providers.hosted.mistral_messages import Messages
from providers.hosted.ruled import Ruled
from providers.hosted.rules import Rules
from providers.losses import UNKNOWN, UNKNOWN_HINTS, Losses
from providers.provider import HINTS, OPENAI_ENFORCES, Bent
from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body

_CHAT, _EMBEDDINGS = "openai_chat", "openai_embeddings"
# Its words for what is said without effort, or with it: it knows no degrees.
_EFFORTS = ("none", "high")
_INVALID_MODEL = "1500"
_NO_PARAMETERS = {"type": "object", "properties": dict[str, Any]()}

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Mistral(Ruled):
    name: ClassVar[str] = "mistral"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _EMBEDDINGS)
    default_base_url: ClassVar[str | None] = "https://api.mistral.ai/v1"
    tells_allowance: ClassVar[bool] = True
    # Its streams tell usage unasked, and stream_options is none of its fields.
    asks_usage: ClassVar[bool] = False
    rules: ClassVar[Rules] = Rules(max_tokens="max_tokens", developer=False, functions_only=True, ranges={"temperature": (0, 1.5)})

    rename: Mapping[str, str] = {"seed": "random_seed"}
    # `logprobs` was answered with code 3051, "not enabled for this model": /shared/exchanges/mistral/23-error-400-a.
    refuses = (ENGINE_WORDS | UNKNOWN | {"logprobs", "top_logprobs", "logit_bias"}) - {"min_tokens"}
    hints = (HINTS | UNKNOWN_HINTS) - {"metadata", "prompt_cache_key", "prediction"}

    @property
    def guided(self) -> guided.Ways:
        return OPENAI_ENFORCES

    def _is_held(self, output: Output) -> bool:
        """JSON it guarantees, and schemas that are strict; unnamed ones, which are asked for in engines' words, it is told as strict ones.

        Source: https://docs.mistral.ai/capabilities/structured_output, read 2026-11.
        """
        if not isinstance(output, JsonSchema) or self.vouched:
            return True
        return output.strict is True or (output.strict is None and output.name is None)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        if dialect == _EMBEDDINGS:
            _bend_embeddings(body, losses)
        elif dialect == _CHAT:
            _bend_effort(body, losses)
            if body.said("tools"):
                _bend_tools(body)
            if body.said("messages"):
                Messages(body, losses).bend()
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A model that it does not have is a 400 there, which others may have none the less."""
        error = super().read_error(status, headers, body)
        if not isinstance(error, Refused) or error.said_code != _INVALID_MODEL:
            return error
        missing = Missing(error.message, told=status, param=error.param)
        missing.said_code = error.said_code
        return missing


def _bend_effort(body: Body, losses: Losses) -> None:
    effort: Any = body.value("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        body["reasoning_effort"] = "high"
        losses.dropped.append("reasoning_effort")


def _bend_embeddings(body: Body, losses: Losses) -> None:
    """It embeds texts alone; numbers are made base64 here, where that is asked for."""
    body.pop("encoding_format", None)
    if body.said("user"):
        losses.dropped.append("user")
    body.pop("user", None)
    dimensions = body.pop("dimensions", NULL)
    if dimensions != NULL:
        body["output_dimension"] = dimensions
    said: Any = body.value("input")
    texts = cast("list[Any]", said) if isinstance(said, list) else [said]
    if not all(isinstance(each, str) for each in texts):
        why = "it embeds texts, and neither token ids nor conversations. Ask otherwise, or choose another model."
        raise Unsupported(f"`input` cannot be honoured by Mistral: {why}", param="input")


def _bend_tools(body: Body) -> None:
    """It demands `parameters`, even where there are none."""
    try:
        tools = _tools(as_raw(body["tools"]))
    except UNREADABLE:
        return
    bare = [tool for tool in tools if "function" in tool and _object(tool["function"]).get("parameters", NULL) == NULL]
    for tool in bare:
        tool["function"] = Raw(msgspec.json.encode({**_object(tool["function"]), "parameters": _NO_PARAMETERS}))
    if bare:
        body["tools"] = tools
