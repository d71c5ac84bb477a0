"""Credentials: the configuration holds references to them, not the secrets; and signers that authenticate requests with them."""

from providers.credentials.references import CredentialError, CredentialReader, check, header_of
from providers.credentials.signing import Fetch, Header, Signer, UnsignedRequest

__all__ = ["CredentialError", "CredentialReader", "Fetch", "Header", "Signer", "UnsignedRequest", "check", "header_of"]
