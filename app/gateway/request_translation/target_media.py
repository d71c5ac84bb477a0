"""Media of a request, as a target takes it: as bytes where it may not read a URL, left out where its model reads no images."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from app.gateway.media import body_media
from app.gateway.media.fetcher import ClaimBytes, claim_nothing
from app.gateway.request_translation.dropped_fields import drop_policy_for
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import SourceRequest, UsedIds
from providers.adapters.content_parts import drop_unsupported_parts
from providers.adapters.provider import Provider
from providers.canonical import media
from providers.canonical.chat import ChatRequest, Inline
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

_ALL_MEDIA_KINDS: frozenset[media.MediaKind] = frozenset({"image", "file", "audio"})


class _NoFetcher:
    """A stand-in for a MediaFetcher that gives empty media."""

    async def fetch(self, urls: Collection[str], claim_bytes: ClaimBytes = claim_nothing) -> Mapping[str, Inline]:
        return {url: Inline("image/png", "") for url in urls}


def without_fetching(source: SourceRequest) -> SourceRequest:
    """The same request, to be translated only to know whether a target takes it: whatever media it needs counts as fetched."""
    return replace(source, terms=replace(source.terms, media_fetcher=_NoFetcher()), used_ids=UsedIds())


def why_no_images(recipient: Recipient) -> str | None:
    """Returns why the target reads no images, or None if it may.

    The adapter or its probe says so; for an engine, whose model's name says nothing, also the `capabilities` that its operator states.
    """
    provider, capabilities = recipient.provider, recipient.terms.capabilities
    why = provider.why_no_images(recipient.target.model)
    if why is None and provider.is_self_hosted and "chat" in capabilities and "vision" not in capabilities:
        return "its model reads no images: `capabilities` of the model in the gateway's configuration have no `vision`."
    return why


async def leave_out_images(source: SourceRequest, recipient: Recipient) -> SourceRequest:
    """The request without images, for a target whose model reads none; the same one, where it has none or they are read.

    Raises Unsupported, at the caller's own place, unless dropping them is allowed: before anything is fetched.
    """
    why, caller_dialect = why_no_images(recipient), CALLER_CHAT_DIALECTS.get(source.terms.dialect.name)
    if why is None or caller_dialect is None:
        return source
    try:
        chat = await source.read_chat()
    except InvalidRequest:
        return source
    drop_policy = drop_policy_for(source, recipient, caller_dialect)
    without_images = drop_unsupported_parts(chat, {"image_url": why}, drop_policy)
    if without_images is chat:
        return source
    return source.with_chat(without_images, source.constraint, left_out_images=drop_policy.dropped)


async def inline_media_for_engine(source: SourceRequest, provider: Provider) -> None:
    """Puts the bytes of media in place of URLs that this engine may not read itself; also for the targets tried after it.

    Raises InvalidRequest for media that is named otherwise than by http, https and data URLs, or that cannot be fetched.
    """
    if source.inlined_for is not None and source.inlined_for <= provider.media_hosts:
        return
    fields, slots = await source.run(body_media.decode_media, source.request.body)
    urls = body_media.urls_to_fetch(slots, provider.media_hosts)
    if source.left_out_images and source.chat is not None:
        urls &= media.media_urls(source.chat, _ALL_MEDIA_KINDS)
    if urls:
        fetched = await source.terms.media_fetcher.fetch(urls, source.terms.claim_bytes)
        body_media.write_inline(slots, fetched)
        source.request = replace(source.request, body=Body({**source.request.body, **fields}))
        if source.is_rewritten and source.chat is not None:  # it cannot be read from the body again
            source.chat = media.inline_media(source.chat, _ALL_MEDIA_KINDS, fetched)
        else:
            source.chat = None
    source.inlined_for = provider.media_hosts


async def read_chat_with_media(
    source: SourceRequest, provider: Provider, dialect_name: str, kinds: frozenset[media.MediaKind]
) -> ChatRequest:
    """The chat with the bytes of all media of these kinds that the target does not accept by URL, fetched once for all targets.

    Raises InvalidRequest for media that cannot be fetched.
    """
    chat, urls = await source.run(_read_chat_and_urls, source, provider, dialect_name, kinds)
    if urls:
        fetched = await source.terms.media_fetcher.fetch(urls, source.terms.claim_bytes)
        chat = source.chat = media.inline_media(chat, kinds, fetched)
    return chat


def _read_chat_and_urls(
    source: SourceRequest, provider: Provider, dialect_name: str, kinds: frozenset[media.MediaKind]
) -> tuple[ChatRequest, set[str]]:
    """The chat, and the URLs of the media whose bytes the target needs."""
    chat = source.read_chat_now()
    return chat, {url for url in media.media_urls(chat, kinds) if not provider.accepts_media_url(url, dialect_name)}
