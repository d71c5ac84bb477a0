"""The modules that need a cloud's SDK, imported on first use: the SDKs take most of a second of processor time to import.

Every gateway process and every command would pay that, and few have a credential that needs one.
"""

import importlib
from types import ModuleType


def aws_chain() -> ModuleType:
    """providers.credentials.aws_chain, with botocore."""
    return importlib.import_module("providers.credentials.aws_chain")


def google_chain() -> ModuleType:
    """providers.credentials.google_chain, with google-auth."""
    return importlib.import_module("providers.credentials.google_chain")


def google_grants() -> ModuleType:
    """providers.credentials.google_grants, with google-auth's signatures."""
    return importlib.import_module("providers.credentials.google_grants")
