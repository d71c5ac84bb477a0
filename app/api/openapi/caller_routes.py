"""The routes for callers, engines' nodes, operators and signing in, as the OpenAPI document describes them.

Bodies have the documented fields, as the gateway validates them; further fields are allowed, and reach the engine or are reported.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from app.api.callers.nodes import NodeBody
from app.api.openapi.schemas import Schema
from app.api.sign_in.key_routes import KeySignIn, OnceSignIn
from app.api.sign_in.routes import DeviceTokenBody
from app.gateway.feedback.request import FeedbackBody
from providers.catalogue import DIALECTS
from providers.dialects.anthropic import request_schema as anthropic_messages
from providers.dialects.openai_chat import request_schema as openai_chat
from providers.dialects.openai_completions import request_schema as openai_completions
from providers.dialects.openai_embeddings import request_schema as openai_embeddings
from providers.dialects.openai_responses import request_schema as openai_responses
from providers.dialects.tensorzero_inference import request_schema as tensorzero_inference
from providers.dialects.vllm_generate import request_schema as vllm_generate
from providers.engine_routes.catalogue import ROUTE_BY_PATH
from providers.engine_routes.route import Route

Access = Literal["caller", "admin", "node", "public"]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Schema = {"anyOf": [_COUNT, {"type": "null"}]}
_ITEMS: Schema = {"type": "array", "items": {"type": "object", "additionalProperties": True}}
_OBJECT: Schema = {"type": "object", "additionalProperties": True}
_USAGE: Schema = {"anyOf": [_OBJECT, {"type": "null"}]}


class CallerRoute(Struct, frozen=True, kw_only=True):
    """A method of a path. `body`: the Structs of which a request is one; their components' names begin with `prefix`.

    `model`: a request may name a model beside the fields of `body`. `errors`: statuses beyond 400, 401, 403, 500 and 503.
    `described`: errors with what they mean here. `parameters`: in the query, as name -> schema. `response` None: there is no success.
    `status`: of a success. `cached`: with an ETag for If-None-Match. `also`: further statuses with the response of a success.
    `redirects`: where to, with a 303. `error_schema`: of its errors; Anthropic's and LMDeploy's clients expect their own.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    access: Access = "caller"
    prefix: str = ""
    body: Sequence[type[Struct]] = ()
    body_media_type: str = "application/json"
    model: bool = False
    example: Mapping[str, Any] | None = None
    response: Schema | None = {}
    status: int = 200
    response_media_type: str = "application/json"
    streams: bool = False
    parameters: Mapping[str, Schema] = {}
    errors: Sequence[int] = ()
    described: Mapping[int, str] = {}
    also: Mapping[int, str] = {}
    redirects: str = ""
    cached: bool = False
    error_schema: str = "Error"


