"""Laws of identities: credentials take turns, what is refused rests and comes back, and what was replaced is used at once."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from app.domain import ModelConfig, Plan, ProviderConfig, Snapshot, Target
from app.gateway.credentials.client import CredentialClient, RequestTemplateKey
from app.gateway.credentials.cooldown import Cooldown
from app.gateway.credentials.pool import CredentialPool
from app.gateway.fleet.fleet import Endpoint, Fleet
from app.settings import Settings
from app.store.snapshots import build_snapshot
from app.store.vault import Vault
from providers.adapters.provider import Provider
from providers.canonical.errors import CredentialRefused, Overloaded
from providers.credentials import CredentialError, Header, Signer, UnsignedRequest

PROVIDER = Provider("host", {})
VAULT = Vault(["a key for the laws of identities, random"])
WHERE = RequestTemplateKey("openai_chat")


async def unasked(request: httpx.Request) -> tuple[int, bytes]:
    raise httpx.ConnectError("nobody is asked here")


def identities(*references: str, **stored: str) -> CredentialPool:
    def read(name: str) -> str:
        if name not in stored:
            raise CredentialError(f"nothing is stored as {name}")
        return stored[name]

    return CredentialPool(references, read, unasked)


async def sent(identity: CredentialClient, provider: Provider = PROVIDER) -> str:
    request = await identity.build_request(provider, "http://host/v1", WHERE, b"{}", {})
    return request.headers["authorization"]


def fleet_with(credentials: tuple[str, ...], **sealed: str) -> tuple[Fleet, Endpoint]:
    fleet = Fleet(Settings(), httpx.MockTransport(lambda _: httpx.Response(404)), VAULT)
    fleet.apply_snapshot(directory_with(credentials, **sealed))
    (endpoint,) = fleet.endpoints
    return fleet, endpoint


def directory_with(credentials: tuple[str, ...], **stored: str) -> Snapshot:
    models = {"m": ModelConfig((Target("host", "m"),))}
    sealed = {name: VAULT.encrypt(name, secret) for name, secret in stored.items()}
    return build_snapshot(1, {"host": ProviderConfig("openai", "http://host/v1", credentials)}, models, credentials=sealed)


async def test_they_are_tried_as_configured_and_who_rests_last():
    kept = identities("store:a", "store:b", "store:c", a="1", b="2", c="3")
    a, b, c = kept.gateway_clients
    assert kept.candidates({}, "m") == [a, b, c] and not kept.in_cooldown(time.monotonic(), "m")
    a.cooldown.record_model_overload("m", 30)
    b.cooldown.record_refusal()
    assert kept.candidates({}, "m") == [c, a, b] and not kept.in_cooldown(time.monotonic(), "m")
    c.cooldown.record_model_overload("m", None)
    assert kept.in_cooldown(time.monotonic(), "m")
    a.cooldown.record_success("m", time.monotonic())
    assert kept.candidates({}, "m")[0] is a


async def test_one_comes_back_after_its_rest():
    kept = identities("store:a", "store:b", a="1", b="2")
    kept.gateway_clients[0].cooldown.record_model_overload("m", 0.02)
    assert kept.candidates({}, "m")[0] is kept.gateway_clients[1]
    await asyncio.sleep(0.05)
    assert kept.candidates({}, "m")[0] is kept.gateway_clients[0]


def test_nobody_rests_for_ever_whatever_a_host_says():
    identity = identities("store:a", a="1").gateway_clients[0]
    identity.cooldown.record_model_overload("m", 10**9)
    assert identity.cooldown.in_cooldown(time.monotonic(), "m") and not identity.cooldown.in_cooldown(time.monotonic() + 3601, "m")


def test_an_answer_to_an_earlier_request_does_not_end_a_rest():
    identity = identities("store:a", a="1").gateway_clients[0]
    asked_at = time.monotonic()
    identity.cooldown.record_model_overload("m", 30)
    identity.cooldown.record_success("m", asked_at)
    assert identity.cooldown.in_cooldown(time.monotonic(), "m")


async def test_callers_bring_their_own_in_the_header_that_is_named():
    kept = identities("header:x-openai-key")
    assert (
        kept.caller_header_names == ["x-openai-key"]
        and kept.gateway_clients == []
        and kept.candidates({}, "m") == []
        and not kept.in_cooldown(0, "m")
    )
    (own,) = kept.candidates({b"x-openai-key": b"sk-mine"}, "m")
    assert own.is_callers_own and await sent(own) == "Bearer sk-mine" and not own.reload()
    assert "sk-mine" not in repr(own) and "sk-mine" not in repr(vars(kept))
    elsewhere = b'{"type": "service_account", "token_uri": "http://169.254.169.254/"}'
    for bad in (b"aws:default", b"google:default", b"", b"two\nlines", "é".encode(), b"{", elsewhere):
        with pytest.raises(CredentialError, match="x-openai-key"):
            kept.candidates({b"x-openai-key": bad}, "m")


async def test_callers_own_stands_where_it_is_configured():
    kept = identities("header:x-key", "store:ours", ours="sk-ours")
    assert [each.is_callers_own for each in kept.candidates({b"x-key": b"sk-mine"}, "m")] == [True, False]
    assert [each.is_callers_own for each in kept.candidates({}, "m")] == [False]


async def test_a_credential_for_no_header_is_told_and_not_sent():
    identity = identities("store:json", json='{"type": "service_account",\n"private_key": "canary"}').gateway_clients[0]
    with pytest.raises(CredentialError, match="store:json is not of the kind") as told:
        await sent(identity)
    assert "canary" not in str(told.value)


async def test_a_file_that_was_replaced_is_read_after_a_refusal(tmp_path: Path):
    place = tmp_path / "key"
    place.write_text("old-secret")
    identity = identities(f"file:{place}").gateway_clients[0]
    assert await sent(identity) == "Bearer old-secret" and not identity.reload()
    turn = identity.generation
    identity.cooldown.record_refusal()
    place.write_text("new-secret")
    assert identity.reload() and identity.generation > turn and not identity.cooldown.in_cooldown(time.monotonic(), "m")
    assert await sent(identity) == "Bearer new-secret"
    # What is under way went with the old one.
    assert identity.secret_mask.mask("neither old-secret nor new-secret") == "neither [masked] nor [masked]"


async def test_what_is_stored_anew_is_used_at_once_and_what_is_gone_no_more():
    fleet, endpoint = fleet_with(("store:a",), a="first")
    (identity,) = endpoint.credential_pool.gateway_clients
    assert await sent(identity, endpoint.provider) == "Bearer first"
    identity.cooldown.record_refusal()
    fleet.apply_snapshot(directory_with(("store:a",), a="second"))
    assert list(fleet.endpoints) == [endpoint]
    assert await sent(identity, endpoint.provider) == "Bearer second" and not identity.cooldown.in_cooldown(time.monotonic(), "m")
    fleet.apply_snapshot(directory_with(("store:a",)))
    with pytest.raises(CredentialError, match="narthex credentials set a"):
        await sent(identity, endpoint.provider)


async def test_one_that_was_sealed_with_a_key_that_is_not_here_leaves_what_was_read():
    fleet, endpoint = fleet_with(("store:a",), a="first")
    (identity,) = endpoint.credential_pool.gateway_clients
    assert await sent(identity, endpoint.provider) == "Bearer first"
    other = Vault(["another key, which this worker was not given"]).encrypt("a", "first")
    newer = directory_with(("store:a",))
    fleet.apply_snapshot(build_snapshot(2, newer.providers, newer.models, credentials={"a": other}))
    assert await sent(identity, endpoint.provider) == "Bearer first"


async def test_tokens_that_a_signer_was_given_are_hidden_like_the_secret():
    class Exchanged(Signer):
        async def sign(self, request: UnsignedRequest) -> list[Header]:
            return [(b"authorization", b"Bearer ordinary-words-of-a-token")]

        def invalidate(self) -> bool:
            return True

    class Host(Provider):
        def signer(self, credential: str | None, fetch: object) -> Signer:
            return Exchanged()

        def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
            return []

    identity = identities("store:a", a="sk-of-the-store").gateway_clients[0]
    assert await sent(identity, Host("host", {})) == "Bearer ordinary-words-of-a-token"
    assert identity.secret_mask.mask("no: ordinary-words-of-a-token") == "no: [masked]"
    turn = identity.generation
    assert identity.reload() and identity.generation == turn + 1


def test_what_a_host_says_is_told_without_what_it_was_sent():
    identity = identities("header:x-key").candidates({b"x-key": b"zebra-crossing"}, "m")[0]
    error = CredentialRefused("Your key zebra-crossing is bad", upstream_status=401, reason="zebra-crossing?")
    error.upstream_code, error.param = "zebra-crossing", "zebra-crossing"
    identity.mask_error(error)
    assert "zebra" not in f"{error} {error.message} {error.reason} {error.upstream_code} {error.param} {error.args}"


def planned(fleet: Fleet, directory: Snapshot, *providers: str) -> list[str]:
    plan = Plan("m", "m", tuple(Target(each, "m") for each in providers), ("m",) * len(providers), directory)
    return [target.provider for target, _ in fleet.rank_targets(plan)]


def test_targets_whose_credentials_all_rest_are_asked_last():
    providers = {name: ProviderConfig("openai", f"http://{name}/v1", ("store:a", "store:b")) for name in ("one", "two")}
    models = {"m": ModelConfig((Target("one", "m"), Target("two", "m")))}
    sealed = {name: VAULT.encrypt(name, f"sk-{name}") for name in ("a", "b")}
    directory = build_snapshot(1, providers, models, credentials=sealed)
    fleet = Fleet(Settings(), httpx.MockTransport(lambda _: httpx.Response(404)), VAULT)
    fleet.apply_snapshot(directory)
    first, second = fleet.endpoints_of(Target("one", "m"))[0].credential_pool.gateway_clients
    assert planned(fleet, directory, "one", "two") == ["one", "two"]
    first.cooldown.record_model_overload("m", 30)
    assert planned(fleet, directory, "one", "two") == ["one", "two"]
    second.cooldown.record_refusal()
    assert planned(fleet, directory, "one", "two") == ["two", "one"]
    second.cooldown.record_success("m", time.monotonic())
    assert planned(fleet, directory, "one", "two") == ["one", "two"]


def test_neither_a_refusal_nor_haste_is_a_fault_of_the_endpoint():
    fleet, endpoint = fleet_with(("store:a",), a="1")
    for _ in range(Settings().breaker_failures):
        fleet.record_failure(endpoint, CredentialRefused("no", upstream_status=401))
        fleet.record_failure(endpoint, Overloaded("later", upstream_status=429))
    assert endpoint.consecutive_failures == 0 and endpoint.open_until == 0


def test_a_model_that_has_no_room_says_nothing_of_another() -> None:
    kept = identities("store:a", "store:b", a="1", b="2")
    a, b = kept.gateway_clients
    a.cooldown.record_model_overload("large", 30)
    assert kept.candidates({}, "large") == [b, a] and kept.candidates({}, "small") == [a, b]
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}
    b.cooldown.record_headers("large", httpx.Headers(headers))
    assert kept.in_cooldown(time.monotonic(), "large") and not kept.in_cooldown(time.monotonic(), "small")
    a.cooldown.record_refusal()
    assert kept.candidates({}, "small") == [b, a]
    a.cooldown.record_success("small", time.monotonic())
    assert kept.candidates({}, "small") == [a, b] and a.cooldown.in_cooldown(time.monotonic(), "large")


def test_of_models_without_end_no_more_is_kept_than_can_be() -> None:
    cooldown = Cooldown()
    for number in range(1000):
        cooldown.record_model_overload(f"model-{number}", 30)
    assert cooldown.in_cooldown(time.monotonic(), "model-999") and len(cooldown.models) <= 256
