"""The certificate of the listeners: read from its files and checked, so that an error says what to do."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from app.settings import Settings

_CERT, _KEY = "NARTHEX_TLS_CERT", "NARTHEX_TLS_KEY"
_MAX_FILE_BYTES = 1024 * 1024
_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
_TOO_WEAK = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")


class BadCertificate(ValueError):
    """Raised for a certificate that cannot be used.

    `problem` says what is wrong. `advice` names the setting or command that fixes it.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}\n{advice}")
        self.problem = problem
        self.advice = advice


class _PassphraseNeeded(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of the listeners, in a `context` for a server. `names` are the hosts and addresses it is for.

    `expires_at` is the Unix time at which the first certificate of its chain ends.
    """

    context: ssl.SSLContext
    names: tuple[str, ...]
    expires_at: float


def load_certificate(settings: Settings) -> Certificate | None:
    """The certificate of these settings; None: they have none, and the listeners speak plain HTTP. Raises BadCertificate."""
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_key:
        raise BadCertificate(f"{_CERT} is set without {_KEY}.", f"Set {_KEY} to the file of the certificate's private key, too.")
    if not settings.tls_cert:
        raise BadCertificate(f"{_KEY} is set without {_CERT}.", f"Set {_CERT} to the file of the certificate and its chain, too.")
    chain = _parse_chain(settings.tls_cert, _read(_CERT, settings.tls_cert))
    _read(_KEY, settings.tls_key)
    context = _server_context(settings)
    return Certificate(context, _names(chain[0]), min(each.not_valid_after_utc for each in chain).timestamp())


def fingerprint(settings: Settings) -> tuple[object, ...]:
    """Returns a value that differs once either file has been replaced or rewritten.

    Links are followed, as Kubernetes and ACME clients swap them.
    """
    return tuple(_file_state(path) for path in (settings.tls_cert, settings.tls_key))


def _file_state(path: str) -> object:
    try:
        state = os.stat(path)
    except OSError as fault:
        return fault.errno
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def _read(name: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise BadCertificate(f"There is no file {path}.", f"Put it there, or set {name} to where it is.") from None
    except PermissionError:
        raise BadCertificate(
            f"{path} may not be read by this user ({os.geteuid()}).", f"Let the user read it (chown, setfacl), or set {name} to a copy."
        ) from None
    except OSError as fault:
        raise BadCertificate(f"{path} cannot be read: {fault.strerror}.", f"Set {name} to a file in PEM form.") from None
    if len(content) > _MAX_FILE_BYTES:
        raise BadCertificate(f"{path} is larger than a megabyte.", f"Set {name} to a file in PEM form.")
    return content


def _parse_chain(path: str, content: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise BadCertificate(
            f"{path} has no certificate that can be read.",
            f"Set {_CERT} to a file in PEM form (-----BEGIN CERTIFICATE-----): the certificate, then those that lead to its issuer.",
        ) from None


def _server_context(settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # by which a caller could make the server work without sending anything
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_refuse_passphrase)
    except _PassphraseNeeded:
        raise BadCertificate(
            f"The key in {settings.tls_key} is encrypted with a passphrase.",
            f"Set {_KEY} to a file without: openssl pkey -in {settings.tls_key} -out NEW, readable by this user only.",
        ) from None
    except ssl.SSLError as fault:
        if fault.reason in _MISMATCHES:
            raise BadCertificate(
                f"The key in {settings.tls_key} does not belong to the certificate in {settings.tls_cert}.",
                f"Set {_CERT} and {_KEY} to files of the same pair; the certificate comes first in its file, before its issuers.",
            ) from None
        if fault.reason in _TOO_WEAK:
            raise BadCertificate(
                f"The certificate in {settings.tls_cert} is too weak for OpenSSL ({fault.reason}).",
                f"Set {_CERT} and {_KEY} to a new pair, with RSA of 2048 bits or more, or an elliptic curve.",
            ) from None
        raise BadCertificate(
            f"{settings.tls_key} has no private key that can be read.",
            f"Set {_KEY} to a file in PEM form (-----BEGIN PRIVATE KEY-----).",
        ) from None
    except OSError as fault:  # replaced since it was read
        raise BadCertificate(f"The certificate cannot be read: {fault.strerror}.", f"Check {_CERT} and {_KEY}.") from None
    return context


def _refuse_passphrase() -> str:
    """Raises _PassphraseNeeded. Without this callback OpenSSL would wait for a passphrase from the terminal."""
    raise _PassphraseNeeded


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return (*alternatives.get_values_for_type(x509.DNSName), *map(str, alternatives.get_values_for_type(x509.IPAddress)))
