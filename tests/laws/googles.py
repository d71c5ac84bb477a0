"""What Google gives out, made on the spot: keys that open nothing, and a token server that counts."""

import json
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SERVER = "https://tokens.test/token"
EMAIL = "gateway@a-project.iam.gserviceaccount.com"


@cache
def key() -> tuple[str, str]:
    """A private key and its public one, as PEM."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return (
        made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
        made.public_key().public_bytes(serialization.Encoding.PEM, form).decode(),
    )


def service_account(**other: Any) -> str:
    told = {
        "type": "service_account",
        "project_id": "a-project",
        "private_key_id": "key-1",
        "private_key": key()[0],
        "client_email": EMAIL,
        "client_id": "1234567890",
        "token_uri": SERVER,
        **other,
    }
    return json.dumps(told, indent=2)


def user(**other: Any) -> dict[str, Any]:
    told = {"type": "authorized_user", "client_id": "id.apps", "client_secret": "s3cret-of-client", "refresh_token": "1//refresh-token"}
    return {**told, "token_uri": SERVER, **other}


class TokenServer:
    """A Fetch. `answers`: what it says in turn, the last one for ever; without any it gives token-1, token-2 and so on."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.asked: list[httpx.Request] = []
        self._answers = list(answers)

    async def __call__(self, request: httpx.Request) -> tuple[int, bytes]:
        self.asked.append(request)
        if not self._answers:
            return 200, json.dumps({"access_token": f"token-{len(self.asked)}", "expires_in": 3599, "token_type": "Bearer"}).encode()
        status, said = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        return status, said if isinstance(said, bytes) else json.dumps(said).encode()

    def forms(self) -> list[dict[str, str]]:
        return [{name: values[0] for name, values in parse_qs(request.content.decode()).items()} for request in self.asked]
