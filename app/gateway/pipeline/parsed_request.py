"""The parsed request of a caller, which the stages after parse() need beside their own state."""

from collections.abc import Mapping

from msgspec import Raw, Struct

from app.gateway.large_body.request_body import RequestBody
from app.gateway.request.caller_options import CallerOptions
from app.gateway.state.stages import Admitted
from providers.canonical.raw_json import Body
from providers.dialect import CallerDialect


class ParsedRequest(Struct):
    """A request whose body, headers and options have been read."""

    admitted: Admitted
    dialect: CallerDialect
    headers: Mapping[bytes, bytes]  # with the credentials that came in the body
    body: RequestBody
    options: CallerOptions
    variant: str | None  # the one that the caller demands; None: the choice is ours
    function_input: Raw | None  # see FunctionFields
    sent_body: Body  # what responses repeat of the request
    cost_fields: tuple[str, ...]  # names under which the usage is to have the cost of the request; empty: it is not to have it
