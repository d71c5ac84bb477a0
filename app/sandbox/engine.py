"""The sandbox engine: an ASGI app that answers as OpenAI does, paced and cut as its models and the requests say."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

from app.sandbox.metrics import Metrics
from app.sandbox.models import MODELS, OWNER, find_model, find_model_for, write_model
from app.sandbox.pacing import PacedResponse
from app.sandbox.protocol.connection import ClientConnection, ClientDisconnected, Header, Receive, Scope, Send, sleep_until
from app.sandbox.protocol.errors import MethodNotAllowed, RequestedFailure, SandboxError, UnknownRoute
from app.sandbox.protocol.request_schema import Control, ignored_keys, read_body
from app.sandbox.routes import ROUTES, Route, SandboxBody

SLOTS = 256
"""Requests answered at the same time; the others wait, and /metrics counts them."""

QUICK_BODY_BYTES = 32_768
"""A larger body is prepared on a thread: to count the tokens of a long conversation takes a tenth of a second."""

FLAKY_OUTCOMES: Sequence[int | Literal["close"]] = (500, 503, "close")

Outcome = Literal["finished", "died", "failed"]


class SandboxApp:
    """One per process. Its only state is the count of requests to sandbox-flaky, and the metrics."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._metrics = Metrics()
        self._slots = asyncio.Semaphore(slots)
        self._flaky_requests = 0
        self._get_documents: Mapping[str, Callable[[], object]] = {
            "/v1/models": lambda: {"object": "list", "data": [write_model(model) for model in MODELS.values()]},
            "/health": lambda: {"status": "ok", "engine": OWNER},
            "/version": lambda: {"version": version("narthex"), "engine": OWNER, "llguidance": version("llguidance")},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"The sandbox speaks HTTP only, not {scope['type']}.")
        connection = ClientConnection(scope, receive, send)
        path, method = str(scope["path"]), str(scope["method"])
        try:
            if path not in ROUTES:
                await self._handle_get(connection, path, method)
            elif method != "POST":
                raise MethodNotAllowed(f"{path} takes POST, not {method}.", "POST")
            else:
                await self._handle_post(connection, ROUTES[path])
        except SandboxError as error:
            self._metrics.requests.labels(connection.model, "failed" if isinstance(error, RequestedFailure) else "refused").inc()
            anthropic_fields = {"type": "error"} if path.startswith("/v1/messages") else {}
            await connection.send_json(error.status, {**anthropic_fields, **error.envelope()}, error.response_headers())

    async def _handle_get(self, connection: ClientConnection, path: str, method: str) -> None:
        build_document = self._get_documents.get(path)
        if build_document is None and path != "/metrics" and not path.startswith("/v1/models/"):
            routes = ", ".join([*ROUTES, *self._get_documents, "/v1/models/{id}", "/metrics"])
            raise UnknownRoute(f"No route {path}. The sandbox has {routes}.")
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{path} takes GET, not {method}.", "GET, HEAD")
        if path == "/metrics":
            await connection.start_response(200, "text")
            await connection.write(self._metrics.text(), is_last=True)
        else:
            document = build_document() if build_document else write_model(find_model(path.removeprefix("/v1/models/")))
            await connection.send_json(200, document)

    async def _handle_post(self, connection: ClientConnection, route: Route[Any]) -> None:
        """Answers one request, and stops as soon as its client disconnects."""
        try:
            raw = await connection.read_body()
        except ClientDisconnected:
            self._metrics.requests.labels("", "aborted").inc()
            return
        work = asyncio.create_task(self._run_in_slot(connection, raw, route))
        disconnect = asyncio.create_task(connection.wait_for_disconnect())
        try:
            await asyncio.wait((work, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if not (work.done() or connection.is_complete or connection.is_cut):
                self._metrics.requests.labels(connection.model, "aborted").inc()
                return
            outcome = await work
            self._metrics.requests.labels(connection.model, outcome).inc()
            if connection.is_cut:
                # uvicorn takes a return before the connection is really closed for an incomplete response.
                await disconnect
        finally:
            work.cancel()
            disconnect.cancel()

    async def _run_in_slot(self, connection: ClientConnection, raw: bytes, route: Route[Any]) -> Outcome:
        with self._metrics.waiting.track_inprogress():
            await self._slots.acquire()
        try:
            with self._metrics.running.track_inprogress():
                return await self._respond(connection, raw, route)
        finally:
            self._slots.release()

    async def _respond(self, connection: ClientConnection, raw: bytes, route: Route[Any]) -> Outcome:
        body: SandboxBody = read_body(raw, route.body)
        model = find_model_for(body.model, embeddings=route.embeds)
        connection.model = model.id
        paced = PacedResponse(model, body.sandbox or Control(), asyncio.get_running_loop().time())
        if len(raw) > QUICK_BODY_BYTES:
            generate = await asyncio.to_thread(route.prepare, body)
        else:
            generate = route.prepare(body)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        response = await generate()
        headers = ignored_fields_header(raw, route)
        if isinstance(response.content, dict):
            outcome = await paced.send_response(connection, response.content, response.frame_count, headers)
        else:
            outcome = await paced.send_stream(connection, response.content, response.frame_count, headers)
        self._metrics.prompt_tokens.inc(response.prompt_tokens)
        if outcome == "finished":
            self._metrics.completion_tokens.inc(response.completion_tokens)
        return outcome

    async def _fail_if_requested(self, connection: ClientConnection, paced: PacedResponse) -> bool:
        """Whether it closed the connection instead of a response. Raises RequestedFailure for failures with a status."""
        failure, reason = paced.control.fail, "the request says so"
        if failure is None and paced.model.is_flaky:
            self._flaky_requests += 1
            cycle, position = divmod(self._flaky_requests, 3)
            if position == 0:
                failure, reason = FLAKY_OUTCOMES[(cycle - 1) % 3], f"{paced.model.id} fails every third request"
        if failure is None:
            return False
        await sleep_until(paced.started_s + paced.control.delay_ms / 1000)
        if failure != "close":
            raise RequestedFailure(failure, reason, paced.control.retry_after_s)
        connection.cut()
        return True


def ignored_fields_header(raw: bytes, route: Route[Any]) -> list[Header]:
    """The header `x-sandbox-ignored` with the body's fields that have no effect; none if there are no such fields."""
    ignored = ignored_keys(raw, route.body)
    for name, part in route.nested.items():
        ignored += [f"{name}.{key}" for key in ignored_keys(raw, part, name)]
    ignored = [key for key in ignored if key.isascii() and key.isprintable()]
    return [(b"x-sandbox-ignored", ", ".join(ignored)[:1000].encode())] if ignored else []
