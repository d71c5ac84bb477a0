"""TLS of requests: which authorities are trusted."""

import os
import ssl

import certifi


def tls_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """Returns a client context that trusts the public authorities (or SSL_CERT_FILE, SSL_CERT_DIR), and those in the PEM file `ca_bundle`.

    The public ones are those of certifi on every machine: an image may have none of its own.
    """
    if cafile := os.environ.get("SSL_CERT_FILE"):
        context = ssl.create_default_context(cafile=cafile)
    elif capath := os.environ.get("SSL_CERT_DIR"):
        context = ssl.create_default_context(capath=capath)
    else:
        context = ssl.create_default_context(cafile=certifi.where())
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context
