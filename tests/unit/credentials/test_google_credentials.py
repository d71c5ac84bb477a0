"""Google credentials: exchanged once for all waiting requests, renewed ahead of expiry, and never shown."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.auth import jwt
from hypothesis import given
from hypothesis import strategies as st

from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.google import RenewedToken, StaticToken, read_project, signer
from providers.credentials.google_grants import SCOPE, read_token
from providers.credentials.google_token import Token
from tests.support.strategies.chat_strategies import bounded
from tests.support.strategies.google_tokens import (
    SERVICE_ACCOUNT_EMAIL,
    TOKEN_URL,
    TokenServer,
    authorized_user,
    rsa_key_pair,
    service_account_json,
)

REQUEST = UnsignedRequest("POST", httpx2.URL("https://aiplatform.googleapis.com/v1/x"), [], b"{}")


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + token.encode())]


async def test_service_account_exchanges_a_signed_assertion_for_a_token() -> None:
    server = TokenServer()
    assert await signer(service_account_json(), server).sign(REQUEST) == bearer("token-1")
    (form,) = server.forms()
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" and str(server.requests[0].url) == TOKEN_URL
    claims: dict[str, Any] = jwt.decode(form["assertion"], certs=rsa_key_pair()[1], audience="https://oauth2.googleapis.com/token")  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    assert (claims["iss"], claims["scope"], claims["exp"] - claims["iat"]) == (SERVICE_ACCOUNT_EMAIL, SCOPE, 3600)
    assert jwt.decode_header(form["assertion"])["kid"] == "key-1"  # pyright: ignore[reportUnknownMemberType]


async def test_user_refresh_token_is_exchanged_and_the_quota_project_is_sent() -> None:
    server = TokenServer()
    signed = await signer(json.dumps(authorized_user(quota_project_id="payer")), server).sign(REQUEST)
    assert signed == [*bearer("token-1"), (b"x-goog-user-project", b"payer")]
    expected_form = {
        "grant_type": "refresh_token",
        "client_id": "id.apps",
        "client_secret": "s3cret-of-client",
        "refresh_token": "1//refresh-token",
    }
    assert server.forms() == [expected_form]


async def test_given_access_token_is_sent_unchanged_and_never_renewed() -> None:
    server = TokenServer()
    given_token = signer("ya29.some-token", server)
    assert isinstance(given_token, StaticToken)
    assert await given_token.sign(REQUEST) == bearer("ya29.some-token") and not given_token.invalidate() and not server.requests


async def test_concurrent_requests_share_one_token_exchange() -> None:
    server = TokenServer()
    account = signer(service_account_json(), server)
    assert await asyncio.gather(*(account.sign(REQUEST) for _ in range(50))) == [bearer("token-1")] * 50
    assert await account.sign(REQUEST) == bearer("token-1") and len(server.requests) == 1


async def test_cancelled_request_does_not_cancel_the_shared_token_exchange() -> None:
    gate, renewed = asyncio.Event(), 0

    async def renew() -> Token:
        nonlocal renewed
        renewed += 1
        await gate.wait()
        return Token("token", 3600.0, 3600.0)

    credential = RenewedToken(renew, lambda: 0.0)
    waiting = [asyncio.create_task(credential.sign(REQUEST)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[3].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in results] == [True, False, False, True, False]
    assert [each for each in results if not isinstance(each, BaseException)] == [bearer("token")] * 3 and renewed == 1


class FakeTokenSource:
    """A token renewal that a test can delay or let fail, with a clock of its own."""

    def __init__(self, lasts_s: float = 3600.0) -> None:
        self.now = 0.0
        self.count = 0
        self.renewal_gate = asyncio.Event()
        self.renewal_gate.set()
        self.error: Exception | None = None
        self.credential = RenewedToken(self._renew, lambda: self.now)
        self._lasts_s = lasts_s

    async def _renew(self) -> Token:
        self.count += 1
        await self.renewal_gate.wait()
        if self.error is not None:
            raise self.error
        return Token(f"token-{self.count}", self.now + self._lasts_s, self._lasts_s)

    async def token(self) -> str:
        return (await self.credential.sign(REQUEST))[0][1].decode().removeprefix("Bearer ")

    async def run_pending_tasks(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_token_is_renewed_ahead_while_requests_use_the_old_one() -> None:
    token_source = FakeTokenSource()
    assert await token_source.token() == "token-1"
    token_source.now = 3600 - 301
    assert await token_source.token() == "token-1" and token_source.count == 1
    token_source.renewal_gate.clear()
    token_source.now = 3600 - 200
    assert [await token_source.token() for _ in range(3)] == ["token-1"] * 3
    await token_source.run_pending_tasks()
    assert await token_source.token() == "token-1" and token_source.count == 2
    token_source.renewal_gate.set()
    await token_source.run_pending_tasks()
    assert await token_source.token() == "token-2"


async def test_token_about_to_expire_is_not_used() -> None:
    token_source = FakeTokenSource()
    assert await token_source.token() == "token-1"
    token_source.now = 3600 - 59
    assert await token_source.token() == "token-2"


async def test_short_lived_token_is_reused_while_it_lasts() -> None:
    token_source = FakeTokenSource(lasts_s=40.0)
    assert await token_source.token() == "token-1"
    token_source.now = 15.0
    assert await token_source.token() == "token-1"


async def test_failed_renewal_ahead_is_retried_after_a_pause() -> None:
    token_source = FakeTokenSource()
    await token_source.token()
    token_source.error = CredentialError("away")
    token_source.now = 3600 - 200
    for _ in range(3):
        assert await token_source.token() == "token-1"
        await token_source.run_pending_tasks()
    assert token_source.count == 2
    token_source.error = None
    token_source.now += 11
    await token_source.token()
    await token_source.run_pending_tasks()
    assert await token_source.token() == "token-3"


async def test_exchange_failure_reaches_every_waiting_request_and_the_next_retries() -> None:
    server = TokenServer((400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}), (200, {"access_token": "good"}))
    account = signer(service_account_json(), server)
    results = await asyncio.gather(*(account.sign(REQUEST) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in results] == [CredentialError] * 5 and len(server.requests) == 1
    assert str(results[0]) == "tokens.test returned no token: it responded with 400 invalid_grant: Invalid JWT Signature."
    assert await account.sign(REQUEST) == bearer("good")


async def test_refused_token_is_replaced_unless_it_was_just_issued() -> None:
    token_source = FakeTokenSource()
    assert await token_source.token() == "token-1"
    assert token_source.credential.invalidate() and await token_source.token() == "token-1"
    token_source.now = 6.0
    assert token_source.credential.invalidate() and await token_source.token() == "token-2"


async def test_busy_token_server_is_retried() -> None:
    server = TokenServer((503, b"busy"), (200, {"access_token": "late", "expires_in": "3599"}))
    assert await signer(service_account_json(), server).sign(REQUEST) == bearer("late")


async def test_unreachable_token_server_is_a_connection_error_and_not_a_bad_credential() -> None:
    async def away(request: httpx2.Request) -> tuple[int, bytes]:
        raise httpx2.ConnectError("no way there", request=request)

    with pytest.raises(httpx2.ConnectError):
        await signer(service_account_json(), away).sign(REQUEST)


async def test_assertion_echoed_by_the_token_server_is_truncated_in_the_error() -> None:
    async def parrot(request: httpx2.Request) -> tuple[int, bytes]:
        return 400, json.dumps({"error": "invalid_grant", "error_description": request.content.decode()}).encode()

    with pytest.raises(CredentialError) as refused:
        await signer(service_account_json(), parrot).sign(REQUEST)
    assertion = refused.value.args[0].partition("assertion=")[2]
    assert len(assertion) < 120 and "BEGIN" not in str(refused.value)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"access_token": ""}', b'{"access_token": "a\\nb"}', b'{"id_token": "x"}']
)
def test_token_response_without_a_token_is_refused(body: bytes) -> None:
    with pytest.raises(CredentialError):
        read_token(200, body, "tokens.test returned no token")


@pytest.mark.parametrize(
    ("server", "is_allowed"),
    [
        ("https://oauth2.googleapis.com/token", True),
        ("http://127.0.0.1:8000/token", True),
        ("http://[::1]:8000/token", True),
        ("http://localhost/token", True),
        ("http://tokens.example/token", False),
        ("http://127.0.0.1.example/token", False),
        ("http://169.254.169.254/token", False),
        ("file:///etc/passwd", False),
        ("tokens", False),
        ("https://", False),
        ("http://[", False),
    ],
)
def test_token_server_must_use_https_or_be_on_this_machine(server: str, is_allowed: bool) -> None:
    if is_allowed:
        signer(service_account_json(token_uri=server), TokenServer())
    else:
        with pytest.raises(CredentialError, match="token_uri"):
            signer(service_account_json(token_uri=server), TokenServer())


_FIELDS = ["type", "client_email", "private_key", "token_uri", "client_id", "client_secret", "refresh_token"]
_ODD = st.one_of(st.none(), st.integers(), st.lists(st.just("hunter2-hunter2-hunter2")), st.just({"a": "hunter2-hunter2-hunter2"}))


@bounded
@given(st.dictionaries(st.sampled_from(_FIELDS), _ODD, min_size=1), st.sampled_from(["", "}", "\x00", '"hunter2-hunter2-hunter2"']))
def test_refusal_of_an_invalid_credential_never_shows_secrets(fields: dict[str, Any], suffix: str) -> None:
    for secret in (
        json.dumps({**authorized_user(), "private_key": "hunter2-hunter2-hunter2", **fields}) + suffix,
        "{" + json.dumps(fields),
    ):
        try:
            signer(secret, TokenServer())
        except CredentialError as refused:
            assert "hunter2" not in str(refused) and "s3cret" not in str(refused)


async def test_invalid_private_key_is_reported_by_its_account_only() -> None:
    with pytest.raises(CredentialError, match=SERVICE_ACCOUNT_EMAIL) as refused:
        await signer(service_account_json(private_key="-----BEGIN RSA hunter2"), TokenServer()).sign(REQUEST)
    assert "hunter2" not in str(refused.value)


def test_ai_studio_key_is_refused_with_a_hint_to_the_gemini_adapter() -> None:
    with pytest.raises(CredentialError, match="gemini"):
        signer("AIza" + "x" * 35, TokenServer())


def test_project_is_read_from_service_accounts_only() -> None:
    assert read_project(service_account_json()) == "a-project"
    assert [read_project(each) for each in (None, "google:default", "ya29.x", "{", json.dumps(authorized_user()))] == [None] * 5


# The chain of google:default.


@pytest.fixture
def write_credential_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Any], Path]:
    """Writes a credential file (JSON or text) under a name, on a machine that has no other credentials."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", "metadata.test")

    def write(name: str, content: Any) -> Path:
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return tmp_path / name

    return write


