"""Operations of engines: told to the endpoints of a model, each in its own engine's words."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from app.domain import Directory, Target
from app.gateway.fleet import Endpoint, Fleet
from providers.credentials import NoCredential
from providers.errors import Malformed, NarthexError, NotOffered, TimedOut, UnknownModel, UnknownRoute, Unreachable
from providers.operations.catalogue import NAMES, OFFERS, find
from providers.operations.operation import Call, Operation, call
from providers.provider import server_root
from providers.wire import UNREADABLE, Body

_NO_ROUTE = (404, 405)
_ANSWER_S = 15.0
# After which an endpoint is not what it was.
_CHANGING = frozenset({"load_lora", "unload_lora", "sleep", "wake", "update_weights", "terminate"})

Telling = tuple[Endpoint, Operation, Call]


class Outcome(Struct, frozen=True):
    """What came of it at one endpoint. `status` is the engine's own, or of what went wrong, which `error` says."""

    endpoint: str
    engine: str
    status: int
    answer: Any = None
    error: str | None = None


class _Once(httpx.AsyncByteStream):
    """A body that the transport cannot send again: an engine that was ended, or did as it was told, is not told so twice."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body


class Operations:
    """`timeout_s`: how long one endpoint may take to do something; to tell something it has _ANSWER_S. `most_bytes`: of its answer."""

    def __init__(self, fleet: Fleet, timeout_s: float, most_bytes: int) -> None:
        self._fleet = fleet
        self._timeouts = {"GET": _timeout(min(_ANSWER_S, timeout_s)), "POST": _timeout(timeout_s)}
        self._most_bytes = most_bytes

    async def operate(self, directory: Directory, model: str, name: str, said: Mapping[str, Any], *, only_asks: bool) -> list[Outcome]:
        """At the endpoint that `said` names, or at all of the model's. `only_asks`: nothing may be changed by it.

        Raises UnknownModel; UnknownRoute for an operation that no engine has, or an endpoint that is not the model's; Malformed.
        """
        if model not in directory.models:
            there = ", ".join(directory.models) or "none"
            raise UnknownModel(f"There is no model {model!r:.100}. There are: {there}.", param="model")
        if name not in NAMES:
            raise UnknownRoute(f"There is no operation {name!r:.60}. There are: {', '.join(sorted(NAMES))}.")
        arguments = dict(said)
        place, confirmed = arguments.pop("endpoint", None), arguments.pop("confirm", None)
        there = [(target, endpoint) for target in directory.models[model].targets for endpoint in self._fleet.of(target)]
        asked = [(target, endpoint) for target, endpoint in there if place is None or endpoint.base_url == place]
        if place is not None and not asked:
            known = ", ".join(dict.fromkeys(endpoint.base_url for _, endpoint in there))
            raise UnknownRoute(f"{place!r:.200} is no endpoint of {model!r:.100}. There are: {known}.")
        offered = [(target, endpoint, _find(endpoint, name)) for target, endpoint in asked]
        operations = [operation for _, _, operation in offered if isinstance(operation, Operation)]
        if only_asks and any(operation.method != "GET" or operation.confirm for operation in operations):
            raise Malformed(f"`{name}` is told by POST.")
        if any(operation.confirm for operation in operations) and confirmed is not True:
            raise Malformed(f"`{name}` cannot be taken back: send `confirm` with the value true.", param="confirm")
        if operations and all(operation.once for operation in operations):
            able = [each for each in offered if isinstance(each[2], Operation)]
            now = time.monotonic()
            offered = [min(able, key=lambda each: (each[1].shut_until > now, each[1].in_flight))]
        # All calls are made up before the first is sent: of a slip in the arguments no endpoint is to know. And by address: an endpoint
        # that serves the model as two targets is told the same only once.
        tellings: dict[tuple[str, Call], Telling] = {}
        refused: dict[str, Outcome] = {}
        for target, endpoint, operation in offered:
            try:
                if isinstance(operation, NarthexError):
                    raise operation
                what = call(name, operation, arguments, _model_of(target, endpoint, name, operation))
                tellings.setdefault((endpoint.base_url, what), (endpoint, operation, what))
            except Malformed:
                raise
            except NarthexError as reason:
                refused.setdefault(endpoint.base_url, _failed(endpoint, reason))
        outcomes = await asyncio.gather(*(self._tell(*each) for each in tellings.values()))
        if name in _CHANGING:
            # What failed may have come through all the same.
            await asyncio.gather(*(self._fleet.look_again(endpoint) for endpoint, _, _ in tellings.values()))
        return [*outcomes, *refused.values()]

    async def metrics(self, place: str) -> Outcome:
        """An endpoint's own metrics, as it tells them. Raises UnknownRoute."""
        endpoint = next((each for each in self._fleet.endpoints if each.base_url == place), None)
        if endpoint is None:
            raise UnknownRoute(f"There is no endpoint {place!r:.200}. GET /admin/v1/endpoints lists those there are.")
        operation = _find(endpoint, "metrics")
        if isinstance(operation, NarthexError):
            return _failed(endpoint, operation)
        return await self._tell(endpoint, operation, call("metrics", operation, {}, ""))

    async def _tell(self, endpoint: Endpoint, operation: Operation, what: Call) -> Outcome:
        try:
            return Outcome(endpoint.base_url, endpoint.provider.name, *await self._ask(endpoint, operation, what))
        except NarthexError as error:
            return _failed(endpoint, error)
        except NoCredential as fault:
            return _failed(endpoint, Unreachable(str(fault)))
        except httpx.TimeoutException as fault:
            return _failed(endpoint, TimedOut(f"{endpoint.base_url} did not answer in time: {fault}."))
        except httpx.TransportError as fault:
            return _failed(endpoint, Unreachable(f"{endpoint.base_url} could not be asked: {fault or type(fault).__name__}."))

    async def _ask(self, endpoint: Endpoint, operation: Operation, what: Call) -> tuple[int, Any]:
        """The status and the answer of the first path that is there. Raises the engine's error, or NotOffered."""
        status, headers, body = 404, httpx.Headers(), b""
        for path in what.paths:
            status, headers, body = await self._send(endpoint, path, what)
            if not _is_no_route(status, body):
                break
        if 200 <= status < 300:
            return status, _read(body)
        if _is_no_route(status, body) or (status in operation.needs and status != 404):
            how = operation.needs.get(404 if status == 405 else status, "its version, or what stands before it, has no such call")
            raise NotOffered(f"{endpoint.base_url} ({endpoint.provider.name}) does not offer this: {how}.")
        raise endpoint.provider.read_error(status, headers, body)

    async def _send(self, endpoint: Endpoint, path: str, what: Call) -> tuple[int, httpx.Headers, bytes]:
        request = endpoint.told(httpx.URL(server_root(endpoint.base_url) + path), what.body, what.method, self._timeouts[what.method])
        request.headers["content-length"] = str(len(what.body))
        request.stream = _Once(what.body)
        response = await self._fleet.transport.handle_async_request(request)
        try:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            blocks: list[bytes] = []
            size_bytes = 0
            async for block in response.stream:
                blocks.append(block)
                size_bytes += len(block)
                if size_bytes > self._most_bytes:
                    raise Unreachable(f"The answer of {endpoint.base_url} is larger than {self._most_bytes} bytes.")
        finally:
            await response.aclose()
        # Some tell what they were started with, their key too.
        return response.status_code, response.headers, endpoint.hiding.hide_bytes(b"".join(blocks))