def _object(**properties: Schema) -> Schema:
    """An object with these fields and perhaps others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": True}


def _list_of(item: Schema, **more: Schema) -> Schema:
    return _object(data={"type": "array", "items": item}, **more)


# What any inference may answer, besides what every route may.
_INFERENCE_ERRORS = (404, 408, 409, 413, 422, 429, 501, 502, 504)
_MODEL = {"anyOf": [
    _object(id=_TEXT, object={"type": "string", "const": "model"}, created={"type": "integer"}, owned_by=_TEXT),
    _object(type={"type": "string", "const": "model"}, id=_TEXT, display_name=_TEXT, created_at=_TEXT),
]}  # fmt: skip
_INFERENCE_ID = "019aa3f4-7492-7b70-8347-9564aeb44a24"
_FEEDBACK: Schema = _object(object=_TEXT, id=_TEXT, metric=_TEXT)
_RULES: Schema = {"type": "array", "items": _OBJECT}

_INFERENCES = [
    CallerRoute(
        method="POST",
        path="/v1/chat/completions",
        id="create_chat_completion",
        tag="Inference",
        summary="Continue a chat",
        description="OpenAI's chat completions, for every model, whichever API its engine has.",
        prefix="Chat",
        body=[openai_chat.Request],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=_object(id=_TEXT, object=_TEXT, created=_COUNT, model=_TEXT, choices=_ITEMS),
        streams=True,
        errors=_INFERENCE_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/completions",
        id="create_completion",
        tag="Inference",
        summary="Continue a text",
        prefix="Completion",
        body=[openai_completions.Request],
        example={"model": "sandbox", "prompt": "Once upon a time", "max_tokens": 20},
        response=_object(id=_TEXT, object=_TEXT, created=_COUNT, model=_TEXT, choices=_ITEMS),
        streams=True,
        errors=_INFERENCE_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses",
        id="create_response",
        tag="Inference",
        summary="Create a response",
        description="OpenAI's Responses, stored for `previous_response_id` unless `store` is false.",
        prefix="Responses",
        body=[openai_responses.Request],
        example={"model": "sandbox", "input": "Hello!", "max_output_tokens": 50},
        response=_object(id=_TEXT, object=_TEXT, status=_TEXT, model=_TEXT, output=_ITEMS),
        streams=True,
        errors=_INFERENCE_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/messages",
        id="create_message",
        tag="Inference",
        summary="Create a message",
        description="Anthropic's Messages, for every model, whichever API its engine has.",
        prefix="Messages",
        body=[anthropic_messages.MessagesRequest],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=_object(id=_TEXT, type=_TEXT, role=_TEXT, model=_TEXT, content=_ITEMS, stop_reason=_TEXT_OR_NULL, usage=_OBJECT),
        streams=True,
        errors=_INFERENCE_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path="/v1/messages/count_tokens",
        id="count_message_tokens",
        tag="Inference",
        summary="Count the tokens of a message's request",
        prefix="CountTokens",
        body=[anthropic_messages.CountTokensRequest],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}]},
        response=_object(input_tokens=_COUNT),
        errors=_INFERENCE_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path="/v1/embeddings",
        id="create_embeddings",
        tag="Inference",
        summary="Embed texts",
        prefix="Embeddings",
        body=[openai_embeddings.Request],
        example={"model": "sandbox-embed", "input": ["a red fox", "the stock market"]},
        response=_list_of(_OBJECT, object=_TEXT, model=_TEXT),
        errors=_INFERENCE_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/inference/v1/generate",
        id="generate_from_token_ids",
        tag="Inference",
        summary="Continue token ids",
        description="vLLM's generate: token ids in, token ids out.",
        prefix="Generate",
        body=[vllm_generate.Request],
        example={"model": "sandbox", "token_ids": [72, 105], "sampling_params": {"max_tokens": 10}},
        response=_object(request_id=_TEXT, choices=_ITEMS),
        streams=True,
        errors=_INFERENCE_ERRORS,
    ),
]

_TENSORZERO = [
    CallerRoute(
        method="POST",
        path="/inference",
        id="tensorzero_inference",
        tag="TensorZero",
        summary="Infer, in TensorZero's native API",
        description="For every model, whichever API its engine has. The response has `content`; with `output_schema`, `output`.",
        prefix="TensorZero",
        body=[tensorzero_inference.Request],
        example={"model_name": "sandbox", "input": {"messages": [{"role": "user", "content": "Hello!"}]}},
        response=_object(inference_id=_TEXT, episode_id=_TEXT, variant_name=_TEXT, usage=_OBJECT),
        streams=True,
        errors=_INFERENCE_ERRORS,
        error_schema="TensorZeroError",
    ),
    CallerRoute(
        method="POST",
        path="/feedback",
        id="tensorzero_feedback",
        tag="TensorZero",
        summary="Say how good an inference or episode was, in TensorZero's shape",
        description="As /v1/feedback. Also taken: `dryrun` (checked, not stored) and `internal`.",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric_name": "comment", "inference_id": _INFERENCE_ID, "value": "Just what I needed."},
        response=_object(feedback_id=_TEXT),
        errors=(408, 409, 413, 429),
        error_schema="TensorZeroError",
    ),
    *(
        replace(each, path=f"/openai{each.path}", id=f"tensorzero_{each.id}", tag="TensorZero", description=f"The same as {each.path}.")
        for each in _INFERENCES
        if each.path in ("/v1/chat/completions", "/v1/embeddings")
    ),
]

# Route -> summary, an example and the response, in the common shape.
_ENGINE_ROUTES: Mapping[str, tuple[str, Mapping[str, Any] | None, Schema]] = {
    "tokenize": ("Convert text, or a chat, to token ids", {"model": "sandbox", "prompt": "Hi"}, _OBJECT),
    "detokenize": ("Convert token ids to text", {"model": "sandbox", "tokens": [72, 105]}, _OBJECT),
    "encode": ("Convert text to token ids, in LMDeploy's shape", {"model": "sandbox", "input": "Hi"}, _object(input_ids={}, length={})),
    "sglang_encode": ("Embed texts, in SGLang's shape", None, {}),
    "rerank": (
        "Rank documents by a query",
        {"model": "sandbox-embed", "query": "a red fox", "documents": ["the stock market", "a red fox runs"]},
        {},
    ),
    "score": ("Score pairs of texts", {"model": "sandbox-embed", "text_1": "a red fox", "text_2": "a red fox runs"}, {}),
    "pooling": ("Pool texts", None, {}),
    "classify": ("Classify texts", None, {}),
    "generate": ("Continue a text, in LMDeploy's or SGLang's shape", None, {}),
}


def _engine_routes() -> list[CallerRoute]:
    routes: list[CallerRoute] = []
    for path, name in ROUTE_BY_PATH.items():
        summary, example, response = _ENGINE_ROUTES[name]
        route = DIALECTS[name]
        assert isinstance(route, Route), f"{name} is an engine's route"
        decoders = {id(decoder.type): decoder.type for decoder in route.request_decoders.values()}
        routes.append(
            CallerRoute(
                method="POST",
                path=path,
                id=f"{name}{'_v' + path[2] if path[1] == 'v' and path[2].isdigit() else ''}",
                tag="Engine routes",
                summary=summary,
                prefix="".join(part.title() for part in name.split("_")),
                body=list(decoders.values()),
                model=True,
                example=example,
                response=response,
                streams=name == "generate",
                errors=_INFERENCE_ERRORS,
            )
        )
    return routes


_LIMIT_AND_ORDER: Mapping[str, Schema] = {
    "after": {"type": "string", "minLength": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
    "order": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
}

_CALLERS = [
    CallerRoute(
        method="GET",
        path="/v1/responses/{id}",
        id="get_response",
        tag="Stored responses",
        summary="Show a stored response",
        parameters={
            "include[]": {"type": "array", "items": _TEXT},
            "stream": {"type": "string", "enum": ["false"]},
            "include_obfuscation": {"type": "boolean"},
        },
        response=_object(id=_TEXT, object=_TEXT),
        errors=(404,),
    ),
    CallerRoute(
        method="DELETE",
        path="/v1/responses/{id}",
        id="delete_response",
        tag="Stored responses",
        summary="Delete a stored response",
        response=_object(id=_TEXT, object=_TEXT, deleted={"type": "boolean"}),
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/v1/responses/{id}/input_items",
        id="list_response_input_items",
        tag="Stored responses",
        summary="List the input of a stored response",
        parameters=_LIMIT_AND_ORDER,
        response=_list_of(_OBJECT, object=_TEXT, first_id=_TEXT_OR_NULL, last_id=_TEXT_OR_NULL, has_more={"type": "boolean"}),
        errors=(404,),
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses/{id}/cancel",
        id="cancel_response",
        tag="Stored responses",
        summary="Cancel a response in the background",
        description="There are none: a response is created while the caller waits. So this is always an error.",
        response=None,
        described={400: "Only a response in the background can be cancelled."},
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/v1/models",
        id="list_models",
        tag="Callers",
        summary="List the models that a key may use",
        description="In Anthropic's shape for requests with `anthropic-version`.",
        response={"anyOf": [_list_of(_MODEL, object=_TEXT), _list_of(_MODEL, has_more={"type": "boolean"})]},
    ),
    CallerRoute(
        method="GET",
        path="/v1/models/{name}",
        id="get_model",
        tag="Callers",
        summary="Show a model",
        response=_MODEL,
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/v1/inferences/{id}",
        id="get_own_inference",
        tag="Callers",
        summary="Show a recorded request of the key's team, with its response",
        description="`id` is the `x-narthex-inference-id` of the response. A record appears within seconds of the response's end.",
        response=_object(
            id=_TEXT,
            cost_microusd=_COUNT_OR_NULL,
            cost_estimated={"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            price=_TEXT_OR_NULL,
            host_cost_microusd=_COUNT_OR_NULL,
        ),
        errors=(404, 429),
    ),
    CallerRoute(
        method="GET",
        path="/v1/limits",
        id="list_limits",
        tag="Callers",
        summary="Show what is left of the limits of a key",
        parameters={"model": _TEXT},
        response=_list_of(_OBJECT, object=_TEXT),
        errors=(404,),
    ),
    CallerRoute(
        method="POST",
        path="/v1/limits/preview",
        id="preview_limits",
        tag="Callers",
        summary="Show what a request would reserve, and which limit would refuse it",
        description="The body is a request of /v1/chat/completions, which is not sent to a model.",
        prefix="Chat",
        body=[openai_chat.Request],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=_object(object=_TEXT, model=_TEXT, allowed={"type": "boolean"}, refused_by=_TEXT_OR_NULL, reserves=_OBJECT, rules=_RULES),
        errors=(404, 408, 413, 422, 429),
    ),
    CallerRoute(
        method="POST",
        path="/v1/feedback",
        id="send_feedback",
        tag="Callers",
        summary="Say how good an inference or episode was, by a metric",
        description="At any time: before, with or after the inference. It is stored durably, and matched with the inference later.",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric": "comment", "inference_id": _INFERENCE_ID, "value": "Just what I needed."},
        response=_FEEDBACK,
        status=201,
        errors=(408, 409, 413, 429),
    ),
    CallerRoute(
        method="POST",
        path="/v1/feedback/batch",
        id="send_feedback_batch",
        tag="Callers",
        summary="Send up to 1000 lines of feedback",
        description="JSONL: each line as the body of `POST /v1/feedback`. Each line is accepted or refused by itself.",
        prefix="Feedback",
        body=[FeedbackBody],
        body_media_type="application/jsonl",
        response=_list_of(_OBJECT, object=_TEXT, accepted=_COUNT, refused=_COUNT),
        errors=(408, 413, 429),
    ),
    CallerRoute(
        method="PUT",
        path="/v1/feedback/{id}",
        id="correct_feedback",
        tag="Callers",
        summary="Correct feedback: other feedback in its place",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric": "comment", "inference_id": _INFERENCE_ID, "value": "On second thoughts, it is wrong."},
        response=_FEEDBACK,
        errors=(408, 413, 429),
    ),
    CallerRoute(
        method="DELETE",
        path="/v1/feedback/{id}",
        id="withdraw_feedback",
        tag="Callers",
        summary="Withdraw feedback, which then no longer counts",
        response=_object(object=_TEXT, id=_TEXT, withdrawn={"type": "boolean", "const": True}),
        errors=(429,),
    ),
    CallerRoute(
        method="GET",
        path="/v1/usage",
        id="show_usage",
        tag="Callers",
        summary="Show what a key or its team has used, and what it cost",
        parameters={
            "scope": {"type": "string", "enum": ["key", "team"], "default": "key"},
            "from": {"type": "string", "description": "A day, or a full hour, in ISO 8601; the beginning of this month if left out."},
            "to": {"type": "string", "description": "The first moment that is not included."},
            "group_by": {"type": "string", "description": "hour, day or month, model, key: separated by commas."},
            "time_zone": {"type": "string", "default": "UTC"},
        },
        response=_list_of(_OBJECT, object=_TEXT, scope=_OBJECT, total=_OBJECT, time_zone=_TEXT),
    ),
]


def _node_route(
    method: Literal["GET", "POST"], path: str, id: str, summary: str, response: Schema, *, body: bool = False, access: Access = "admin"
) -> CallerRoute:
    return CallerRoute(
        method=method,
        path=path,
        id=id,
        tag="Nodes",
        summary=summary,
        access=access,
        body=[NodeBody] if body else (),
        example={"url": "http://10.0.0.5:23333", "status": {"models": ["qwen3-8b"]}} if body else None,
        response=response,
        errors=(422,) if body else (),
        error_schema="NodeError",
    )


_SUCCESS = _object(SUCCESS={"type": "boolean"})
_NODES = [
    _node_route("POST", "/nodes/add", "add_node", "Register an engine", _TEXT, body=True, access="node"),
    _node_route("POST", "/nodes/remove", "remove_node", "Remove a registered engine", _TEXT, body=True, access="node"),
    _node_route("GET", "/nodes/status", "list_nodes", "List registered engines", _OBJECT),
    _node_route("POST", "/nodes/terminate", "terminate_node", "Remove an engine and end its process", _TEXT, body=True),
    _node_route("GET", "/nodes/terminate_all", "terminate_all_nodes", "Remove all registered engines and end their processes", _TEXT),
    _node_route("POST", "/distserve/connection_warmup", "warm_up_nodes", "Probe every registered engine now", _SUCCESS),
    _node_route("POST", "/distserve/gc", "collect_node_garbage", "Do nothing: there is no cache to free", _SUCCESS),
]

_OPERATIONS = [
    CallerRoute(
        method="GET",
        path="/health/live",
        id="check_liveness",
        tag="Operation",
        summary="Whether this process lives",
        access="public",
        response=_object(status=_TEXT),
    ),
    CallerRoute(
        method="GET",
        path="/health/ready",
        id="check_readiness",
        tag="Operation",
        summary="Whether this process takes requests",
        access="public",
        response=_object(status=_TEXT, home=_TEXT, configuration={"type": "integer"}, postgres=_TEXT),
        also={503: "It is draining: the same, with `status` as `draining`."},
    ),
    CallerRoute(
        method="GET",
        path="/health",
        id="tensorzero_health",
        tag="TensorZero",
        summary="Whether this process takes requests, and what it is connected to, in TensorZero's shape",
        access="public",
        response=_object(gateway=_TEXT, postgres=_TEXT, valkey=_TEXT),
        also={503: "It is draining: the same, with `gateway` as `draining`."},
    ),
    CallerRoute(
        method="GET",
        path="/status",
        id="tensorzero_status",
        tag="TensorZero",
        summary="That this process lives, its version and its configuration, in TensorZero's shape",
        access="public",
        response=_object(status=_TEXT, version=_TEXT, config_hash=_TEXT),
    ),
    CallerRoute(
        method="GET",
        path="/metrics",
        id="get_metrics",
        tag="Operation",
        summary="Metrics in Prometheus's text format",
        description="An operator may close it (404), or ask for a key (401, 403).",
        access="public",
        response=_TEXT,
        response_media_type="text/plain",
        errors=(401, 403, 404),
    ),
    CallerRoute(
        method="GET",
        path="/docs",
        id="get_documentation",
        tag="Operation",
        summary="This document as a page, with the guide",
        access="public",
        cached=True,
        response=_TEXT,
        response_media_type="text/html",
    ),
    CallerRoute(
        method="GET",
        path="/dashboard",
        id="get_dashboard",
        tag="Operation",
        summary="The dashboard, a page for browsers",
        access="public",
        cached=True,
        response=_TEXT,
        response_media_type="text/html",
    ),
    CallerRoute(
        method="GET",
        path="/dashboard/{name}",
        id="get_dashboard_file",
        tag="Operation",
        summary="The same page for every address below, and its scripts and styles below static/",
        access="public",
        cached=True,
        response=_TEXT,
        response_media_type="text/html",
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/openapi.json",
        id="get_openapi_document",
        tag="Operation",
        summary="This document",
        access="public",
        cached=True,
        response=_object(openapi=_TEXT, info=_OBJECT, paths=_OBJECT),
    ),
]

# Beside the keyed routes' errors: what can go wrong with the issuer, and too many attempts.
_SIGNED_IN = _object(name=_TEXT, expires_at={"type": "string", "format": "date-time"})
_KEY_SIGN_IN_ERRORS = (400, 401, 403, 429, 500, 503)
_SIGN_IN_ERRORS = (400, 403, 404, 429, 500, 502, 503)
_SIGN_IN = [
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in",
        id="begin_sign_in",
        tag="Session",
        summary="Sign in with a browser",
        description="A page to go to, not one to fetch: the issuer shows its own pages, and sends the browser back for a session.",
        access="public",
        parameters={
            "return_to": {
                **_TEXT,
                "default": "/dashboard",
                "description": "Where the browser goes then: a path here, or an address at one of the origins that CORS permits.",
            }
        },
        response=None,
        redirects="To the issuer.",
        errors=_SIGN_IN_ERRORS,
    ),
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in/callback",
        id="complete_sign_in",
        tag="Session",
        summary="Where the issuer sends the browser back to",
        description="The redirect URI to register with the issuer.",
        access="public",
        parameters={"state": _TEXT, "code": _TEXT, "iss": _TEXT, "error": _TEXT, "error_description": _TEXT},
        response=None,
        redirects="To where `return_to` said, with the cookie of a session.",
        errors=_SIGN_IN_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/device",
        id="begin_device_sign_in",
        tag="Session",
        summary="Sign in with a command",
        description="Show `user_code` and `verification_uri`, where a person enters it in a browser, and poll with `device_code` meanwhile"
        " (RFC 8628, through this gateway). `narthex login` does.",
        access="public",
        response=_object(device_code=_TEXT, user_code=_TEXT, verification_uri=_TEXT, expires_in=_COUNT, interval=_COUNT),
        errors=(*_SIGN_IN_ERRORS, 413, 501),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/device/token",
        id="complete_device_sign_in",
        tag="Session",
        summary="Poll whether the person has signed in",
        description="The token of a session, which is shown once: it goes into `Authorization: Bearer <token>`.",
        access="public",
        body=[DeviceTokenBody],
        example={"device_code": "as /admin/v1/sign-in/device returned it"},
        response={
            "anyOf": [
                _object(token=_TEXT, name=_TEXT, expires_at={"type": "string", "format": "date-time"}),
                _object(status={"type": "string", "const": "pending"}, interval=_COUNT),
            ]
        },
        also={202: "Not yet: `interval` seconds later it may be."},
        errors=(*_SIGN_IN_ERRORS, 413, 501),
    ),
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in/ways",
        id="show_sign_in_ways",
        tag="Session",
        summary="Show how a browser signs in at this address",
        access="public",
        response=_object(issuer={"type": "boolean"}, key=_TEXT_OR_NULL),
        errors=(500,),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/key",
        id="sign_in_with_key",
        tag="Session",
        summary="Sign in a browser with an admin key",
        description="The response sets the cookie of a session, which ends with the key. Pages of this gateway alone may ask for it.",
        access="public",
        body=[KeySignIn],
        example={"key": "nx-0123456789ab-…"},
        response=_SIGNED_IN,
        errors=(*_KEY_SIGN_IN_ERRORS, 413),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/once",
        id="sign_in_once",
        tag="Session",
        summary="Sign in a browser with a one-time link",
        description="`narthex up` prints such a link. It works once, for some minutes.",
        access="public",
        body=[OnceSignIn],
        example={"code": "as the link has it"},
        response=_SIGNED_IN,
        errors=(*_KEY_SIGN_IN_ERRORS, 413),
    ),
]

CALLER_ROUTES: Sequence[CallerRoute] = (*_INFERENCES, *_TENSORZERO, *_engine_routes(), *_CALLERS, *_NODES, *_OPERATIONS, *_SIGN_IN)
