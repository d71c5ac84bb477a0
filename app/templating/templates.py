"""The templates of one variant: compiled once, rendered with bounds.

MiniJinja keeps Python's interpreter to itself while it renders, in whichever thread, so the bounds are of the event loop, too.
"""

from collections.abc import Mapping
from typing import Any

import minijinja

from app.domain.functions import VariantConfig
from app.templating.errors import RenderFault, TemplateFault
from app.templating.input_schema import InputSchema
from app.templating.source import Scanned, scan_source

# About a millisecond: a unit is an instruction, 64 bytes of text, or four bytes of JSON, which take up to 100 ns (tests/unit/templating).
FUEL = 20_000
MAX_OUTPUT_CHARACTERS = 256 * 1024
ROLES = ("system", "user", "assistant")
# The text of a message, for a template of its role without a schema.
TEXT_VARIABLES: Mapping[str, str] = {role: f"{role}_text" for role in ROLES}
# `debug` shows all that there is, and a namespace can hold itself, which ends the process when it is written (3.1.0).
_REMOVED_GLOBALS = ("debug", "namespace", "dict")
_FAULTS_OF_TEMPLATES = ("unknown filter", "unknown test", "unknown function", "unknown method", "template not found")
_GLOBALS = frozenset({"range", "cycler", "joiner", "loop", "self", "super", "caller", "varargs", "kwargs"})


def new_environment() -> minijinja.Environment:
    # Methods of strings, as `format`, pad without fuel: "{:>1000000000}".format("a") takes two GB.
    environment = minijinja.Environment(
        undefined_behavior="strict", fuel=FUEL, auto_escape_callback=_escape_nothing, pycompat=False, keep_trailing_newline=True
    )
    for name in _REMOVED_GLOBALS:
        environment.remove_global(name)
    return environment


class Templates:
    """The templates of one variant, by name. `system`, `user` and `assistant` render messages of that role.

    `schemas` are those of the inputs that each template is rendered with. A template without a schema has no
    variables, except that the template of a role has the text of the message. `is_bounded` says whether fuel
    bounds the time that the templates take. If it does not, they are rendered in a process that can be ended.
    Raises TemplateFault.
    """

    __slots__ = ("_environment", "_schemas", "_variables", "is_bounded")

    def __init__(self, sources: Mapping[str, str], schemas: Mapping[str, InputSchema]) -> None:
        self._environment = new_environment()
        scanned: dict[str, Scanned] = {}
        for name, source in sources.items():
            try:
                scanned[name] = scan_source(source)
                self._environment.add_template(name, source)
            except TemplateFault as fault:
                raise NamedTemplateFault(name, fault.message, fault.line) from None
            except minijinja.TemplateError as fault:
                raise NamedTemplateFault(name, fault.detail or fault.message, fault.line) from None
        self.is_bounded = all(each.is_bounded for each in scanned.values())
        self._schemas = {name: schema for name, schema in schemas.items() if name in sources}
        self._variables = {name: _free_variables(self._environment, name, scanned, ()) for name in sources}

    def __contains__(self, name: str) -> bool:
        return name in self._variables

    def has_schema(self, name: str) -> bool:
        return name in self._schemas

    def takes_text(self, role: str) -> bool:
        """Whether the text of a message of this role is the input of its template."""
        return role not in self._schemas and TEXT_VARIABLES[role] in self._variables.get(role, ())

    def check_variables(self) -> None:
        """Raises NamedTemplateFault for a variable that nothing gives a value."""
        for name, variables in self._variables.items():
            schema = self._schemas.get(name)
            if schema is not None:
                declared = schema.properties
                known = f"its schema declares: {', '.join(sorted(declared)) or 'nothing'}"
            elif name in TEXT_VARIABLES:
                declared = frozenset({TEXT_VARIABLES[name]})
                known = f"without a schema there is {TEXT_VARIABLES[name]}"
            else:
                continue  # only a part of others, by which it is checked
            undeclared = sorted(variables - declared)
            if undeclared:
                raise NamedTemplateFault(name, f"there is no variable {undeclared[0]!r:.100}: {known[:500]}", None)
            if schema is None and not variables and name != "system":
                raise NamedTemplateFault(
                    name, f"it would say the same for every message: use {TEXT_VARIABLES[name]}, or add a schema", None
                )

    def render(self, name: str, inputs: Mapping[str, Any]) -> str:
        """Raises RenderFault."""
        schema = self._schemas.get(name)
        if schema is not None:
            schema.check(inputs)
        elif missing := sorted(self._variables[name] - inputs.keys()):
            raise RenderFault(f"the template {name!r:.100} has no schema, so that nothing can give {missing[0]!r:.100} a value")
        return self.render_unchecked(name, inputs)

    def render_unchecked(self, name: str, inputs: Mapping[str, Any]) -> str:
        """Renders a template as render() does, with inputs that are known to match the schema. Raises RenderFault."""
        try:
            rendered = self._environment.render_template(name, **inputs)
        except minijinja.TemplateError as fault:
            # Of a template that it includes, only the long form of the error says what is wrong.
            cause = str(fault).rpartition("\ncaused by: ")[2].partition("\n")[0] if fault.kind == "BadInclude" else fault.message
            if "ran out of fuel" in cause:
                raise RenderFault(f"to render the template {name!r:.100} takes too long with this input", is_of_template=True) from None
            raise RenderFault(
                f"the template {name!r:.100} cannot be rendered: {cause:.300}", is_of_template=cause.startswith(_FAULTS_OF_TEMPLATES)
            ) from None
        except Exception as fault:  # of Python's objects, as a number that is too large
            raise RenderFault(f"the template {name!r:.100} cannot be rendered: {type(fault).__name__}: {fault!s:.300}") from None
        if len(rendered) > MAX_OUTPUT_CHARACTERS:
            raise RenderFault(
                f"the template {name!r:.100} gives {len(rendered)} characters; {MAX_OUTPUT_CHARACTERS} may be sent", is_of_template=True
            )
        return rendered


def templates_of(variant: VariantConfig) -> Mapping[str, str]:
    """All templates of a variant by name."""
    of_roles = (variant.system_template, variant.user_template, variant.assistant_template)
    return {**{role: source for role, source in zip(ROLES, of_roles, strict=True) if source is not None}, **variant.templates}


class NamedTemplateFault(TemplateFault):
    """A fault of one of several templates, with the template's name."""

    def __init__(self, name: str, message: str, line: int | None) -> None:
        super().__init__(message, line)
        self.name = name


def _free_variables(
    environment: minijinja.Environment, name: str, scanned: Mapping[str, Scanned], including: tuple[str, ...]
) -> frozenset[str]:
    """The variables that a template needs, for those that it includes, too. Raises NamedTemplateFault."""
    if name in including:
        raise NamedTemplateFault(name, f"it includes itself: {' -> '.join((*including, name)):.300}", None)
    needed = set(environment.undeclared_variables_in_template(name)) - _GLOBALS
    for included in sorted(scanned[name].includes):
        if included not in scanned:
            raise NamedTemplateFault(name, f"there is no template {included!r:.100} in `templates`", None)
        needed |= _free_variables(environment, included, scanned, (*including, name)) - scanned[name].assigned
    return frozenset(needed)


def _escape_nothing(name: str) -> bool:
    return False
