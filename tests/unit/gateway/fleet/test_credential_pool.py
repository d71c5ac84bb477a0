"""Credentials of a provider: they are used in order, one that was refused cools down and returns, a replaced one is used at once."""

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Plan, Snapshot
from app.gateway.credentials import cooldown as cooldown_module
from app.gateway.credentials import pool as pool_module
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.cooldown import Cooldown
from app.gateway.credentials.pool import CredentialPool
from app.gateway.credentials.request_template import RequestTemplateKey
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.vault import Vault
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Provider
from providers.canonical.errors import CredentialRefused, Overloaded
from providers.credentials import CredentialError, CredentialReader, Header, Signer, UnsignedRequest

PROVIDER = OpenAICompatible("host", {})
VAULT = Vault(["a key for the tests of credentials, random"])
TEMPLATE_KEY = RequestTemplateKey("openai_chat")


async def refuse_connection(request: httpx2.Request) -> tuple[int, bytes]:
    raise httpx2.ConnectError("no token server is called here")


def credential_pool(*references: str, **stored: str) -> CredentialPool:
    def read(name: str) -> str:
        if name not in stored:
            raise CredentialError(f"nothing is stored as {name}")
        return stored[name]

    return CredentialPool(references, CredentialReader(read, (Path(tempfile.gettempdir()),)), refuse_connection)


async def sent_authorization(client: CredentialClient, provider: Provider = PROVIDER) -> str:
    request = await client.build_request(provider, "http://host/v1", TEMPLATE_KEY, b"{}", {})
    return request.headers["authorization"]


def fleet_with(credentials: tuple[str, ...], **stored: str) -> tuple[Fleet, Endpoint]:
    fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)), VAULT)
    fleet.apply_snapshot(snapshot_with(credentials, **stored))
    (endpoint,) = fleet.endpoints
    return fleet, endpoint


def snapshot_with(credentials: tuple[str, ...], **stored: str) -> Snapshot:
    models = {"m": ModelConfig((Target("host", "m"),))}
    encrypted = {name: VAULT.encrypt(name, secret) for name, secret in stored.items()}
    return build_snapshot(1, {"host": ProviderConfig("openai", "http://host/v1", credentials)}, models, credentials=encrypted)


async def test_credentials_are_tried_in_configured_order_with_cooling_ones_last():
    pool = credential_pool("store:a", "store:b", "store:c", a="1", b="2", c="3")
    a, b, c = pool.gateway_clients
    assert pool.candidates({}, "m") == [a, b, c] and not pool.in_cooldown(time.monotonic(), "m")
    a.cooldown.record_model_overload("m", 30)
    b.cooldown.record_refusal()
    assert pool.candidates({}, "m") == [c, a, b] and not pool.in_cooldown(time.monotonic(), "m")
    c.cooldown.record_model_overload("m", None)
    assert pool.in_cooldown(time.monotonic(), "m")
    a.cooldown.record_success("m", time.monotonic())
    assert pool.candidates({}, "m")[0] is a


