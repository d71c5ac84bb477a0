"""TLS of requests: which authorities are trusted."""

import ssl

import httpx


def tls_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """A client context that trusts the public authorities (or SSL_CERT_FILE, SSL_CERT_DIR), and those in the PEM file `ca_bundle`."""
    context = httpx.create_ssl_context()
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context
