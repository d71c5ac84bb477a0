"""What went wrong with a request, as an outcome and a sentence: from the fault of a connection, or from what the host said."""

import re
import socket
import ssl
from collections.abc import Iterator

import httpx

from app.local.trying.tried import Explained
from providers.errors import CredentialRefused, Exhausted, Missing, Overloaded, TimedOut, UpstreamError
from providers.proxy import NotLetThrough

_EXPIRED = re.compile(r"expire|no longer valid|revoked|invalid_grant", re.IGNORECASE)
_MISSING = re.compile(r"(no|missing|without|provide|include).{0,40}(api.?key|credential|authentication|authorization|token)", re.IGNORECASE)
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL's x509_vfy.h.
_OF_ANOTHER_NAME = (62, 64)
# Not the `locations/` of Google's resource names, which stand in whatever it says.
_REGION = re.compile(r"\bregions?\b|\blocations?\b(?!/)", re.IGNORECASE)
_MODEL = re.compile(
    r"model.{0,80}(not.?found|not exist|unknown|not.?supported|not available|invalid)|unknown model|no such model", re.IGNORECASE
)


def explain_connection(fault: httpx.TransportError, address: str) -> Explained:
    """Why there was no answer."""
    url = httpx.URL(address)
    causes = list(_causes(fault))
    for each in causes:
        if isinstance(each, NotLetThrough):
            return Explained(
                "proxy", f"{url.host} is not reached by the proxy: {each}.", "See HTTPS_PROXY and NO_PROXY, and what the proxy allows."
            )
        if isinstance(each, ssl.SSLError):
            return Explained(
                "tls",
                f"No trusted connection to {url.host} could be made: {getattr(each, 'verify_message', '') or each.reason or each}.",
                "Is base_url right? The certificate is another name's."
                if getattr(each, "verify_code", 0) in _OF_ANOTHER_NAME
                else "If a company's proxy or a private authority signs its certificate, name that in NARTHEX_CA_BUNDLE.",
            )
        if isinstance(each, socket.gaierror):
            return Explained(
                "name_not_resolved",
                f"There is no host {url.host}: its name is not resolved.",
                "Is the address right (base_url, or the options that it is made of), and DNS?",
            )
        if isinstance(each, ConnectionRefusedError):
            return Explained(
                "connection_refused", f"Nobody listens on {address}: the connection is refused.", "Is it running, and is the port right?"
            )
    if isinstance(fault, httpx.TimeoutException):
        return Explained(
            "timed_out", f"{address} did not answer in time.", "Is it up, and may this machine reach it? A firewall says no by silence."
        )
    return Explained("broke_off", f"The connection to {address} broke, or it did not speak HTTP: {fault}.", "Is this an HTTP server?")


def explain_error(error: UpstreamError, *, credential: str | None, model: str | None) -> Explained:
    """What the host's own words mean. `credential`: where it is; `model`: of which it was asked."""
    said = f"It said: {error.message}" if not isinstance(error, CredentialRefused) else f"It said: {error.reason}"
    words = f"{error.said_code or ''} {said}"
    match error:
        case CredentialRefused() if credential is None or (credential.startswith("header:") and _MISSING.search(words)):
            return Explained(
                "credential_missing", f"It wants a credential, and none is configured. {said}", "Name one as the provider's `credential`."
            )
        case CredentialRefused() if _EXPIRED.search(words):
            return Explained(
                "credential_expired", f"The credential {credential} has expired or was revoked. {said}", f"Put a new one in {credential}."
            )
        case CredentialRefused() if _REGION.search(words):
            return Explained(
                "wrong_region",
                f"The credential {credential} does not go with this region. {said}",
                "See the provider's region or location.",
            )
        case CredentialRefused():
            return Explained("credential_refused", f"The credential {credential} was refused. {said}", f"Put a good one in {credential}.")
        case Exhausted():
            return Explained(
                "nothing_left", f"The account has nothing left. {said}", "See the account's balance, budget and bills at the provider."
            )
        case Overloaded():
            wait = f" It lets more through in {error.retry_after_s:.0f} s." if error.retry_after_s else ""
            return Explained(
                "rate_limited", f"The credential works, and has no room now.{wait} {said}", "Try again later, or raise its limits."
            )
        case TimedOut():
            return Explained("timed_out", f"It did not answer in time. {said}", "Try again later.")
        case _ if _REGION.search(words) and (model is None or isinstance(error, Missing) or error.told in (400, 403, 404)):
            return Explained(
                "wrong_region", f"This is not there in the region that was asked. {said}", "See the provider's region or location."
            )
        case _ if model is not None and (isinstance(error, Missing) or _MODEL.search(words)):
            return Explained(
                "model_missing",
                f"The credential is not at fault: there is no model {model!r} for it. {said}",
                "Name a model that the provider has.",
            )
        case Missing():
            return Explained("not_understood", f"There is no such API at this address. {said}", "Are adapter and base_url right?")
        case _ if error.told is not None and error.told < 500:
            return Explained("refused", f"It refused the request. {said}", "Are the adapter and its options right?")
        case _:
            return Explained("failed", f"It failed. {said}", "Try again later; its status page may say more.")


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """What led to it, and what led to that."""
    met: set[int] = set()
    each: BaseException | None = fault
    while each is not None and id(each) not in met:
        met.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
