"""The key in the address, as Google's API takes it: `?key=`."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from app.domain.model_address import GOOGLE_PATHS
from providers.canonical.errors import InvalidRequest

# Where a parameter `key` is the caller's own key.
KEY_PARAMETER_PATHS = (*GOOGLE_PATHS, "/v1/models")
_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key")


def take_key(query: bytes, headers: dict[bytes, bytes]) -> bytes | None:
    """The key of the query, which is put into the headers too; None: there is none.

    Raises InvalidRequest for a second credential: a proxy in front of the gateway may have checked the other one.
    """
    key = read_key_parameter(query)
    if key is None:
        return None
    check_only_credential(key, headers)
    headers.setdefault(b"x-goog-api-key", key)
    return key


def read_key_parameter(query: bytes) -> bytes | None:
    """Raises InvalidRequest for a key that is sent twice."""
    if b"key=" not in query:
        return None
    keys = [value for name, value in parse_qsl(query.decode("latin-1")) if name == "key"]
    if len(keys) > 1:
        raise InvalidRequest("`key` appears several times; give it once.", param="key")
    return keys[0].encode("latin-1", "replace") if keys else None


def check_only_credential(key: bytes, headers: Mapping[bytes, bytes]) -> None:
    """Raises InvalidRequest if a header holds another key."""
    for name in _HEADERS:
        if name in headers and headers[name].removeprefix(b"Bearer ") != key:
            raise InvalidRequest(f"`key` and the header {name.decode()} hold different keys: send one of them.", param="key")
