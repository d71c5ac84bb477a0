"""What a key looks like and what it may be restricted to, checked when it is saved."""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

from providers.engine_routes.catalogue import ROUTE_BY_PATH

# Where a key can be sent; one that may only go elsewhere could never be used, so it is refused.
ROUTES = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/*", "/v1/embeddings"),
    *("/v1/messages", "/v1/messages/count_tokens", "/inference/v1/generate", *ROUTE_BY_PATH),
    *("/v1/models", "/v1/models/*", "/v1/limits", "/v1/limits/preview", "/v1/usage", "/admin/v1/*"),
)
MAX_NAME_CHARACTERS = 200
MAX_LIST_ENTRIES = 1000

_MAX_OVERLAP_S = 10 * 366 * 86400

_KEY_PATTERN = re.compile(r"nx-([0-9a-f]{12})-[A-Za-z0-9_-]{43}")
_PREFIX_PATTERN = re.compile(r"(?:nx-)?([0-9a-f]{12})(?:-.*)?", re.DOTALL)


class InvalidKeyField(ValueError):
    """What cannot be saved of a key or a team; `field` is where, the message is a sentence."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def hash_key(key: str) -> bytes:
    """What is stored of a key. It has 256 random bits, so a fast hash without salt gives nothing away."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def key_prefix(key: str) -> str | None:
    """The public part by which a whole key is found. None: no key of ours looks like this."""
    match = _KEY_PATTERN.fullmatch(key)
    return match and match[1]


def parse_prefix(text: str) -> str | None:
    """The prefix that a person means, with or without what stands around it. None: it is none."""
    match = _PREFIX_PATTERN.fullmatch(text)
    return match and match[1]


def check_team(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField(
            "team",
            f"A team needs a name: 1 to {MAX_NAME_CHARACTERS} printable characters, with no space at its ends; {name!r:.60} is none.",
        )
    return name


def check_name(name: str) -> str:
    if not (name.isprintable() or not name) or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField("name", f"A key's name is at most {MAX_NAME_CHARACTERS} printable characters; {name!r:.60} is none.")
    return name


def check_models(models: Sequence[str] | None) -> list[str] | None:
    """Names that are not configured are good too: a key may be made before its model."""
    for model in _check_list("models", models):
        if not model or model != model.strip() or not model.isprintable() or "*" in model[:-1] or len(model) > MAX_NAME_CHARACTERS:
            raise InvalidKeyField("models", f"{model!r:.60} is no model's name; a * may stand at its end, for anything that follows.")
    return _deduplicated(models)


def check_routes(routes: Sequence[str] | None) -> list[str] | None:
    for route in _check_list("routes", routes):
        if "*" in route[:-1] or not any(_patterns_overlap(route, known) for known in ROUTES):
            raise InvalidKeyField(
                "routes", f"{route!r:.60} is no route; there are {', '.join(ROUTES)}. A * at the end stands for all that follows."
            )
    return _deduplicated(routes)


def check_networks(networks: Sequence[str] | None) -> list[str] | None:
    for network in _check_list("networks", networks):
        try:
            ip_network(network)
        except ValueError as fault:
            raise InvalidKeyField("networks", f"{network!r:.60} is no network such as 10.0.0.0/8 or 2001:db8::/32: {fault}.") from None
    return _deduplicated(networks)


def check_expiry(moment: datetime | None) -> datetime | None:
    """Without a zone: UTC."""
    if moment is None:
        return None
    try:
        aware = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InvalidKeyField(
            "expires_at", f"{moment.isoformat()} lies beyond the calendar; leave it away for a key without an end."
        ) from None
    if aware <= datetime.now(UTC):
        raise InvalidKeyField(
            "expires_at", f"{moment.isoformat()} is in the past: a key's end must lie ahead. To end a key now, revoke it."
        )
    return aware


def check_overlap(overlap_s: float) -> timedelta:
    if 0 <= overlap_s <= _MAX_OVERLAP_S:
        return timedelta(seconds=overlap_s)
    raise InvalidKeyField("overlap_s", f"An overlap of {overlap_s} seconds cannot be: from 0 to {_MAX_OVERLAP_S} (ten years) it may be.")


def _check_list(field: str, values: Sequence[str] | None) -> Sequence[str]:
    if values is None:
        return ()
    if not values or isinstance(values, str):
        raise InvalidKeyField(
            field, f"`{field}` is empty, so the key would be good for nothing; leave it away for a key without that restriction."
        )
    if len(values) > MAX_LIST_ENTRIES:
        raise InvalidKeyField(
            field, f"`{field}` has {len(values)} entries; at most {MAX_LIST_ENTRIES} can be looked through at each request."
        )
    return values


def _deduplicated(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(dict.fromkeys(values))


def _patterns_overlap(pattern: str, known: str) -> bool:
    """Whether some path is meant by both."""
    one, other = pattern.removesuffix("*"), known.removesuffix("*")
    if pattern.endswith("*") and known.endswith("*"):
        return one.startswith(other) or other.startswith(one)
    if pattern.endswith("*"):
        return other.startswith(one)
    return one.startswith(other) and len(one) > len(other) if known.endswith("*") else one == other
