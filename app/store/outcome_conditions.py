"""Outcomes of inferences as conditions in SQL, the same wherever they are counted. Null: it is not so."""

# Codes of hosts that refuse a content; see providers/canonical/refusal_reasons.py.
_REFUSED_CODES = (
    *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"),
    *("data_inspection_failed", "datainspectionfailed", "prohibited_content", "safety"),
)
_IS_REFUSED_CODE = " || ".join(f'@.code like_regex "^{code}$" flag "i"' for code in _REFUSED_CODES)


def failed(prefix: str = "") -> str:
    """An arm has failed although another one answered. `prefix`: of the columns, such as `i.`."""
    has_other = f"{prefix}served_variant <> {prefix}variant AND {prefix}attempts -> 0 ->> 'error' IS NOT NULL"
    return f"{prefix}outcome IN ('failed', 'aborted') OR ({has_other})"


def schema_failed(prefix: str = "") -> str:
    return f"{prefix}error = 'ConstraintViolation' OR {prefix}attempts @> '[{{\"error\": \"ConstraintViolation\"}}]'"


def refused(prefix: str = "") -> str:
    codes = f"jsonb_path_exists({prefix}attempts, '$[*] ? ({_IS_REFUSED_CODE})')"
    return f"{prefix}finish_reason IN ('content_filter', 'refusal') OR {codes}"
