"""The end of parsing a request, the same for chat, completions and Responses."""

from typing import Protocol

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_episode_id
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest
from providers.dialects.openai.request_schema import StreamOptions


class CommonFields(Protocol):
    """The fields that every one of these requests has."""

    @property
    def model(self) -> str: ...

    @property
    def stream(self) -> bool | None: ...

    @property
    def stream_options(self) -> object | None: ...

    @property
    def metadata(self) -> dict[str, str] | None: ...

    @property
    def episode_id(self) -> str | None: ...

    @property
    def episode_id_prefixed(self) -> str | None: ...

    @property
    def tags_prefixed(self) -> dict[str, str] | None: ...


def inbound_request(
    dialect: str,
    request: CommonFields,
    body: Body,
    *,
    end_user: str | None,
    wants_usage: bool,
    input_tokens: int,
    output_tokens: int | None,
    choices: int = 1,
) -> InboundRequest:
    """The checked request as the pipeline needs it. Fields that only one dialect has are set by that dialect.

    Raises InvalidRequest for `stream_options` without `stream`, and for an empty episode id or two different ones.
    """
    if request.stream_options is not None:
        check_stream_options(request.stream, request.stream_options)
    episode_id, prefixed = request.episode_id, request.episode_id_prefixed
    return InboundRequest(
        dialect=dialect,
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=wants_usage,
        episode_id=None if episode_id is None and prefixed is None else parse_episode_id(episode_id, prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=end_user,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        choices=choices,
    )


def check_stream_options(stream: bool | None, stream_options: object | None) -> None:
    """Raises InvalidRequest for `stream_options` of a request that is not streamed."""
    if stream_options is not None and not stream:
        raise InvalidRequest("`stream_options` may be set only with `stream: true`.", param="stream_options")


def includes_usage(stream_options: StreamOptions | None) -> bool:
    """Whether the caller wants usage in the stream."""
    return stream_options is not None and bool(stream_options.include_usage)