def _timeout(each_s: float) -> dict[str, float]:
    return {"connect": 5.0, **dict.fromkeys(("write", "pool", "first", "read", "total"), each_s)}


def worst(outcomes: list[Outcome]) -> int:
    """The status that stands for all of them: 200, or the highest of those that failed."""
    return max((outcome.status for outcome in outcomes if outcome.error is not None), default=200)


def _find(endpoint: Endpoint, name: str) -> Operation | NarthexError:
    if endpoint.provider.name == "auto":
        return Unreachable(f"Which engine is at {endpoint.base_url} is not known yet: it has not answered.")
    try:
        return find(endpoint.provider.name, name)
    except NotOffered as reason:
        return reason


def _model_of(target: Target, endpoint: Endpoint, name: str, operation: Operation) -> str:
    """What the engine calls the target. Raises as name_of() does, and NotOffered where one that computes names no LoRA adapter."""
    if target.lora is None or not operation.once:
        return target.model
    if operation.model_as is None:
        raise NotOffered(
            f"The `{name}` of {endpoint.provider.name} is not told the model, and so not its LoRA adapter {target.lora!r:.100}: "
            "tell a model that has none, and name the adapter in the engine's own words."
        )
    return endpoint.provider.name_of(target.model, target.lora, Body())


def _failed(endpoint: Endpoint, error: NarthexError) -> Outcome:
    return Outcome(endpoint.base_url, endpoint.provider.name, error.status, None, error.message)


def _is_no_route(status: int, body: bytes) -> bool:
    """What frameworks say where no route is; an engine that has no such adapter or model says more."""
    return status in _NO_ROUTE and (not body.strip() or b"Not Found" in body or b"Method Not Allowed" in body)


def _read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except UNREADABLE:
        return body.decode("utf-8", "replace")


def offered_by(engine: str) -> list[str]:
    offer = OFFERS.get(engine)
    return sorted(offer.operations) if offer else []
