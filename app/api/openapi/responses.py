"""The parts of the OpenAPI document that all responses share: the error shape, its statuses, and headers."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.api.openapi.schemas import Schema, reference

# Status -> the component's name and what it means. An operation may give it a more exact description of its own.
ERRORS: Mapping[int, tuple[str, str]] = {
    400: ("InvalidRequest", "The request is not valid: `message` says what was wrong and what would be right, `param` names the field."),
    401: ("Unauthenticated", "No valid key was sent."),
    403: ("NotAllowed", "The key, or the role of who sent the request, does not permit this."),
    404: ("NotFound", "There is no such thing, or it is not visible to who asks."),
    408: ("RequestTimedOut", "The head or the body of the request came too slowly."),
    409: ("Conflict", "It contradicts what there is, or another change was in the way."),
    412: ("PreconditionFailed", "Somebody else has changed it since: `If-Match` is not its ETag."),
    413: ("BodyTooLarge", "The body is larger than this route takes."),
    422: ("NotPossible", "The request is valid, but cannot be served so; an Idempotency-Key was sent with another request before."),
    428: ("PreconditionRequired", "It exists, and `If-Match` is missing: `message` has its current ETag."),
    429: ("TooManyRequests", "A limit is reached: `Retry-After` says when to try again."),
    431: ("HeadTooLarge", "The head of the request is too long, with its address and headers, or has too many headers."),
    500: ("InternalError", "Something went wrong in the gateway; its log has more."),
    501: ("NotImplemented", "The engines of this model have no such route or operation."),
    502: ("BadGateway", "The engine failed, or its answer is not valid."),
    503: ("Unavailable", "The gateway or its database is unavailable or overloaded at the moment."),
    504: ("EngineTimeout", "The engine did not answer in time."),
}
# Answered by the server before it knows which operation is meant.
ERRORS_OF_ANY = frozenset({431})

ERROR_SCHEMA: Schema = {
    "type": "object",
    "description": "An error. `type` is its kind, `code` is more exact or the status, `param` names the field or parameter at fault.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "What was wrong, and what would be right."},
                "type": {"type": "string"},
                "code": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                "param": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "details": {"type": "object", "additionalProperties": True},
            },
            "required": ["message", "type", "code", "param"],
        }
    },
    "required": ["error"],
}
ANTHROPIC_ERROR_SCHEMA: Schema = {
    "type": "object",
    "description": "An error, in the shape of Anthropic's API.",
    "properties": {
        "type": {"type": "string", "const": "error"},
        "error": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            "required": ["type", "message"],
            "additionalProperties": True,
        },
        "request_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["type", "error"],
}

HEADERS: Mapping[str, Schema] = {
    "RequestId": {"description": "The id of this request, for questions and logs.", "schema": {"type": "string"}},
    "ETag": {"description": "Of the resource's state: send it as `If-Match` to change that state.", "schema": {"type": "string"}},
    "RetryAfter": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}},
    "Applied": {
        "description": "How many gateway processes of all machines serve the change, of how many that are live: `4/4`; or `unknown`, if the"
        " database did not say. Only where they serve what was changed, and nothing was tried with `dry_run`.",
        "schema": {"type": "string"},
    },
    "NotApplied": {
        "description": "The ids of live gateway processes that do not serve it yet, with commas, as GET /admin/v1/workers lists them; at"
        " most 10, then `and N more`. Only if there are any.",
        "schema": {"type": "string"},
    },
    "Replayed": {
        "description": "`true`: an earlier request had this Idempotency-Key, and this is its response.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}


def header(name: str) -> Schema:
    return {"$ref": f"#/components/headers/{name}"}


def json_content(schema: Schema, media_type: str = "application/json") -> Schema:
    return {media_type: {"schema": schema}}


def error_components() -> dict[str, Schema]:
    """components/responses: every error, in OpenAI's shape."""
    return {name: error_response(description, status) for status, (name, description) in ERRORS.items()}


def error_response(description: str, status: int, schema: str = "Error") -> Schema:
    headers = {"x-request-id": header("RequestId")}
    if status in (429, 503):
        headers["retry-after"] = header("RetryAfter")
    return {"description": description, "headers": headers, "content": json_content(reference(schema))}


def error_responses(statuses: Iterable[int], described: Mapping[int, str]) -> dict[str, Any]:
    """The responses of an operation by status. Those in `described` have a description of the operation's own."""
    return {
        str(status): error_response(described[status], status)
        if status in described
        else {"$ref": f"#/components/responses/{ERRORS[status][0]}"}
        for status in sorted({*statuses, *described})
    }
