"""Google's credentials: exchanged once for all who wait, renewed ahead, and never shown."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth import jwt
from hypothesis import given
from hypothesis import strategies as st

from providers.credentials import CredentialError, UnsignedRequest
from providers.credentials.google import RenewedToken, StaticToken, read_project, signer
from providers.credentials.google_grants import SCOPE, Token, read_token
from tests.laws.chats import bounded
from tests.laws.googles import EMAIL, SERVER, TokenServer, key, service_account, user

REQUEST = UnsignedRequest("POST", httpx.URL("https://aiplatform.googleapis.com/v1/x"), [], b"{}")


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + token.encode())]


async def test_a_service_account_signs_for_itself_and_gets_a_token() -> None:
    server = TokenServer()
    assert await signer(service_account(), server).sign(REQUEST) == bearer("token-1")
    (form,) = server.forms()
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" and str(server.asked[0].url) == SERVER
    claims: dict[str, Any] = jwt.decode(form["assertion"], certs=key()[1], audience="https://oauth2.googleapis.com/token")  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    assert (claims["iss"], claims["scope"], claims["exp"] - claims["iat"]) == (EMAIL, SCOPE, 3600)
    assert jwt.decode_header(form["assertion"])["kid"] == "key-1"  # pyright: ignore[reportUnknownMemberType]


async def test_a_user_gets_a_token_for_its_refresh_token_and_a_project_pays() -> None:
    server = TokenServer()
    signed = await signer(json.dumps(user(quota_project_id="payer")), server).sign(REQUEST)
    assert signed == [*bearer("token-1"), (b"x-goog-user-project", b"payer")]
    wanted = {
        "grant_type": "refresh_token",
        "client_id": "id.apps",
        "client_secret": "s3cret-of-client",
        "refresh_token": "1//refresh-token",
    }
    assert server.forms() == [wanted]


async def test_a_given_token_goes_as_it_is_and_there_is_no_other() -> None:
    server = TokenServer()
    given_token = signer("ya29.some-token", server)
    assert isinstance(given_token, StaticToken)
    assert await given_token.sign(REQUEST) == bearer("ya29.some-token") and not given_token.invalidate() and not server.asked


async def test_all_who_wait_share_one_exchange() -> None:
    server = TokenServer()
    account = signer(service_account(), server)
    assert await asyncio.gather(*(account.sign(REQUEST) for _ in range(50))) == [bearer("token-1")] * 50
    assert await account.sign(REQUEST) == bearer("token-1") and len(server.asked) == 1


async def test_who_hangs_up_takes_the_token_from_nobody() -> None:
    gate, renewed = asyncio.Event(), 0

    async def renew() -> Token:
        nonlocal renewed
        renewed += 1
        await gate.wait()
        return Token("token", 3600.0, 3600.0)

    held = RenewedToken(renew, lambda: 0.0)
    waiting = [asyncio.create_task(held.sign(REQUEST)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[3].cancel()
    await asyncio.sleep(0)
    gate.set()
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in told] == [True, False, False, True, False]
    assert [each for each in told if not isinstance(each, BaseException)] == [bearer("token")] * 3 and renewed == 1


class Minting:
    """A renewal that can be held up and made to fail, by a clock of its own."""

    def __init__(self, lasts_s: float = 3600.0) -> None:
        self.now = 0.0
        self.count = 0
        self.open = asyncio.Event()
        self.open.set()
        self.fault: Exception | None = None
        self.held = RenewedToken(self._renew, lambda: self.now)
        self._lasts_s = lasts_s

    async def _renew(self) -> Token:
        self.count += 1
        await self.open.wait()
        if self.fault is not None:
            raise self.fault
        return Token(f"token-{self.count}", self.now + self._lasts_s, self._lasts_s)

    async def token(self) -> str:
        return (await self.held.sign(REQUEST))[0][1].decode().removeprefix("Bearer ")

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_token_is_renewed_ahead_while_requests_go_on_with_the_old_one() -> None:
    minting = Minting()
    assert await minting.token() == "token-1"
    minting.now = 3600 - 301
    assert await minting.token() == "token-1" and minting.count == 1
    minting.open.clear()
    minting.now = 3600 - 200
    assert [await minting.token() for _ in range(3)] == ["token-1"] * 3
    await minting.settle()
    assert await minting.token() == "token-1" and minting.count == 2
    minting.open.set()
    await minting.settle()
    assert await minting.token() == "token-2"


async def test_a_token_about_to_expire_is_not_used() -> None:
    minting = Minting()
    assert await minting.token() == "token-1"
    minting.now = 3600 - 59
    assert await minting.token() == "token-2"


async def test_a_token_that_never_lasts_long_is_used_all_the_same() -> None:
    minting = Minting(lasts_s=40.0)
    assert await minting.token() == "token-1"
    minting.now = 15.0
    assert await minting.token() == "token-1"


async def test_what_cannot_be_renewed_ahead_is_tried_again_after_a_pause() -> None:
    minting = Minting()
    await minting.token()
    minting.fault = CredentialError("away")
    minting.now = 3600 - 200
    for _ in range(3):
        assert await minting.token() == "token-1"
        await minting.settle()
    assert minting.count == 2
    minting.fault = None
    minting.now += 11
    await minting.token()
    await minting.settle()
    assert await minting.token() == "token-3"


async def test_all_who_wait_hear_of_a_failure_and_the_next_tries_anew() -> None:
    server = TokenServer((400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}), (200, {"access_token": "good"}))
    account = signer(service_account(), server)
    told = await asyncio.gather(*(account.sign(REQUEST) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in told] == [CredentialError] * 5 and len(server.asked) == 1
    assert str(told[0]) == "tokens.test gave no token: it answered 400 invalid_grant: Invalid JWT Signature."
    assert await account.sign(REQUEST) == bearer("good")


async def test_a_refused_token_is_not_used_again_unless_it_came_just_now() -> None:
    minting = Minting()
    assert await minting.token() == "token-1"
    assert minting.held.invalidate() and await minting.token() == "token-1"
    minting.now = 6.0
    assert minting.held.invalidate() and await minting.token() == "token-2"


async def test_a_token_server_that_is_busy_is_asked_once_more() -> None:
    server = TokenServer((503, b"busy"), (200, {"access_token": "late", "expires_in": "3599"}))
    assert await signer(service_account(), server).sign(REQUEST) == bearer("late")


async def test_a_server_that_cannot_be_reached_is_no_matter_of_the_credential() -> None:
    async def away(request: httpx.Request) -> tuple[int, bytes]:
        raise httpx.ConnectError("no way there", request=request)

    with pytest.raises(httpx.ConnectError):
        await signer(service_account(), away).sign(REQUEST)


async def test_what_a_server_repeats_of_a_secret_is_not_told() -> None:
    async def parrot(request: httpx.Request) -> tuple[int, bytes]:
        return 400, json.dumps({"error": "invalid_grant", "error_description": request.content.decode()}).encode()

    with pytest.raises(CredentialError) as refused:
        await signer(service_account(), parrot).sign(REQUEST)
    assertion = refused.value.args[0].partition("assertion=")[2]
    assert len(assertion) < 120 and "BEGIN" not in str(refused.value)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"access_token": ""}', b'{"access_token": "a\\nb"}', b'{"id_token": "x"}']
)
def test_an_answer_without_a_token_is_none(body: bytes) -> None:
    with pytest.raises(CredentialError):
        read_token(200, body, "tokens.test gave no token")


@pytest.mark.parametrize(
    ("server", "is_right"),
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
def test_a_token_server_is_asked_over_https_or_on_this_machine(server: str, is_right: bool) -> None:
    if is_right:
        signer(service_account(token_uri=server), TokenServer())
    else:
        with pytest.raises(CredentialError, match="token_uri"):
            signer(service_account(token_uri=server), TokenServer())


_FIELDS = ["type", "client_email", "private_key", "token_uri", "client_id", "client_secret", "refresh_token"]
_ODD = st.one_of(st.none(), st.integers(), st.lists(st.just("hunter2-hunter2-hunter2")), st.just({"a": "hunter2-hunter2-hunter2"}))


@bounded
@given(st.dictionaries(st.sampled_from(_FIELDS), _ODD, min_size=1), st.sampled_from(["", "}", "\x00", '"hunter2-hunter2-hunter2"']))
def test_what_is_no_credential_is_refused_and_not_shown(fields: dict[str, Any], more: str) -> None:
    for secret in (json.dumps({**user(), "private_key": "hunter2-hunter2-hunter2", **fields}) + more, "{" + json.dumps(fields)):
        try:
            signer(secret, TokenServer())
        except CredentialError as refused:
            assert "hunter2" not in str(refused) and "s3cret" not in str(refused)


async def test_a_key_that_is_none_is_named_by_its_account_alone() -> None:
    with pytest.raises(CredentialError, match=EMAIL) as refused:
        await signer(service_account(private_key="-----BEGIN RSA hunter2"), TokenServer()).sign(REQUEST)
    assert "hunter2" not in str(refused.value)


def test_a_key_of_ai_studio_is_told_where_it_belongs() -> None:
    with pytest.raises(CredentialError, match="gemini"):
        signer("AIza" + "x" * 35, TokenServer())


def test_a_service_account_tells_its_project() -> None:
    assert read_project(service_account()) == "a-project"
    assert [read_project(each) for each in (None, "google:default", "ya29.x", "{", json.dumps(user()))] == [None] * 5


# google:default


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Any], Path]:
    """A machine on which nothing is found, but for what is written with this: under a name, JSON."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", "metadata.test")

    def write(name: str, said: Any) -> Path:
        (tmp_path / name).write_text(said if isinstance(said, str) else json.dumps(said))
        return tmp_path / name

    return write


