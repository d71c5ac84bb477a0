"""A route beside chat that engines have in ways of their own: one common shape for callers, and engines' own for who speaks them."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from providers.adapters.provider import Provider
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, NarthexError, OperationNotSupported, RouteNotServed
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import Body, sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta, StreamEditor
from providers.dialects.openai.errors import write_error_envelope
from providers.engine_routes.read_response import read_object_or_list, reported_input_tokens
from providers.engine_routes.route_binding import RouteBinding, unsupported_without_alternative


class CommonFields(Struct):
    """What every ask of every route may say."""

    model: str
    stream: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


# How an ask is checked that is said in one of the shapes.
RequestDecoder = msgspec.json.Decoder[Any]

_common_fields_decoder = msgspec.json.Decoder(CommonFields)

# An engine that nobody has named, and that has not said yet what it is.
_ADAPTER_ALIASES: Mapping[str, str] = {"auto": "openai"}
_UNCERTAIN_ADAPTERS = ("auto", "openai")


class Route:
    """See providers.dialect.Dialect, whose methods these are; subclasses have the shapes, the ways, and edit().

    An ask is known by one field that each of its shapes has alone. `shapes`: by that field, the common one first.
    `ways`: by an engine's adapter, and by that field. `free`: nothing is charged for it.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    request_decoders: ClassVar[Mapping[str, RequestDecoder]]
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]]
    is_free_of_charge: ClassVar[bool] = False

    def parse_request(self, raw: bytes) -> InboundRequest:
        """Raises Malformed: what was wrong, where, and what was expected."""
        common, body = parse_body(raw, _common_fields_decoder)
        if common.stream:
            raise InvalidRequest("This is never streamed: leave `stream` out.", param="stream")
        discriminators = [discriminator for discriminator in self.request_decoders if body.has_value(discriminator)]
        if not discriminators:
            raise InvalidRequest(
                f"Object missing required field `{next(iter(self.request_decoders))}`.", param=next(iter(self.request_decoders))
            )
        if len(discriminators) > 1:
            raise InvalidRequest(f"Send one of `{'`, `'.join(discriminators)}`, and not more.", param=discriminators[1])
        request, _ = parse_body(raw, self.request_decoders[discriminators[0]])
        self.normalise_request(request, body)
        body.pop("stream", None)
        return InboundRequest(
            dialect=self.name,
            body=body,
            model=common.model,
            stream=False,
            wants_usage=True,
            episode_id=parse_episode_id(common.episode_id, common.episode_id_prefixed),
            tags=common.tags_prefixed or common.metadata or {},
            end_user=common.user,
            input_tokens=0 if self.is_free_of_charge else self.estimate(request),
            output_tokens=0,
            choices=1,
        )

    def normalise_request(self, request: Any, body: Body) -> None:
        """What is to be said in one way of several that mean the same."""

    def estimate(self, request: Any) -> int:
        """About how many tokens an ask has that is not free."""
        return 0

    def translate_request(
        self, body: Body, provider: Provider, requested_model: str, model: str, may_drop: Callable[[str], bool]
    ) -> tuple[RouteBinding, list[str]]:
        """Makes a caller's body an engine's; how it is asked there, and what was dropped. `asked_for`: the caller's word for `model`.

        Raises NotOffered for an engine without the route, Unsupported for what it cannot be asked.
        """
        binding = self._binding_for(body, provider, requested_model)
        # Not as the adapter would bend its chats: what is ours goes, and the way knows the rest.
        dropped = Provider.adapt_request(provider, body, self.name, may_drop).dropped
        return binding, dropped + binding.write_request(body, provider, model, may_drop)

    def _binding_for(self, body: Body, provider: Provider, requested_model: str) -> RouteBinding:
        bindings: Mapping[str, RouteBinding] = (
            {} if provider.is_openai_host else self.bindings.get(_ADAPTER_ALIASES.get(provider.name, provider.name), {})
        )
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
                provider, discriminator, f"it is asked with {' or '.join(f'`{name}`' for name in bindings)} instead."
            )
        return replace(binding, is_guessed=True) if provider.name in _UNCERTAIN_ADAPTERS else binding

    def read_engine_response(self, raw: bytes, binding: RouteBinding, meta: ResponseMeta) -> OutboundResponse:
        """What an engine answered that was asked in this way. Raises Garbled, NotServed, or the error it told."""
        if binding.is_native:
            return Route.edit_response(self, raw, meta)
        try:
            return self.edit_response(
                raw if binding.convert_response is None else binding.convert_response(raw, Body(meta.request_body)), meta
            )
        except InvalidUpstreamResponse as error:
            if not binding.is_guessed:
                raise
            # No fault of a server that has another route of this name, or passes over what it does not know.
            raise RouteNotServed(
                f"The engine does not serve {binding.name} as vLLM does: {error.message} "
                "If it is one that Narthex knows, its provider should name the adapter of that.",
                upstream_status=200,
            ) from None

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """As it came, but for the name asked for. A route with a common shape makes sure that it is one."""
        response = read_object_or_list(raw)
        if isinstance(response, Body) and "model" in response:
            response["model"] = meta.model
        return self.outbound_response(response)

    def outbound_response(self, response: Body | list[Body]) -> OutboundResponse:
        """Nothing is written on any of these routes."""
        usage = Usage(0, 0) if self.is_free_of_charge else Usage(reported_input_tokens(response), 0)
        return OutboundResponse(msgspec.json.encode(response), usage, None)

    def stream_editor(self, meta: ResponseMeta) -> StreamEditor:
        """Nobody may ask for a stream here, so none may come."""
        raise InvalidUpstreamResponse("The engine streamed an answer that was to come whole.")

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """There is nothing to choose: these are always whole."""

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))
