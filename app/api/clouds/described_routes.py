"""The routes of clouds for Anthropic's models, as the OpenAPI document describes them."""

from collections.abc import Sequence

from app.api.callers.caller_route import COUNT, ITEMS, OBJECT, TEXT, CallerRoute, object_with
from app.domain.model_address import bedrock_template, vertex_template
from providers.dialects.anthropic.request_schema import CountTokensRequest, MessagesRequest


class CloudMessagesRequest(MessagesRequest, kw_only=True):
    """A request of Messages whose model stands in the address. The betas may stand in the body."""

    model: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    anthropic_version: str | None = None
    anthropic_beta: list[str] | None = None


_ERRORS = (404, 408, 409, 413, 422, 429, 501, 502, 504)
_HELLO = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello!"}]}
_OF_VERTEX = {**_HELLO, "anthropic_version": "vertex-2023-10-16"}
_RESPONSE = object_with(id=TEXT, type=TEXT, role=TEXT, content=ITEMS, model=TEXT, usage=OBJECT)
_ABOUT = "The body is one of Messages without `model` and `stream`. For every model, whichever API its host has."

DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="POST",
        path=bedrock_template("invoke"),
        id="invoke_model",
        tag="Clouds",
        summary="Create a message, as Amazon Bedrock's InvokeModel",
        description=_ABOUT,
        prefix="Cloud",
        body=[CloudMessagesRequest],
        example=_HELLO,
        response=_RESPONSE,
        errors=_ERRORS,
        error_schema="BedrockError",
    ),
    CallerRoute(
        method="POST",
        path=bedrock_template("invoke-with-response-stream"),
        id="invoke_model_with_response_stream",
        tag="Clouds",
        summary="Create a message as an AWS event stream",
        description=_ABOUT,
        prefix="Cloud",
        body=[CloudMessagesRequest],
        example=_HELLO,
        response=TEXT,
        response_media_type="application/vnd.amazon.eventstream",
        errors=_ERRORS,
        error_schema="BedrockError",
    ),
    CallerRoute(
        method="POST",
        path=vertex_template("rawPredict"),
        id="raw_predict",
        tag="Clouds",
        summary="Create a message, as Vertex AI's rawPredict",
        description=_ABOUT,
        prefix="Cloud",
        body=[CloudMessagesRequest],
        example=_OF_VERTEX,
        response=_RESPONSE,
        errors=_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path=vertex_template("streamRawPredict"),
        id="stream_raw_predict",
        tag="Clouds",
        summary="Create a message as a stream, as Vertex AI's streamRawPredict",
        description=_ABOUT,
        prefix="Cloud",
        body=[CloudMessagesRequest],
        example=_OF_VERTEX,
        response=_RESPONSE,
        streams=True,
        errors=_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path=vertex_template("count-tokens"),
        id="count_vertex_tokens",
        tag="Clouds",
        summary="Count the tokens of a message's request, which names its model",
        prefix="Vertex",
        body=[CountTokensRequest],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}]},
        response=object_with(input_tokens=COUNT),
        errors=_ERRORS,
        error_schema="AnthropicError",
    ),
)
