"""Routers that companies put before vLLM, as scripted engines: what they report about themselves, and the errors that each sends.

Observed in front of a real vLLM 0.32: vllm-router 0.1.17 and smg 1.13.0 (2026-11). Read: vllm-project/production-stack,
src/vllm_router/services/request_service/request.py and routers/main_router.py; llm-d/llm-d-router, pkg/common/error/error.go; 2026-11.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine


class RouterError(NamedTuple):
    """An error, and the class that it should become. `body`: text is sent as it is, else JSON."""

    status: int
    body: str | dict[str, Any]
    error_class: Literal["Overloaded", "UpstreamNotFound", "UpstreamRejected", "UpstreamFailed", "CredentialRefused"]
    headers: Mapping[str, str] = {}


class Router(NamedTuple):
    """A router in front of vLLM."""

    get_responses: Mapping[str, Any]  # any other GET is 404
    errors: Mapping[str, RouterError]
    reports_vllm_version: bool = False  # whether they name the version of the vLLM behind it


def _models(**more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "engine-model", "object": "model", "created": 1750000000, **more}]}


def _error_body(message: str, kind: str, code: Any, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


_REASON = "x-llm-d-request-dropped-reason"
_CODE = "x-smg-error-code"
# Envoy with llm-d's endpoint picker. Its routes decide which other paths reach a vLLM; here /version does not.
_LLM_D = Router(
    {"/v1/models": _models(owned_by="vllm", max_model_len=4096)},
    {
        "saturated": RouterError(
            429,
            "inference error: ResourceExhausted - system saturated, sheddable request dropped",
            "Overloaded",
            {_REASON: "rejected-saturated", "retry-after": "2"},
        ),
        "waited too long": RouterError(
            503, "inference error: ServiceUnavailable - request TTL expired", "Overloaded", {_REASON: "rejected-ttl-expired"}
        ),
        "evicted": RouterError(429, "inference error: ResourceExhausted - evicted", "Overloaded", {_REASON: "evicted"}),
        "no pods": RouterError(503, "inference error: ServiceUnavailable - failed to find candidate pods", "Overloaded"),
        "unknown model": RouterError(404, "inference error: NotFound - model engine-model not found", "UpstreamNotFound"),
        "unreadable body": RouterError(400, "inference error: BadRequest - prompt not found in body", "UpstreamRejected"),
        "internal error": RouterError(500, "inference error: Internal - scheduler failed", "UpstreamFailed"),
    },
)
# Its /version is the router's own, not vLLM's.
_PRODUCTION_STACK = Router(
    {
        "/v1/models": _models(owned_by="vllm"),
        "/version": {"version": "0.1.11.dev3+g1a2b3c4d5"},
        "/engines": [{"engine_id": "a", "serving_models": ["engine-model"], "created": 1750000000}],
    },
    {
        "unknown model": RouterError(
            404, {"error": "Model 'engine-model' not found. Available models can be listed at /v1/models."}, "UpstreamNotFound"
        ),
        "model scaled to zero": RouterError(
            503, {"error": "Model 'engine-model' is temporarily unavailable. Please try again later."}, "Overloaded"
        ),
        "no model": RouterError(400, {"error": "Invalid request: missing 'model' in request body."}, "UpstreamRejected"),
        "engine gone": RouterError(500, "Internal Server Error", "UpstreamFailed"),
        "prefiller error": RouterError(500, _error_body("Prefiller error: x", "prefiller_error", 500), "UpstreamFailed"),
    },
)
# Its /version is that of a vLLM behind it.
_VLLM_ROUTER = Router(
    {"/v1/models": _models(owned_by="vllm", max_model_len=4096), "/version": {"version": "0.32.0"}},
    {
        "all breakers open": RouterError(503, "No available workers (all circuits open or unhealthy)", "Overloaded"),
        "worker gone": RouterError(500, "Request failed: error sending request for url (http://10.0.0.7:8000/v1/x)", "UpstreamFailed"),
        "unreadable body": RouterError(
            422, "Failed to deserialize the JSON body into the target type: unknown variant", "UpstreamRejected"
        ),
        "worker overloaded": RouterError(
            503, _error_body("The request queue is full.", "ServiceUnavailableError", 503), "Overloaded", {"retry-after": "7"}
        ),
        "worker refuses": RouterError(
            400, _error_body("temperature must be in [0, 2]", "BadRequestError", 400, "temperature"), "UpstreamRejected"
        ),
        "wrong key for the worker": RouterError(401, {"error": "Unauthorized"}, "CredentialRefused"),
    },
    reports_vllm_version=True,
)
# Successor of sgl-router; it reports neither its own version nor vLLM's.
_SMG = Router(
    {"/v1/models": _models(owned_by="self_hosted")},
    {
        "unknown model": RouterError(
            404,
            _error_body("No worker available for model", "invalid_request_error", "model_not_found"),
            "UpstreamNotFound",
            {_CODE: "model_not_found"},
        ),
        "worker gone": RouterError(
            500,
            _error_body("error sending request for url (http://10.0.0.7:8000)", "server_error", "call_upstream_connection_failed"),
            "UpstreamFailed",
            {_CODE: "call_upstream_connection_failed"},
        ),
        "queue full": RouterError(429, _error_body("Queue is full", "rate_limit_error", "queue_full"), "Overloaded", {_CODE: "queue_full"}),
        "waited too long": RouterError(408, _error_body("Waited too long", "timeout_error", "queue_timeout"), "Overloaded"),
        "value out of range": RouterError(
            400,
            _error_body("temperature: Validation error", "invalid_request_error", "decimal_above_max_value", "temperature"),
            "UpstreamRejected",
        ),
    },
)
# LiteLLM and similar proxies: OpenAI's envelope around a host's error, with the status as a string of digits.
_LITELLM = Router(
    {"/v1/models": _models(owned_by="openai")},
    {
        "rate limit of a host": RouterError(
            429, _error_body("litellm.RateLimitError: slow down", "throttling_error", "429"), "Overloaded", {"retry-after": "3"}
        ),
        "unknown model": RouterError(400, _error_body("Invalid model name passed in model=x", "None", "400", "None"), "UpstreamRejected"),
        "unknown key": RouterError(401, _error_body("Authentication Error", "auth_error", "401", "None"), "CredentialRefused"),
    },
)
ROUTERS: Mapping[str, Router] = {
    "llm-d": _LLM_D,
    "production-stack": _PRODUCTION_STACK,
    "vllm-router": _VLLM_ROUTER,
    "smg": _SMG,
    "litellm": _LITELLM,
}


class ScriptedRouter:
    """One of ROUTERS at a time, with a vLLM behind it."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()

    def become(self, name: str) -> Router:
        self.server.requests.clear()
        self.server.get_responses = dict(ROUTERS[name].get_responses)
        self.set_text("Hello.")
        return ROUTERS[name]

    def set_text(self, text: str) -> None:
        """Sets the text that the vLLM behind it writes."""

        async def script(request: ReceivedRequest) -> None:
            await request.respond_completion(text)

        self.server.script = script

    def set_error(self, error: RouterError) -> None:
        is_text = isinstance(error.body, str)
        headers = {"content-type": "text/plain" if is_text else "application/json", **error.headers}
        body = error.body if is_text else json.dumps(error.body)

        async def script(request: ReceivedRequest) -> None:
            await request.respond(error.status, str(body).encode(), "".join(f"{name}: {value}\r\n" for name, value in headers.items()))

        self.server.script = script
