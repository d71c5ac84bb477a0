"""Under which models what was spent counts, as in limits: the one that was named, that of its variant or arm, and the one that served.

Read from the tables of the configuration, so that a process without a snapshot can, too. See app/store/usage/counted_models.py.
"""

from typing import Any

from sqlalchemy import ColumnElement, Text, and_, column, exists, or_, text

_TRIED_FIRST = """
    SELECT functions.name, variant.key AS variant, variant.value ->> 'model' AS counts_as
    FROM functions, jsonb_each(functions.config -> 'variants') AS variant
    UNION SELECT models.name, arm.key, arm.key
    FROM models, jsonb_each(models.config -> 'experiment' -> 'arms') AS arm WHERE arm.key IN (SELECT name FROM models)
"""
_NAMES = f"""
    WITH named AS (SELECT name, name AS counts_as FROM models UNION SELECT name, counts_as FROM ({_TRIED_FIRST}) AS tried_first)
    SELECT name, counts_as FROM named
    UNION SELECT named.name, fallback.value
    FROM named JOIN models ON models.name = named.counts_as, jsonb_array_elements_text(models.config -> 'fallbacks') AS fallback
"""  # noqa: S608
_TARGETS = """
    SELECT models.name AS counts_as, target.value ->> 'provider' AS provider, target.value ->> 'model' AS model
    FROM models, jsonb_array_elements(models.config -> 'targets') AS target
"""


def _subquery(query: str, name: str, *columns: str) -> Any:
    return text(query).columns(*(column(each, Text) for each in columns)).subquery(name)


# Each name that requests may have, with each model under which they may count.
COUNTED = _subquery(_NAMES, "counted", "name", "counts_as")
_tried_first = _subquery(_TRIED_FIRST, "tried_first", "name", "variant", "counts_as")
_targets = _subquery(_TARGETS, "targets", "counts_as", "provider", "model")


def counts(
    name: ColumnElement[str], variant: ColumnElement[str], provider: ColumnElement[str], served_model: ColumnElement[str]
) -> ColumnElement[bool]:
    """Whether what was recorded so counts as COUNTED says. `name` is that of the function or model that was named."""
    first, target, counted = _tried_first.c, _targets.c, COUNTED.c
    was_first = exists().where(first.name == counted.name, first.counts_as == counted.counts_as, first.variant == variant)
    served = exists().where(target.counts_as == counted.counts_as, target.provider == provider, target.model == served_model)
    return and_(counted.name == name, or_(counted.counts_as == counted.name, was_first, served))
