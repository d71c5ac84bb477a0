"""Credentials: named in the configuration, read where they are, never kept or shown with it; and requests signed with them."""

from providers.credentials.references import NoCredential, check, header_of, read
from providers.credentials.signing import Fetch, Header, Signer, Unsigned

__all__ = ["Fetch", "Header", "NoCredential", "Signer", "Unsigned", "check", "header_of", "read"]
