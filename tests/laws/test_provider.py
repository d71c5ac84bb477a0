"""Laws of providers: a body is bent to what its host takes, nothing else of it is touched, and nothing is lost without a word."""

import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import ModelConfig, ProviderConfig, Snapshot, Target
from app.gateway.request_translation.translator import RequestTranslator
from app.store.config_file import BadConfiguration
from app.store.config_validation import validate
from providers import structured_output
from providers.adapters.provider import Adapted, InvalidOption, Provider, server_root, with_version_segment
from providers.canonical.errors import InvalidRequest, Unreachable, Unsupported
from providers.canonical.raw_json import Body
from providers.catalogue import ADAPTERS, build_provider, provider_url
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.engines.auto.adapter import Auto
from providers.engines.vllm.adapter import VLLM
from providers.structured_output import Constraint, read_constraint
from tests.laws.asking import MEDIA, everything, nothing
from tests.laws.asking import sent as sent_for
from tests.laws.chats import bounded

OURS = {"episode_id": "01990000-0000-7000-8000-00000000000b", "tensorzero::episode_id": None, "tensorzero::tags": {"a": "b"}}
HINTS = {"guided_decoding_backend": "xgrammar", "user": "u", "store": True, "metadata": {"a": "b"}, "service_tier": "auto"}
BENT = {
    "chat_template": "{{ x }}",
    "chat_template_kwargs": {"enable_thinking": True},
    "mm_processor_kwargs": {"n": 1},
    "guided_whitespace_pattern": "[ ]?",
}
WORDS: dict[str, Any] = {
    "guided_json": {"type": "object"},
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "g",
    "structural_tag": {"format": {}},
    "structured_outputs": {"regex": "a"},
}
PROVIDERS = [
    Provider("p", {}),
    ADAPTERS["sandbox"]("s", {}),
    VLLM("v", {}),
    VLLM("v", {}, (0, 11, 2)),
    VLLM("v", {"version": "0.11"}),
    VLLM("v", {}, (0, 32)),
]
providers = st.sampled_from(PROVIDERS)
unknown = st.dictionaries(
    st.sampled_from(["x", "temperature", "messages", "top_k", "vllm_xargs", "ümlaut", "cache_salt", "response"]),
    st.none() | st.integers() | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=3), st.booleans(), max_size=2),
)
known = st.lists(st.sampled_from([*OURS, *HINTS, *BENT, *WORDS]), unique=True, max_size=6).map(
    lambda names: {name: {**OURS, **HINTS, **BENT, **WORDS}[name] for name in names}
)


def bent(provider: Provider, fields: dict[str, Any], may_drop: Callable[[str], bool]) -> tuple[dict[str, Any], list[str]]:
    body = Body.read(json.dumps(fields).encode())
    dropped = provider.adapt_request(body, "openai_chat", may_drop, structured_output.read_constraint("openai_chat", body)).dropped
    return json.loads(body.write()), dropped


@bounded
@given(providers, unknown, known, st.booleans())
def test_unknown_fields_are_never_lost(provider: Provider, extra: dict[str, Any], fields: dict[str, Any], drop: bool) -> None:
    try:
        sent, _ = bent(provider, {**extra, **fields}, everything if drop else nothing)
    except (Unsupported, InvalidRequest):
        return
    assert extra.items() <= sent.items()
    assert not OURS.keys() & sent.keys()


@bounded
@given(providers, known)
def test_with_leave_to_drop_everything_is_sent_or_said_or_reported(provider: Provider, fields: dict[str, Any]) -> None:
    """Each field goes as it is, or in the engine's words, or is reported as dropped: exactly one of these."""
    asked = [word for word in fields if word in WORDS]
    if len(asked) > 1:
        with pytest.raises(InvalidRequest):
            bent(provider, fields, everything)
        return
    sent, dropped = bent(provider, fields, everything)
    said = sent.keys() - fields.keys()
    for field in fields.keys() - OURS.keys():
        ways = [field in sent, field in dropped, field in WORDS and bool(said)]
        assert ways.count(True) == 1, (field, sent, dropped)
    assert len(dropped) == len(set(dropped))
    assert set(dropped) <= fields.keys()


@bounded
@given(providers, known)
def test_without_leave_a_field_is_refused_by_name_or_none_but_hints_is_dropped(provider: Provider, fields: dict[str, Any]) -> None:
    try:
        sent, dropped = bent(provider, fields, nothing)
    except Unsupported as refused:
        assert refused.param in fields
        assert f"`{refused.param}` cannot be honoured" in refused.message
        assert f". Leave it out, choose another model, or send the header `x-narthex-drop: {refused.param}`" in refused.message
        # Leave for just what was named goes as far as the next one, and in the end all of it is reported.
        with_leave = refused_one_by_one(provider, fields)
        assert with_leave is None or with_leave <= set(bent(provider, fields, with_leave.__contains__)[1])
    except InvalidRequest:
        assert len(WORDS.keys() & fields.keys()) > 1
    else:
        assert set(dropped) <= provider.hint_fields
        assert not any(field in dropped for field in sent)


