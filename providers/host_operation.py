"""Foreign: how a host is asked, in a shape of its own, what callers ask in a dialect that has words and no meaning here."""

from collections.abc import Callable

import httpx
from msgspec import Struct

from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta


class HostOperation(Struct, frozen=True):
    """Embeddings, or a count of tokens. `name`: of the host's dialect for it, by which Provider.url knows where it is spoken.

    `write`: the host's body for a caller's, and which of the caller's fields do not go, by the host's model and what may be dropped.
    Raises Unsupported and Malformed.
    `read`: the host's answer, with its headers, as one of the caller's dialect, which edits it then; Stamp.asked is the caller's body.
    Raises Garbled.
    """

    name: str
    write_request: Callable[[Body, str, Callable[[str], bool]], tuple[Body, list[str]]]
    read_response: Callable[[bytes, httpx.Headers, ResponseMeta], bytes]