async def test_default_chain_prefers_the_named_file_then_gcloud_then_the_metadata_server(
    write_credential_file: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = TokenServer()
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-1")
    request = server.requests[-1]
    assert (request.method, str(request.url)) == (
        "GET",
        "http://metadata.test/computeMetadata/v1/instance/service-accounts/default/token",
    )
    assert request.headers["metadata-flavor"] == "Google"
    write_credential_file("application_default_credentials.json", authorized_user())
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-2")
    assert server.forms()[-1]["refresh_token"] == "1//refresh-token"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credential_file("named.json", service_account_json())))
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-3")
    assert "assertion" in server.forms()[-1]


async def test_external_account_is_exchanged_over_our_own_transport(
    write_credential_file: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    external_account = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(write_credential_file("subject", "subject-token"))},
    }
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credential_file("pool.json", external_account)))
    token_response = {"access_token": "federated", "expires_in": 3600, "token_type": "Bearer", "issued_token_type": "x"}
    server = TokenServer((200, token_response))
    assert await signer("google:default", server).sign(REQUEST) == bearer("federated")
    assert str(server.requests[0].url) == external_account["token_url"] and server.forms()[0]["subject_token"] == "subject-token"
    with pytest.raises(CredentialError, match="google:default: no token for the file that GOOGLE_APPLICATION_CREDENTIALS names"):
        await signer("google:default", TokenServer((400, {"error": "invalid_target"}))).sign(REQUEST)


