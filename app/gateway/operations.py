"""Operations of engines: told to the endpoints of a model, each in its own engine's words."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from app.domain import Snapshot, Target
from app.gateway.fleet.fleet import Endpoint, Fleet
from providers.adapters.provider import server_root
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
from providers.credentials import CredentialError
from providers.operations.catalogue import ENGINE_OPERATIONS, OPERATION_NAMES, find_operation
from providers.operations.operation import Operation, OperationCall, build_call

_NO_ROUTE_STATUSES = (404, 405)
_READ_TIMEOUT_S = 15.0
# After which an endpoint is not what it was.
_STATE_CHANGING = frozenset({"load_lora", "unload_lora", "sleep", "wake", "update_weights", "terminate"})

EndpointCall = tuple[Endpoint, Operation, OperationCall]


class OperationResult(Struct, frozen=True):
    """What came of it at one endpoint. `status` is the engine's own, or of what went wrong, which `error` says."""

    endpoint: str
    engine: str
    status: int
    answer: Any = None
    error: str | None = None


class _UnrepeatableBody(httpx.AsyncByteStream):
    """A body that the transport cannot send again: an engine that was ended, or did as it was told, is not told so twice."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body


class Operations:
    """`timeout_s`: how long one endpoint may take to do something; to tell something it has _ANSWER_S. `most_bytes`: of its answer."""

    def __init__(self, fleet: Fleet, timeout_s: float, max_bytes: int) -> None:
        self._fleet = fleet
        self._timeouts = {"GET": _timeout(min(_READ_TIMEOUT_S, timeout_s)), "POST": _timeout(timeout_s)}
        self._max_bytes = max_bytes

    async def run(
        self, snapshot: Snapshot, model: str, name: str, parameters: Mapping[str, Any], *, read_only: bool
    ) -> list[OperationResult]:
        """At the endpoint that `said` names, or at all of the model's. `only_asks`: nothing may be changed by it.

        Raises UnknownModel; UnknownRoute for an operation that no engine has, or an endpoint that is not the model's; Malformed.
        """
        if model not in snapshot.models:
            available = ", ".join(snapshot.models) or "none"
            raise UnknownModel(f"There is no model {model!r:.100}. There are: {available}.", param="model")
        if name not in OPERATION_NAMES:
            raise UnknownRoute(f"There is no operation {name!r:.60}. There are: {', '.join(sorted(OPERATION_NAMES))}.")
        arguments = dict(parameters)
        address, confirmed = arguments.pop("endpoint", None), arguments.pop("confirm", None)
        available = [(target, endpoint) for target in snapshot.models[model].targets for endpoint in self._fleet.endpoints_of(target)]
        selected = [(target, endpoint) for target, endpoint in available if address is None or endpoint.base_url == address]
        if address is not None and not selected:
            known = ", ".join(dict.fromkeys(endpoint.base_url for _, endpoint in available))
            raise UnknownRoute(f"{address!r:.200} is no endpoint of {model!r:.100}. There are: {known}.")
        offered = [(target, endpoint, _find_operation(endpoint, name)) for target, endpoint in selected]
        operations = [operation for _, _, operation in offered if isinstance(operation, Operation)]
        if read_only and any(operation.method != "GET" or operation.needs_confirmation for operation in operations):
            raise InvalidRequest(f"`{name}` is told by POST.")
        if any(operation.needs_confirmation for operation in operations) and confirmed is not True:
            raise InvalidRequest(f"`{name}` cannot be taken back: send `confirm` with the value true.", param="confirm")
        if operations and all(operation.on_one_endpoint for operation in operations):
            supported = [each for each in offered if isinstance(each[2], Operation)]
            now = time.monotonic()
            offered = [min(supported, key=lambda each: (each[1].open_until > now, each[1].in_flight))]
        # All calls are made up before the first is sent: of a slip in the arguments no endpoint is to know. And by address: an endpoint
        # that serves the model as two targets is told the same only once.
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
        outcomes = await asyncio.gather(*(self._call_endpoint(*each) for each in endpoint_calls.values()))
        if name in _STATE_CHANGING:
            # What failed may have come through all the same.
            await asyncio.gather(*(self._fleet.reprobe(endpoint) for endpoint, _, _ in endpoint_calls.values()))
        return [*outcomes, *refused.values()]

    async def metrics(self, address: str) -> OperationResult:
        """An endpoint's own metrics, as it tells them. Raises UnknownRoute."""
        endpoint = next((each for each in self._fleet.endpoints if each.base_url == address), None)
        if endpoint is None:
            raise UnknownRoute(f"There is no endpoint {address!r:.200}. GET /admin/v1/endpoints lists those there are.")
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
        except httpx.TimeoutException as fault:
            return _failed_result(endpoint, TimedOut(f"{endpoint.base_url} did not answer in time: {fault}."))
        except httpx.TransportError as fault:
            return _failed_result(endpoint, Unreachable(f"{endpoint.base_url} could not be asked: {fault or type(fault).__name__}."))

    async def _try_paths(self, endpoint: Endpoint, operation: Operation, engine_call: OperationCall) -> tuple[int, Any]:
        """The status and the answer of the first path that is there. Raises the engine's error, or NotOffered."""
        status, headers, body = 404, httpx.Headers(), b""
        for path in engine_call.paths:
            status, headers, body = await self._send(endpoint, path, engine_call)
            if not _is_no_route(status, body):
                break
        if 200 <= status < 300:
            return status, _decode_body(body)
        if _is_no_route(status, body) or (status in operation.startup_requirements and status != 404):
            missing = operation.startup_requirements.get(
                404 if status == 405 else status, "its version, or what stands before it, has no such call"
            )
            raise OperationNotSupported(f"{endpoint.base_url} ({endpoint.provider.name}) does not offer this: {missing}.")
        raise endpoint.provider.read_error(status, headers, body)

    async def _send(self, endpoint: Endpoint, path: str, engine_call: OperationCall) -> tuple[int, httpx.Headers, bytes]:
        request = endpoint.build_request(
            httpx.URL(server_root(endpoint.base_url) + path), engine_call.body, engine_call.method, self._timeouts[engine_call.method]
        )
        request.headers["content-length"] = str(len(engine_call.body))
        request.stream = _UnrepeatableBody(engine_call.body)
        response = await self._fleet.transport.handle_async_request(request)
        try:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            blocks: list[bytes] = []
            size_bytes = 0
            async for block in response.stream:
                blocks.append(block)
                size_bytes += len(block)
                if size_bytes > self._max_bytes:
                    raise Unreachable(f"The answer of {endpoint.base_url} is larger than {self._max_bytes} bytes.")
        finally:
            await response.aclose()
        # Some tell what they were started with, their key too.
        return response.status_code, response.headers, endpoint.secret_mask.mask_bytes(b"".join(blocks))


