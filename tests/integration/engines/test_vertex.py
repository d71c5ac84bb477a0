"""Vertex AI over TLS: the key of a service account is exchanged for tokens, with which Claude and Gemini are called."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
import tomli_w
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from tests.integration.conftest import TLS, WORKERS
from tests.support.processes.service import Service

CLAUDE = {
    "id": "msg_vrtx_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello from Claude."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 5},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello from Gemini."}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8},
}


# Each has a credential of its own.
PROVIDER_NAMES = ("vertex-together", "vertex-expiring", "vertex-replaced")


EXPIRY_TOLERANCE_S = 3.0


class ServiceAccount:
    """A service account, of which the cloud knows only the public key."""

    def __init__(self, email: str) -> None:
        made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        self.email = email
        self.public = made.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
        self._private = made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def key_file_json(self, server: str) -> str:
        fields = {"type": "service_account", "project_id": "a-project", "private_key_id": "1", "client_email": self.email}
        return json.dumps({**fields, "private_key": self._private, "token_uri": f"{server}/token"}, indent=2)


class FakeGoogleCloud:
    """The token server and the models. `accounts`: whose keys it accepts. Tokens are accepted for a while after they expire: a request
    that a busy machine delays is no sign of a token that was not refreshed.
    """

    def __init__(self) -> None:
        self.accounts: list[ServiceAccount] = []
        self.token_lifetime_s = 3600.0
        self.exchanges = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.refused = 0
        self.url = ""
        self._tokens: dict[str, float] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0, ssl=context)
        self.url = f"https://localhost:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0.05)

    def revoke_tokens(self) -> None:
        self._tokens.clear()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                # Long enough for all concurrent requests to arrive.
                await asyncio.sleep(0.05)
                status, response = self._respond(head[0].split(" ")[1], headers, body)
                raw = json.dumps(response).encode()
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _respond(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/token":
            return self._exchange_token(parse_qs(body.decode()))
        if self._tokens.get(headers.get("authorization", "").removeprefix("Bearer "), 0.0) < time.monotonic():
            self.refused += 1
            return 401, {"error": {"code": 401, "message": "Invalid authentication credentials.", "status": "UNAUTHENTICATED"}}
        self.requests.append((path, json.loads(body)))
        return 200, CLAUDE if "/publishers/anthropic/" in path else GEMINI

    def _exchange_token(self, form: dict[str, list[str]]) -> tuple[int, Any]:
        self.exchanges += 1
        for account in self.accounts:
            try:
                claims: Any = jwt.decode(form["assertion"][0], certs=account.public)  # pyright: ignore[reportUnknownMemberType]
            except ValueError:
                continue
            if claims["iss"] == account.email:
                token = f"ya29.token-{self.exchanges}"
                self._tokens[token] = time.monotonic() + self.token_lifetime_s + EXPIRY_TOLERANCE_S
                return 200, {"access_token": token, "expires_in": self.token_lifetime_s, "token_type": "Bearer"}
        return 400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}


@pytest.fixture(scope="module")
async def cloud() -> AsyncGenerator[FakeGoogleCloud]:
    cloud = FakeGoogleCloud()
    await cloud.start()
    yield cloud
    await cloud.stop()


@pytest.fixture(scope="module")
async def files(cloud: FakeGoogleCloud, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the accounts' key files. The service trusts the cloud's authority; each of its workers requests tokens."""
    files = tmp_path_factory.mktemp("accounts")
    providers = {
        name: {"adapter": "vertex", "base_url": cloud.url, "credential": f"file:{files / name}", "options": {"location": "us-east5"}}
        for name in PROVIDER_NAMES
    }
    models = {
        f"{name}/{kind}": {"targets": [{"provider": name, "model": model}]}
        for name in PROVIDER_NAMES
        for kind, model in (("claude", "claude-sonnet-4-5@20250929"), ("gemini", "gemini-2.5-flash"))
    }
    await asyncio.to_thread(service.apply, tomli_w.dumps({"providers": providers, "models": models}))
    return files


@pytest.fixture
async def file(request: pytest.FixtureRequest, cloud: FakeGoogleCloud, files: Path) -> Path:
    """The key file of this test's account."""
    account = ServiceAccount("gateway@a-project.iam.gserviceaccount.com")
    cloud.accounts, cloud.token_lifetime_s, cloud.exchanges, cloud.refused, cloud.requests = [account], 3600.0, 0, 0, []
    file = files / str(request.param)
    file.write_text(account.key_file_json(cloud.url))
    return file


def request_for(file: Path, model: str) -> dict[str, Any]:
    return {"model": f"{file.name}/{model}", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize("file", ["vertex-together"], indirect=True)
async def test_fifty_concurrent_requests_share_one_token_per_worker(file: Path, cloud: FakeGoogleCloud, client: httpx2.AsyncClient):
    answers = await asyncio.gather(
        *(client.post("/v1/messages", json=request_for(file, "claude")) for _ in range(25)),
        *(client.post("/v1/chat/completions", json=request_for(file, "gemini")) for _ in range(25)),
    )
    assert [answer.status_code for answer in answers] == [200] * 50
    assert {answer.json()["content"][0]["text"] for answer in answers[:25]} == {"Hello from Claude."}
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers[25:]} == {"Hello from Gemini."}
    assert 1 <= cloud.exchanges <= WORKERS and (cloud.refused, len(cloud.requests)) == (0, 50)
    location = "/projects/a-project/locations/us-east5/publishers"
    assert {path for path, _ in cloud.requests} == {
        f"/v1{location}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
        f"/v1beta1{location}/google/models/gemini-2.5-flash:generateContent",
    }


@pytest.mark.parametrize("file", ["vertex-expiring"], indirect=True)
async def test_expiring_token_is_refreshed_before_it_is_refused(file: Path, cloud: FakeGoogleCloud, client: httpx2.AsyncClient):
    cloud.token_lifetime_s = 1.0
    assert await statuses(client, file) == [200] * 10
    await asyncio.sleep(1.05 + EXPIRY_TOLERANCE_S)
    assert await statuses(client, file) == [200] * 10
    assert cloud.exchanges >= 2 and cloud.refused == 0


@pytest.mark.parametrize("file", ["vertex-replaced"], indirect=True)
async def test_replaced_key_file_works_at_once_and_refused_credentials_are_not_leaked(
    file: Path, cloud: FakeGoogleCloud, client: httpx2.AsyncClient
):
    assert (await client.post("/v1/messages", json=request_for(file, "claude"))).status_code == 200
    successor = ServiceAccount("successor@a-project.iam.gserviceaccount.com")
    cloud.accounts = [successor]
    cloud.revoke_tokens()
    refused = await client.post("/v1/messages", json=request_for(file, "claude"))
    assert refused.status_code == 502 and "PRIVATE" not in refused.text and "ya29" not in refused.text
    await asyncio.to_thread(file.write_text, successor.key_file_json(cloud.url))
    assert await statuses(client, file) == [200] * 10


async def statuses(client: httpx2.AsyncClient, file: Path) -> list[int]:
    answers = await asyncio.gather(*(client.post("/v1/messages", json=request_for(file, "claude")) for _ in range(10)))
    return [answer.status_code for answer in answers]
