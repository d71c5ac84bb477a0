"""The inference routes of Google's API: /v1beta/models/NAME:METHOD, for every model, whichever API its host has."""

import functools
from collections.abc import Callable, Mapping

from app.api.callers.inference_route import InferenceRoute
from app.api.callers.key_parameter import take_key
from app.api.callers.response_sink import HttpResponseSink
from app.api.google.dialects import (
    GoogleCountTokens,
    GoogleEmbeddings,
    read_count,
    read_embeddings,
    write_count_body,
    write_embeddings_body,
)
from app.api.google.sinks import ArraySink
from app.api.server.access_log import AccessLog
from app.api.server.http_call import CallHandler, HttpCall
from app.domain.callers import Caller
from app.domain.model_address import Method, ModelAddress, template
from app.gateway.pipeline.gateway import Gateway
from app.gateway.state.context import RequestContext
from providers.catalogue import DIALECTS
from providers.dialect import CallerDialect
from providers.dialects.gemini import Gemini
from providers.dialects.gemini.address import write_address

Wrap = Callable[[CallHandler], CallHandler]

_SSE = b"alt=sse"


def google_routes(gateway: Gateway, access_log: AccessLog | None, wrap: Wrap | None) -> Mapping[str, CallHandler]:
    """The routes by the templates of their paths. `wrap` is what each handler of a call gets around it; None: nothing."""
    generate = DIALECTS[Gemini.name]
    dialects: Mapping[Method, CallerDialect] = {
        "generateContent": generate,
        "streamGenerateContent": generate,
        "countTokens": GoogleCountTokens(),
        "embedContent": GoogleEmbeddings(),
        "batchEmbedContents": GoogleEmbeddings(),
    }
    return {
        template(method): _GoogleRoute(gateway, InferenceRoute(gateway, dialect, access_log), method, wrap)
        for method, dialect in dialects.items()
    }


class _GoogleRoute:
    """Implements app.api.server.inference_protocol.AddressedRoute."""

    def __init__(self, gateway: Gateway, route: InferenceRoute, method: Method, wrap: Wrap | None) -> None:
        self._gateway = gateway
        self._route = route
        self._method: Method = method
        self._wrap = wrap

    async def __call__(self, call: HttpCall) -> None:
        await self.at(ModelAddress("{model}", b""))(call)

    def at(self, address: ModelAddress) -> CallHandler:
        handler = functools.partial(self._route, addressed=_GoogleCall(self._gateway, self._method, address))
        return handler if self._wrap is None else self._wrap(handler)


class _GoogleCall:
    """Implements app.api.callers.inference_route.AddressedCall."""

    def __init__(self, gateway: Gateway, method: Method, address: ModelAddress) -> None:
        self._gateway = gateway
        self._method: Method = method
        self._address = address

    def take_credential(self, call: HttpCall, headers: dict[bytes, bytes]) -> None:
        key = take_key(self._address.query, headers)
        if key is not None:
            call.headers.append((b"x-goog-api-key", key))

    async def write_body(self, raw: bytes, caller: Caller) -> bytes:
        model = self._address.model
        run = self._gateway.large_requests.of_team(caller.team_id).run_on_body
        match self._method:
            case "generateContent" | "streamGenerateContent":
                return write_address(raw, model, stream=self._method == "streamGenerateContent")
            case "countTokens":
                return await run(raw, write_count_body, raw, model)
            case "embedContent" | "batchEmbedContents":
                return await run(raw, write_embeddings_body, raw, model, is_batch=self._method == "batchEmbedContents")

    def make_sink(self, call: HttpCall, context: RequestContext) -> HttpResponseSink:
        match self._method:
            case "streamGenerateContent" if not self._wants_events:
                return ArraySink(call, context)
            case "countTokens":
                return self._make_rewriting_sink(call, context, read_count)
            case "embedContent" | "batchEmbedContents":
                is_batch = self._method == "batchEmbedContents"
                return self._make_rewriting_sink(call, context, functools.partial(read_embeddings, is_batch=is_batch))
            case _:
                return HttpResponseSink(call, context)

    def _make_rewriting_sink(self, call: HttpCall, context: RequestContext, read: Callable[[bytes], bytes]) -> HttpResponseSink:
        """A sink that sends an answer of another API in Google's form. Thousands of vectors are rewritten beside the event loop."""

        async def rewrite(answer: bytes) -> bytes:
            assert context.key_holder is not None  # who is answered
            return await self._gateway.large_requests.of_team(context.key_holder.team_id).run_on_body(answer, read, answer)

        sink = HttpResponseSink(call, context)
        sink.rewrite = rewrite
        return sink

    @property
    def _wants_events(self) -> bool:
        return any(each.removeprefix(b"$").removeprefix(b"%24") == _SSE for each in self._address.query.split(b"&"))
