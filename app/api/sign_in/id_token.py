"""ID tokens: whether one was signed by the issuer, for this gateway, for this sign-in, and is still valid; and whom it is about."""

import hmac
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from app.api.sign_in.issuer import IssuedTokens, Issuer
from app.settings import Settings
from app.store.access.sign_ins import Person
from app.store.postgres.names import MAX_NAME_CHARACTERS
from providers.canonical.errors import InvalidUpstreamResponse

log = logging.getLogger(__name__)

# Signed with a key that only the issuer has: neither `none` nor HMAC with the client's secret.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
_CLOCK_SKEW_S = 60
_MAX_HEADER_BYTES = 16 * 1024  # with a chain of certificates
_MAX_KEYS_TRIED = 10  # for a token that does not name its key
_MAX_SUBJECT_CHARACTERS = 255
_MAX_EMAIL_CHARACTERS = 320
_MAX_GROUPS = 1_000
# What joserfc raises for a token that is not one: also for values of other types than it expects, and for JSON that is nested too deeply.
_UNREADABLE = (JoseError, ValueError, TypeError, RecursionError)


async def identify(issuer: Issuer, settings: Settings, tokens: IssuedTokens, nonce: str | None) -> Person:
    """Returns the person whom the issuer has identified.

    `nonce` is that of the sign-in, or None for a device's sign-in, which has none. Raises
    InvalidUpstreamResponse for a token that is not valid, and what Issuer's methods raise.
    """
    claims = await _verify(issuer, settings, tokens.id_token, nonce)
    has_everything = _find_groups(claims, settings.oidc_groups_claim) is not None and ("email" in claims or "preferred_username" in claims)
    if not has_everything and tokens.access_token is not None:
        more = await issuer.user_info(tokens.access_token)
        if more and more.get("sub") != claims["sub"]:  # required by OpenID Connect Core, section 5.3.2
            raise _invalid("its userinfo is about somebody else")
        claims = {**more, **claims}
    groups = _find_groups(claims, settings.oidc_groups_claim)
    if groups is None:
        # As Entra ID does for people who have many, and any issuer that was not configured to send them.
        log.info("the issuer has sent no groups of a person", extra={"claim": settings.oidc_groups_claim, "claims": sorted(claims)[:50]})
    email = _text(claims.get("email"), _MAX_EMAIL_CHARACTERS)
    # An address that the issuer has not verified is what its holder wrote: not what others should know them by.
    is_refuted = claims.get("email_verified") in (False, "false")
    names = (None if is_refuted else email, claims.get("preferred_username"), claims["sub"])
    name = next((name for each in names if (name := _text(each, MAX_NAME_CHARACTERS)) is not None), claims["sub"][:MAX_NAME_CHARACTERS])
    return Person(str(settings.oidc_issuer), claims["sub"], name, email, groups or ())


async def _verify(issuer: Issuer, settings: Settings, token: str, nonce: str | None) -> dict[str, Any]:
    claims = await _verify_signature(issuer, token)
    audience = claims.get("aud")
    audiences = cast("list[Any]", audience) if isinstance(audience, list) else [audience]
    now, expires, begins = time.time(), claims.get("exp"), claims.get("nbf", 0)
    if claims.get("iss") != settings.oidc_issuer:
        raise _invalid("it is from another issuer")
    if settings.oidc_client_id not in audiences:
        raise _invalid("it is for another client")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != settings.oidc_client_id:
        raise _invalid("it was issued to another client")
    if not (isinstance(expires, int | float) and now <= expires + _CLOCK_SKEW_S):  # NaN is neither more nor less
        raise _invalid("it has expired, or the clocks of the gateway and the issuer differ")
    if not (isinstance(begins, int | float) and now >= begins - _CLOCK_SKEW_S):
        raise _invalid("it is not valid yet, or the clocks of the gateway and the issuer differ")
    if nonce is not None and not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _invalid("it is of another sign-in")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARACTERS or not subject.isprintable():
        raise _invalid("it does not say whom it is about")
    return claims


async def _verify_signature(issuer: Issuer, token: str) -> dict[str, Any]:
    registry = jws.JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
    registry.max_header_length = _MAX_HEADER_BYTES
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
    except _UNREADABLE:
        raise _invalid("it is not a signed token") from None
    named = header.get("kid")
    key_id = named if isinstance(named, str) else None
    keys = await issuer.keys_for(key_id)
    claims = _decode_with(keys, token, registry)
    if claims is None:  # the issuer may have new keys since
        claims = _decode_with(await issuer.keys_for(key_id, older_than=keys), token, registry)
    if claims is None:
        raise _invalid("no key of the issuer has signed it")
    return claims


def _decode_with(keys: Sequence[Key], token: str, registry: jws.JWSRegistry) -> dict[str, Any] | None:
    for key in keys[:_MAX_KEYS_TRIED]:
        try:
            return jwt.decode(token, key, registry=registry).claims
        except _UNREADABLE:
            continue
    return None


def _find_groups(claims: Mapping[str, Any], name: str) -> Sequence[str] | None:
    """The groups in a claim of this name, else in the object that its parts lead into. None: there is no such claim."""
    found: Any = claims
    if name in claims:
        found = claims[name]
    else:
        for part in name.split("."):
            found = cast("Mapping[str, Any]", found).get(part) if isinstance(found, Mapping) else None
    if found is None:
        return None
    each_of = cast("list[Any]", found) if isinstance(found, list) else [found]
    groups = (_text(each, MAX_NAME_CHARACTERS) for each in each_of[:_MAX_GROUPS])
    return list(dict.fromkeys(group for group in groups if group is not None))


def _text(value: object, max_characters: int) -> str | None:
    """A text that may be stored and shown; None: it is none, or too long to be what it says."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > max_characters:
        return None
    return value.strip()


def _invalid(reason: str) -> InvalidUpstreamResponse:
    return InvalidUpstreamResponse(f"The issuer's ID token is not accepted: {reason}.")
