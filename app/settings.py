"""Every setting: its environment name, unit, default and meaning. Read once at the start, then handed down."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from providers.transport.proxy import Proxy


class BadSetting(ValueError):
    """An environment variable that cannot be what it is for; the message names it, what it says and what it may say."""


def setting(default: object, description: str, name: str | None = None, *, shown: bool = True) -> Any:
    """A field of Settings; `name` is its environment variable where that is not NARTHEX_ and the field's name.

    `shown` False: it may hold a password, so it is in no repr.
    """
    return field(default=default, repr=shown, metadata={"meaning": description, "name": name})  # type: ignore[call-overload]


class Networks(str):
    """Networks in CIDR notation, separated by commas. Raises ValueError with what is none."""

    parsed: tuple[IPv4Network | IPv6Network, ...]

    def __new__(cls, text: str = "") -> "Networks":
        networks = super().__new__(cls, text)
        networks.parsed = tuple(ip_network(each.strip()) for each in text.split(",") if each.strip())
        return networks


class Secrets:
    """Secrets, separated by commas or lines; never shown."""

    def __init__(self, text: str = "") -> None:
        self.parsed = tuple(text.replace(",", " ").split())

    def __repr__(self) -> str:
        return f"<{len(self.parsed)} secrets>" if self.parsed else ""


class ProxyUrl(str):
    """Where a proxy is, and maybe as whom it is asked, which is never shown. Raises ValueError for what is none."""

    def __new__(cls, text: str = "") -> "ProxyUrl":
        if text:
            Proxy(text)
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return repr(Proxy(self)) if self else "''"


class CaBundle(str):
    """A PEM file of certificates. Raises ValueError where none can be read from it."""

    def __new__(cls, text: str = "") -> "CaBundle":
        if text:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=text)
            except OSError as fault:  # an SSLError is one
                raise ValueError(f"no certificates can be read from {text!r}: {fault.strerror or fault}") from None
        return super().__new__(cls, text)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may set. `Settings.read(os.environ)` gives the one in force."""

    home: Path = setting(Path(".narthex"), "Folder for data, keys and the pid files of this machine's processes.")
    host: str = setting("127.0.0.1", "Address on which the gateway listens.")
    port: int = setting(8787, "Port on which the gateway listens.")
    workers: int = setting(1, "Gateway processes on this machine; one a core is the most that helps.")
    database_url: str = setting(
        "", "PostgreSQL server (postgresql://...). Empty: `narthex up` starts its own.", "DATABASE_URL", shown=False
    )
    redis_url: str = setting("", "Redis or Valkey server (redis://...). Empty: `narthex up` starts its own.", "REDIS_URL", shown=False)

    secret_key: Secrets = setting(
        Secrets(),
        "Random texts (openssl rand -base64 32), separated by commas: the first encrypts stored credentials, all decrypt them."
        " Empty: those in HOME/secret-key, which `narthex up` makes.",
    )

    max_body_bytes: int = setting(32 * 1024 * 1024, "Largest request body; a larger one is answered 413.")
    connect_timeout_s: float = setting(5.0, "Longest wait for a connection to an engine.")
    first_token_timeout_s: float = setting(300.0, "Longest wait for the first byte of a streamed answer.")
    silence_timeout_s: float = setting(120.0, "Longest silence inside a streamed answer.")
    total_timeout_s: float = setting(900.0, "Longest time one attempt may take, streamed or whole.")
    max_reply_bytes: int = setting(256 * 1024 * 1024, "Largest whole answer read from an engine; a larger one is answered 502.")
    drain_timeout_s: float = setting(30.0, "After SIGTERM: how long running answers may take to finish.")
    keep_alive_s: float = setting(75.0, "How long an idle caller's connection is kept.")

    media_fetch: Literal["on", "off"] = setting(
        "on", "Whether media that callers name by URL is fetched for targets that need its bytes; off: refused with 422."
    )
    media_max_bytes: int = setting(
        20 * 1024 * 1024, "Largest image, document or audio that is fetched; those of one request together may have twice as much."
    )
    media_timeout_s: float = setting(10.0, "Longest time in which all media of one request must have been fetched.")
    media_redirects: int = setting(3, "Most redirects that are followed to one of them.")
    media_networks: Networks = setting(
        Networks(), "Networks (10.1.0.0/16, ...) from which media may be fetched although they are private; all others must be public."
    )

    https_proxy: ProxyUrl = setting(
        ProxyUrl(), "Proxy (http://user:password@host:port) by which hosts are reached that are spoken to by https.", "HTTPS_PROXY"
    )
    no_proxy: str = setting("", "Names, addresses and networks that are reached without that proxy, separated by commas.", "NO_PROXY")
    ca_bundle: CaBundle = setting(
        CaBundle(), "PEM file of authorities whose certificates are trusted beside the public ones, as a company has its own."
    )

    probe_interval_s: float = setting(10.0, "How often each self-hosted endpoint is asked what it is and whether it lives.")
    breaker_failures: int = setting(5, "Faults in a row of an endpoint after which it is left alone for a while.")
    breaker_open_s: float = setting(10.0, "How long an endpoint with an open breaker is left alone.")

    spool_fsync: Literal["never", "group", "always"] = setting(
        "never", "When a record is forced to disk: never survives kill -9 of any process; group and always survive a loss of power."
    )
    spool_group_ms: float = setting(5.0, "With spool_fsync=group: records of this many milliseconds share one fsync.")
    spool_segment_bytes: int = setting(64 * 1024 * 1024, "Size at which a spool segment is finished and a new one begun.")
    spool_max_bytes: int = setting(8 * 1024 * 1024 * 1024, "Bound of this machine's spool, all segments together.")
    spool_when_full: Literal["refuse", "metadata"] = setting(
        "refuse", "Disk full or over the bound: refuse new requests (503), or keep metadata and count the content lost."
    )
    spool_reserve_bytes: int = setting(16 * 1024 * 1024, "With spool_when_full=metadata: space allocated ahead by each worker.")
    spool_part_bytes: int = setting(64 * 1024, "Asks and replies are spilled to the spool in parts of about this size.")

    writer_batch_rows: int = setting(2000, "Most inferences in one transaction of the writer.")
    writer_batch_ms: float = setting(100.0, "Longest time a record waits for others before it is written.")
    keep_inferences_days: int = setting(400, "Age at which partitions of inferences are dropped; 0 = never.")
    keep_content_days: int = setting(30, "Age at which partitions of asks and replies are dropped; 0 = never.")

    idempotency_keep_s: float = setting(
        86400.0, "How long an answer is kept for retries with its Idempotency-Key; 0 = the header is refused."
    )
    idempotency_max_bytes: int = setting(4 * 1024 * 1024, "Largest answer kept for retries; the retry of a larger one is answered 409.")
    idempotency_lease_s: float = setting(10.0, "How long a worker that says nothing still holds its claim to an Idempotency-Key.")

    responses_keep_s: float = setting(
        3600.0, "How long an answer of /v1/responses lies in Redis, beside its record in Postgres, to be gone on from; 0 = not at all."
    )
    responses_max_bytes: int = setting(
        4 * 1024 * 1024, "Largest answer of /v1/responses, with its ask, that lies in Redis; a larger one is found once it is in Postgres."
    )

    redis_timeout_s: float = setting(
        0.25, "How long Redis may be silent before it counts as away: what rules then do is their `on_outage`."
    )
    limits_lease_s: float = setting(10.0, "How long after a crash a place of a concurrency rule is taken; running requests renew theirs.")

    limits_output_tokens: int = setting(
        1024, "What limits reserve for an answer whose length neither the caller nor its model's `output_tokens` bounds."
    )

    directory_poll_s: float = setting(15.0, "How often the directory is looked at in case a notification was missed.")
    keys_remembered: int = setting(50_000, "Most keys that each worker remembers (about 1 kB each); least recently used go first.")
    trusted_proxies: Networks = setting(
        Networks(), "Networks of the proxies before the gateway (10.0.0.0/8, ...), whose X-Forwarded-For says where a caller is."
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "Least severe message that is logged.")

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Settings from environment variables. Raises BadSetting; an empty variable counts as not set."""
        hints = get_type_hints(cls)
        values = {
            each.name: _parse(name, value, hints[each.name])
            for each in fields(cls)
            # The names that are not ours are written small by some programs (https_proxy).
            if (value := environ.get(name := environment_name(each)) or environ.get(name.lower() if each.metadata["name"] else "", ""))
        }
        return cls(**values)

    @property
    def proxy(self) -> Proxy | None:
        return Proxy(self.https_proxy, self.no_proxy) if self.https_proxy else None


def environment_name(each: Any) -> str:
    """The environment variable of a field of Settings."""
    return each.metadata["name"] or f"NARTHEX_{each.name.upper()}"


def _parse(name: str, text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        allowed = get_args(kind)
        if text not in allowed:
            raise BadSetting(f"{name}={text!r}: it may be one of {', '.join(allowed)}.")
        return text
    if kind is Networks:
        try:
            return Networks(text)
        except ValueError as fault:
            raise BadSetting(f"{name}={text!r}: networks such as 10.0.0.0/8, separated by commas, are needed ({fault}).") from None
    if kind is ProxyUrl or kind is CaBundle:
        try:
            return kind(text)
        except ValueError as fault:
            raise BadSetting(f"{name}: {fault}.") from None  # not repeated: it may hold a password
    try:
        value = kind(text)
    except ValueError:
        raise BadSetting(f"{name}={text!r}: a {'whole number' if kind is int else 'number'} is needed.") from None
    if kind in (int, float) and not 0 <= value < float("inf"):
        raise BadSetting(f"{name}={text!r}: a number of 0 or more is needed.")
    return value