def refused_one_by_one(provider: Provider, fields: dict[str, Any]) -> set[str] | None:
    """What is refused until nothing is; None if the fields exclude each other."""
    leave: set[str] = set()
    while True:
        try:
            bent(provider, fields, leave.__contains__)
        except InvalidRequest:
            return None
        except Unsupported as refused:
            assert refused.param is not None
            assert refused.param not in leave
            leave.add(refused.param)
        else:
            return leave


@bounded
@given(providers, st.sampled_from([*HINTS, *BENT, *WORDS]))
def test_null_is_not_said_so_nothing_is_refused_or_reported(provider: Provider, field: str) -> None:
    _, dropped = bent(provider, {"model": "m", field: None}, nothing)
    assert dropped == []


# The whole of what goes to the engine.
ASK: dict[str, Any] = {"model": "a name", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("streams", ["both", "only", "never"])
@pytest.mark.parametrize("stream_usage", [True, False])
def test_an_engine_is_asked_as_it_can_be(streamed: bool, streams: str, stream_usage: bool) -> None:
    asked = {**ASK, "stream": streamed, **({"stream_options": {"include_usage": False, "x": 1}} if streamed else {}), "n": 2}
    ask = OpenAIChat().parse_request(json.dumps(asked).encode())
    before = json.dumps({key: bytes(value).decode() for key, value in ask.body.items()})
    provider = Provider("p", {"stream": streams, "stream_usage": stream_usage})
    prepared = sent_for(ask, provider, Target("p", "theirs"))
    sent = json.loads(prepared.raw)
    goes = streamed if streams == "both" else streams == "only"
    assert prepared.stream == goes
    assert sent.get("stream", False) == goes
    options = {**({"x": 1} if streamed else {}), "include_usage": True} if goes and stream_usage else None
    assert sent.get("stream_options") == options
    assert (sent["model"], sent["n"], sent["messages"]) == ("theirs", 2, ASK["messages"])
    # The next target is asked with what the caller sent, not with what the last was sent.
    assert json.dumps({key: bytes(value).decode() for key, value in ask.body.items()}) == before


@pytest.mark.parametrize(
    ("base", "with_version", "root"),
    [
        ("http://h:8000", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000/v1", "http://h:8000"),
        ("https://h/api/v1", "https://h/api/v1", "https://h/api"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("https://h/vllm", "https://h/vllm/v1", "https://h/vllm"),
        ("http://v1", "http://v1/v1", "http://v1"),
        ("http://v1/v1", "http://v1/v1", "http://v1"),
    ],
)
def test_a_base_url_is_understood_with_and_without_its_version(base: str, with_version: str, root: str) -> None:
    assert with_version_segment(base) == with_version
    assert server_root(base) == root
    assert str(Provider("p", {}).url(base, "openai_chat")) == with_version + "/chat/completions"


@pytest.mark.parametrize(
    ("adapter", "options", "named"),
    [
        ("nothing", {}, "nothing"),
        ("openai", {"colour": 1}, "colour"),
        ("openai", {"stream": "sometimes"}, "stream"),
        ("openai", {"accepts": "chat_template"}, "accepts"),
        ("openai", {"accepts": [1]}, "accepts"),
        ("sandbox", {"stream": "only"}, "stream"),
    ],
)
def test_a_bad_option_is_refused_by_name(adapter: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        build_provider(adapter, "mine", options)


def test_a_field_that_an_engine_accepts_is_sent() -> None:
    fields = {"chat_template": "{{ x }}", "guided_decoding_backend": "xgrammar"}
    sent, dropped = bent(build_provider("openai", "mine", {"accepts": list(fields)}), fields, nothing)
    assert (sent, dropped) == (fields, [])
    assert str(build_provider("openai", "other", {}).at_version((1, 2)).version) == "(1, 2)"


@pytest.mark.parametrize(
    ("schema", "how"),
    [
        ({"name": "n", "strict": True}, "enforced"),
        ({"name": "n", "strict": False}, "validated"),
        ({"name": "n"}, "validated"),
        ({}, "enforced"),  # in engines' words: it is sent as strict
    ],
)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_openai_itself_is_believed_where_it_promises(dialect: str, schema: dict[str, Any], how: str):
    output = structured_output.JsonSchema(msgspec.Raw(b"{}"), **schema)
    guiding = Provider("openai", {}).plan_constraint(structured_output.Constraint(output, "f"), dialect, as_said=False)
    assert guiding is not None and guiding.enforcement == how


def test_only_openai_itself_obeys_the_words_of_responses():
    assert "openai_responses" in Provider("openai", {}).constrained_dialects
    assert "openai_responses" not in Provider("other", {}, base_url="http://10.0.0.1").constrained_dialects


@pytest.mark.parametrize(("fields", "aside"), [({"guided_choice": ["a" * 20_000]}, True), ({"guided_choice": ["a"]}, False)], ids=str)
async def test_a_constraint_that_is_slow_to_say_otherwise_holds_up_nobody(fields: dict[str, Any], aside: bool) -> None:
    threads: list[int] = []

    class Slow(Provider):
        def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
            threads.append(threading.get_ident())
            return Adapted([], None)

    chat = CHAT_DIALECTS["openai_chat"]
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()
    ask = chat.parse_request(raw)
    asked = RequestTranslator(ask, raw, chat, MEDIA, lambda _: False, constraint=read_constraint(ask.dialect, ask.body))
    slow = Slow("p", {})
    await asked.run_in_thread_if_slow(asked.edit_request, slow, Target("p", "m"))
    await asked.translate_chat(chat, slow, Target("p", "m"))
    assert [each != threading.get_ident() for each in threads] == [aside, aside]


def test_what_an_engine_that_is_not_known_yet_can_be_asked_for_is_no_fault_of_the_callers():
    auto = Auto("box", {})
    schema = auto.plan_constraint(
        structured_output.Constraint(structured_output.JsonObject(), "response_format"), "openai_chat", as_said=False
    )
    assert schema is not None and schema.enforcement == "validated"
    with pytest.raises(Unreachable, match="not known yet"):
        auto.plan_constraint(structured_output.Constraint(structured_output.Choice(("a",)), "guided_choice"), "openai_chat", as_said=False)


@pytest.mark.parametrize(
    ("adapter", "options", "told"),
    [
        ("openai", {}, "https://api.openai.com/v1"),
        ("vllm", {}, None),
        ("azure", {"resource": "mine"}, "https://mine.openai.azure.com"),
        ("azure", {"resource": "mine", "api": "models"}, "https://mine.services.ai.azure.com"),
        ("bedrock", {}, "https://bedrock-runtime.{region}.amazonaws.com"),
        ("bedrock", {"region": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("bedrock", {"region": "cn-north-1"}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("bedrock", {"region": "eu-west-1", "api": "mantle"}, "https://bedrock-mantle.eu-west-1.api.aws"),
        ("sagemaker", {"region": "eu-west-1"}, "https://runtime.sagemaker.eu-west-1.amazonaws.com"),
        ("vertex", {}, "https://aiplatform.googleapis.com"),
        ("vertex", {"location": "us-east5"}, "https://us-east5-aiplatform.googleapis.com"),
    ],
)
def test_where_a_host_is_holds_what_its_options_say(adapter: str, options: dict[str, Any], told: str | None) -> None:
    assert provider_url(adapter, "host", options) == told
    assert provider_url(adapter, "host", options, "https://elsewhere.example/v1") == "https://elsewhere.example/v1"
    if told is not None and "{" not in told:
        provider = build_provider(adapter, "host", options, told)
        assert str(provider.url(told, provider.spoken_dialects[0], "m")).startswith(told), (
            "the address that is told is the one that is asked"
        )


def test_an_unknown_option_is_told_with_those_there_are() -> None:
    with pytest.raises(InvalidOption, match=r"'org' .*: stream, .*organization, project \(`narthex providers list --adapters`"):
        build_provider("openai", "host", {"org": "x"})


@pytest.mark.parametrize(
    ("adapter", "dialect", "speaks"),
    [
        ("vertex", "gemini", ""),
        ("vertex", "openai_embeddings", ""),
        ("vertex", "openai_responses", "gemini, anthropic_messages"),
        ("bedrock", "bedrock_converse", ""),
        ("cohere", "openai_chat", "cohere_chat"),
        ("openai", "anthropic_messages", ""),  # whatever stands at its address may speak it
        ("openai", "gemini", "openai_responses, openai_chat"),
        ("vllm", "openai_responses", ""),
    ],
)
def test_a_target_is_pinned_to_no_dialect_that_its_host_lacks(adapter: str, dialect: str, speaks: str) -> None:
    place = None if ADAPTERS[adapter].default_base_url else "http://127.0.0.1:9"
    providers = {"p": ProviderConfig(adapter, place)}
    wanted = Snapshot(1, "", providers, {"m": ModelConfig((Target("p", "x", dialect=dialect),))})
    if not speaks:
        validate(wanted)
        return
    with pytest.raises(BadConfiguration, match=rf"^models\.m\.targets\[0\]\.dialect: adapter '{adapter}' .*It speaks: {speaks}"):
        validate(wanted)
