"""HostOperation: embeddings or a token count, for a host that has a request and a response format of its own."""

from collections.abc import Callable

import httpx2
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta


class HostOperation(Struct, frozen=True):
    """Converts a caller's embeddings or count-tokens request for one host, and the host's response back."""

    name: str  # the host's format, by which Provider.url() finds the address
    # (the caller's body, the host's model, which of the caller's fields may be dropped) -> (the host's body, the dropped fields). Raises
    # Unsupported and InvalidRequest.
    write_request: Callable[[Body, str, Callable[[str], bool]], tuple[Body, list[str]]]
    # (the host's body, its headers, the meta with the caller's body) -> a response in the caller's dialect, which that dialect then edits.
    # Raises the error that the host sent with status 200, or InvalidUpstreamResponse.
    read_response: Callable[[bytes, httpx2.Headers, ResponseMeta], bytes]
    # The host's body -> the input tokens that it bills, if it reports others as processed; None: it does not.
    read_billed_input: Callable[[bytes], int | None] | None = None
