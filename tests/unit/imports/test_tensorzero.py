"""TensorZero's configuration: what becomes of it, that `apply` takes it, and that nothing in it is forgotten or read from elsewhere."""

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.errors import BadConfiguration
from app.imports.draft import Imported, check_applicable
from app.imports.report import NoteKind
from app.imports.tensorzero.read_config import import_tensorzero

FOLDER = Path(__file__).with_name("tensorzero")
MODELS = """
[models.m]
routing = ["p"]
[models.m.providers.p]
type = "vllm"
api_base = "http://10.0.0.5:8000/v1"
model_name = "x"
"""


def imported_document(source: Path, **variables: str) -> dict[str, Any]:
    return tomllib.loads(import_tensorzero(str(source), None, variables).text)


def import_text(folder: Path, text: str, **variables: str) -> Imported:
    (folder / "tensorzero.toml").write_text(text)
    return import_tensorzero(str(folder / "tensorzero.toml"), None, variables)


def notes(imported: Imported, kind: NoteKind) -> dict[str, str]:
    """The messages by path. A path with several has them one after the other."""
    found: dict[str, str] = {}
    for note in imported.notes:
        if note.kind == kind:
            found[note.path] = f"{found.get(note.path, '')} {note.message}".strip()
    return found


def test_models_and_providers_are_brought() -> None:
    document = imported_document(FOLDER)
    assert document["models"]["gpt-5-mini"] == {
        "targets": [
            # Of its own timeout no more than the model's can pass.
            {"provider": "openai", "model": "gpt-5-mini", "timeouts": {"first_token_s": 60}},
            {"provider": "azure", "model": "mini"},
        ],
        "timeouts": {"first_token_s": 5, "total_s": 60},
    }
    assert document["models"]["tuned"]["targets"] == [{"provider": "gcp_vertex_gemini", "model": "endpoints/1234", "dialect": "gemini"}]
    assert document["models"]["openai::responses::gpt-5-codex"]["targets"] == [
        {"provider": "openai-2", "model": "gpt-5-codex", "dialect": "openai_responses"}
    ]
    assert "broken" not in document["models"]
    providers = document["providers"]
    assert providers["openai"] == {"adapter": "openai", "credential": ["header:x-openai-api-key", "env:OPENAI_API_KEY"]}
    assert providers["anthropic"] == {
        "adapter": "anthropic",
        "base_url": "https://proxy.example.com",
        "credential": "env:CLAUDE_KEY",
        "options": {"anthropic_beta": ["context-1m"]},
    }
    assert providers["vllm"] == {"adapter": "vllm", "base_url": "http://10.0.0.5:8000/v1/"}
    assert providers["gcp_vertex_gemini"]["credential"] == "google:default"
    assert document["prices"] == [
        {"provider": "openai", "model": "gpt-5-mini", "input": 0.25, "output": 2, "cached_input": 0.025},
        {"provider": "anthropic", "model": "claude-opus-5", "input": 3, "output": 15, "cached_input": 0.3},
    ]


def test_function_is_brought_with_its_templates_schemas_and_tools() -> None:
    function = imported_document(FOLDER)["functions"]["draft_email"]
    assert list(function["variants"]) == ["v1", "v2", "safe"]
    assert function["variants"]["v1"] == {
        "model": "gpt-5-mini",
        "system_template": 'You draft emails for {{ company }}.{% include "tone.minijinja" %}',
        "templates": {
            "tone.minijinja": 'Be kind.{% include "signature.minijinja" %}',
            "signature.minijinja": "Sign as the assistant.",
            "task": "To {{ recipient }}: {{ gist }}",
        },
        "params": {"temperature": 0.2, "max_tokens": 500, "stop": ["END"]},
        "retries": 2,
    }
    assert function["variants"]["v2"]["params"] == {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert function["schemas"].keys() == {"system", "task"}
    assert function["schemas"]["task"]["properties"] == {"recipient": {"type": "string"}, "gist": {"type": "string"}}
    assert function["tools"] == [
        {
            "name": "lookup",
            "description": "Looks an address up",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
                "additionalProperties": False,
            },
        }
    ]
    assert function["tool_choice"] == "lookup" and function["parallel_tool_calls"] is False