async def test_impersonated_account_is_reached_through_its_source_credential(
    write_credential_file: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{SERVICE_ACCOUNT_EMAIL}:generateAccessToken"
    impersonated_account: dict[str, Any] = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": url,
        "source_credentials": authorized_user(),
        "delegates": [],
    }
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credential_file("impersonated.json", impersonated_account)))
    source = {"access_token": "source", "expires_in": 3599}
    server = TokenServer((200, source), (200, {"accessToken": "impersonated", "expireTime": "2999-01-01T00:00:00Z"}))
    assert await signer("google:default", server).sign(REQUEST) == bearer("impersonated")
    assert str(server.requests[1].url) == url


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"type": "gdch_service_account"}', '{"type": "external_account"}'])
async def test_unknown_credential_file_is_named_by_where_it_was_found(
    content: str, write_credential_file: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credential_file("odd.json", content)))
    with pytest.raises(CredentialError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        await signer("google:default", TokenServer()).sign(REQUEST)


async def test_missing_default_credential_error_says_where_it_looked(
    write_credential_file: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(request: httpx2.Request) -> tuple[int, bytes]:
        raise httpx2.ConnectError("no such host", request=request)

    with pytest.raises(CredentialError, match="gcloud has none for this user, and no metadata server responds"):
        await signer("google:default", away).sign(REQUEST)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credential_file("x", "").with_name("missing.json")))
    with pytest.raises(CredentialError, match="FileNotFoundError"):
        await signer("google:default", away).sign(REQUEST)
