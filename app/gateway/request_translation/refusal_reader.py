"""A host's 400 that names a rule: the request is adapted and tried once more, and others are adapted from then on."""

from app.domain.routing import Target
from app.gateway.learned_rules.store import LearnedRuleStore
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.provider import Provider
from providers.canonical.errors import UpstreamError
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.learned_rules.bound_thinking import conversation_of, read_bound_block
from providers.learned_rules.match import read_lesson
from providers.learned_rules.rule import LearnedRule


class RefusalReader:
    """Reads the refusals of one request by one target.

    `refused` is what was sent before it was adapted; the same is not sent again.
    """

    def __init__(self, store: LearnedRuleStore, target: Target) -> None:
        self._store = store
        self._target = target
        self._conversation: bytes | None = None
        self._error: UpstreamError | None = None
        self.refused: TranslatedRequest | None = None
        self.has_had_blocks_dropped = False

    async def learn(self, error: UpstreamError, translated: TranslatedRequest, source: SourceRequest, *, may_share: bool) -> bool:
        """Whether the request may be adapted, and tried once more. False after the first time: what is learned then is for others.

        `may_share` says whether others may learn what this request is.
        """
        if self._store.keep_s <= 0:
            return False
        lesson = await source.run_conversion(read_lesson, error, translated.dialect.name, translated.raw, translated.betas)
        if lesson is None:
            return False
        if lesson.is_shared and may_share:
            self._store.learn(self._target.provider, self._target.model, lesson.rules)
        if self.refused is not None:
            return False
        self.refused, self._error = translated, error
        self._add_own_rules(source, lesson.rules)
        return True

    def drop_bound_blocks(self, error: UpstreamError, translated: TranslatedRequest, source: SourceRequest, provider: Provider) -> bool:
        """Whether the host is to drop thinking blocks that are bound to another conversation, in this request and all that follow it."""
        if self.has_had_blocks_dropped or provider.binding_controls_beta is None or self._store.keep_s <= 0:
            return False
        path = read_bound_block(error)
        if path is None or b'"block_binding"' in translated.raw:
            return False
        if translated.dialect is not source.terms.dialect:
            path = "messages"
        try:
            body = Body.read(translated.raw)
        except DECODE_ERRORS:
            return False
        self.has_had_blocks_dropped = True
        self._conversation = conversation_of(body, translated.dialect.name, self._target.provider, self._target.model)
        if self._conversation is not None:
            self._store.bind_conversation(self._conversation, path)
        self._add_own_rules(source, (LearnedRule("unbound_thinking", translated.dialect.name, path),))
        return True

    def forget_blocks(self, source: SourceRequest) -> None:
        """The host did not drop them."""
        if self._conversation is not None:
            self._store.unbind_conversation(self._conversation)
        key = self._target.provider, self._target.model
        kept = tuple(rule for rule in source.terms.own_rules.get(key, ()) if rule.kind != "unbound_thinking")
        source.terms.own_rules = {**source.terms.own_rules, key: kept}

    def blames_dropped_blocks(self, error: UpstreamError) -> bool:
        """Whether the host refuses the field with which it was to drop blocks."""
        return self.has_had_blocks_dropped and "block_binding" in error.message

    def check_is_adapted(self, translated: TranslatedRequest) -> None:
        """Raises the host's error if what was adapted is what it refused already."""
        refused, error = self.refused, self._error
        assert refused is not None and error is not None
        if (refused.raw, refused.betas, refused.dialect) == (translated.raw, translated.betas, translated.dialect):
            raise error

    def _add_own_rules(self, source: SourceRequest, rules: tuple[LearnedRule, ...]) -> None:
        key = self._target.provider, self._target.model
        source.terms.own_rules = {**source.terms.own_rules, key: (*source.terms.own_rules.get(key, ()), *rules)}