def test_json_function_keeps_its_output_schema() -> None:
    function = imported_document(FOLDER)["functions"]["extract"]
    assert function["type"] == "json"
    # TOML has no null, so that the choice between 1 and null is written out.
    assert function["output_schema"]["properties"]["age"] == {"anyOf": [{"enum": [1]}, {"type": "null"}]}


def test_experiments_keep_their_weights_and_fall_back_in_order() -> None:
    functions = imported_document(FOLDER)["functions"]
    assert functions["draft_email"]["experiment"] == {"arms": {"v1": 0.9, "v2": 0.1}}
    assert functions["draft_email"]["fallbacks"] == ["v1", "v2", "safe"]
    assert functions["adaptive"]["experiment"] == {"arms": {"a": 1, "b": 1}}
    assert functions["older"]["experiment"] == {"arms": {"heavy": 3, "light": 1}} and functions["older"]["fallbacks"] == [
        "heavy",
        "light",
        "spare",
    ]
    assert "experiment" not in functions["extract"]


@pytest.mark.parametrize(
    ("experimentation", "expected"),
    [
        ("", {"experiment": {"arms": {"a": 1, "b": 1, "c": 1}}, "fallbacks": ["a", "b", "c"]}),
        ('type = "uniform"', {"experiment": {"arms": {"a": 1, "b": 1, "c": 1}}, "fallbacks": ["a", "b", "c"]}),
        ('type = "static"\ncandidate_variants = ["b"]', {"default": "b"}),
        ('type = "static"\ncandidate_variants = { b = 1.0, a = 0 }', {"default": "b"}),
        ('type = "static"\ncandidate_variants = ["b"]\nfallback_variants = ["c", "a"]', {"default": "b", "fallbacks": ["c", "a"]}),
        ('type = "static"\ncandidate_variants = []\nfallback_variants = ["c", "a"]', {"default": "c", "fallbacks": ["a"]}),
        (
            'type = "static_weights"\ncandidate_variants = { a = 3, c = 1 }\nfallback_variants = ["b"]',
            {"experiment": {"arms": {"a": 3, "c": 1}}, "fallbacks": ["a", "c", "b"]},
        ),
        ('type = "static"\ncandidate_variants = ["nobody", "a"]', {"default": "a"}),
    ],
)
def test_experimentation_says_which_variant_serves(tmp_path: Path, experimentation: str, expected: dict[str, Any]) -> None:
    variants = "\n".join(f'[functions.f.variants.{name}]\ntype = "chat_completion"\nmodel = "m"' for name in "abc")
    section = f"[functions.f.experimentation]\n{experimentation}\n" if experimentation else ""
    imported = import_text(tmp_path, f'{MODELS}\n[functions.f]\ntype = "chat"\n{variants}\n{section}')
    function = tomllib.loads(imported.text)["functions"]["f"]
    assert {key: function[key] for key in ("experiment", "default", "fallbacks") if key in function} == expected


def test_metrics_and_limits_are_brought() -> None:
    document = imported_document(FOLDER)
    assert document["metrics"] == {
        "task_success": {
            "kind": "boolean",
            "level": "inference",
            "optimize": "max",
            "description": "Whether the email was sent as drafted",
        },
        "edit_distance": {"kind": "float", "level": "episode", "optimize": "min"},
    }
    limits = {each.pop("name"): each for each in document["limits"]}
    assert limits == {
        "requests per minute of tag:user_id each": {
            "scope": {"tag:user_id": "each"},
            "resource": "requests",
            "amount": 100,
            "per": "minute",
        },
        # Some models have no price.
        "cost_usd per day of tag:user_id each": {
            "scope": {"tag:user_id": "each"},
            "resource": "cost_usd",
            "amount": 10,
            "per": "day",
            "dry_run": True,
        },
        "tokens per hour": {"scope": {"all": "each"}, "resource": "tokens", "amount": 100_000, "per": "hour"},
    }


