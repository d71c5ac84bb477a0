"""The ways of requests that are no chats: routes that each engine has in its own form, and operations that a host has in its own."""

import functools

from app.gateway.request_translation.dropped_fields import may_drop
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical.errors import OperationNotSupported
from providers.canonical.raw_json import Body
from providers.engine_routes.route import Route
from providers.host_operation import HostOperation


def translate_route(source: SourceRequest, route: Route, recipient: Recipient) -> TranslatedRequest:
    """The request for a route of engines. Raises OperationNotSupported and Unsupported."""
    provider, target, terms, request = recipient.provider, recipient.target, source.terms, source.request
    if target.dialect is not None:
        raise OperationNotSupported(
            f"{provider.configured_as}, which serves {request.model!r:.100}, is configured to be used in {target.dialect} only.",
            param="model",
        )
    body, drops = Body(request.body), functools.partial(may_drop, source, recipient)
    restricted = provider.restricted.drop_or_refuse(body, provider.target_name, drops)
    binding, dropped = route.translate_request(body, provider, request.model, target.model, drops)
    if target.lora is not None and not route.is_free_of_charge:
        if not binding.sends_model:
            raise provider.unsupported_error("model", f"its {binding.name} cannot use a LoRA adapter.")
        body["model"] = provider.select_lora_adapter(target.model, target.lora, body)
    if terms.team_salts is not None and provider.salted_dialects and binding.reads_salt:
        body["cache_salt"] = terms.team_salts.salt(terms.team_id, body.value("cache_salt"))
    request_id = None
    if route.generates_text and provider.request_id_field is not None:
        request_id = body[provider.request_id_field] = source.next_upstream_id()
    return TranslatedRequest(body.write(), binding, request.stream, restricted + dropped, b"", None, request_id)


def translate_host_operation(source: SourceRequest, host_operation: HostOperation, recipient: Recipient) -> TranslatedRequest:
    """The request for an operation of a host. Raises Unsupported and InvalidRequest."""
    provider, target = recipient.provider, recipient.target
    drops = functools.partial(may_drop, source, recipient)
    body, dropped = host_operation.write_request(Body(source.request.body), target.model, drops)
    provider.set_model(body, host_operation.name, target.model, False)
    url_model = target.model if provider.model_in_url else ""
    return TranslatedRequest(body.write(), host_operation, False, dropped, b"", None, None, url_model)
