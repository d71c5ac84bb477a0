"""Every setting: its environment variable, default and meaning. Read once at the start, then passed down."""

import os
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import unquote, urlsplit

import msgspec

from app.domain.callers import Role
from providers.transport.address_guard import AddressGuard, AllowedAddresses, HostAndPort
from providers.transport.proxy import Proxy


class BadSetting(ValueError):
    """An environment variable with an invalid value; the message names it, its value and what it may be."""


def setting(default: object, description: str, name: str | None = None, *, shown: bool = True, standard_name: str | None = None) -> Any:
    """A field of Settings; `name` is its environment variable where that is not NARTHEX_ and the field's name.

    Where `shown` is False, it is left out of repr, as it may hold a password. `standard_name` is the variable that other programs read for
    the same, which counts where ours is not set.
    """
    metadata = {"meaning": description, "name": name, "standard_name": standard_name}
    return field(default=default, repr=shown, metadata=metadata)  # type: ignore[call-overload]


class Networks(str):
    """Networks in CIDR notation, separated by commas. Raises ValueError for one that is invalid."""

    parsed: tuple[IPv4Network | IPv6Network, ...]

    def __new__(cls, text: str = "") -> "Networks":
        networks = super().__new__(cls, text)
        networks.parsed = tuple(ip_network(each.strip()) for each in text.split(",") if each.strip())
        return networks


class Folders(str):
    """Absolute paths, separated by commas. Raises ValueError for one that is not."""

    parsed: tuple[Path, ...]

    def __new__(cls, text: str = "") -> "Folders":
        folders = super().__new__(cls, text)
        folders.parsed = tuple(Path(each.strip()) for each in text.split(",") if each.strip())
        if relative := [each for each in folders.parsed if not each.is_absolute()]:
            raise ValueError(f"{relative[0]} is not an absolute path")
        return folders


# As browsers write it: in lower case, and without a port that is the scheme's own (RFC 6454, section 6).
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?P<port>:[1-9][0-9]{0,4})?")


class Origins(str):
    """Origins of web pages (https://app.example.com), separated by commas, or * for any. Raises ValueError for one that is invalid."""

    parsed: frozenset[str]

    def __new__(cls, text: str = "") -> "Origins":
        origins = super().__new__(cls, text)
        origins.parsed = frozenset(each.strip() for each in text.split(",") if each.strip())
        if "*" in origins.parsed and len(origins.parsed) > 1:
            raise ValueError("* stands for any origin, so it stands alone")
        for each in origins.parsed - {"*"}:
            if not (match := _ORIGIN.fullmatch(each)):
                raise ValueError(f"{each!r:.200} is not an origin: scheme, host and port only, in lower case, without a slash at the end")
            if each.partition(":")[0] + (match["port"] or "") in ("http:80", "https:443"):
                raise ValueError(f"browsers write {each!r} without the port")
        return origins


class Secrets:
    """Secrets, separated by commas or lines; never shown."""

    def __init__(self, text: str = "") -> None:
        self.parsed = tuple(text.replace(",", " ").split())

    def __repr__(self) -> str:
        return f"<{len(self.parsed)} secrets>" if self.parsed else ""


class ProxyUrl(str):
    """The URL of a proxy. A user and password in it are never shown. Raises ValueError if it is invalid."""

    def __new__(cls, text: str = "") -> "ProxyUrl":
        if text:
            Proxy(text)
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return repr(Proxy(self)) if self else "''"


class PostgresUrl(str):
    """The address of a PostgreSQL server, whose password is never shown. Raises ValueError if it is of something else."""

    def __new__(cls, text: str = "") -> "PostgresUrl":
        if text and not re.match(r"postgres(ql)?(\+\w+)?://", text):
            raise ValueError("it must be the address of a PostgreSQL server: postgresql://user:password@host:port/name")
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return "'...'" if self else "''"