def test_report_names_everything_that_was_not_brought() -> None:
    imported = import_tensorzero(str(FOLDER), None, {})
    left_out = notes(imported, "left_out")
    assert left_out.keys() == {
        "clickhouse",
        "functions.draft_email.experimentation.namespaces.mobile",
        "functions.draft_email.variants.best",
        "functions.draft_email.variants.lost.model",
        "gateway.auth",
        "gateway.bind_address",
        "gateway.observability",
        "models.broken",
        "models.broken.providers.dummy",
        "models.claude.providers.anthropic.cost[3]",
        "models.claude.providers.anthropic.extra_body",
        "models.claude.providers.anthropic.extra_headers[1]",
        "models.gpt-5-mini.providers.spare",
        "rate_limiting.rules[2].tokens_per_hour",
        "rate_limiting.rules[3].scope[0]",
        "tools.unused",
    }
    assert "This importer does not know it." not in left_out.values()
    assert "literal-secret" not in str(imported)
    assert "best" in notes(imported, "changed")["functions.draft_email"]


def test_importing_twice_gives_the_same_file() -> None:
    first, second = (import_tensorzero(str(FOLDER), None, {}) for _ in range(2))
    assert first == second


def tables_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        yield path, table
        for key, each in table.items():
            yield from tables_in(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(cast("list[Any]", value)):
            yield from tables_in(each, (*path, at))


def written_path(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@pytest.mark.parametrize("name", ["tensorzero.toml", "functions/functions.toml"])
def test_key_that_nobody_knows_is_reported_wherever_it_is(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "config"
    shutil.copytree(FOLDER, folder)
    file = folder / name
    document = tomllib.loads(file.read_text())
    places = [path for path, _ in tables_in(document)]
    assert len(places) > 25
    for place in places:
        changed = tomllib.loads((FOLDER / name).read_text())
        table: Any = changed
        for part in place:
            table = table[part]
        table["frobnicate"] = {"x": 1}
        file.write_text(tomli_w.dumps(changed))
        inserted = written_path((*place, "frobnicate"))
        reported = [note.path for note in import_tensorzero(str(folder), None, {}).notes]
        # What is left out as a whole is reported once. Where the key is a name, of a model for example, what is wrong with it is.
        assert any(f"{path}.".startswith(f"{inserted}.") or inserted.startswith((f"{path}.", f"{path}[")) for path in reported), inserted


def test_several_files_are_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "models.toml").write_text(MODELS)
    (tmp_path / "b.toml").write_text('[functions.f]\ntype = "chat"\n[functions.f.variants.v]\ntype = "chat_completion"\nmodel = "m"\n')
    by_folder = imported_document(tmp_path)
    assert by_folder["functions"]["f"]["variants"] == {"v": {"model": "m"}}
    assert imported_document(tmp_path / "**" / "*.toml") == by_folder
    (tmp_path / "c.toml").write_text('[models.m]\nrouting = ["q"]\n')
    with pytest.raises(BadConfiguration, match=r"models\.m\.routing is in .*c\.toml, and in .*models\.toml"):
        imported_document(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("../outside.minijinja", "x"), ("link.minijinja", "x"), ("folder/../../outside.minijinja", "x"), ("/etc/hostname", "x")],
)
def test_template_outside_of_the_folder_is_not_read(tmp_path: Path, name: str, content: str) -> None:
    folder = tmp_path / "config"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside.minijinja").write_text("outside secret")
    (folder / "link.minijinja").symlink_to(tmp_path / "outside.minijinja")
    text = f'{MODELS}\n[functions.f]\ntype = "chat"\n[functions.f.variants.v]\ntype = "chat_completion"\nmodel = "m"\n'
    imported = import_text(folder, f'{text}templates.system.path = "{name}"\n')
    assert "functions" not in tomllib.loads(imported.text) and "outside secret" not in str(imported)
    assert "outside of" in notes(imported, "left_out")["functions.f.variants.v.templates.system.path"]
    if name != "/etc/hostname":
        below = import_tensorzero(str(folder / "tensorzero.toml"), tmp_path, {})
        assert tomllib.loads(below.text)["functions"]["f"]["variants"]["v"]["system_template"] == "outside secret"


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"a\0b", None, "pipe", b"x" * 1_000_001], ids=["latin", "binary", "absent", "pipe", "large"]
)
def test_template_that_is_no_text_leaves_its_variant_out(tmp_path: Path, content: bytes | str | None) -> None:
    file = tmp_path / "t.minijinja"
    if content == "pipe":
        os.mkfifo(file)
    elif isinstance(content, bytes):
        file.write_bytes(content)
    variants = "\n".join(
        f'[functions.f.variants.{name}]\ntype = "chat_completion"\nmodel = "m"\n{more}'
        for name, more in (("v", 'user_template = "t.minijinja"'), ("w", ""))
    )
    imported = import_text(tmp_path, f'{MODELS}\n[functions.f]\ntype = "chat"\n{variants}\n')
    assert tomllib.loads(imported.text)["functions"]["f"]["variants"].keys() == {"w"}
    assert {"functions.f.variants.v.user_template", "functions.f.variants.v"} <= notes(imported, "left_out").keys()


