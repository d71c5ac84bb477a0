"""Credentials: named in the configuration, read where they are, never kept or shown with it; and requests signed with them."""

from providers.credentials.references import CredentialError, check, header_of, read
from providers.credentials.signing import Fetch, Header, Signer, UnsignedRequest

__all__ = ["CredentialError", "Fetch", "Header", "Signer", "UnsignedRequest", "check", "header_of", "read"]
