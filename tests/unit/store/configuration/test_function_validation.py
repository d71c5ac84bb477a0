"""Functions, experiments and metrics of a configuration file: errors name the entry, and valid ones are written and read back."""

import pytest

from app.domain.errors import BadConfiguration
from app.store.configuration.config_file import ConfigFile, parse_config_file, write_file
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.validate import validate

MODELS = """
[providers.sandbox]
adapter = "openai"
base_url = "http://127.0.0.1:1"
[models]
small.targets = [{ provider = "sandbox", model = "small" }]
large.targets = [{ provider = "sandbox", model = "large" }]
"""
FUNCTION = (
    MODELS
    + """
[functions.answer]
default = "terse"
fallbacks = ["wordy"]
tools = [{ name = "look_up", parameters = { type = "object" } }]
schemas.system = { type = "object", required = ["name"], properties.name.type = "string" }
[functions.answer.variants.terse]
model = "small"
system_template = '''Answer {{ name }}
in one sentence.'''
params = { temperature = 0.2, stop = ["END"] }
[functions.answer.variants.wordy]
model = "large"
[functions.answer.experiment]
unit = "tag:tenant"
arms = { terse = 0.5, wordy = 0.5 }
[metrics.helpful]
kind = "boolean"
level = "inference"
optimize = "max"
"""
)


def check(content: str) -> ConfigFile:
    file = parse_config_file(content)
    validate(build_snapshot(1, file.providers or {}, file.models or {}, functions=file.functions or {}, metrics=file.metrics or {}))
    return file


def test_functions_and_metrics_are_written_and_read_back():
    file = check(FUNCTION)
    written = write_file(
        build_snapshot(1, file.providers or {}, file.models or {}, functions=file.functions or {}, metrics=file.metrics or {}), {}
    )
    again = check(written)
    assert (again.functions, again.metrics) == (file.functions, file.metrics)


def test_model_with_an_experiment_needs_no_targets():
    check(MODELS + "[models.fast.experiment]\narms = { small = 0.9, large = 0.1 }")


def test_hash_of_a_configuration_without_functions_stays_what_it_was():
    file = parse_config_file(MODELS)
    assert (
        build_snapshot(1, file.providers or {}, file.models or {}).hash
        == build_snapshot(2, file.providers or {}, file.models or {}, functions={}, metrics={}).hash
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[metrics.helpful]", '[functions.small.variants.x]\nmodel = "large"\n[metrics.helpful]', "there is a model 'small'"),
        ('model = "large"\n[functions.answer.exp', 'model = "huge"\n[functions.answer.exp', "there is no model 'huge'"),
        (
            'model = "large"\n[functions.answer.exp',
            'model = "fast"\n[models.fast.experiment]\narms = { small = 1 }\n[functions.answer.exp',
            "functions.answer.variants.wordy.model: the model 'fast' has an experiment and no targets of its own",
        ),
        ('default = "terse"', 'default = "curt"', "functions.answer.default: 'curt' is not one of its variants: terse, wordy"),
        ('fallbacks = ["wordy"]', 'fallbacks = ["curt"]', "functions.answer.fallbacks: 'curt'"),
        ('fallbacks = ["wordy"]', 'fallbacks = ["wordy", "wordy"]', "names one twice"),
        ("[functions.answer]", '[functions.answer]\ntype = "json"', "output_schema is required"),
        ("[functions.answer]", "[functions.answer]\noutput_schema = {}", 'only for a function of type "json"'),
        ("wordy = 0.5 }", "curt = 0.5 }", "experiment.arms: there is no 'curt'. It may be one of: terse, wordy"),
        ("wordy = 0.5 }", "wordy = -0.5 }", "experiment.arms.wordy: a weight is a number of 0 or more"),
        ("wordy = 0.5 }", "wordy = nan }", "experiment.arms.wordy: a weight is a number of 0 or more"),
        ("terse = 0.5, wordy = 0.5", "terse = 0, wordy = 0", "at least one weight must be more than 0"),
        ('unit = "tag:tenant"', 'unit = "tag:"', "is not one of: episode, user, team, tag:NAME"),
        ('unit = "tag:tenant"', 'control = "curt"', "experiment.control: 'curt' is not one of its arms"),
        ('unit = "tag:tenant"', "enrolment = 1.5", "from 0 to 1, not 1.5"),
        ("Answer {{ name }}", "Answer {{ nam }}", "variants.terse.system_template: there is no variable 'nam': its schema declares: name."),
        ("Answer {{ name }}", "Answer\n{{ name ", "variants.terse.system_template, line 2: `{{` is not closed"),
        ("Answer {{ name }}", "Answer {{ name + }}", "variants.terse.system_template, line 1: unexpected end of variable block"),
        ("Answer {{ name }}", "{% include 'other' %}", "variants.terse.system_template: there is no template 'other' in `templates`"),
        ("Answer {{ name }}", "{{ name|shout }}", "system_template: the template 'system' cannot be rendered: unknown filter"),
        ("Answer {{ name }}", "{% for i in range(99999) %}x{% endfor %}", "to render the template 'system' takes too long"),
        ("params = {", 'templates = { user = "x" }\nparams = {', "variants.terse.templates.'user'"),
        ("params = {", 'user_template = "Same."\nparams = {', "variants.terse.user_template: it would say the same"),
        ("temperature = 0.2", 'model = "x"', "variants.terse.params.model: this is not for a variant to set"),
        ("temperature = 0.2", '"narthex::x" = 1', "variants.terse.params.narthex::x"),
        ("params = {", "retries = 99\nparams = {", "variants.terse.retries must be from 0 to 5"),
        ("params = {", "timeouts.total_s = 0\nparams = {", "variants.terse.timeouts.total_s must be more than 0"),
        ('type = "object" } }]', 'type = "objekt" } }]', "functions.answer.tools.look_up.parameters: it is not a valid JSON Schema"),
        ('name = "look_up"', 'name = "look up"', "functions.answer.tools: 'look up' is not a name of a tool"),
        ('default = "terse"', 'default = "terse"\ntool_choice = "none such"', "functions.answer.tool_choice: 'none such' is not auto"),
        (
            'properties.name.type = "string"',
            'properties.name.type = "text"',
            "functions.answer.schemas.system: it is not a valid JSON Schema",
        ),
        ('kind = "boolean"', 'kind = "comment"', "only metrics of kind boolean or float can be optimized"),
        ('stop = ["END"]', 'stop = ["\\u0000"]', "functions.answer.variants.terse.params.stop[0]: a NUL"),
    ],
)
def test_invalid_function_is_refused_with_its_place(old: str, new: str, message: str):
    assert old in FUNCTION
    with pytest.raises(BadConfiguration) as refused:
        check(FUNCTION.replace(old, new, 1))
    assert message in str(refused.value)


def test_several_variants_need_a_default_or_an_experiment():
    content = FUNCTION.replace('default = "terse"\n', "")
    check(content)
    without_experiment = content.replace('[functions.answer.experiment]\nunit = "tag:tenant"\narms = { terse = 0.5, wordy = 0.5 }\n', "")
    with pytest.raises(BadConfiguration, match="default is required"):
        check(without_experiment)