@pytest.mark.parametrize("schema", ["[1]", "{", '{"a": NaN}', '{"maximum": 1' + "0" * 30 + "}", "[" * 100_000])
def test_schema_that_is_none_leaves_its_function_out(tmp_path: Path, schema: str) -> None:
    (tmp_path / "s.json").write_text(schema)
    text = '[functions.f]\ntype = "chat"\nuser_schema = "s.json"\n[functions.f.variants.v]\ntype = "chat_completion"\nmodel = "m"\n'
    imported = import_text(tmp_path, MODELS + text)
    assert "functions" not in tomllib.loads(imported.text) and "functions.f.user_schema" in notes(imported, "left_out")


def test_included_templates_are_included_once(tmp_path: Path) -> None:
    (tmp_path / "a.minijinja").write_text("{% include 'b.minijinja' %}{% include 'c.minijinja' %}")
    (tmp_path / "b.minijinja").write_text('{%- include "c.minijinja" -%}')
    (tmp_path / "c.minijinja").write_text("c")
    text = f"""{MODELS}
        [gateway.template_filesystem_access]
        base_path = "."
        [functions.f]
        type = "chat"
        [functions.f.variants.v]
        type = "chat_completion"
        model = "m"
        system_template = "a.minijinja"
    """
    (variant,) = tomllib.loads(import_text(tmp_path, text).text)["functions"]["f"]["variants"].values()
    assert variant["templates"].keys() == {"b.minijinja", "c.minijinja"}
    alone = import_text(tmp_path, text.replace("[gateway.template_filesystem_access]", "[gateway.cache]"))
    assert "functions" not in tomllib.loads(alone.text)  # nothing may be included, so that it could not be rendered


@pytest.mark.parametrize(
    "template",
    ["{% include name %}", "{{ 1 +", "{% include 'a.minijinja' %}", "{% for x in y %}", "{{ " + "1+" * 9000 + "1 }}", "{{ nobody }}"],
)
def test_template_that_cannot_be_rendered_leaves_its_variant_out(tmp_path: Path, template: str) -> None:
    (tmp_path / "a.minijinja").write_text(template)
    text = f"""{MODELS}
        [gateway]
        template_filesystem_access.base_path = "."
        [functions.f]
        type = "chat"
        [functions.f.variants.v]
        model = "m"
        [functions.f.variants.w]
        model = "m"
        system_template = "a.minijinja"
    """
    imported = import_text(tmp_path, text)
    assert tomllib.loads(imported.text)["functions"]["f"] == {"variants": {"v": {"model": "m"}}}
    assert "functions.f.variants.w" in notes(imported, "left_out")


