"""Engine operations (sleep, load a LoRA adapter, reset a cache ...): sent to a model's endpoints, to each as its engine expects them."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from app.domain.routing import Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from providers.adapters.urls import server_root
from providers.canonical.errors import (
    InvalidRequest,
    NarthexError,
    OperationNotSupported,
    TimedOut,
    UnknownModel,
    UnknownRoute,
    Unreachable,
)
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.catalogue import ENGINE_OPERATIONS, OPERATION_NAMES, find_operation
from providers.credentials import CredentialError
from providers.operations.operation import Operation, OperationCall, build_call
from providers.transport.read_body import read_body
from providers.transport.response_stream import ResponseTooLarge

_NO_ROUTE_STATUSES = (404, 405)
_READ_TIMEOUT_S = 15.0
# Operations after which an endpoint is probed anew.
_STATE_CHANGING = frozenset({"load_lora", "unload_lora", "sleep", "wake", "update_weights", "terminate"})

EndpointCall = tuple[Endpoint, Operation, OperationCall]


class OperationResult(Struct, frozen=True):
    """The result at one endpoint."""

    endpoint: str
    engine: str
    status: int  # the engine's, or that of the error
    response: Any = None  # the engine's JSON, or its text
    error: str | None = None


class PlannedOperation(Struct, frozen=True):
    """An operation that was checked: the calls to send, and the results of endpoints that cannot have one."""

    name: str
    calls: Sequence[EndpointCall]
    refused: Sequence[OperationResult]


class _UnrepeatableBody(httpx2.AsyncByteStream):
    """A body that the transport cannot send again, so that no operation runs twice."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body


class Operations:
    """Runs operations. One endpoint may take `timeout_s` (a GET at most 15 s), and its response may have `max_bytes`."""

    def __init__(self, fleet: Fleet, timeout_s: float, max_bytes: int) -> None:
        self._fleet = fleet
        self._timeouts = {"GET": _timeout(min(_READ_TIMEOUT_S, timeout_s)), "POST": _timeout(timeout_s)}
        self._max_bytes = max_bytes

    def plan(self, snapshot: Snapshot, model: str, name: str, parameters: Mapping[str, Any], *, read_only: bool) -> PlannedOperation:
        """An operation at the endpoint that `parameters` name, or at all of the model's. With `read_only` those that change state are
        refused.

        Raises UnknownModel; UnknownRoute for an operation that no engine has or an endpoint that is not the model's; InvalidRequest.
        """
        if model not in snapshot.models:
            available = ", ".join(snapshot.models) or "none"
            raise UnknownModel(f"There is no model {model!r:.100}. There are: {available}.", param="model")
        if name not in OPERATION_NAMES:
            raise UnknownRoute(f"There is no operation {name!r:.60}. There are: {', '.join(sorted(OPERATION_NAMES))}.")
        config = snapshot.models[model]
        if not config.targets and config.experiment is not None:
            arms = ", ".join(sorted(config.experiment.arms))
            raise UnknownRoute(f"{model!r:.100} has no targets of its own, but an experiment. Name one of its arms: {arms}.")
        arguments = dict(parameters)
        address, confirmed = arguments.pop("endpoint", None), arguments.pop("confirm", None)
        available = [(target, endpoint) for target in config.targets for endpoint in self._fleet.table.endpoints_of(target)]
        selected = [(target, endpoint) for target, endpoint in available if address is None or endpoint.base_url == address]
        if address is not None and not selected:
            known = ", ".join(dict.fromkeys(endpoint.base_url for _, endpoint in available))
            raise UnknownRoute(f"{address!r:.200} is not an endpoint of {model!r:.100}. There are: {known}.")
        offered = [(target, endpoint, _find_operation(endpoint, name)) for target, endpoint in selected]
        operations = [operation for _, _, operation in offered if isinstance(operation, Operation)]
        if read_only and any(operation.method != "GET" or operation.needs_confirmation for operation in operations):
            raise InvalidRequest(f"`{name}` needs a POST.")
        if any(operation.needs_confirmation for operation in operations) and confirmed is not True:
            raise InvalidRequest(f"`{name}` cannot be undone: send `confirm` with the value true.", param="confirm")
        if operations and all(operation.on_one_endpoint for operation in operations):
            supported = [each for each in offered if isinstance(each[2], Operation)]
            now = time.monotonic()
            offered = [min(supported, key=lambda each: (each[1].breaker.is_open(now), each[1].load.in_flight))]
        # All calls are built before the first is sent, so that invalid arguments reach no endpoint; and they are keyed by address, so that
        # an endpoint that serves the model as two targets gets the same call once.
        endpoint_calls: dict[tuple[str, OperationCall], EndpointCall] = {}
        refused: dict[str, OperationResult] = {}
        for target, endpoint, operation in offered:
            try:
                if isinstance(operation, NarthexError):
                    raise operation
                engine_call = build_call(name, operation, arguments, _engine_model_name(target, endpoint, name, operation))
                endpoint_calls.setdefault((endpoint.base_url, engine_call), (endpoint, operation, engine_call))
            except InvalidRequest:
                raise
            except NarthexError as reason:
                refused.setdefault(endpoint.base_url, _failed_result(endpoint, reason))
        return PlannedOperation(name, list(endpoint_calls.values()), list(refused.values()))

    async def run(self, planned: PlannedOperation) -> list[OperationResult]:
        outcomes = await asyncio.gather(*(self._call_endpoint(*each) for each in planned.calls))
        if planned.name in _STATE_CHANGING:
            # A call that failed may have had its effect all the same.
            await asyncio.gather(*(self._fleet.reprobe(endpoint) for endpoint, _, _ in planned.calls))
        return [*outcomes, *planned.refused]

    async def metrics(self, address: str) -> OperationResult:
        """An endpoint's own metrics, in its own format. Raises UnknownRoute."""
        endpoint = next((each for each in self._fleet.endpoints if each.base_url == address), None)
        if endpoint is None:
            raise UnknownRoute(f"There is no endpoint {address!r:.200}. GET /admin/v1/endpoints lists all.")
        operation = _find_operation(endpoint, "metrics")
        if isinstance(operation, NarthexError):
            return _failed_result(endpoint, operation)
        return await self._call_endpoint(endpoint, operation, build_call("metrics", operation, {}, ""))

    async def _call_endpoint(self, endpoint: Endpoint, operation: Operation, engine_call: OperationCall) -> OperationResult:
        try:
            return OperationResult(endpoint.base_url, endpoint.provider.name, *await self._try_paths(endpoint, operation, engine_call))
        except NarthexError as error:
            return _failed_result(endpoint, error)
        except CredentialError as fault:
            return _failed_result(endpoint, Unreachable(str(fault)))
        except httpx2.TimeoutException as fault:
            return _failed_result(endpoint, TimedOut(f"{endpoint.base_url} did not respond in time: {fault}."))
        except httpx2.TransportError as fault:
            return _failed_result(endpoint, Unreachable(f"{endpoint.base_url} could not be reached: {fault or type(fault).__name__}."))

    async def _try_paths(self, endpoint: Endpoint, operation: Operation, engine_call: OperationCall) -> tuple[int, Any]:
        """Status and body of the first path that the engine has. Raises the engine's error, or OperationNotSupported."""
        status, headers, body = 404, httpx2.Headers(), b""
        for path in engine_call.paths:
            status, headers, body = await self._send(endpoint, path, engine_call)
            if not _is_no_route(status, body):
                break
        if 200 <= status < 300:
            return status, _decode_body(body)
        if _is_no_route(status, body) or (status in operation.startup_requirements and status != 404):
            missing = operation.startup_requirements.get(
                404 if status == 405 else status, "its version, or a proxy before it, has no such call"
            )
            raise OperationNotSupported(f"{endpoint.base_url} ({endpoint.provider.name}) does not offer this: {missing}.")
        raise endpoint.provider.read_error(status, headers, body)

    async def _send(self, endpoint: Endpoint, path: str, engine_call: OperationCall) -> tuple[int, httpx2.Headers, bytes]:
        request = endpoint.build_request(
            httpx2.URL(server_root(endpoint.base_url) + path), engine_call.body, engine_call.method, self._timeouts[engine_call.method]
        )
        request.headers["content-length"] = str(len(engine_call.body))
        request.stream = _UnrepeatableBody(engine_call.body)
        response = await self._fleet.transport.handle_async_request(request)
        try:
            body = await read_body(response, self._max_bytes)
        except ResponseTooLarge:
            raise Unreachable(f"The response of {endpoint.base_url} is larger than {self._max_bytes} bytes.") from None
        finally:
            await response.aclose()
        # Some engines report the arguments they were started with, which may hold their API key.
        return response.status_code, response.headers, endpoint.secret_mask.mask_bytes(body)


