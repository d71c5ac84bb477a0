"""Vertex, Google Cloud's: Gemini, Claude and open models, each asked in its publisher's own words, which its name tells.

Sources: https://cloud.google.com/vertex-ai/generative-ai/docs (model-reference/inference, partner-models/claude/use-claude,
maas/call-open-model-apis); lib/vertex/_client.py of Anthropic's SDK 2.11; /reference/providers.md parts 1, 2, 6, 7; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx

from providers.chat import ChatRequest
from providers.credentials import Fetch, NoCredential, Signer, google
from providers.dialect import Concessions
from providers.dialects.gemini.errors import read_google_error
from providers.dialects.gemini.parts import type_at
from providers.errors import UpstreamError
from providers.foreign import Foreign
from providers.guided import Constraint, Guiding
from providers.hosted import claude
from providers.hosted.claude_rules import bend_claude_chat, is_held
from providers.hosted.gemini_guiding import gemini_guiding, left
from providers.hosted.vertex_counting import VERTEX_COUNT
from providers.hosted.vertex_embeddings import VERTEX_EMBEDDINGS
from providers.hosted.vertex_models import GEMINI, read_model
from providers.media import Kind
from providers.provider import BadOption, Bent, Provider, server_root
from providers.wire import Body

_HOST = "https://aiplatform.googleapis.com"
# Locations that are no regions have hosts of their own.
_HOSTS: Mapping[str, str] = {
    "global": _HOST,
    "us": "https://aiplatform.us.rep.googleapis.com",
    "eu": "https://aiplatform.eu.rep.googleapis.com",
}
_VERSION = "vertex-2023-10-16"
_MESSAGES = "anthropic_messages"
_CLAUDE = frozenset({_MESSAGES, "anthropic_count_tokens"})
_BYTES: Mapping[str, frozenset[Kind]] = {
    _MESSAGES: frozenset({"image", "file"}),
    GEMINI: frozenset({"image", "file", "audio"}),
}
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_LOCATION = re.compile(r"[a-z0-9-]+")
# Where an address' project stands until the credential tells it.
_UNKNOWN = "/projects/-/"


class Vertex(Provider):
    name: ClassVar[str] = "vertex"
    dialects: ClassVar[tuple[str, ...]] = (GEMINI, _MESSAGES, "anthropic_count_tokens", "openai_chat")
    default_base_url: ClassVar[str | None] = _HOST
    addresses_models: ClassVar[bool] = True
    chains: ClassVar[frozenset[str]] = frozenset({"google"})
    foreign: ClassVar[Mapping[str, Foreign]] = {"openai_embeddings": VERTEX_EMBEDDINGS, "anthropic_count_tokens": VERTEX_COUNT}
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **claude.OPTIONS,
        "project": "the Google Cloud project (that of the service account, where the credential is one)",
        "location": "the region, us, eu or global (global)",
    }
    # What its Claude does not refuse, it holds to: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude
    # /structured_outputs, read 2026-11.
    guided_in = frozenset({GEMINI, _MESSAGES})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._demands = claude.read_demands(configured_as, options)
        self._project = _option(configured_as, options, "project", _PROJECT)
        self._location = _option(configured_as, options, "location", _LOCATION) or "global"

    def spoken_for(self, model: str) -> tuple[str, ...]:
        return self._dialects or read_model(model).spoken

    def place(self, base_url: str) -> str:
        """One without a location of its own is that of this location."""
        if base_url.rstrip("/") != _HOST:
            return base_url
        return _HOSTS.get(self._location, f"https://{self._location}-aiplatform.googleapis.com")

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        asked = read_model(model)
        place = f"/{asked.version}/projects/{self._project or '-'}/locations/{self._location}"
        return httpx.URL(server_root(self.place(base_url)) + place + asked.path(dialect, stream))

    def located(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        if self._project is not None:
            return url
        project = google.project_in(credential)
        if project is None or not _PROJECT.fullmatch(project):
            raise NoCredential(f"For {self.configured_as} a project is needed, which its credential does not tell: set its option project.")
        return httpx.URL(str(url).replace(_UNKNOWN, f"/projects/{project}/", 1))

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """Betas are a header here too; of those that it does not know, it says so."""
        return [("anthropic-beta", ",".join(self._demands.betas))] if dialect in _CLAUDE and self._demands.betas else []

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        return google.signer(credential, fetch) if credential else None

    def bytes_only_in(self, dialect: str) -> frozenset[Kind]:
        """Its Claude fetches nothing: https://github.com/BerriAI/litellm/issues/18430, read 2026-11. Its Gemini wants types told."""
        return _BYTES.get(dialect, frozenset())

    def takes_address(self, address: str, dialect: str) -> bool:
        """Its Gemini reads what is on the web, or in Google's storage, if it is told of what type it is."""
        return dialect == GEMINI and address.startswith(("https://", "http://", "gs://")) and type_at(address) is not None

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        if dialect == GEMINI:
            return gemini_guiding(constraint, vouched=self.vouched)
        if dialect == _MESSAGES and constraint.output is not None and not is_held(constraint.output):
            return Guiding("validated", constraint.output)
        return super().guiding(constraint, dialect, as_said=as_said)

    def bend_chat(self, chat: ChatRequest, dialect: str, concessions: Concessions) -> ChatRequest:
        """The rules of Claude's models are the same on every host."""
        return bend_claude_chat(chat, concessions) if dialect == _MESSAGES else chat

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, left(constraint, body) if dialect == GEMINI else constraint)
        if dialect == _MESSAGES:
            bent.dropped += claude.hold(body, self._demands)
        return bent

    def name_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        asked = read_model(model)
        if dialect in _CLAUDE:
            claude.fit(body, _VERSION, says_stream=True)
        named = asked.name if dialect == "anthropic_count_tokens" else asked.named_in_body if dialect == "openai_chat" else None
        if named is None:
            body.pop("model", None)
        else:
            body["model"] = named

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """In Google's envelope, or a publisher's own, which are read alike."""
        return read_google_error(status, headers, body)


def _option(configured_as: str, options: Mapping[str, Any], key: str, shape: re.Pattern[str]) -> str | None:
    said = options.get(key)
    if said is not None and not (isinstance(said, str) and shape.fullmatch(said)):
        raise BadOption(f"Option {key} of provider {configured_as!r} is not a {key} of Google Cloud.")
    return said