@pytest.mark.parametrize(
    ("provider", "expected", "target"),
    [
        (
            'type = "aws_bedrock"\nmodel_id = "us.amazon.nova-lite-v1:0"\nregion = "us-east-1"',
            {"adapter": "bedrock", "credential": "aws:default", "options": {"region": "us-east-1"}},
            {"model": "us.amazon.nova-lite-v1:0"},
        ),
        (
            'type = "aws_bedrock"\nmodel_id = "x"\nregion = "sdk"\naccess_key_id = "env::A"\nsecret_access_key = "env::B"',
            {"adapter": "bedrock", "credential": "store:aws_bedrock"},
            {"model": "x"},
        ),
        (
            'type = "aws_sagemaker"\nendpoint_name = "e"\nmodel_name = "gemma"\nhosted_provider = "openai"\nregion = "us-east-2"',
            {
                "adapter": "sagemaker",
                "credential": "aws:default",
                "options": {"payload": "openai_chat", "model": "gemma", "region": "us-east-2"},
            },
            {"model": "e"},
        ),
        (
            'type = "azure"\ndeployment_id = "d"\nendpoint = "env::AZURE"\napi_key_location = "path::/run/secrets/narthex/k"',
            {"adapter": "azure", "base_url": "https://env.openai.azure.com", "credential": "file:/run/secrets/narthex/k"},
            {"model": "d"},
        ),
        (
            'type = "gcp_vertex_anthropic"\nmodel_id = "claude-haiku-4-5@20251001"\nproject_id = "p"\nlocation = "global"',
            {"adapter": "vertex", "credential": "file:/gcp.json", "options": {"project": "p", "location": "global"}},
            {"model": "claude-haiku-4-5@20251001"},
        ),
        ('type = "tgi"\napi_base = "http://h/v1"', {"adapter": "tgi", "base_url": "http://h/v1"}, {"model": "tgi"}),
        (
            'type = "openai"\nmodel_name = "o"\napi_type = "responses"\napi_base = "http://h/v1"\napi_key_location = "dynamic::my_key"',
            {"adapter": "openai", "base_url": "http://h/v1", "credential": "header:x-my-key"},
            {"model": "o", "dialect": "openai_responses"},
        ),
        (
            'type = "google_ai_studio_gemini"\nmodel_name = "gemini-3-flash"',
            {"adapter": "gemini", "credential": "env:GOOGLE_AI_STUDIO_API_KEY"},
            {"model": "gemini-3-flash"},
        ),
    ],
)
def test_provider_of_each_type(tmp_path: Path, provider: str, expected: dict[str, Any], target: dict[str, Any]) -> None:
    text = f'[models.m]\nrouting = ["p"]\n[models.m.providers.p]\n{provider}\n'
    variables = {"AZURE": "https://env.openai.azure.com", "GCP_VERTEX_CREDENTIALS_PATH": "/gcp.json"}
    document = tomllib.loads(import_text(tmp_path, text, **variables).text)
    (found,) = document["models"]["m"]["targets"]
    assert document["providers"][found.pop("provider")] == expected and found == target


def test_model_of_vertex_is_found_by_its_short_name(tmp_path: Path) -> None:
    name = "gcp_vertex_gemini::projects/p/locations/us-central1/publishers/google/models/gemini-2.5-flash"
    text = f'[functions.f]\ntype = "chat"\n[functions.f.variants.v]\ntype = "chat_completion"\nmodel = "{name}"\n'
    document = tomllib.loads(import_text(tmp_path, text, GCP_VERTEX_CREDENTIALS_PATH="/gcp.json").text)
    assert document["models"][name]["targets"] == [{"provider": "gcp_vertex_gemini", "model": "gemini-2.5-flash"}]
    assert document["providers"]["gcp_vertex_gemini"]["options"] == {"project": "p", "location": "us-central1"}