def test_credential_is_preferred_again_after_its_cooldown(monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    for module in (cooldown_module, pool_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    pool = credential_pool("store:a", "store:b", a="1", b="2")
    pool.gateway_clients[0].cooldown.record_model_overload("m", 30)
    now[0] += 29.9
    assert pool.candidates({}, "m")[0] is pool.gateway_clients[1]
    now[0] += 0.2
    assert pool.candidates({}, "m")[0] is pool.gateway_clients[0]


def test_cooldown_is_capped_at_an_hour():
    client = credential_pool("store:a", a="1").gateway_clients[0]
    client.cooldown.record_model_overload("m", 10**9)
    assert client.cooldown.in_cooldown(time.monotonic(), "m") and not client.cooldown.in_cooldown(time.monotonic() + 3601, "m")


def test_success_of_an_earlier_request_does_not_end_a_cooldown():
    client = credential_pool("store:a", a="1").gateway_clients[0]
    sent_at = time.monotonic()
    client.cooldown.record_model_overload("m", 30)
    client.cooldown.record_success("m", sent_at)
    assert client.cooldown.in_cooldown(time.monotonic(), "m")


async def test_caller_credential_is_read_from_the_named_header_and_bad_ones_are_refused():
    pool = credential_pool("header:x-openai-key")
    assert (
        pool.caller_header_names == ["x-openai-key"]
        and pool.gateway_clients == []
        and pool.candidates({}, "m") == []
        and not pool.in_cooldown(0, "m")
    )
    (caller_client,) = pool.candidates({b"x-openai-key": b"sk-mine"}, "m")
    assert caller_client.is_callers_own and await sent_authorization(caller_client) == "Bearer sk-mine" and not caller_client.reload()
    assert "sk-mine" not in repr(caller_client) and "sk-mine" not in repr(vars(pool))
    internal_token_server = b'{"type": "service_account", "token_uri": "http://169.254.169.254/"}'
    for invalid in (b"aws:default", b"google:default", b"", b"two\nlines", "é".encode(), b"{", internal_token_server):
        with pytest.raises(CredentialError, match="x-openai-key"):
            pool.candidates({b"x-openai-key": invalid}, "m")


async def test_caller_credential_is_tried_at_its_configured_position():
    pool = credential_pool("header:x-key", "store:own", own="sk-own")
    assert [each.is_callers_own for each in pool.candidates({b"x-key": b"sk-mine"}, "m")] == [True, False]
    assert [each.is_callers_own for each in pool.candidates({}, "m")] == [False]


async def test_credential_unfit_for_a_header_is_refused_without_being_shown():
    client = credential_pool("store:json", json='{"type": "service_account",\n"private_key": "canary"}').gateway_clients[0]
    with pytest.raises(CredentialError, match="store:json is not of the kind") as refused:
        await sent_authorization(client)
    assert "canary" not in str(refused.value)


async def test_replaced_credential_file_is_reloaded_after_a_refusal(tmp_path: Path):
    key_path = tmp_path / "key"
    key_path.write_text("old-secret")
    client = credential_pool(f"file:{key_path}").gateway_clients[0]
    assert await sent_authorization(client) == "Bearer old-secret" and not client.reload()
    generation = client.generation
    client.cooldown.record_refusal()
    key_path.write_text("new-secret")
    assert client.reload() and client.generation > generation and not client.cooldown.in_cooldown(time.monotonic(), "m")
    assert await sent_authorization(client) == "Bearer new-secret"
    # A request in flight was sent with the old one.
    assert client.secret_mask.mask("neither old-secret nor new-secret") == "neither [masked] nor [masked]"


async def test_updated_stored_credential_is_used_at_once_and_a_deleted_one_is_refused():
    fleet, endpoint = fleet_with(("store:a",), a="first")
    (client,) = endpoint.credential_pool.gateway_clients
    assert await sent_authorization(client, endpoint.provider) == "Bearer first"
    client.cooldown.record_refusal()
    fleet.apply_snapshot(snapshot_with(("store:a",), a="second"))
    assert list(fleet.endpoints) == [endpoint]
    assert await sent_authorization(client, endpoint.provider) == "Bearer second" and not client.cooldown.in_cooldown(time.monotonic(), "m")
    fleet.apply_snapshot(snapshot_with(("store:a",)))
    with pytest.raises(CredentialError, match="narthex credentials set a"):
        await sent_authorization(client, endpoint.provider)


async def test_credential_encrypted_with_an_unknown_key_keeps_the_previous_secret():
    fleet, endpoint = fleet_with(("store:a",), a="first")
    (client,) = endpoint.credential_pool.gateway_clients
    assert await sent_authorization(client, endpoint.provider) == "Bearer first"
    encrypted_elsewhere = Vault(["another key, which this worker was not given"]).encrypt("a", "first")
    newer = snapshot_with(("store:a",))
    fleet.apply_snapshot(build_snapshot(2, newer.providers, newer.models, credentials={"a": encrypted_elsewhere}))
    assert await sent_authorization(client, endpoint.provider) == "Bearer first"


async def test_tokens_of_a_signer_are_masked_like_the_secret():
    class Exchanged(Signer):
        async def sign(self, request: UnsignedRequest) -> list[Header]:
            return [(b"authorization", b"Bearer ordinary-words-of-a-token")]

        def invalidate(self) -> bool:
            return True

    class Host(OpenAICompatible):
        def signer(self, credential: str | None, fetch: object) -> Signer:
            return Exchanged()

        def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
            return []

    client = credential_pool("store:a", a="sk-of-the-store").gateway_clients[0]
    assert await sent_authorization(client, Host("host", {})) == "Bearer ordinary-words-of-a-token"
    assert client.secret_mask.mask("no: ordinary-words-of-a-token") == "no: [masked]"
    generation = client.generation
    assert client.reload() and client.generation == generation + 1


def test_host_error_is_masked_of_the_credential_it_was_sent():
    client = credential_pool("header:x-key").candidates({b"x-key": b"zebra-crossing"}, "m")[0]
    error = CredentialRefused("Your key zebra-crossing is bad", upstream_status=401, reason="zebra-crossing?")
    error.upstream_code, error.param = "zebra-crossing", "zebra-crossing"
    client.mask_error(error)
    assert "zebra" not in f"{error} {error.message} {error.reason} {error.upstream_code} {error.param} {error.args}"


def planned_providers(fleet: Fleet, snapshot: Snapshot, *providers: str) -> list[str]:
    plan = Plan("m", "m", tuple(Target(each, "m") for each in providers), ("m",) * len(providers), snapshot)
    return [plan.targets[at].provider for at in fleet.table.rank_targets(plan)]


def test_targets_whose_credentials_are_all_cooling_down_are_tried_last():
    providers = {name: ProviderConfig("openai", f"http://{name}/v1", ("store:a", "store:b")) for name in ("one", "two")}
    models = {"m": ModelConfig((Target("one", "m"), Target("two", "m")))}
    encrypted = {name: VAULT.encrypt(name, f"sk-{name}") for name in ("a", "b")}
    snapshot = build_snapshot(1, providers, models, credentials=encrypted)
    fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)), VAULT)
    fleet.apply_snapshot(snapshot)
    first, second = fleet.table.endpoints_of(Target("one", "m"))[0].credential_pool.gateway_clients
    assert planned_providers(fleet, snapshot, "one", "two") == ["one", "two"]
    first.cooldown.record_model_overload("m", 30)
    assert planned_providers(fleet, snapshot, "one", "two") == ["one", "two"]
    second.cooldown.record_refusal()
    assert planned_providers(fleet, snapshot, "one", "two") == ["two", "one"]
    second.cooldown.record_success("m", time.monotonic())
    assert planned_providers(fleet, snapshot, "one", "two") == ["one", "two"]