def _timeout(each_s: float) -> dict[str, float]:
    return {"connect": 5.0, **dict.fromkeys(("write", "pool", "first", "read", "total"), each_s)}


def worst_status(outcomes: list[OperationResult]) -> int:
    """The status that stands for all of them: 200, or the highest of those that failed."""
    return max((outcome.status for outcome in outcomes if outcome.error is not None), default=200)


def _find_operation(endpoint: Endpoint, name: str) -> Operation | NarthexError:
    if endpoint.provider.name == "auto":
        return Unreachable(f"Which engine is at {endpoint.base_url} is not known yet: it has not answered.")
    try:
        return find_operation(endpoint.provider.name, name)
    except OperationNotSupported as reason:
        return reason


def _engine_model_name(target: Target, endpoint: Endpoint, name: str, operation: Operation) -> str:
    """What the engine calls the target. Raises as name_of() does, and NotOffered where one that computes names no LoRA adapter."""
    if target.lora is None or not operation.on_one_endpoint:
        return target.model
    if operation.model_field is None:
        raise OperationNotSupported(
            f"The `{name}` of {endpoint.provider.name} is not told the model, and so not its LoRA adapter {target.lora!r:.100}: "
            "tell a model that has none, and name the adapter in the engine's own words."
        )
    return endpoint.provider.select_lora_adapter(target.model, target.lora, Body())


def _failed_result(endpoint: Endpoint, error: NarthexError) -> OperationResult:
    return OperationResult(endpoint.base_url, endpoint.provider.name, error.status, None, error.message)


def _is_no_route(status: int, body: bytes) -> bool:
    """What frameworks say where no route is; an engine that has no such adapter or model says more."""
    return status in _NO_ROUTE_STATUSES and (not body.strip() or b"Not Found" in body or b"Method Not Allowed" in body)


def _decode_body(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except DECODE_ERRORS:
        return body.decode("utf-8", "replace")


def supported_operations(engine: str) -> list[str]:
    offer = ENGINE_OPERATIONS.get(engine)
    return sorted(offer.operations) if offer else []