def _timeout(each_s: float) -> dict[str, float]:
    return {"connect": 5.0, **dict.fromkeys(("write", "pool", "first", "read", "total"), each_s)}


def worst_status(outcomes: list[OperationResult]) -> int:
    """The status for all results together: 200, or the highest of the failures; a 501 (no such operation) is less than a real failure."""
    failures = [outcome.status for outcome in outcomes if outcome.error is not None]
    return max(failures, default=200, key=lambda status: (status >= 500 and status != 501, status))


def _find_operation(endpoint: Endpoint, name: str) -> Operation | NarthexError:
    if endpoint.provider.name == "auto":
        return Unreachable(f"Which engine is at {endpoint.base_url} is not known yet: it has not responded to a probe.")
    try:
        return find_operation(endpoint.provider.name, name)
    except OperationNotSupported as reason:
        return reason


def _engine_model_name(target: Target, endpoint: Endpoint, name: str, operation: Operation) -> str:
    """The engine's name for the target's model, or for its LoRA adapter where the operation computes with it.

    Raises as Provider.select_lora_adapter() does, and OperationNotSupported where the operation has no field for the adapter.
    """
    if target.lora is None or not operation.on_one_endpoint:
        return target.model
    if operation.model_field is None:
        raise OperationNotSupported(
            f"The `{name}` of {endpoint.provider.name} has no field for a model, and so none for the LoRA adapter {target.lora!r:.100}: "
            "use a model without an adapter, and name the adapter in the engine's own fields."
        )
    return endpoint.provider.select_lora_adapter(target.model, target.lora, Body())


def _failed_result(endpoint: Endpoint, error: NarthexError) -> OperationResult:
    return OperationResult(endpoint.base_url, endpoint.provider.name, error.status, None, error.message)


def _is_no_route(status: int, body: bytes) -> bool:
    """Whether this is a framework's response for an unknown route; an engine without the adapter or model says more."""
    return status in _NO_ROUTE_STATUSES and (not body.strip() or b"Not Found" in body or b"Method Not Allowed" in body)


def _decode_body(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except DECODE_ERRORS:
        return body.decode("utf-8", "replace")


def supported_operations(engine: str) -> list[str]:
    offer = ENGINE_OPERATIONS.get(engine)
    return sorted(offer.operations) if offer else []
