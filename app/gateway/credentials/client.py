"""CredentialClient: one credential at one endpoint: its secret, and the requests that carry it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Mapping

import httpx2

from app.gateway.credentials.cooldown import Cooldown
from app.gateway.credentials.request_template import RequestTemplate, RequestTemplateKey
from providers.adapters.provider import Provider
from providers.canonical.errors import CredentialRefused, UpstreamError
from providers.credentials import CredentialError, Fetch, Header, Signer, UnsignedRequest
from providers.credentials.masking import SecretMask
from providers.credentials.references import CredentialReader

# Callers choose headers and models, so the number of templates needs a bound.
_MAX_TEMPLATES = 64
# Tokens that the credential was exchanged for and that are masked: the most recent ones.
_MAX_REMEMBERED_TOKENS = 4
# The longest that a caller waits for a token.
_MAX_FETCH_S = 30.0
_TOKEN_HEADERS = (b"authorization", b"x-amz-security-token")
# AWS signatures differ for each request and are no secrets.
_SIGNATURE_PREFIX = b"AWS4-"

_DEFAULT_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    # Without it a server may choose any encoding: https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3, read 2026-11.
    "accept-encoding": "identity",
    "user-agent": "narthex",
}


class CredentialClient:
    """One credential at one endpoint, or the absence of one.

    `reference` is where it is stored; None means that the endpoint needs none. `secret` is the caller's own credential, which comes with
    the request. `generation` grows whenever a new secret is loaded.
    """

    def __init__(self, reference: str | None, reader: CredentialReader, fetch: Fetch, secret: str | None = None) -> None:
        self.reference = reference
        self.cooldown = Cooldown()
        self.generation = 0
        self._tokens: deque[str] = deque(maxlen=_MAX_REMEMBERED_TOKENS)
        self._reader = reader
        self._fetch = fetch
        self._caller_secret = secret
        self._secret: str | None = None
        # Requests in flight still carry these.
        self._previous_secrets: deque[str] = deque(maxlen=2)
        self._is_loaded = False
        self._templates: dict[RequestTemplateKey, RequestTemplate] = {}
        self._signer: Signer | None = None

    @property
    def is_callers_own(self) -> bool:
        return self._caller_secret is not None

    # Requests

    def try_build_request(self, template_key: RequestTemplateKey, body: bytes, timeout: Mapping[str, float]) -> httpx2.Request | None:
        """The request, for the usual case that needs no coroutine; None: await build_request(), as it has no template or must be signed."""
        template = self._templates.get(template_key)
        return None if template is None or self._signer is not None else template.build_request(body, timeout)

    async def build_request(
        self, provider: Provider, base_url: str, template_key: RequestTemplateKey, body: bytes, timeout: Mapping[str, float]
    ) -> httpx2.Request:
        """The request. Raises CredentialError if the credential cannot be read, httpx2.TransportError if its token cannot be fetched."""
        template = self._templates.get(template_key) or self._make_template(provider, base_url, template_key)
        if self._signer is not None:
            signature_headers = await _with_timeout(
                self._signer.sign(UnsignedRequest("POST", template.url, template.headers, body)), timeout
            )
            self._remember_tokens(signature_headers)
            return httpx2.Request(
                "POST", template.url, headers=[*template.headers, *signature_headers], content=body, extensions={"timeout": timeout}
            )
        return template.build_request(body, timeout)

    def headers(self, provider: Provider, dialect: str = "") -> list[Header]:
        """The headers of every request with this credential. Raises CredentialError."""
        secret = self._caller_secret if self._caller_secret is not None else self._load_secret()
        merged = {**_DEFAULT_HEADERS, **{name.lower(): value for name, value in provider.headers(secret, dialect)}}
        if not all(value.isascii() and value.isprintable() for value in merged.values()):
            raise CredentialError(
                f"The credential {self.reference} is not of the kind that {provider.configured_as} takes: no header can hold it."
            )
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in merged.items()]

    def discard_templates(self) -> None:
        """Forgets prepared requests and the signer: the engine or the secret changed."""
        self._templates.clear()
        self._signer = None

    def _make_template(self, provider: Provider, base_url: str, template_key: RequestTemplateKey) -> RequestTemplate:
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        headers = self.headers(provider, template_key.dialect)
        secret = self._caller_secret if self._caller_secret is not None else self._load_secret()
        if self._signer is None:
            self._signer = provider.signer(secret, self._fetch)
        if template_key.betas:
            provider_betas = {name: value for name, value in headers if name == b"anthropic-beta"}
            headers = [each for each in headers if each[0] not in provider_betas]
            headers.append((b"anthropic-beta", b",".join([*provider_betas.values(), template_key.betas])))
        url = provider.url(base_url, template_key.dialect, template_key.model, template_key.stream)
        template = self._templates[template_key] = RequestTemplate(provider.complete_url(url, secret), headers)
        return template

    # Masking

    @property
    def secret_mask(self) -> SecretMask:
        """Masks every secret that requests of this client carried: its secrets, and the tokens they were exchanged for."""
        return SecretMask(each for each in (self._caller_secret, self._secret, *self._previous_secrets, *self._tokens) if each)

    def mask_error(self, error: UpstreamError) -> None:
        """Masks secrets in an error: hosts repeat what they were sent."""
        mask = self.secret_mask.mask
        error.message = mask(error.message)
        error.args = (error.message,)
        error.upstream_code = error.upstream_code and mask(error.upstream_code)
        error.param = error.param and mask(error.param)
        if isinstance(error, CredentialRefused):
            error.reason = mask(error.reason)

    def _remember_tokens(self, signature_headers: list[Header]) -> None:
        """Keeps the tokens of a signed request for secret_mask."""
        for name, value in signature_headers:
            if name.lower() not in _TOKEN_HEADERS or value.startswith(_SIGNATURE_PREFIX):
                continue
            token = value.decode("latin-1").rpartition(" ")[2]
            if token not in self._tokens:
                self._tokens.append(token)

    # The secret

    def reload(self) -> bool:
        """Reads the credential again after it was refused. True: the next request carries another secret or token.

        If none is found, requests in flight can still be aborted with the old one.
        """
        if self._caller_secret is not None:
            return False
        try:
            secret = self._reader.read(self.reference)
        except CredentialError:
            return False
        if secret == self._secret and self._is_loaded:
            can_refresh = self._signer is not None and self._signer.invalidate()
            self.generation += can_refresh
            return can_refresh
        self._replace_secret(secret)
        return True

    def invalidate(self) -> None:
        """Stops using the secret that was read: it was deleted or replaced where it is stored."""
        if self._is_loaded:
            self._replace_secret(None)
            self._is_loaded = False

    def _replace_secret(self, secret: str | None) -> None:
        if self._secret is not None:
            self._previous_secrets.append(self._secret)
        self.discard_templates()
        self._secret, self._is_loaded = secret, True
        self.generation += 1
        self.cooldown.reset()

    def _load_secret(self) -> str | None:
        if not self._is_loaded:
            self._secret, self._is_loaded = self._reader.read(self.reference), True
        return self._secret


async def _with_timeout(signing: Awaitable[list[Header]], timeout: Mapping[str, float]) -> list[Header]:
    """Raises httpx2.ReadTimeout."""
    try:
        async with asyncio.timeout(min(_MAX_FETCH_S, timeout.get("total", _MAX_FETCH_S))):
            return await signing
    except TimeoutError:
        raise httpx2.ReadTimeout("No token in time") from None