def test_refused_credentials_and_rate_limits_do_not_open_the_breaker():
    fleet, endpoint = fleet_with(("store:a",), a="1")
    for _ in range(Settings().breaker_failures):
        fleet.record_failure(endpoint, "m", CredentialRefused("no", upstream_status=401))
        fleet.record_failure(endpoint, "m", Overloaded("later", upstream_status=429))
    assert endpoint.breaker.consecutive_failures == 0 and endpoint.breaker.open_until == 0


def test_cooldown_for_one_model_does_not_affect_another() -> None:
    pool = credential_pool("store:a", "store:b", a="1", b="2")
    a, b = pool.gateway_clients
    a.cooldown.record_model_overload("large", 30)
    assert pool.candidates({}, "large") == [b, a] and pool.candidates({}, "small") == [a, b]
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}
    b.cooldown.record_headers("large", httpx2.Headers(headers))
    assert pool.in_cooldown(time.monotonic(), "large") and not pool.in_cooldown(time.monotonic(), "small")
    a.cooldown.record_refusal()
    assert pool.candidates({}, "small") == [b, a]
    a.cooldown.record_success("small", time.monotonic())
    assert pool.candidates({}, "small") == [a, b] and a.cooldown.in_cooldown(time.monotonic(), "large")


def test_cooldown_remembers_a_bounded_number_of_models() -> None:
    cooldown = Cooldown()
    for number in range(1000):
        cooldown.record_model_overload(f"model-{number}", 30)
    assert cooldown.in_cooldown(time.monotonic(), "model-999") and len(cooldown.models) <= 256
