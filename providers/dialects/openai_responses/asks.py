"""Opening a request to /v1/responses: every documented field is checked, unknown ones pass."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from providers.dialect import Ask
from providers.dialects.openai_responses.schema import Item, Part, Request
from providers.errors import Malformed, Unsupported
from providers.estimate import AUDIO, FILE, IMAGE, text_tokens
from providers.opening import one_episode, opened

_decoder = msgspec.json.Decoder(Request)

# What an item of this type, and a part of this type, is nothing without: at least one of each tuple's.
_NEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "message": (("role",), ("content",)),
    "item_reference": (("id",),),
    "function_call": (("call_id",), ("name",), ("arguments",)),
    "function_call_output": (("call_id",), ("output",)),
    "custom_tool_call": (("call_id",), ("name",), ("input",)),
    "custom_tool_call_output": (("call_id",), ("output",)),
}
_PART_NEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "input_text": (("text",),),
    "output_text": (("text",),),
    "refusal": (("refusal",),),
    "input_image": (("image_url", "file_id"),),
    "input_file": (("file_data", "file_url", "file_id"),),
    "input_audio": (("input_audio",),),
}
# Items whose `output` is content, as a message's is.
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
_ROLES = frozenset({"user", "assistant", "system", "developer"})


def open_ask(raw: bytes) -> Ask:
    """Raises Malformed: what was wrong, where, and what was expected; Unsupported for what would need a store of OpenAI's."""
    request, body = opened(raw, _decoder)
    _check_state(request)
    if request.stream_options is not None and not request.stream:
        raise Malformed("`stream_options` may be set only with `stream: true`.", param="stream_options")
    refers = False
    if isinstance(request.input, list):
        for at, item in enumerate(request.input):
            refers |= _check_item(item, f"input[{at}]")
    for at, tool in enumerate(request.tools or ()):
        if tool.type in ("function", "custom") and tool.name is None:
            raise Malformed(f"Object missing required field `name` at `tools[{at}]`.", param=f"tools[{at}].name")
    return Ask(
        dialect="openai_responses",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=True,
        episode_id=one_episode(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user or request.safety_identifier,
        input_tokens=_input_tokens(raw, request),
        output_tokens=request.max_output_tokens,
        choices=1,
        previous=request.previous_response_id,
        refers=refers,
        stores=request.store is not False,
        strict=any([tool.strict for tool in request.tools or ()]),
    )


def _check_state(request: Request) -> None:
    if request.previous_response_id == "":
        raise Malformed("`previous_response_id` is empty: leave it out to begin anew.", param="previous_response_id")
    if request.conversation is not None:
        if request.previous_response_id is not None:
            raise Malformed(
                "`previous_response_id` and `conversation` both say what came before: send one of them.", param="previous_response_id"
            )
        raise Unsupported(
            "`conversation`: this gateway keeps no conversation objects. Go on from an answer by `previous_response_id`, "
            "or send all that was said as `input`.",
            param="conversation",
        )
    if request.prompt is not None:
        raise Unsupported(
            "`prompt`: this gateway keeps no prompt templates of OpenAI's. Send the text as `instructions` and `input`.", param="prompt"
        )
    if request.background:
        raise Unsupported("`background: true`: this gateway answers at once or not at all. Leave it out.", param="background")


def _check_item(item: Item, path: str) -> bool:
    """Whether it stands for an item of an earlier answer."""
    kind = item.type or ("message" if item.role is not None or item.id is None else "item_reference")
    for names in _NEEDS.get(kind, ()):
        _check_said(item, names, path)
    if kind == "message":
        if item.role not in _ROLES:
            raise Malformed(f"Invalid role {item.role!r:.40} at `{path}.role`: user, assistant, system, developer.", param=f"{path}.role")
        _check_parts(item.content, f"{path}.content")
    elif kind in _RESULTS:
        if isinstance(item.output, dict):
            raise Malformed(f"Expected `str | array`, got `object` at `{path}.output`.", param=f"{path}.output")
        _check_parts(item.output, f"{path}.output")
    return kind == "item_reference"


def _check_parts(parts: str | list[Part] | None, path: str) -> None:
    for at, part in enumerate(parts if isinstance(parts, list) else ()):
        if part.type is None:
            raise Malformed(f"Object missing required field `type` at `{path}[{at}]`.", param=f"{path}[{at}].type")
        for names in _PART_NEEDS.get(part.type, ()):
            _check_said(part, names, f"{path}[{at}]")


def _check_said(told: Struct, names: tuple[str, ...], path: str) -> None:
    if all(getattr(told, name) is None for name in names):
        raise Malformed(
            f"Object missing required field {' or '.join(f'`{name}`' for name in names)} at `{path}`.", param=f"{path}.{names[0]}"
        )


def _input_tokens(raw: bytes, request: Request) -> int:
    """The whole body counts as text, tools and schemas too, but for what is said in it of media."""
    # Without one of these words no part is anything but text.
    if isinstance(request.input, str) or (b"input_image" not in raw and b"input_file" not in raw and b"input_audio" not in raw):
        return text_tokens(len(raw))
    inline_bytes = media = 0
    for part in _parts(request.input):
        match part.type:
            case "input_image":
                inline_bytes += len(part.image_url or "")
                media += IMAGE
            case "input_file":
                inline_bytes += len(part.file_data or "")
                media += FILE
            case "input_audio":
                inline_bytes += len(part.input_audio.data) if part.input_audio else 0
                media += AUDIO
            case _:
                pass
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _parts(items: list[Item]) -> Iterator[Part]:
    for item in items:
        for said in (item.content, item.output):
            if isinstance(said, list):
                yield from said
