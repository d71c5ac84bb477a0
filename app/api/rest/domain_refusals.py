"""Refusals of operations: errors of the domain with a status, wherever the operation runs."""

from app.domain.errors import BadConfiguration, BoundReached, InvalidKeyField, StillUsed
from providers.canonical.errors import Conflict, InvalidRequest, NarthexError

DOMAIN_ERRORS = (InvalidKeyField, BadConfiguration, BoundReached)


def refusal_of(fault: InvalidKeyField | BadConfiguration | BoundReached) -> NarthexError:
    match fault:
        case InvalidKeyField():
            return InvalidRequest(str(fault), param=fault.field)
        case StillUsed() | BoundReached():
            return Conflict(str(fault))
        case _:
            return InvalidRequest(str(fault))