async def test_the_chain_takes_the_file_that_is_named_then_gclouds_then_the_machines_own(
    nowhere: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = TokenServer()
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-1")
    request = server.asked[-1]
    assert (request.method, str(request.url)) == (
        "GET",
        "http://metadata.test/computeMetadata/v1/instance/service-accounts/default/token",
    )
    assert request.headers["metadata-flavor"] == "Google"
    nowhere("application_default_credentials.json", user())
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-2")
    assert server.forms()[-1]["refresh_token"] == "1//refresh-token"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nowhere("named.json", service_account())))
    assert await signer("google:default", server).sign(REQUEST) == bearer("token-3")
    assert "assertion" in server.forms()[-1]


async def test_another_clouds_identity_is_exchanged_over_our_own_transport(
    nowhere: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(nowhere("subject", "subject-token"))},
    }
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nowhere("pool.json", told)))
    answer = {"access_token": "federated", "expires_in": 3600, "token_type": "Bearer", "issued_token_type": "x"}
    server = TokenServer((200, answer))
    assert await signer("google:default", server).sign(REQUEST) == bearer("federated")
    assert str(server.asked[0].url) == told["token_url"] and server.forms()[0]["subject_token"] == "subject-token"
    with pytest.raises(CredentialError, match="google:default: no token for the file that GOOGLE_APPLICATION_CREDENTIALS names"):
        await signer("google:default", TokenServer((400, {"error": "invalid_target"}))).sign(REQUEST)