class CaBundle(str):
    """The path of a PEM file of certificates. Raises ValueError if none can be read from it."""

    def __new__(cls, text: str = "") -> "CaBundle":
        if text:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=text)
            except OSError as fault:  # an SSLError is one
                raise ValueError(f"no certificates can be read from {text!r}: {fault.strerror or fault}") from None
        return super().__new__(cls, text)


class PublicUrl(str):
    """The address of the gateway as its users see it. Raises ValueError unless it is a scheme, a host and perhaps a port."""

    def __new__(cls, text: str = "") -> "PublicUrl":
        text = text.rstrip("/")
        if text and not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-fA-F:]+\](:[0-9]{1,5})?", text):
            raise ValueError("it must be such as https://narthex.example.com, without a path")
        return super().__new__(cls, text)

    @property
    def origin(self) -> str:
        """The origin as browsers write it: in lower case, and without the usual port."""
        scheme, _, host = self.lower().partition("://")
        return f"{scheme}://{host.removesuffix(':443' if scheme == 'https' else ':80')}"


class IssuerUrl(str):
    """The address of an OpenID Connect issuer, exactly as it names itself. Raises ValueError if it is invalid."""

    def __new__(cls, text: str = "") -> "IssuerUrl":
        match = re.fullmatch(r"(https?)://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[!-~]*)?", text)
        if text and (match is None or "?" in text or "#" in text):
            raise ValueError("it must be such as https://login.example.com/realms/main, as the issuer names itself")
        if match is not None and match[1] == "http" and match[2] not in ("localhost", "127.0.0.1", "[::1]"):
            raise ValueError("it must be https, as whoever can read or change what it sends becomes anybody; http is for this machine only")
        return super().__new__(cls, text)


class OtlpUrl(str):
    """The address of a collector of OpenTelemetry, to which /v1/traces and /v1/metrics are added. Raises ValueError if it is invalid."""

    def __new__(cls, text: str = "") -> "OtlpUrl":
        text = text.rstrip("/")
        if text and not re.fullmatch(r"https?://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", text):
            raise ValueError("it must be such as http://collector:4318; a user and password belong into NARTHEX_OTLP_HEADERS")
        return super().__new__(cls, text)


class OtlpHeaders:
    """Headers for a collector: NAME=VALUE, separated by commas, with values encoded as in a URL. Never shown. Raises ValueError."""

    def __init__(self, text: str = "") -> None:
        parsed: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = each.partition("=")
            name, value = name.strip().lower(), unquote(value.strip())
            if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name) or not value.isascii() or not value.isprintable():
                raise ValueError("it must be NAME=VALUE, separated by commas, with values encoded as in a URL")
            parsed[name] = value
        self.parsed: Mapping[str, str] = parsed

    def __repr__(self) -> str:
        return f"<{len(self.parsed)} headers>" if self.parsed else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OtlpHeaders) and self.parsed == other.parsed

    def __hash__(self) -> int:
        return hash(tuple(self.parsed.items()))


class Share(float):
    """A share of all, from 0 to 1. Raises ValueError."""

    def __new__(cls, text: str | float = 0.0) -> "Share":
        share = super().__new__(cls, text)
        if not 0 <= share <= 1:
            raise ValueError("it must be a number from 0 to 1")
        return share


class GroupRoles(str):
    """Roles of an issuer's groups, as JSON. Raises ValueError for what is not."""

    parsed: Mapping[str, tuple[tuple[Role, str | None], ...]]  # group -> roles, each with its team, or None for the whole company

    def __new__(cls, text: str = "") -> "GroupRoles":
        roles = super().__new__(cls, text)
        try:
            found = msgspec.json.decode(text or "{}", type=dict[str, str | list[str]])
        except msgspec.DecodeError:
            raise ValueError('it must be JSON such as {"platform": "owner", "search-leads": ["admin:search", "viewer"]}') from None
        roles.parsed = {
            group: tuple(_parse_group_role(each) for each in ([given] if isinstance(given, str) else given))
            for group, given in found.items()
        }
        return roles


