"""Route: an API beside chat that engines have in different shapes. Callers use one common shape, or an engine's own."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from providers.adapters.provider import Provider, remove_gateway_fields
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, NarthexError, OperationNotSupported, RouteNotServed
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import Body
from providers.canonical.sse import sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.openai.errors import write_error_envelope
from providers.engine_routes.read_response import read_object_or_list, reported_input_tokens
from providers.engine_routes.route_binding import RouteBinding, unsupported_without_alternative
from providers.keep_alive import COMMENTS, KeepAlive


class CommonFields(Struct):
    """Fields that a request of any route may have."""

    model: str | None = None  # the engines need none, so a key with one such model may leave it out
    stream: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


# Checks a request in one of the shapes.
RequestDecoder = msgspec.json.Decoder[Any]

_common_fields_decoder = msgspec.json.Decoder(CommonFields)

# An engine that is not identified yet is treated as OpenAI-compatible.
_ADAPTER_ALIASES: Mapping[str, str] = {"auto": "openai"}
UNCERTAIN_ADAPTERS = ("auto", "openai")
# A response with nothing but these is an error, or nothing, in place of a result.
_FIELDS_BESIDE_A_RESULT = frozenset(
    {"message", "msg", "detail", "code", "status", "success", "error", "error_code", "request_id", "id", "object", "model", "usage"}
)


class Route:
    """One route, with the methods of providers.dialect.Dialect. Subclasses state its shapes, and check responses in edit_response().

    The shape of a request is recognised by its discriminator, a field that only this shape has. `bindings` are given by an engine's
    adapter, and by discriminator.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]  # a verb phrase for errors
    request_decoders: ClassVar[Mapping[str, RequestDecoder]]  # by discriminator, the common shape first
    is_free_of_charge: ClassVar[bool] = False  # whether nothing is charged for it
    generates_text: ClassVar[bool] = False  # whether it has output tokens, and streams

    def __init__(self, bindings: Mapping[str, Mapping[str, RouteBinding]]) -> None:
        self.bindings = bindings

    def parse_request(self, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest: what is wrong, where, and what was expected."""
        common, body = parse_body(raw, _common_fields_decoder)
        if common.stream and not self.generates_text:
            raise InvalidRequest("This route does not stream: leave `stream` out.", param="stream")
        discriminators = [discriminator for discriminator in self.request_decoders if body.has_value(discriminator)]
        if not discriminators:
            raise InvalidRequest(
                f"Object missing required field `{next(iter(self.request_decoders))}`.", param=next(iter(self.request_decoders))
            )
        if len(discriminators) > 1:
            raise InvalidRequest(f"Send only one of `{'`, `'.join(discriminators)}`.", param=discriminators[1])
        request, _ = parse_body(raw, self.request_decoders[discriminators[0]])
        self.normalise_request(request, body)
        if not self.generates_text:
            body.pop("stream", None)
        return InboundRequest(
            dialect=self.name,
            body=body,
            model=common.model or "",
            stream=bool(common.stream),
            wants_usage=True,
            episode_id=parse_episode_id(common.episode_id, common.episode_id_prefixed),
            tags=common.tags_prefixed or common.metadata or {},
            end_user=common.user,
            input_tokens=0 if self.is_free_of_charge else self.estimate(request),
            output_tokens=self.output_bound(request),
            choices=1,
            names_no_model=common.model is None,
        )

    def normalise_request(self, request: Any, body: Body) -> None:
        """Rewrites what has several forms with the same meaning to one of them, in `body`."""

    def estimate(self, request: Any) -> int:
        """About how many input tokens a request has, on a route that is not free of charge."""
        return 0

    def output_bound(self, request: Any) -> int:
        """The most output tokens that a request may take, on a route that generates text."""
        return 0

    def translate_request(
        self, body: Body, provider: Provider, requested_model: str, model: str, may_drop: Callable[[str], bool]
    ) -> tuple[RouteBinding, list[str]]:
        """Turns a caller's body into an engine's, in place. Returns the binding, and what was dropped.

        `requested_model` is the caller's name of `model`. Raises OperationNotSupported for an engine without the route, Unsupported for a
        field that the engine cannot honour.
        """
        binding = self._binding_for(body, provider, requested_model)
        # The adapter's own adapt_request() is for chats; the binding knows the fields of this route.
        remove_gateway_fields(body)
        return binding, binding.write_request(body, provider, model, may_drop)

    def is_served_by(self, provider: Provider, body: Body) -> bool:
        """Whether this kind of engine has the route for a body of this shape."""
        return not self._bindings_of(provider).keys().isdisjoint(body)

    def _bindings_of(self, provider: Provider) -> Mapping[str, RouteBinding]:
        return {} if provider.is_openai_host else self.bindings.get(_ADAPTER_ALIASES.get(provider.name, provider.name), {})

    def _binding_for(self, body: Body, provider: Provider, requested_model: str) -> RouteBinding:
        bindings = self._bindings_of(provider)
        if not bindings:
            raise OperationNotSupported(
                f"{provider.configured_as} ({provider.name}), which serves {requested_model!r:.100}, has no API that {self.purpose}. "
                f"These have: {', '.join(sorted(self.bindings))}.",
                param="model",
            )
        discriminator = next(mark for mark in self.request_decoders if body.has_value(mark))
        binding = bindings.get(discriminator)
        if binding is None:
            raise unsupported_without_alternative(
                provider, discriminator, f"it takes {' or '.join(f'`{name}`' for name in bindings)} instead."
            )
        return replace(binding, is_guessed=True) if provider.name in UNCERTAIN_ADAPTERS else binding

    def read_engine_response(self, raw: bytes, binding: RouteBinding, meta: ResponseMeta) -> OutboundResponse:
        """The response of an engine with this binding. Raises InvalidUpstreamResponse, RouteNotServed, or the error that it reports."""
        if binding.is_native:
            return Route.edit_response(self, raw, meta)
        try:
            return self.edit_response(
                raw if binding.convert_response is None else binding.convert_response(raw, Body(meta.request_body)), meta
            )
        except InvalidUpstreamResponse as error:
            if not binding.is_guessed:
                raise
            # Not counted as a failure: the server may have another route of this name, or ignore what it does not know.
            raise RouteNotServed(
                f"The engine does not serve {binding.name} as vLLM does: {error.message} "
                "If Narthex has an adapter for this engine, configure the provider with it.",
                upstream_status=200,
            ) from None

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """The response with the caller's name of the model. A route with a common shape overrides this and checks the shape.

        Raises InvalidUpstreamResponse for a response that holds no result, whatever its shape.
        """
        response = read_object_or_list(raw)
        if not response or (isinstance(response, Body) and response.keys() <= _FIELDS_BESIDE_A_RESULT):
            raise InvalidUpstreamResponse("The engine's response holds no result.")
        if isinstance(response, Body) and "model" in response:
            response["model"] = meta.model
        return self.outbound_response(response)

    def outbound_response(self, response: Body | list[Body]) -> OutboundResponse:
        """These routes generate no text, so no output tokens are counted."""
        usage = Usage(0, 0) if self.is_free_of_charge else Usage(reported_input_tokens(response), 0)
        return OutboundResponse(msgspec.json.encode(response), usage, None)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Raises InvalidUpstreamResponse: parse_request() refuses streams of routes without text, so no engine may send one."""
        raise InvalidUpstreamResponse("The engine streamed a response that was requested without a stream.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Changes nothing: the bindings write the body."""

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
