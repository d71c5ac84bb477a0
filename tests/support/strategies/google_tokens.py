"""Google credentials for tests: keys that open nothing, and a token server that counts its tokens."""

import json
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

TOKEN_URL = "https://tokens.test/token"
SERVICE_ACCOUNT_EMAIL = "gateway@a-project.iam.gserviceaccount.com"


@cache
def rsa_key_pair() -> tuple[str, str]:
    """A private key and its public one, as PEM."""
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public_format = serialization.PublicFormat.SubjectPublicKeyInfo
    return (
        private_key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
        private_key.public_key().public_bytes(serialization.Encoding.PEM, public_format).decode(),
    )


def service_account_json(**overrides: Any) -> str:
    fields = {
        "type": "service_account",
        "project_id": "a-project",
        "private_key_id": "key-1",
        "private_key": rsa_key_pair()[0],
        "client_email": SERVICE_ACCOUNT_EMAIL,
        "client_id": "1234567890",
        "token_uri": TOKEN_URL,
        **overrides,
    }
    return json.dumps(fields, indent=2)


def authorized_user(**overrides: Any) -> dict[str, Any]:
    fields = {"type": "authorized_user", "client_id": "id.apps", "client_secret": "s3cret-of-client", "refresh_token": "1//refresh-token"}
    return {**fields, "token_uri": TOKEN_URL, **overrides}


class TokenServer:
    """A Fetch with these responses in order, the last one repeated. Without any it returns token-1, token-2 and so on."""

    def __init__(self, *responses: tuple[int, Any]) -> None:
        self.requests: list[httpx2.Request] = []
        self._responses = list(responses)

    async def __call__(self, request: httpx2.Request) -> tuple[int, bytes]:
        self.requests.append(request)
        if not self._responses:
            return 200, json.dumps({"access_token": f"token-{len(self.requests)}", "expires_in": 3599, "token_type": "Bearer"}).encode()
        status, body = self._responses[0] if len(self._responses) == 1 else self._responses.pop(0)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    def forms(self) -> list[dict[str, str]]:
        return [{name: values[0] for name, values in parse_qs(request.content.decode()).items()} for request in self.requests]
