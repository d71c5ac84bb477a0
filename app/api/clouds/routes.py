"""The routes of clouds for Anthropic's models: InvokeModel of Amazon Bedrock, rawPredict of Vertex AI.

They take a key of the gateway as a bearer token: Claude Code and the SDKs send one instead of AWS's or Google's own signatures
(AWS_BEARER_TOKEN_BEDROCK, ANTHROPIC_AUTH_TOKEN).
"""

import functools
from collections.abc import Callable, Mapping

from app.api.callers.inference_route import InferenceRoute
from app.api.callers.response_sink import HttpResponseSink
from app.api.clouds.bedrock_sink import BedrockMessages, BedrockSink
from app.api.clouds.messages_body import find_model, write_messages_body
from app.api.server.access_log import AccessLog
from app.api.server.http_call import CallHandler, HttpCall
from app.domain.callers import Caller
from app.domain.model_address import BEDROCK_METHODS, VERTEX_METHODS, ModelAddress, bedrock_template, vertex_template
from app.gateway.pipeline.gateway import Gateway
from app.gateway.state.context import RequestContext
from providers.catalogue import DIALECTS
from providers.dialect import CallerDialect

Wrap = Callable[[CallHandler], CallHandler]

_BETAS = b"anthropic-beta"


def cloud_routes(gateway: Gateway, access_log: AccessLog | None, wrap: Wrap | None) -> Mapping[str, CallHandler]:
    """The routes by the templates of their paths. `wrap` is what each handler of a call gets around it; None: nothing."""
    bedrock, messages, counts = BedrockMessages(), DIALECTS["anthropic_messages"], DIALECTS["anthropic_count_tokens"]

    def route(dialect: CallerDialect, sink: type[HttpResponseSink], streams: bool | None) -> CallHandler:
        return _CloudRoute(gateway, InferenceRoute(gateway, dialect, access_log), sink, streams, wrap)

    return {
        **{bedrock_template(method): route(bedrock, BedrockSink, method != "invoke") for method in BEDROCK_METHODS},
        **{vertex_template(method): route(messages, HttpResponseSink, method == "streamRawPredict") for method in VERTEX_METHODS},
        vertex_template("count-tokens"): route(counts, HttpResponseSink, None),
    }


class _CloudRoute:
    """Implements app.api.server.inference_protocol.AddressedRoute. `streams` is None where the model stands in the body."""

    def __init__(
        self, gateway: Gateway, route: InferenceRoute, sink: type[HttpResponseSink], streams: bool | None, wrap: Wrap | None
    ) -> None:
        self._gateway = gateway
        self._route = route
        self._sink = sink
        self._streams = streams
        self._wrap = wrap

    async def __call__(self, call: HttpCall) -> None:
        await self.at(ModelAddress("{model}", b""))(call)

    def at(self, address: ModelAddress) -> CallHandler:
        addressed = _CloudCall(self._gateway, self._sink, address.model, self._streams)
        handler = functools.partial(self._route, addressed=addressed)
        return handler if self._wrap is None else self._wrap(handler)


class _CloudCall:
    """Implements app.api.callers.inference_route.AddressedCall."""

    def __init__(self, gateway: Gateway, sink: type[HttpResponseSink], model: str, streams: bool | None) -> None:
        self._gateway = gateway
        self._sink = sink
        self._model = model
        self._streams = streams
        self._headers: dict[bytes, bytes] = {}

    def take_credential(self, call: HttpCall, headers: dict[bytes, bytes]) -> None:
        """Keeps the headers, to which the betas of the body are added. The address holds no key."""
        self._headers = headers

    async def write_body(self, raw: bytes, caller: Caller) -> bytes:
        model = None
        if self._streams is not None:
            snapshot = self._gateway.snapshot_cache.snapshot
            model = find_model(self._model, lambda name: name in snapshot.models or name in snapshot.functions)
        run = self._gateway.large_requests.of_team(caller.team_id).run_on_body
        body, betas = await run(raw, write_messages_body, raw, model, stream=self._streams)
        if betas:
            sent = self._headers.get(_BETAS, b"").decode("latin-1").replace(" ", "").split(",")
            names = dict.fromkeys(name for name in (*sent, *betas) if name)
            self._headers[_BETAS] = ",".join(names).encode("latin-1", "replace")
        return body

    def make_sink(self, call: HttpCall, context: RequestContext) -> HttpResponseSink:
        return self._sink(call, context)