async def test_an_impersonated_account_is_reached_through_its_source(
    nowhere: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken"
    told: dict[str, Any] = {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": url,
        "source_credentials": user(),
        "delegates": [],
    }
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nowhere("impersonated.json", told)))
    source = {"access_token": "source", "expires_in": 3599}
    server = TokenServer((200, source), (200, {"accessToken": "impersonated", "expireTime": "2999-01-01T00:00:00Z"}))
    assert await signer("google:default", server).sign(REQUEST) == bearer("impersonated")
    assert str(server.asked[1].url) == url


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"type": "gdch_service_account"}', '{"type": "external_account"}'])
async def test_a_file_of_no_known_kind_is_named_by_where_it_is(
    said: str, nowhere: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nowhere("odd.json", said)))
    with pytest.raises(CredentialError, match="GOOGLE_APPLICATION_CREDENTIALS"):
        await signer("google:default", TokenServer()).sign(REQUEST)


async def test_where_nothing_is_found_it_is_said_where_was_looked(
    nowhere: Callable[[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(request: httpx.Request) -> tuple[int, bytes]:
        raise httpx.ConnectError("no such host", request=request)

    with pytest.raises(CredentialError, match="gcloud keeps none for this user, and no metadata server answers"):
        await signer("google:default", away).sign(REQUEST)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(nowhere("x", "").with_name("missing.json")))
    with pytest.raises(CredentialError, match="FileNotFoundError"):
        await signer("google:default", away).sign(REQUEST)
