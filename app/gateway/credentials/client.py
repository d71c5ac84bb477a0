"""Identity: as whom an endpoint is spoken to, and the requests that go as it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Mapping

import httpx
from msgspec import Struct

from app.gateway.credentials.cooldown import Cooldown
from providers import credentials
from providers.adapters.provider import Provider
from providers.canonical.errors import CredentialRefused, UpstreamError
from providers.credentials import CredentialError, Fetch, Header, Signer, UnsignedRequest
from providers.credentials.masking import SecretMask
from providers.credentials.references import SecretLookup
from providers.transport.http1 import SharedHead

# Requests like the last are made from it; of headers that callers choose, and of models, there may be as many as callers please.
_MAX_TEMPLATES = 64
# Of those that it was exchanged for, the last.
_MAX_REMEMBERED_TOKENS = 4
# Of a token that is fetched: more than that no caller waits.
_MAX_FETCH_S = 30.0
_TOKEN_HEADERS = (b"authorization", b"x-amz-security-token")
# Not a token, but made of one, and another for each request.
_SIGNATURE_PREFIX = b"AWS4-"

_DEFAULT_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream", "user-agent": "narthex"}


class RequestTemplateKey(Struct, frozen=True):
    """What an address is made of. `model` is empty where no address names it; `stream` where it makes no difference."""

    dialect: str
    model: str = ""
    stream: bool = False
    betas: bytes = b""


class _RequestTemplate:
    """Where one dialect is spoken at an endpoint, as whom, and a request of that kind to copy."""

    def __init__(self, url: httpx.URL, headers: list[Header]) -> None:
        self.url = url
        self.headers = headers
        self.standing = SharedHead(url, headers)
        self.request_attributes = vars(httpx.Request("POST", url, headers=headers, stream=httpx.ByteStream(b"")))


class CredentialClient:
    """One credential at one endpoint, or none. `reference`: where it is; None: there is none. `secret`: of the caller's own, which has no

    other place. `turn`: grows with each other credential that is found where it is kept.
    """

    def __init__(self, reference: str | None, stored: SecretLookup, fetch: Fetch, secret: str | None = None) -> None:
        self.reference = reference
        self.cooldown = Cooldown()
        self.generation = 0
        self._tokens: deque[str] = deque(maxlen=_MAX_REMEMBERED_TOKENS)
        self._stored = stored
        self._fetch = fetch
        self._caller_secret = secret
        self._secret: str | None = None
        # What is under way still went with those.
        self._previous_secrets: deque[str] = deque(maxlen=2)
        self._is_loaded = False
        self._templates: dict[RequestTemplateKey, _RequestTemplate] = {}
        self._signer: Signer | None = None

    @property
    def is_callers_own(self) -> bool:
        return self._caller_secret is not None

    async def build_request(
        self, provider: Provider, base_url: str, template_key: RequestTemplateKey, body: bytes, timeout: Mapping[str, float]
    ) -> httpx.Request:
        """A request with this body. Raises NoCredential if the credential is not there, httpx.TransportError if it cannot be fetched."""
        template = self._templates.get(template_key) or self._make_template(provider, base_url, template_key)
        if self._signer is not None:
            signature_headers = await _with_timeout(
                self._signer.sign(UnsignedRequest("POST", template.url, template.headers, body)), timeout
            )
            self._remember_tokens(signature_headers)
            return httpx.Request(
                "POST", template.url, headers=[*template.headers, *signature_headers], content=body, extensions={"timeout": timeout}
            )
        return _copy_template(template, body, timeout)

    def try_build_request(self, template_key: RequestTemplateKey, body: bytes, timeout: Mapping[str, float]) -> httpx.Request | None:
        """See request(); None: what it takes is not known yet, or it is to be signed. Most wait for nobody."""
        template = self._templates.get(template_key)
        return None if template is None or self._signer is not None else _copy_template(template, body, timeout)

    def headers(self, provider: Provider, dialect: str = "") -> list[Header]:
        """Those of every request. Raises NoCredential."""
        secret = self._caller_secret if self._caller_secret is not None else self._load_secret()
        merged = {**_DEFAULT_HEADERS, **{name.lower(): value for name, value in provider.headers(secret, dialect)}}
        if not all(value.isascii() and value.isprintable() for value in merged.values()):
            raise CredentialError(
                f"The credential {self.reference} is not of the kind that {provider.configured_as} takes: no header can hold it."
            )
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in merged.items()]

    @property
    def secret_mask(self) -> SecretMask:
        """Of all that went with requests as it: its secret, and tokens that it was exchanged for."""
        return SecretMask(each for each in (self._caller_secret, self._secret, *self._previous_secrets, *self._tokens) if each)

    def mask_error(self, error: UpstreamError) -> None:
        """What a host said, without any secret that it was sent."""
        mask = self.secret_mask.mask
        error.message = mask(error.message)
        error.args = (error.message,)
        error.upstream_code = error.upstream_code and mask(error.upstream_code)
        error.param = error.param and mask(error.param)
        if isinstance(error, CredentialRefused):
            error.reason = mask(error.reason)

    def reload(self) -> bool:
        """After a refusal: whether another credential lies now where it is kept, with which the next request goes.

        If none does, what is under way can still be stopped with the one that it went with.
        """
        if self._caller_secret is not None:
            return False
        try:
            secret = credentials.read(self.reference, self._stored)
        except CredentialError:
            return False
        if secret == self._secret and self._is_loaded:
            can_refresh = self._signer is not None and self._signer.invalidate()
            self.generation += can_refresh
            return can_refresh
        self._replace_secret(secret)
        return True

    def invalidate(self) -> None:
        """What was read is used no more: it may be gone from where it is kept, or be another."""
        if self._is_loaded:
            self._replace_secret(None)
            self._is_loaded = False

    def discard_templates(self) -> None:
        """Whatever was made of how the endpoint was spoken to."""
        self._templates.clear()
        self._signer = None

    def _replace_secret(self, secret: str | None) -> None:
        if self._secret is not None:
            self._previous_secrets.append(self._secret)
        self.discard_templates()
        self._secret, self._is_loaded = secret, True
        self.generation += 1
        self.cooldown.reset()

    def _remember_tokens(self, signature_headers: list[Header]) -> None:
        """Tokens that a signer was given, so that no host says them back to anybody."""
        for name, value in signature_headers:
            if name.lower() not in _TOKEN_HEADERS or value.startswith(_SIGNATURE_PREFIX):
                continue
            token = value.decode("latin-1").rpartition(" ")[2]
            if token not in self._tokens:
                self._tokens.append(token)

    def _load_secret(self) -> str | None:
        if not self._is_loaded:
            self._secret, self._is_loaded = credentials.read(self.reference, self._stored), True
        return self._secret

    def _make_template(self, provider: Provider, base_url: str, template_key: RequestTemplateKey) -> _RequestTemplate:
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        headers = self.headers(provider, template_key.dialect)
        if self._signer is None:
            self._signer = provider.signer(self._caller_secret if self._caller_secret is not None else self._load_secret(), self._fetch)
        if template_key.betas:
            provider_betas = {name: value for name, value in headers if name == b"anthropic-beta"}
            headers = [each for each in headers if each[0] not in provider_betas]
            headers.append((b"anthropic-beta", b",".join([*provider_betas.values(), template_key.betas])))
        url = provider.url(base_url, template_key.dialect, template_key.model, template_key.stream)
        template = self._templates[template_key] = _RequestTemplate(
            provider.complete_url(url, self._caller_secret if self._caller_secret is not None else self._load_secret()), headers
        )
        return template


def _copy_template(template: _RequestTemplate, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
    """As one that was made already, but for the body: to make it anew, its URL and headers parsed again, would take three times as long."""
    request = object.__new__(httpx.Request)
    request.__dict__.update(template.request_attributes)
    request.stream = httpx.ByteStream(body)
    request.extensions = {"shared_head": template.standing, "timeout": timeout}
    return request


async def _with_timeout(signing: Awaitable[list[Header]], timeout: Mapping[str, float]) -> list[Header]:
    """Raises httpx.ReadTimeout."""
    try:
        async with asyncio.timeout(min(_MAX_FETCH_S, timeout.get("total", _MAX_FETCH_S))):
            return await signing
    except TimeoutError:
        raise httpx.ReadTimeout("No token in time") from None
