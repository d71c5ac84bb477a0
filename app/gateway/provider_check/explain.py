"""Explanations of failed requests: an outcome and a sentence for a connection error or the host's error response."""

import re
import ssl
from collections.abc import Iterator

import httpx2

from app.gateway.provider_check.result import Explanation
from providers.canonical.errors import CredentialRefused, Overloaded, QuotaExhausted, TimedOut, UpstreamError, UpstreamNotFound
from providers.transport.address_guard import AddressRefused
from providers.transport.proxy import ProxyConnectError
from providers.transport.unknown_names import is_unknown_name

_EXPIRED = re.compile(r"expire|no longer valid|revoked|invalid_grant", re.IGNORECASE)
_MISSING = re.compile(r"(no|missing|without|provide|include).{0,40}(api.?key|credential|authentication|authorization|token)", re.IGNORECASE)
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL's x509_vfy.h.
_NAME_MISMATCH_CODES = (62, 64)
# Not the `locations/` of Google's resource names, which any of its messages may contain.
_REGION = re.compile(r"\bregions?\b|\blocations?\b(?!/)", re.IGNORECASE)
_MODEL = re.compile(
    r"model.{0,80}(not.?found|not exist|unknown|not.?supported|not available|invalid)|unknown model|no such model", re.IGNORECASE
)


def explain_connection_error(fault: httpx2.TransportError, address: str) -> Explanation:
    """Explains why there was no response."""
    url = httpx2.URL(address)
    causes = list(_exception_chain(fault))
    for each in causes:
        if isinstance(each, AddressRefused):
            return Explanation("refused_address", f"{each}.", "Correct base_url, or set NARTHEX_ALLOWED_ADDRESSES.")
        if isinstance(each, ProxyConnectError):
            return Explanation(
                "proxy",
                f"The proxy could not reach {url.host}: {each}.",
                "Check HTTPS_PROXY and NO_PROXY, and what the proxy allows.",
            )
        if isinstance(each, ssl.SSLError):
            return Explanation(
                "tls",
                f"No trusted connection to {url.host} could be made: {getattr(each, 'verify_message', '') or each.reason or each}.",
                "Is base_url right? The certificate is for another name."
                if getattr(each, "verify_code", 0) in _NAME_MISMATCH_CODES
                else "If a company's proxy or a private authority signs its certificate, name that authority in NARTHEX_CA_BUNDLE.",
            )
        if is_unknown_name(each):
            return Explanation(
                "name_not_resolved",
                f"The name {url.host} could not be resolved.",
                "Is the address right (base_url, or the options that it is made of), and does DNS work?",
            )
        if isinstance(each, ConnectionRefusedError):
            return Explanation(
                "connection_refused",
                f"Nothing listens on {address}: the connection is refused.",
                "Is it running, and is the port right?",
            )
    if isinstance(fault, httpx2.TimeoutException):
        return Explanation(
            "timed_out",
            f"{address} did not answer in time.",
            "Is it running, and can this machine reach it? A firewall may drop connections silently.",
        )
    return Explanation(
        "connection_broken", f"The connection to {address} broke, or it did not speak HTTP: {fault}.", "Is this an HTTP server?"
    )


def explain_upstream_error(error: UpstreamError, *, credential: str | None, model: str | None) -> Explanation:
    """Explains the host's error.

    `credential` is the reference of the credential, or None without one. `model` is the requested model, or
    None for a listing.
    """
    provider_message = f"Its message: {error.reason if isinstance(error, CredentialRefused) else error.message}"
    searched_text = f"{error.upstream_code or ''} {provider_message}"
    match error:
        case CredentialRefused() if credential is None or (credential.startswith("header:") and _MISSING.search(searched_text)):
            return Explanation(
                "credential_missing",
                f"It requires a credential, and none is configured. {provider_message}",
                "Name one as the provider's `credential`.",
            )
        case CredentialRefused() if _EXPIRED.search(searched_text):
            return Explanation(
                "credential_expired",
                f"The credential {credential} has expired or was revoked. {provider_message}",
                f"Put a new one in {credential}.",
            )
        case CredentialRefused() if _REGION.search(searched_text):
            return Explanation(
                "wrong_region",
                f"The credential {credential} is not valid in this region. {provider_message}",
                "Check the provider's region or location.",
            )
        case CredentialRefused():
            return Explanation(
                "credential_refused", f"The credential {credential} was refused. {provider_message}", f"Put a valid one in {credential}."
            )
        case QuotaExhausted():
            return Explanation(
                "quota_exhausted",
                f"The account's quota or balance is exhausted. {provider_message}",
                "Check the account's balance, budget and bills at the provider.",
            )
        case Overloaded():
            wait = f" More are allowed in {error.retry_after_s:.0f} s." if error.retry_after_s else ""
            return Explanation(
                "rate_limited",
                f"The credential works, but has reached a rate limit.{wait} {provider_message}",
                "Try again later, or raise its limits.",
            )
        case TimedOut():
            return Explanation("timed_out", f"It did not answer in time. {provider_message}", "Try again later.")
        case _ if _REGION.search(searched_text) and (
            model is None or isinstance(error, UpstreamNotFound) or error.upstream_status in (400, 403, 404)
        ):
            return Explanation(
                "wrong_region",
                f"This is not available in the region. {provider_message}",
                "Check the provider's region or location.",
            )
        case _ if model is not None and (isinstance(error, UpstreamNotFound) or _MODEL.search(searched_text)):
            return Explanation(
                "model_missing",
                f"The credential works, but has no model {model!r}. {provider_message}",
                "Name a model that the provider has.",
            )
        case UpstreamNotFound():
            return Explanation(
                "invalid_response", f"There is no such API at this address. {provider_message}", "Are adapter and base_url right?"
            )
        case _ if error.upstream_status is not None and error.upstream_status < 500:
            return Explanation("refused", f"It refused the request. {provider_message}", "Are the adapter and its options right?")
        case _:
            return Explanation("failed", f"It failed. {provider_message}", "Try again later; its status page may say more.")


def _exception_chain(fault: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, the outermost first."""
    seen: set[int] = set()
    each: BaseException | None = fault
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