def _parse_group_role(text: str) -> tuple[Role, str | None]:
    role, _, team = text.partition(":")
    for known in get_args(Role):
        if role == known and text != f"{role}:":
            return known, team or None
    raise ValueError(f"{text!r:.60} is no role: it must be one of {', '.join(get_args(Role))}, or one of them with a team, as admin:search")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that an operator may change. `Settings.read()` returns the settings in force."""

    home: Path = setting(Path(".narthex"), "Folder for data, keys and the pid files of this machine's processes.")
    host: str = setting("127.0.0.1", "Address on which the gateway listens.")
    port: int = setting(8787, "Port on which the gateway listens.")
    admin_port: int = setting(
        0,
        "Port on which the admin API, its documentation and /health are served, and only there; /metrics, too. 0: on the port above, with"
        " everything else.",
    )
    admin_host: str = setting("", "Address on which that port listens. Empty: that of NARTHEX_HOST.")
    tls_cert: str = setting(
        "",
        "File of the listeners' certificate and those that lead to its issuer, in PEM form: both addresses speak HTTPS then. It is read"
        " again when it changes. Empty: they speak plain HTTP.",
    )
    tls_key: str = setting("", "File of its private key, in PEM form, without a passphrase.")
    workers: int = setting(1, "Gateway processes on this machine; more than one for each core does not help.")
    database_url: str = setting(
        "", "PostgreSQL server (postgresql://...). Empty: `narthex up` starts its own.", "DATABASE_URL", shown=False
    )
    database_direct_url: PostgresUrl = setting(
        PostgresUrl(),
        "The same PostgreSQL server past a pooler (PgBouncer) to which DATABASE_URL leads, for `LISTEN` and migrations: changes of keys"
        " and configuration are noticed at once. Empty: within a second.",
        "DATABASE_DIRECT_URL",
        shown=False,
    )
    migrate_wait_s: float = setting(
        300.0, "Longest time that `narthex migrate` (and `up`) waits for those who hold a table that it changes, in seconds."
    )
    redis_url: str = setting(
        "",
        "Redis or Valkey (redis://..., redis+sentinel://..., redis+cluster://...: docs/scaling.md). Empty: `narthex up` starts its own.",
        "REDIS_URL",
        shown=False,
    )

    secret_key: Secrets = setting(
        Secrets(),
        "Random keys (openssl rand -base64 32), separated by commas: the first encrypts stored credentials, all decrypt them."
        " Empty: the keys in HOME/secret-key, which `narthex up` creates.",
    )

    credential_folders: Folders = setting(
        Folders("/run/secrets/narthex,/etc/narthex/credentials"),
        "Folders, separated by commas, below which `file:` credentials of providers may lie, with links followed; HOME/credentials is"
        " always one of them.",
    )

    max_body_bytes: int = setting(32 * 1024 * 1024, "Largest request body; a larger one is refused with 413.")
    bodies_max_bytes_key: int = setting(
        256 * 1024 * 1024,
        "Most bytes of bodies that the requests in progress of one key may hold in each gateway process, uploads counting with their"
        " declared size from the head on; more is a 429. A single body always fits, and those of up to 64 KiB are not counted.",
    )
    bodies_max_bytes_team: int = setting(512 * 1024 * 1024, "The same for all keys of a team together.")
    bodies_max_bytes_worker: int = setting(
        2 * 1024 * 1024 * 1024,
        "Most bytes that have come of all bodies of a gateway process; more is a 503. A team may hold twice of it what is left.",
    )
    large_work_processes: int = setting(
        1,
        "Processes beside each gateway process that mask large bodies, and render templates that may take long, at the same time. Teams"
        " share them by the time that they compute.",
    )
    large_work_memory_bytes: int = setting(512 * 1024 * 1024, "Most memory that one such task may take; more is a 422.")
    large_work_processor_s: float = setting(10.0, "Most processor time that one such task may take, in seconds; more is a 422.")
    max_messages: int = setting(
        10_000, "Most messages (items of `input`) in one request; more are refused with 400. Bodies below 64 KiB are not counted."
    )
    max_content_parts: int = setting(20_000, "Most content parts of all messages of one request, counted as `max_messages` are.")
    max_tools: int = setting(2_000, "Most tools in one request, counted as `max_messages` are.")
    max_fields: int = setting(2_000, "Most fields (keys at the top) of one request, counted as `max_messages` are.")
    max_keys: int = setting(200_000, "Most keys of all objects of one request together, counted as `max_messages` are.")
    max_values: int = setting(
        1_000_000, "Most values (members of objects and items of lists) of one request together, counted as `max_messages` are."
    )
    max_depth: int = setting(
        500, "Most levels of objects and lists within each other in one request, counted as `max_messages` are; about 1,000 can be read."
    )
    requests_max: int = setting(
        10_000,
        "Most requests in progress in each gateway process; more get a 503, those of low priority and of the busiest teams first.",
    )
    shed_lag_s: float = setting(
        0.5, "When the event loop of a process is late by so much for a whole second, it admits fewer requests until it is not."
    )
    endpoint_connections: int = setting(
        1_000,
        "Most connections of one gateway process to one address of an engine or host (0 counts as 1); further requests wait for one.",
    )
    connect_timeout_s: float = setting(5.0, "Longest wait for a connection to an engine.")
    first_token_timeout_s: float = setting(300.0, "Longest wait for the first byte of a streamed response.")
    silence_timeout_s: float = setting(120.0, "Longest pause within a streamed response.")
    total_timeout_s: float = setting(900.0, "Longest time one attempt may take, streaming or not.")
    max_reply_bytes: int = setting(256 * 1024 * 1024, "Largest non-streaming response read from an engine; a larger one is a 502.")
    retries: int = setting(
        2, "How often a target whose endpoints have all failed is tried again while nothing was sent to the caller; models may differ."
    )
    retry_max_wait_s: float = setting(2.0, "Longest wait before such a retry; a host that wants a longer one (Retry-After) is not retried.")
    queue_max_waiting: int = setting(
        1_000, "Most requests of each gateway process that wait for a place at a target with `max_concurrency`; more get a 503."
    )
    queue_wait_s: float = setting(30.0, "Longest wait for such a place; models may differ.")
    stream_keep_alive_s: float = setting(
        10.0,
        "After so long a silence, and again after each further one, the caller of a stream is sent a keep-alive. Before an engine's first"
        " byte that begins the response with a 200 (docs/dialects.md#keep-alives). 0: none is sent.",
    )
    drain_timeout_s: float = setting(30.0, "After SIGTERM: how long requests in progress may take to finish.")
    head_timeout_s: float = setting(30.0, "Longest time for the head of a request, from its first byte; a slower one is a 408.")
    body_min_bytes_s: float = setting(
        2048.0,
        "Slowest pace of a body, in bytes a second: it may take as long as a head, and a second more for each so many bytes that have come;"
        " a slower one is a 408.",
    )
    body_timeout_s: float = setting(900.0, "Longest time for a body, at any pace.")
    keep_alive_s: float = setting(75.0, "How long the connection of a caller is kept open between requests.")

    media_fetch: Literal["on", "off"] = setting(
        "on", "Whether media that callers name by URL is fetched for targets that need its bytes; off: refused with 422."
    )
    media_max_bytes: int = setting(
        20 * 1024 * 1024, "Largest image, document or audio that is fetched; those of one request together may have twice as much."
    )
    media_timeout_s: float = setting(10.0, "Longest time for fetching all media of one request.")
    media_redirects: int = setting(3, "Most redirects that are followed for one of them.")
    media_networks: Networks = setting(
        Networks(), "Private networks (10.1.0.0/16, ...) from which media may be fetched; all other addresses must be public."
    )

    https_proxy: ProxyUrl = setting(
        ProxyUrl(), "Proxy (http://user:password@host:port) through which https hosts are reached.", "HTTPS_PROXY"
    )
    no_proxy: str = setting("", "Names, addresses and networks that are reached without the proxy, separated by commas.", "NO_PROXY")
    allowed_addresses: AllowedAddresses = setting(
        AllowedAddresses(),
        "Names, addresses and networks, with a port (engines.local:8000) or without, separated by commas, that are called although they"
        " are link-local, a cloud's metadata service or this gateway itself; providers, webhooks and the issuer may have no such others.",
    )
    ca_bundle: CaBundle = setting(
        CaBundle(), "PEM file of certificate authorities that are trusted beside the public ones, such as a company's own."
    )

    probe_interval_s: float = setting(10.0, "How often each self-hosted endpoint is probed for what it is and for its health.")
    node_secret: Secrets = setting(
        Secrets(),
        "Secrets, separated by commas, with which engines may register themselves as endpoints (http://node:SECRET@gateway as LMDeploy's"
        " --proxy-url). Empty: none may.",
    )
    node_networks: Networks = setting(
        Networks(), "Private networks (10.1.0.0/16, ...) in which nodes may register; all other addresses must be public."
    )
    node_expiry_s: float = setting(300.0, "A registered node that no gateway process has found ready for so long is removed.")
    discovery_interval_s: float = setting(5.0, "How often the names of `dns+http://` endpoints are resolved.")
    load_interval_s: float = setting(
        2.0,
        "How often an engine's /metrics are read where its target has several endpoints; 0 = never: only this process's requests count.",
    )
    model_list_interval_s: float = setting(
        3600.0,
        "How often each worker asks Anthropic, where it is configured with a credential of its own, which thinking and efforts its models"
        " take; 0: never.",
    )
    learned_rules_keep_s: float = setting(
        3600.0,
        "How long what a host refused for one of its models is left out of other requests to it, within the drop policy of each, before"
        " the host is asked again; 0: a refusal is never adapted to.",
    )
    breaker_failures: int = setting(5, "Consecutive failures of an endpoint after which its breaker opens.")
    breaker_open_s: float = setting(10.0, "How long a breaker stays open; meanwhile its endpoint is tried last.")
    endpoint_cooldown_max_s: float = setting(
        30.0,
        "Longest time for which an endpoint that answers 503 with Retry-After gets no request for that model of that team, and of no team"
        " once it answers a second one so. 0: it gets them all.",
    )

    spool_fsync: Literal["never", "group", "always"] = setting(
        "never", "When records are synced to disk: `never` survives kill -9 of any process; `group` and `always` survive a loss of power."
    )
    spool_group_ms: float = setting(5.0, "With spool_fsync=group: records that end within this many milliseconds share one fsync.")
    spool_segment_bytes: int = setting(64 * 1024 * 1024, "Size at which a spool segment is closed and a new one begun.")
    spool_max_bytes: int = setting(8 * 1024 * 1024 * 1024, "Largest size of this machine's spool, all segments together.")
    spool_when_full: Literal["refuse", "metadata"] = setting(
        "refuse", "With a full disk or spool: refuse new requests (503), or keep metadata only and count the lost content."
    )
    spool_reserve_bytes: int = setting(16 * 1024 * 1024, "With spool_when_full=metadata: space allocated ahead by each worker.")
    spool_part_bytes: int = setting(64 * 1024, "Requests and responses are written to the spool in parts of about this size.")

    writer_batch_rows: int = setting(2000, "Most inferences in one transaction of the writer.")
    writer_batch_ms: float = setting(100.0, "Longest time a record waits for others before the writer stores it.")
    keep_inferences_days: int = setting(400, "Age at which partitions of inferences are dropped; 0 = never.")
    keep_content_days: int = setting(30, "Age at which partitions of requests and responses are dropped; 0 = never.")
    keep_refusals_days: int = setting(30, "Age at which partitions of sampled refusals are dropped; 0 = never. Their sums stay.")
    feedback_per_second: int = setting(
        200, "Feedback that a team may send to each gateway process in a second, on average; 0 = any number."
    )
    feedback_waiting_per_team: int = setting(
        100_000,
        "Feedback of a team that may wait for its inference or episode, the newest; of all teams ten times as much. 0 = any number.",
    )
    keep_feedback_days: int = setting(400, "Age at which partitions of feedback, one a month, are dropped; 0 = never.")
    keep_usage_days: int = setting(
        0,
        "Age at which sums of usage and costs are deleted; 0 = never. Less than 62 counts as 62: budgets of a month are rebuilt from them.",
    )
    keep_minutes_days: int = setting(7, "Age at which sums of inferences by minute are dropped; 0 = never.")
    keep_hours_days: int = setting(400, "Age at which sums of inferences by hour are dropped; 0 = never. Those by day stay.")

    keep_configuration_days: int = setting(
        400,
        "How long a version of the configuration stays in the history after another took its place; 0 = for ever. The newest 100 stay.",
    )
    keep_webhook_events_days: int = setting(
        100, "Age at which events of webhooks and their deliveries are deleted; 0 = never. Less than 62 counts as 62."
    )

    budget_check_s: float = setting(
        30.0, "How often the writers look for budgets that have reached a threshold of a webhook; 0 = never, and none is sent."
    )
    experiment_check_s: float = setting(
        60.0,
        "How often the writers look at running experiments, for arms to stop and weights to adapt; 0 = never. Less than 1 counts as 1.",
    )
    webhook_timeout_s: float = setting(10.0, "Longest time of one delivery to a webhook.")
    webhook_networks: Networks = setting(
        Networks(),
        "Private networks (10.1.0.0/16, ...) in which webhooks may be, also with http; all others must be https with a public address.",
    )

    idempotency_keep_s: float = setting(
        86400.0, "How long a response is kept for retries with its Idempotency-Key; 0 = the header is refused."
    )
    idempotency_max_bytes: int = setting(4 * 1024 * 1024, "Largest response kept for retries; a retry of a larger one gets 409.")
    idempotency_lease_s: float = setting(10.0, "How long a worker that does not renew its claim to an Idempotency-Key keeps it.")

    responses_keep_s: float = setting(
        3600.0,
        "How long a response of /v1/responses is kept in Redis, for requests that continue it; 0 = it is not.",
    )
    responses_max_bytes: int = setting(
        4 * 1024 * 1024, "Largest response of /v1/responses, with its request, kept in Redis; a larger one is found once it is in Postgres."
    )

    responses_history_max_bytes: int = setting(
        64 * 1024 * 1024,
        "Most bytes of earlier requests and responses, with their tools and instructions, that are read for one request that continues"
        " or lists a conversation; a longer one is refused with 400.",
    )

    redis_timeout_s: float = setting(
        0.25, "How long Redis may take to reply before it counts as unavailable; each rule then does what its `on_outage` says."
    )
    limits_lease_s: float = setting(10.0, "How long a slot of a concurrency rule stays taken after a crash; running requests renew theirs.")

    limits_output_tokens: int = setting(
        1024, "Tokens that limits reserve for a response whose length neither the caller nor its model's `output_tokens` bounds."
    )

    directory_poll_s: float = setting(15.0, "How often the configuration's version is checked, in case a notification was missed.")
    apply_wait_s: float = setting(
        5.0,
        "Longest time that a change, over the admin API or by a command, waits until every live gateway process serves it; after that its"
        " answer names those that do not. 0: it does not wait.",
    )
    keys_remembered: int = setting(50_000, "Most keys that each worker caches (about 1 kB each); least recently used ones go first.")
    trusted_proxies: Networks = setting(
        Networks(), "Networks of the proxies in front of the gateway (10.0.0.0/8, ...), whose X-Forwarded-For is trusted."
    )
    cors_origins: Origins = setting(
        Origins(),
        "Origins of web pages (https://app.example.com, ...), separated by commas, whose scripts may use this gateway from a browser; * for"
        " all. Empty: none.",
    )
    dashboard: Literal["on", "off"] = setting(
        "on", "Whether there is a dashboard at /dashboard, beside the admin API. The admin API and /docs are there in any case."
    )
    public_url: PublicUrl = setting(
        PublicUrl(), "Address of the gateway as browsers see it (https://narthex.example.com); signing in needs it."
    )
    oidc_issuer: IssuerUrl = setting(
        IssuerUrl(),
        "OpenID Connect issuer with which people sign in to the admin API (https://login.example.com/realms/main), exactly as its"
        " discovery document names it. Empty: nobody can sign in.",
    )
    oidc_client_id: str = setting("", "The id of this gateway as a client of the issuer.")
    oidc_client_secret: str = setting(
        "", "The client's secret. Empty: it is a public client, which proves itself by PKCE alone.", shown=False
    )
    oidc_scopes: str = setting("openid profile email", "Scopes that are requested of the issuer; some need one for groups, too.")
    oidc_groups_claim: str = setting("groups", "The claim with a person's groups; a dot leads into an object (realm_access.roles).")
    oidc_group_roles: GroupRoles = setting(
        GroupRoles(),
        'Roles of the issuer\'s groups, as JSON: {"platform": "owner", "search-leads": ["admin:search", "viewer"]}; after a colon: the'
        " team in which the role is held. Others can be given by `narthex roles` and the admin API.",
    )
    session_max_s: float = setting(43200.0, "How long someone who has signed in to the admin API stays so at most.")
    session_idle_s: float = setting(3600.0, "A session that was not used for so long has ended.")
    metrics: Literal["open", "key", "admin", "off"] = setting(
        "open",
        "Who may read /metrics: everybody; keys (admin keys, and keys whose routes name /metrics); everybody, but only on"
        " NARTHEX_ADMIN_PORT (admin); or nobody, and there is no such route (off).",
    )
    otlp_endpoint: OtlpUrl = setting(
        OtlpUrl(),
        "Collector of OpenTelemetry (http://collector:4318) to which the writer sends spans and metrics, as OTLP over HTTP. Without it"
        " `OTEL_EXPORTER_OTLP_ENDPOINT` counts. Empty: nothing is sent.",
        standard_name="OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    otlp_headers: OtlpHeaders = setting(
        OtlpHeaders(),
        "Headers for the collector, such as a token: NAME=VALUE, separated by commas. Without it `OTEL_EXPORTER_OTLP_HEADERS` counts.",
        shown=False,
        standard_name="OTEL_EXPORTER_OTLP_HEADERS",
    )
    otlp_service_name: str = setting(
        "narthex", "What traces and metrics call this gateway. Without it `OTEL_SERVICE_NAME` counts.", standard_name="OTEL_SERVICE_NAME"
    )
    otlp_retry_s: float = setting(60.0, "How long spans that the collector does not take are sent again, before they are dropped.")
    otlp_queue: int = setting(10_000, "Most inferences whose spans wait for the collector; those of further ones are dropped.")
    otlp_metrics_s: float = setting(60.0, "How often metrics are sent to the collector; 0 = never.")
    trace_share: Share = setting(
        Share(0.0),
        "With a collector: which share of requests without a `traceparent` begins a trace. A caller's trace is sampled as it says.",
    )
    access_log: Literal["off", "stdout", "stderr"] = setting(
        "off", "Where each gateway process writes a JSON line for each request: method, path, status, duration, team, key, model and ids."
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "Least severe level that is logged.")

    wire: Literal["native", "python"] = setting(
        "native",
        "python: the functions that are compiled at installation, where there is a C compiler, are not used. They do the same as those in"
        " Python, in less time.",
    )

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Settings from environment variables. Raises BadSetting; an empty variable counts as not set.

        A setting without a variable may be a file of its name in $CREDENTIALS_DIRECTORY, where systemd puts secrets of a service.
        """
        hints = get_type_hints(cls)
        if folder := environ.get("CREDENTIALS_DIRECTORY"):
            names = [environment_name(each) for each in fields(cls)]
            environ = {**environ, **_read_credentials(Path(folder), [name for name in names if not environ.get(name)])}
        values = {
            each.name: _parse(name, value, hints[each.name])
            for each in fields(cls)
            # Names that are not ours (HTTPS_PROXY) are also common in lower case.
            if (value := environ.get(name := environment_name(each)) or environ.get(name.lower() if each.metadata["name"] else "", ""))
            or (value := environ.get(name := each.metadata["standard_name"] or "", ""))
        }
        return cls(**values)

    @property
    def session_url(self) -> str:
        """The address for what is better off with a session of its own: the direct one, if there is one."""
        return self.database_direct_url or self.database_url

    @property
    def folders_of_credentials(self) -> tuple[Path, ...]:
        return (*self.credential_folders.parsed, self.home.absolute() / "credentials")

    @property
    def proxy(self) -> Proxy | None:
        return Proxy(self.https_proxy, self.no_proxy) if self.https_proxy else None

    @property
    def address_guard(self) -> AddressGuard:
        """The guard that says which addresses of the configuration are not called."""
        own = [(self.host, self.port)]
        if self.admin_port:
            own.append((self.admin_host or self.host, self.admin_port))
        names = {_host_of(self.public_url)} if self.public_url else set[HostAndPort]()
        # Where the issuer has the same host, that stands for more than this gateway.
        names -= {_host_of(self.oidc_issuer)} if self.oidc_issuer else set[HostAndPort]()
        return AddressGuard(own, names, self.allowed_addresses, "NARTHEX_ALLOWED_ADDRESSES")


