"""Templates: usual ones render at once, hostile ones and hostile inputs end in an error within a bound of time and memory."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from app.templating.errors import RenderFault, TemplateFault
from app.templating.input_schema import InputSchema
from app.templating.templates import MAX_OUTPUT_CHARACTERS, NamedTemplateFault, Templates
from app.templating.vetting import TemplateSet, vet
from tests.support.processes.cpu_time import least_cpu_time_s

ANY: Mapping[str, Any] = {"type": "object", "properties": {name: {} for name in ("name", "items", "text", "deep")}}


def render(source: str, inputs: Mapping[str, Any], **parts: str) -> str:
    templates = Templates({"system": source, **parts}, {"system": InputSchema(ANY)})
    templates.check_variables()
    return templates.render("system", inputs)


def test_usual_template_renders():
    source = "Hi {{ name }}!{% for item in items %}\n{{ loop.index }}. {{ item.title|upper }}{% include 'end' %}{% endfor %}"
    assert render(source, {"name": "<Ada>", "items": [{"title": "a"}, {"title": "b"}]}, end=";") == "Hi <Ada>!\n1. A;\n2. B;"


def test_optional_variable_is_tested_before_it_is_used():
    assert render("{% if name is defined %}{{ name }}{% else %}none{% endif %}", {}) == "none"
    with pytest.raises(RenderFault, match="undefined value"):
        render("{{ name }}", {})


HOSTILE = [
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 100000000 }}",
    "{{ name * 1000000 }}",
    "{{ ['a'] * 1000000000 }}",
    "{{ range(1000000000)|list }}",
    "{{ range(90000)|list|length }}",
    "{% for i in range(90000) %}x{% endfor %}",
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "{% for i in range(9999) %}{{ text }}{% endfor %}",
    "{% for i in range(9999) %}{{ items }}{% endfor %}",
    "{% for i in range(9999) %}{{ items|tojson }}{% endfor %}",
    "{% for i in range(9999) %}{{ items|sort|join(',') }}{% endfor %}",
    "{% for i in range(9999) %}{% if text == text ~ 'x' %}x{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% if 'zz' in text %}x{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% if -1 in items %}x{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% set x %}{{ text }}{% endset %}{% endfor %}",
    "{% for i in range(9999) %}{{ deep }}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{{ text|indent(1000000000) }}",
    "{{ text|indent(1000) }}" * 100,
    "{{ '%1000000000d'|format(3) }}",
    "{{ text|replace('a', text)|replace('a', text)|length }}",
    "{{ 2 ** 1000000 }}",
    "{% for i in range(9999) %}{{ text|urlencode }}{% endfor %}",
]


@pytest.mark.parametrize("source", HOSTILE)
def test_hostile_template_ends_within_milliseconds(source: str):
    inputs: Mapping[str, Any] = {"name": "a", "text": "ab" * 2_000, "items": list(range(1_000)), "deep": nested(100)}
    templates = Templates({"system": source}, {"system": InputSchema(ANY)})

    def render() -> None:
        with pytest.raises(RenderFault):
            templates.render("system", inputs)

    assert least_cpu_time_s(render) < 0.03


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("source", ["{{ deep }}", "{{ deep|tojson }}", "{{ deep == deep }}", "{{ items|length }}", "{{ text|length }}"])
def test_huge_or_deep_input_ends_within_milliseconds(source: str):
    templates = Templates({"system": source}, {"system": InputSchema(ANY)})
    inputs = {"deep": nested(500), "items": [{"a": 1}] * 20_000, "text": "x" * 250_000}

    def render() -> None:
        with contextlib.suppress(RenderFault):
            assert len(templates.render("system", inputs)) <= MAX_OUTPUT_CHARACTERS

    assert least_cpu_time_s(render) < 0.05


def test_output_is_bounded():
    with pytest.raises(RenderFault, match="characters; 262144 may be sent"):
        render("{{ text }}{{ text }}", {"text": "x" * 200_000})
    assert len(render("{{ text }}", {"text": "x" * 200_000})) == 200_000


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("a\n{{ name", 2, "`{{` is not closed"),
        ("{{ 'name }}", 1, "`{{` is not closed, or holds a string that is not"),
        ("a\n\n{% if %}", 3, "unexpected end of block"),
        ("{% include name %}", 1, "must name the other template in quotes"),
        ("{% include 'none' %}", None, "there is no template 'none'"),
        ("{% include 'system' %}", None, "it includes itself: system -> system"),
        ("{{ nope }}", None, "there is no variable 'nope': its schema declares: deep, items, name, text"),
        ("{{ debug() }}", None, "there is no variable 'debug'"),
        ("{{ namespace(x=1) }}", None, "there is no variable 'namespace'"),
        ("{{ " + "not " * 4_000 + "1 }}", 1, "a block may have 2000 characters"),
        ("{{ '}}' ~ " + "1 + " * 4_000 + "1 }}", 1, "a block may have 2000 characters"),
        ("{% if 1 %}" + "{% elif 1 %}" * 1_000 + "{% endif %}", 1, "100 `elif`"),
        ("{{ name }}" * 1_001, 1, "1000 blocks"),
        ("a\n{{ items|tojson(indent=name) }}", 2, "the indent of `tojson` must be a number up to 16 in the template"),
        ("{{ items | tojson (name) }}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|tojson(indent=17) }}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|tojson(2 * name) }}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|tojson(*[name]) }}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|tojson(**{'indent': name}) }}", 1, "the indent of `tojson` must be a number"),
        ("{% filter tojson(name) %}a{% endfilter %}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|map('tojson', name)|join }}", 1, "a filter that `map` gives arguments"),
        ("{{ items|map('tojson', 99)|join }}", 1, "the indent of `tojson` must be a number"),
        ("{{ items|map('to\\x6ason', name)|join }}", 1, "a filter that `map` gives arguments"),
        ("{{ items|map('to' ~ 'json', name)|join }}", 1, "a filter that `map` gives arguments"),
        ("{{ items|map(name, 9000000000)|join }}", 1, "a filter that `map` gives arguments"),
        ("x" * 70_000, None, "65536 bytes"),
        ("{{ " + "(" * 900 + "1" + ")" * 900 + " }}", 1, "exceeds maximum recursion limits"),
    ],
)
def test_faulty_template_is_refused_with_its_line(source: str, line: int | None, message: str):
    with pytest.raises(TemplateFault) as refused:
        render(source, {"name": "a"})
    assert message in refused.value.message and refused.value.line == line
    assert isinstance(refused.value, NamedTemplateFault) and refused.value.name == "system"


@pytest.mark.parametrize(
    "source", ["{# {{ x #}{% raw %}{{ x }}{% endraw %}", "{{ '}}' ~ name ~ \"%}\" }}", "{%- if name -%} y {%- endif %}"]
)
def test_blocks_are_found_as_the_engine_finds_them(source: str):
    assert render(source, {"name": "a"}) in ("{{ x }}", "}}a%}", "y")


@pytest.mark.parametrize(
    ("source", "rendered"),
    [
        ("{{ items|tojson }}", '[[1],"|tojson(name)"]'),
        ("{{ items|tojson() }}", '[[1],"|tojson(name)"]'),
        ("{{ items|tojson(indent=16) }}", "[\n" + " " * 16 + "[\n"),
        ("{{ items | tojson ( 2, ) }}", "[\n  [\n    1"),
        ("{{ items|map('tojson', true)|join }}", "[\n  1"),
        ("{{ items|map('tojson')|join }}", '[1]"|tojson'),
        ("{{ items|map(name)|join }}", "[1]"),
        ("{{ items|map('default', name)|map(attribute=0)|first }}", "1"),
        ("{{ '|tojson(name)' }}{# |tojson(name) #}", "|tojson(name)"),
    ],
)
def test_indent_that_the_template_says_is_written(source: str, rendered: str):
    assert render(source, {"name": "string", "items": [[1], "|tojson(name)"]}).replace(", ", ",").startswith(rendered)


def test_included_template_may_use_what_is_assigned_before_it():
    assert render("{% set greeting = 'Hi ' ~ name %}{% include 'p' %}", {"name": "Ada"}, p="{{ greeting }}") == "Hi Ada"
    with pytest.raises(NamedTemplateFault, match="there is no variable 'other'"):
        render("{% include 'p' %}", {"name": "Ada"}, p="{{ other }}")


def test_schema_says_where_the_input_is_wrong():
    schema = InputSchema({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    with pytest.raises(RenderFault) as refused:
        schema.check({"a": [1, "x"]})
    assert (refused.value.path, refused.value.message) == (".a[1]", '"x" is not of type "integer"')


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"properties": 3}, {"properties": {"a": {"type": "nix"}}}, {"$ref": "http://localhost/x"}]
)
def test_what_is_no_schema_of_an_object_is_refused(schema: Mapping[str, Any]):
    with pytest.raises(TemplateFault):
        InputSchema(schema)


TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
TREE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"inner": {"$ref": "#/$defs/tree"}, "list": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "additionalProperties": False,
}
CHOICES: Mapping[str, Any] = {
    "anyOf": [
        {"type": "object", "properties": {"inner": {"$ref": "#/$defs/choices"}}, "required": ["inner"]},
        {"type": "object", "properties": {"inner": {"$ref": "#/$defs/choices"}}, "required": ["inner", "other"]},
        {"const": 1},
    ]
}
SLOW = InputSchema(
    {
        "properties": {"items": TEXTS, "tree": TREE, "choices": CHOICES, "perhaps": {"anyOf": [TEXTS, {"type": "null"}]}},
        "$defs": {"tree": TREE, "choices": CHOICES},
    }
)


def inside(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = {"inner": value}
    return value


@pytest.mark.parametrize(
    ("inputs", "path", "message"),
    [
        ({"items": ["a"] * 299_999 + [1]}, ".items[299999]", '1 is not of type "string"'),
        ({"items": [1] * 300_000}, ".items[0]", '1 is not of type "string"'),
        ({"items": "a" * 3_000_000}, ".items", "it violates the schema of the template"),
        ({"items": ["a", ["a"] * 300_000]}, ".items[1]", "it violates the schema of the template"),
        ({"perhaps": [1] * 300_000}, ".perhaps[0]", "it violates the schema of the template"),
        ({"perhaps": [1]}, ".perhaps", "a list of 1 items is not valid under any of the schemas listed in the 'anyOf' keyword"),
        ({"choices": inside(25, 2)}, ".choices", "it violates the schema of the template"),
        ({"tree": {"list": [{"other": 1}] * 100_000}}, ".tree", "it violates the schema of the template"),
        ({"tree": inside(6, 1)}, ".tree" + ".inner" * 6, '1 is not of type "object"'),
        ({"tree": {"list": [inside(400, 1)] * 400}}, ".tree", "it violates the schema of the template"),
    ],
)
def test_input_of_many_errors_is_refused_within_milliseconds_and_little_memory(inputs: Mapping[str, Any], path: str, message: str):
    def check() -> None:
        with pytest.raises(RenderFault) as refused:
            SLOW.check(inputs)
        assert (refused.value.path, refused.value.message) == (path, message)

    assert least_cpu_time_s(check) < 0.15


def test_small_input_is_refused_with_its_value_cut():
    with pytest.raises(RenderFault) as refused:
        SLOW.check({"items": "a" * 5_000})
    assert (refused.value.path, refused.value.message) == (".items", 'a text of 5000 characters is not of type "array"')


def test_deep_input_is_refused_or_valid_and_never_an_error_of_the_gateway():
    SLOW.check({"tree": inside(5_000, {})})
    with pytest.raises(RenderFault):
        SLOW.check({"tree": inside(5_000, 1)})


def test_vetting_finds_what_only_another_process_survives():
    schemas = {"system": {"type": "object", "properties": {"name": {"type": "string"}, "items": {"type": "array"}}}}

    def of(source: str) -> TemplateSet:
        return TemplateSet({"system": source}, schemas)

    doubling = "{% set a = [1] %}" + "{% set a = [a, a] %}" * 30 + "{{ a }}"
    adding = "{% set a = [1] %}" + "{% set a = a + a %}" * 70 + "{{ a|length }}"
    fine = of("Hi {{ name }}{% for item in items %}{{ item }}{% endfor %}")
    verdicts = vet([fine, of(doubling), of("{{ name|shout }}"), of(adding), of("{{ name.upper() }}"), of("{{ nope }}"), fine])
    assert [(each.place, each.message[:40]) for each in verdicts] == [
        ("", ""),
        ("", "compiling or rendering it takes too long"),
        ("system", "the template 'system' cannot be rendered"),
        ("", "compiling or rendering it takes too long"),
        ("system", "the template 'system' cannot be rendered"),
        ("system", "there is no variable 'nope': its schema "),
        ("", ""),
    ]
