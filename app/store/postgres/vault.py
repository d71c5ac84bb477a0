"""The vault: encrypts stored credentials with a key that Postgres never sees, and summaries of conversations that callers keep.

AES-256-GCM with a fresh nonce each, and the name as associated data: a value that is moved to another name's row cannot be
decrypted. Every key decrypts and the first encrypts: rotate keys by putting a new one first and re-encrypting.
"""

import base64
import hashlib
import os
import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from providers.credentials import CredentialError

_NONCE_BYTES = 12
_SUMMARY_PREFIX = "nxs1."
# The mark of a provider, which states of models with several get: app/gateway/attempts/reasoning_state.py.
_MARK = re.compile(r"nx1\.@[0-9a-f]{8}\.")
_MIN_KEY_CHARACTERS = 32
# 32 random hex digits have fewer distinct ones than this once in a hundred million times.
_MIN_DISTINCT_CHARACTERS = 7


class WeakEncryptionKey(ValueError):
    """A key that is too short or not random."""


class NoEncryptionKey(CredentialError):
    """An error: nothing can be encrypted, as no key is set."""


class Vault:
    """Encrypts and decrypts stored credentials. Raises WeakEncryptionKey.

    `keys` are random texts, as in NARTHEX_SECRET_KEY; without any, nothing can be encrypted or decrypted.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        if any(len(key) < _MIN_KEY_CHARACTERS or len(set(key)) < _MIN_DISTINCT_CHARACTERS for key in keys):
            raise WeakEncryptionKey(
                f"NARTHEX_SECRET_KEY: each key must have at least {_MIN_KEY_CHARACTERS} characters, drawn at random:"
                " `openssl rand -base64 32` makes one."
            )
        self._keys = {hashlib.sha256(b"narthex key id" + key.encode()).hexdigest()[:8]: _cipher(key) for key in keys}

    def can_decrypt(self, name: str, encrypted: str) -> bool:
        try:
            self.decrypt(name, encrypted)
        except CredentialError:
            return False
        return True

    @property
    def newest_key_id(self) -> str | None:
        """The id of the key that encrypts; ids reveal nothing about keys."""
        return next(iter(self._keys), None)

    def encrypt(self, name: str, secret: str) -> str:
        """Raises NoEncryptionKey."""
        if self.newest_key_id is None:
            raise NoEncryptionKey("Credentials can only be stored where NARTHEX_SECRET_KEY is set: a random text that encrypts them.")
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = nonce + self._keys[self.newest_key_id].encrypt(nonce, secret.encode(), name.encode())
        return f"{self.newest_key_id}.{base64.b64encode(encrypted).decode()}"

    def decrypt(self, name: str, encrypted: str) -> str:
        """Raises CredentialError if no key decrypts it."""
        id, _, data = encrypted.partition(".")
        cipher = self._keys.get(id)
        if cipher is None:
            raise CredentialError(f"The credential store:{name} was encrypted with a key (id {id}) that NARTHEX_SECRET_KEY does not hold.")
        try:
            raw = base64.b64decode(data, validate=True)
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], name.encode()).decode()
        except (InvalidTag, ValueError):
            raise CredentialError(f"The credential store:{name} cannot be decrypted: it is damaged, or of another name.") from None


def encryption_key_id(encrypted: str) -> str:
    """The id of the key that encrypted a value."""
    return encrypted.partition(".")[0]


def _cipher(key: str) -> AESGCM:
    return AESGCM(hashlib.sha256(b"narthex stored credentials" + key.encode()).digest())


class SummaryCipher:
    """Encrypts summaries with AES-256-GCM, for one team each.

    `secret_keys` are as in NARTHEX_SECRET_KEY: the first encrypts, and each decrypts. Without a key a summary can be read by whoever knows
    how, which is the caller who has it.
    """

    def __init__(self, secret_keys: Sequence[str]) -> None:
        self._ciphers = [AESGCM(hashlib.sha256(b"narthex summaries" + key.encode()).digest()) for key in secret_keys or [""]]

    def encrypt(self, summary: str, team_id: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = nonce + self._ciphers[0].encrypt(nonce, summary.encode("utf-8", "surrogatepass"), team_id.encode())
        return _SUMMARY_PREFIX + base64.urlsafe_b64encode(encrypted).decode().rstrip("=")

    def decrypt(self, text: str, team_id: str) -> str | None:
        """Returns None for what is no summary of ours. Raises ValueError for one of another team, or of a key that is gone."""
        text = _MARK.sub("", text, count=1)
        if not text.startswith(_SUMMARY_PREFIX):
            return None
        data = text.removeprefix(_SUMMARY_PREFIX)
        raw = base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], team_id.encode()).decode("utf-8", "surrogatepass")
            except InvalidTag:
                continue
        raise ValueError("no key decrypts it")