def _host_of(url: str) -> HostAndPort:
    parsed = urlsplit(url)
    return HostAndPort(str(parsed.hostname).rstrip("."), parsed.port or (443 if parsed.scheme == "https" else 80))


def environment_name(each: Any) -> str:
    """The environment variable of a field of Settings."""
    return each.metadata["name"] or f"NARTHEX_{each.name.upper()}"


def _read_credentials(folder: Path, names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = (folder / name).read_text().strip()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as fault:
            raise BadSetting(f"{name}: {folder / name} cannot be read: {getattr(fault, 'strerror', None) or 'it is not text'}.") from None
    return found


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
            raise BadSetting(f"{name}={text!r}: it must be networks such as 10.0.0.0/8, separated by commas ({fault}).") from None
    if kind is Folders:
        try:
            return Folders(text)
        except ValueError as fault:
            raise BadSetting(f"{name}={text!r}: it must be absolute paths, separated by commas ({fault}).") from None
    if kind is Origins:
        try:
            return Origins(text)
        except ValueError as fault:
            raise BadSetting(
                f"{name}={text!r:.500}: it must be origins such as https://app.example.com, separated by commas, or * ({fault})."
            ) from None
    if kind in (ProxyUrl, PostgresUrl, AllowedAddresses, CaBundle, PublicUrl, IssuerUrl, GroupRoles, OtlpUrl, OtlpHeaders, Share):
        try:
            return kind(text)
        except ValueError as fault:
            raise BadSetting(f"{name}: {fault}.") from None  # without the value: it may hold a password
    try:
        value = kind(text)
    except ValueError:
        raise BadSetting(f"{name}={text!r}: it must be {'a whole number' if kind is int else 'a number'}.") from None
    if kind in (int, float) and not 0 <= value < float("inf"):
        raise BadSetting(f"{name}={text!r}: it must be a number of 0 or more.")
    return value
