"""Headers that no override may send: they may carry an identity, choose where a request goes, or belong to the connection."""

import re

HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,100}")
HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_REFUSED_HEADERS = frozenset(
    {
        *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "via", "forwarded", "range"),
        *("accept", "accept-encoding", "content-length", "content-type", "content-encoding", "date", "user-agent", "from", "referer"),
        *("traceparent", "tracestate", "baggage", "b3", "request-id", "x-request-id", "anthropic-version", "x-stainless-retry-count"),
    }
)
_REFUSED_PREFIXES = (
    *("x-narthex-", "tensorzero-", "proxy-", "sec-", "x-forwarded", "x-real-", "x-original", "x-envoy-", "x-amz", "x-goog-"),
    *("x-vertex-", "x-ms-", "x-http-method", "x-gateway", "x-b3-", "cf-", "access-control-", "if-"),
)
# Anywhere in a name: what carries an identity, and what chooses a place, a model or an adapter in routers of engines.
_REFUSED_WORDS = (
    *("auth", "token", "key", "secret", "credential", "cookie", "signature", "session", "password", "passwd", "jwt", "bearer", "user"),
    *("tenant", "account", "organization", "organisation", "project", "workspace", "subscription", "team", "impersonate", "identity"),
    *("url", "uri", "host", "addr", "endpoint", "rout", "target", "destination", "upstream", "backend", "prefill", "decode", "forward"),
    *("lora", "adapter", "model", "deployment", "rank", "slot", "priority", "objective", "salt", "server", "origin", "client", "peer"),
)


def is_refused_header(name: str) -> bool:
    name = name.replace("_", "-")  # for some servers the two are one
    return name in _REFUSED_HEADERS or name.startswith(_REFUSED_PREFIXES) or any(word in name for word in _REFUSED_WORDS)
