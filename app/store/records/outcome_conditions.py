"""Outcomes of inferences, the same wherever they are counted: as conditions in SQL (null: it is not so), and of one that has just ended."""

from app.domain.exchange import Exchange

_REFUSED_ENDS = ("content_filter", "refusal")
# Codes of hosts that refuse a content; see providers/canonical/refusal_reasons.py.
_REFUSED_CODES = (
    *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"),
    *("data_inspection_failed", "datainspectionfailed", "prohibited_content", "safety"),
)
_IS_REFUSED_CODE = " || ".join(f'@.code like_regex "^{code}$" flag "i"' for code in _REFUSED_CODES)


def failed(prefix: str = "") -> str:
    """An arm has failed although another one answered. `prefix` is that of the columns, such as `i.`."""
    has_other = f"{prefix}served_variant <> {prefix}variant AND {prefix}attempts -> 0 ->> 'error' IS NOT NULL"
    return f"{prefix}outcome IN ('failed', 'aborted') OR ({has_other})"


def schema_failed(prefix: str = "") -> str:
    return f"{prefix}error = 'ConstraintViolation' OR {prefix}attempts @> '[{{\"error\": \"ConstraintViolation\"}}]'"


def refused(prefix: str = "") -> str:
    codes = f"jsonb_path_exists({prefix}attempts, '$[*] ? ({_IS_REFUSED_CODE})')"
    return f"{prefix}finish_reason IN {_REFUSED_ENDS} OR {codes}"


def has_schema_failure(exchange: Exchange) -> bool:
    """Returns whether schema_failed() finds the exchange once it is stored."""
    return exchange.error == "ConstraintViolation" or any(each.error == "ConstraintViolation" for each in exchange.attempts)


def is_refused(exchange: Exchange) -> bool:
    """Returns whether refused() finds the exchange once it is stored."""
    codes = {each.code.lower() for each in exchange.attempts if each.code is not None}
    return exchange.finish_reason in _REFUSED_ENDS or not codes.isdisjoint(_REFUSED_CODES)
