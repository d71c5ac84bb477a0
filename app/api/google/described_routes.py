"""The inference routes of Google's API, as the OpenAPI document describes them."""

from collections.abc import Sequence

from app.api.callers.caller_route import COUNT, ITEMS, OBJECT, TEXT, CallerRoute, object_with
from app.api.google.dialects import BatchEmbedRequest, CountRequest, EmbedRequest
from app.domain.model_address import template
from providers.dialects.gemini.request_schema import GenerateContentRequest

_ERRORS = (404, 408, 409, 413, 422, 429, 501, 502, 504)
_HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello!"}]}]}
_CONTENT = {"content": {"parts": [{"text": "a red fox"}]}}
_RESPONSE = object_with(candidates=ITEMS, usageMetadata=OBJECT, modelVersion=TEXT, responseId=TEXT)

DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="POST",
        path=template("generateContent"),
        id="generate_content",
        tag="Google",
        summary="Generate content, in Google's Gemini API",
        description="For every model, whichever API its host has.",
        prefix="Google",
        body=[GenerateContentRequest],
        example=_HELLO,
        response=_RESPONSE,
        errors=_ERRORS,
        error_schema="GoogleError",
    ),
    CallerRoute(
        method="POST",
        path=template("streamGenerateContent"),
        id="stream_generate_content",
        tag="Google",
        summary="Generate content as a stream",
        description="With `alt=sse` the stream is of events, without it one JSON array, which grows element by element.",
        prefix="Google",
        body=[GenerateContentRequest],
        example=_HELLO,
        response={"type": "array", "items": _RESPONSE},
        streams=True,
        parameters={"alt": {"type": "string", "enum": ["sse", "json"]}},
        errors=_ERRORS,
        error_schema="GoogleError",
    ),
    CallerRoute(
        method="POST",
        path=template("countTokens"),
        id="count_google_tokens",
        tag="Google",
        summary="Count the tokens of contents",
        prefix="Google",
        body=[CountRequest],
        example=_HELLO,
        response=object_with(totalTokens=COUNT),
        errors=_ERRORS,
        error_schema="GoogleError",
    ),
    CallerRoute(
        method="POST",
        path=template("embedContent"),
        id="embed_content",
        tag="Google",
        summary="Embed a text",
        prefix="Google",
        body=[EmbedRequest],
        example=_CONTENT,
        response=object_with(embedding=OBJECT),
        errors=_ERRORS,
        error_schema="GoogleError",
    ),
    CallerRoute(
        method="POST",
        path=template("batchEmbedContents"),
        id="batch_embed_contents",
        tag="Google",
        summary="Embed texts",
        prefix="Google",
        body=[BatchEmbedRequest],
        example={"requests": [{"model": "models/sandbox-embed", **_CONTENT}]},
        response=object_with(embeddings=ITEMS),
        errors=_ERRORS,
        error_schema="GoogleError",
    ),
)
