"""Credentials: the configuration holds references to them, not the secrets; and signers that authenticate requests with them."""

from providers.credentials.references import CredentialError, check, header_of, read
from providers.credentials.signing import Fetch, Header, Signer, UnsignedRequest

__all__ = ["CredentialError", "Fetch", "Header", "Signer", "UnsignedRequest", "check", "header_of", "read"]
