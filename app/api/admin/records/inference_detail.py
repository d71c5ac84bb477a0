"""One inference with what was written: /admin/v1/inferences/{id}, also as messages, and its media."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.admin.records.inference_filters import parse_id
from app.api.admin.records.inferences import TIMEOUT_S, Inference, is_visible, shown_fields
from app.api.admin.records.media_answer import SHOWN, decode_media, media_answer
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.process.thread_steps import run_in_steps
from app.store.messages.read_messages import Messages, PackedExchange, read_media, read_messages
from app.store.records import inference_queries
from app.store.records.episode_timeline import TimelineAttempt, timeline_attempts
from providers.canonical.errors import UnknownRecord

_MAX_NUMBER_DIGITS = 6


class Content(Struct, frozen=True):
    """Request and response as text. `policy`: what is kept of them."""

    policy: str
    request: str | None
    response: str | None


class InferenceWithContent(Inference, frozen=True, kw_only=True):
    """An inference with its content, which is null if it is no longer kept or if it is hidden."""

    content: Content | None
    content_hidden: Annotated[bool, Meta(description="Your roles do not show what was written.")]
    messages: Annotated[Messages | None, Meta(description="What was written, as messages; null: not asked for, not kept, or hidden.")]
    made_attempts: Annotated[Sequence[TimelineAttempt], Meta(description="Every attempt, in the order in which they began.")]


class DetailQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    content: Annotated[
        Literal["raw", "messages", "both", "none"],
        Meta(description="What was written: the bytes as text, messages in no API's format, both, or only by which policy it is kept."),
    ] = "raw"
    max_characters: Annotated[int, Meta(ge=1, le=1_000_000, description="Most characters of each part of a message.")] = 20_000


async def find_shown(call: Call[Any, NoBody]) -> dict[str, Any]:
    """Finds the inference of the path. Raises UnknownRecord if there is none that the principal may see."""
    id = parse_id(call.path["id"], "id")
    row = await inference_queries.find_inference(call.connection, id)
    if row is None or not is_visible(call, row):
        raise UnknownRecord(
            f"There is no inference {id}. A new one appears here a moment after its response; one that was refused before it reached a"
            " model is none, but may be among /admin/v1/refusals."
        )
    return row


async def _show(call: Call[DetailQuery, NoBody]) -> Answer:
    row, wanted = await find_shown(call), call.query.content
    hidden = not is_visible(call, row, "records:content")
    packed = None if hidden else await inference_queries.read_packed_content(call.connection, row["id"])
    content = messages = None
    if packed is not None:
        unpack = inference_queries.unpack_text
        texts = (await unpack(packed.request), await unpack(packed.response)) if wanted in ("raw", "both") else (None, None)
        content = Content(packed.policy, *texts)
        if wanted in ("messages", "both"):
            exchange = PackedExchange(row["route"], row["streamed"], packed.request, packed.response)
            messages = await run_in_steps(lambda: read_messages(exchange, call.query.max_characters))
    fields: dict[str, Any] = {
        **shown_fields(call, row),
        "content": content,
        "content_hidden": hidden,
        "messages": messages,
        "made_attempts": timeline_attempts(row, () if call.principal.may("config:read") else ("endpoint", "code")),
    }
    # In a thread: a request and its response may be many megabytes.
    return Answer(await asyncio.to_thread(msgspec.json.encode, InferenceWithContent(**fields)))


async def _show_media(call: Call[NoQuery, NoBody]) -> Answer:
    row, number = await find_shown(call), call.path["number"]
    packed = await inference_queries.read_packed_content(call.connection, row["id"])
    if packed is not None and number.isdecimal() and len(number) < _MAX_NUMBER_DIGITS:
        exchange = PackedExchange(row["route"], row["streamed"], packed.request, packed.response)
        media = await run_in_steps(lambda: read_media(exchange, int(number)))
        if media is not None:
            return media_answer(await asyncio.to_thread(decode_media, media), media.media_type)
    raise UnknownRecord(f"There are no media {number:.20} in this inference, or they are no longer kept.")


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/inferences/{id}",
            id="get_inference",
            tag="Records",
            summary="Show an inference, with what was written if your roles include it",
            permission="records:read",
            scope="team",
            description="With `content=messages`, as messages in no API's format, read from whichever API the caller used: texts,"
            " reasoning, calls of tools and their results, media, the tools that were offered and the form that was asked for.",
            query=DetailQuery,
            response=InferenceWithContent,
            errors={404: "There is no such inference, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="inferences"),),
            handler=_show,
        ),
        Operation(
            method="GET",
            path="/inferences/{id}/media/{number}",
            id="get_inference_media",
            tag="Records",
            summary="Read an image, document or sound of a request or response",
            description="By the `number` that messages give it. What browsers might run comes as a download.",
            permission="records:content",
            scope="team",
            response=str,
            response_media_type="application/octet-stream",
            other_media_types=sorted(SHOWN),
            errors={404: "There is no such inference or no such media, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="records media"),),
            handler=_show_media,
        ),
    ]