def test_function_with_the_name_of_a_model_is_left_out_with_the_reason(tmp_path: Path) -> None:
    text = '[functions.m]\ntype = "chat"\n[functions.m.variants.v]\ntype = "chat_completion"\nmodel = "m"\n'
    imported = import_text(tmp_path, MODELS + text)
    assert "functions" not in tomllib.loads(imported.text) and "rename one" in notes(imported, "left_out")["functions.m"]


@pytest.mark.parametrize("text", ["", "a = 1", "[models", "a." * 30 + "b = 1\n[models.m]\nx = 1", "[models.m]\n" + "a." * 8000 + "b = 1"])
def test_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    if text.startswith("a.a."):  # known tables beside deep ones are no reason to refuse
        assert "a" in notes(import_text(tmp_path, text), "left_out")
        return
    with pytest.raises(BadConfiguration):
        import_text(tmp_path, text)


scalars = st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text("ab/.:{%}é", max_size=12)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abx", max_size=4), inner, max_size=3), max_leaves=6
)


def table_of(*names: str, likely: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), likely | values, max_size=5)


names = st.sampled_from(["a", "b", "openai::x"])
providers = table_of(
    *("type", "model_name", "api_base", "api_key_location", "cost", "timeouts", "extra_headers", "model_id", "region", "x"),
    likely=st.sampled_from(["vllm", "openai", "anthropic", "http://h/v1", "env::A", "dynamic::B", "aws_bedrock"]),
)
models = st.fixed_dictionaries(
    {
        "routing": st.lists(st.sampled_from(["a", "b"]), max_size=3) | values,
        "providers": st.dictionaries(names, providers, max_size=2) | values,
    }
)
variants = table_of(
    *("type", "model", "weight", "temperature", "retries", "timeouts", "templates", "system_template", "max_tokens", "json_mode"),
    likely=st.sampled_from(["chat_completion", "a", "openai::gpt-5", 1.0, "t.minijinja"]),
)
functions = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["chat", "json"]) | values,
        "variants": st.dictionaries(names, variants | st.just({"type": "chat_completion", "model": "openai::gpt-5"}), max_size=3) | values,
    },
    optional={
        "experimentation": table_of(
            *("type", "candidate_variants", "fallback_variants", "namespaces"),
            likely=st.sampled_from([["a", "b"], {"a": 1.0, "b": 2.0}, "static"]),
        ),
        "tools": st.just(["t"]) | values,
        "output_schema": st.just("s.json") | values,
    },
)
documents = st.fixed_dictionaries(
    {"models": st.dictionaries(names, models, max_size=2) | values},
    optional={
        "functions": st.dictionaries(names, functions, max_size=3) | values,
        "metrics": st.dictionaries(
            names, table_of("type", "level", "optimize", likely=st.sampled_from(["float", "episode", "max"])), max_size=2
        ),
        "tools": st.just({"t": {"description": "d", "parameters": "s.json"}}) | values,
        "rate_limiting": st.fixed_dictionaries(
            {
                "rules": st.lists(
                    table_of("tokens_per_hour", "cost_per_day", "always", "priority", "scope", likely=st.sampled_from([5, True])),
                    max_size=3,
                )
                | values
            }
        )
        | values,
        "gateway": values,
        "provider_types": values,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(documents)
def test_whatever_is_imported_can_be_applied(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "t.minijinja").write_text("{{ x }}")
    (tmp_path / "s.json").write_text('{"type": "object"}')
    text = tomli_w.dumps(document)
    imported = import_text(tmp_path, text, A="secret")
    check_applicable(imported.text)
    assert imported == import_text(tmp_path, text, A="secret")
