"""Explains a recorded request in sentences: where its time went, what its price is made of, why it was sent there, why it failed.

They are made of what was recorded of it, and say nothing that its reader may not see.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.admin.records.reasons import (
    CostEvidence,
    CostReason,
    EndEvidence,
    EndReason,
    LatencyEvidence,
    LatencyReason,
    Reason,
    RefusalEvidence,
    RefusalReason,
    RouteEvidence,
    RouteReason,
)
from app.domain.exchange import ChargeBasis
from app.domain.experiments import NotEnrolled
from app.store.records.episode_timeline import TimelineAttempt
from app.store.records.refusal_queries import StoredRefusal

_SLOW_US = 3_000_000  # slower than this is salient, where nothing is known of what is usual
_SLOW_TIMES = 2  # or so many times slower than usual, if it took longer than _LEAST_SLOW_US
_LEAST_SLOW_US = 500_000
_LOST_SHARE, _LEAST_LOST_US = 0.25, 50_000
_MAX_MESSAGE_CHARACTERS = 300
_MAX_NAMED = 3

_BASIS: Mapping[ChargeBasis, str] = {
    "reported": "as the host reported them",
    "received": "estimated by what came of the response, as the host reported none",
    "reserved": "as they were reserved, as the host may have gone on writing after its caller left",
}
_NOT_ENROLLED: Mapping[NotEnrolled, str] = {
    "pinned": "its caller chose the variant",
    "ineligible": "the experiment is not for such requests",
    "no_unit": "it names no unit to assign",
    "holdout": "its unit is held out",
    "layer": "its unit is in another experiment of the layer",
    "share": "its unit does not take part",
    "before": "its episode began before the experiment",
    "late": "the gateway process did not know the newest weights yet",
    "future": "its episode claims to begin later",
}


def explain_inference(row: Mapping[str, Any], attempts: Sequence[TimelineAttempt], usual_us: int | None) -> list[Reason]:
    """Returns the reasons that apply.

    `row` and `attempts` are as their reader may see them. `usual_us` is the median duration of the same model,
    or None if it is not known.
    """
    reasons: list[Reason] = [_explain_latency(row, attempts, usual_us), _explain_cost(row, attempts), _explain_route(row, attempts)]
    return reasons if row["outcome"] == "answered" else [*reasons, _explain_end(row)]


def explain_refusal(refusal: StoredRefusal) -> RefusalReason:
    by = f"The limit {refusal.rule} refused it" if refusal.rule else f"It was refused ({refusal.error})"
    at_field = f" for its field {refusal.param}" if refusal.param else ""
    message = f": {refusal.message[:_MAX_MESSAGE_CHARACTERS]}" if refusal.message else "."
    evidence = RefusalEvidence(status=refusal.status, error=refusal.error, rule=refusal.rule, param=refusal.param)
    return RefusalReason(sentence=f"{by}{at_field}{message}", salient=True, evidence=evidence)


def _explain_latency(row: Mapping[str, Any], attempts: Sequence[TimelineAttempt], usual_us: int | None) -> LatencyReason:
    total_us: int = row["duration_us"]
    failed = [each for each in attempts if each.error is not None]
    failed_us = sum(each.duration_us or 0 for each in failed)
    served_us = next((each.started_us for each in attempts if each.error is None and each.started_us is not None), None)
    first_us, generation_us = None, None
    if row["first_token_us"] is not None and row["streamed"]:
        first_us = max(row["first_token_us"] - (served_us or 0), 0)
        generation_us = max(total_us - row["first_token_us"], 0)
    waiting_us = attempts[0].started_us if attempts else None
    parts = {"waiting": waiting_us or 0, "failed_attempts": failed_us, "first_token": first_us or 0, "generation": generation_us or 0}
    if first_us is None:
        parts["response"] = total_us - failed_us - (waiting_us or 0)
    part: Any = max(parts, key=lambda name: parts[name])
    is_lost = failed_us > _LOST_SHARE * total_us and failed_us > _LEAST_LOST_US
    if is_lost:
        part = "failed_attempts"
    tokens, rate = row["output_tokens"], ""
    if tokens and generation_us:
        rate = f" at {tokens * 1_000_000 // generation_us:,} tokens a second"
    match part:
        case "failed_attempts":
            lost_on = "an attempt" if len(failed) == 1 else f"{len(failed)} attempts"
            sentence = f"{_duration(failed_us)} of {_duration(total_us)} were lost on {lost_on} that failed: {_targets(failed)}."
        case "waiting":
            sentence = f"{_duration(waiting_us)} of {_duration(total_us)} passed before the first attempt began."
        case "first_token":
            sentence = f"{_duration(first_us)} of {_duration(total_us)} passed before the first token; the rest came{rate}."
        case "generation":
            sentence = (
                f"The first token came after {_duration(row['first_token_us'])}; {tokens or 0:,} tokens took"
                f" {_duration(generation_us)} more{rate}."
            )
        case _:
            of_tokens = f" with {tokens:,} output tokens" if tokens else ""
            sentence = f"{_duration(total_us)} for the whole response{of_tokens}; it was not streamed, so when it began is not known."
    if usual_us is not None:
        sentence += f" Half of the model's requests of the day before took at most {_duration(usual_us)}."
    is_slow = total_us >= _SLOW_US if usual_us is None else total_us >= max(_SLOW_TIMES * usual_us, _LEAST_SLOW_US)
    return LatencyReason(
        sentence=sentence,
        salient=is_lost or is_slow,
        evidence=LatencyEvidence(
            part=part,
            duration_us=total_us,
            waiting_us=waiting_us,
            failed_attempts_us=failed_us,
            first_token_us=first_us,
            generation_us=generation_us,
            usual_us=usual_us,
        ),
    )


def _explain_cost(row: Mapping[str, Any], attempts: Sequence[TimelineAttempt]) -> CostReason:
    cost, basis = row["cost_microusd"], row["charge_basis"]
    failed = sum(each.cost_microusd or 0 for each in attempts if each.error is not None)
    if cost is None:
        served = f"{row['served_provider']}/{row['served_model']}" if row["served_provider"] else "what was tried"
        sentence = f"No price of {served} is known, so it counts in no cost."
    elif cost == 0 and not row["input_tokens"] and not row["output_tokens"]:
        sentence = "Nothing was charged: no host did work that it bills."
    else:
        cached = f", of which {row['cached_tokens']:,} came from a cache" if row["cached_tokens"] else ""
        reasoning = f", of which {row['reasoning_tokens']:,} are reasoning" if row["reasoning_tokens"] else ""
        certainty = f", {_BASIS[basis]}" if basis in _BASIS else ""
        sentence = (
            f"{_usd(cost)}: {row['input_tokens'] or 0:,} input tokens{cached}, and {row['output_tokens'] or 0:,} output"
            f" tokens{reasoning}{certainty}."
        )
        if failed:
            sentence += f" {_usd(failed)} of it are for attempts that failed."
    evidence = CostEvidence(cost_microusd=cost, failed_microusd=failed, basis=basis, price=row["price"])
    return CostReason(sentence=sentence, salient=cost is None or failed > 0, evidence=evidence)


def _explain_route(row: Mapping[str, Any], attempts: Sequence[TimelineAttempt]) -> RouteReason:
    failed = [each for each in attempts if each.error is not None]
    served = f"{row['served_provider']}/{row['served_model']}" if row["served_provider"] else None
    sentences = list(_explain_variant(row))
    if served is None:
        sentences.append(f"None of {len(attempts)} attempts served it." if attempts else "It was sent to no host.")
    elif failed:
        sentences.append(f"{served} served it after {_failures(failed)}.")
    else:
        sentences.append(f"{served} is the target of {row['model']} that came first, and it served at once.")
    candidates: Sequence[Mapping[str, Any]] = next(
        (each["candidates"] for each in reversed(row["attempts"] or ()) if each.get("candidates")), ()
    )
    if len(candidates) > 1:
        best = candidates[0]
        sentences.append(
            f"Of {len(candidates)} endpoints {best['endpoint']} had the lowest score: about {best['cached_tokens']:,} tokens of the prompt"
            f" were in its cache, and it was busy with {best['load_tokens']:,}."
        )
    evidence = RouteEvidence(
        provider=row["served_provider"],
        model=row["served_model"],
        experiment=row["experiment"],
        variant=row["variant"],
        share=row["arm_probability"],
        not_enrolled=row["not_enrolled"],
        failed_attempts=len(failed),
        candidates=len(candidates) or None,
    )
    is_elsewhere = bool(failed) or (row["served_variant"] or row["variant"]) != row["variant"]
    return RouteReason(sentence=" ".join(sentences), salient=is_elsewhere and served is not None, evidence=evidence)


def _explain_variant(row: Mapping[str, Any]) -> list[str]:
    variant, experiment, reason = row["variant"], row["experiment"], row["not_enrolled"]
    if not variant:
        return []
    if not experiment:
        sentences = [f"The variant is {variant}."]
    elif reason is not None:
        sentences = [f"It got {variant} outside of the experiment {experiment}: {_NOT_ENROLLED.get(reason, reason)}."]
    else:
        share = f", whose share is {100 * row['arm_probability']:.0f} %" if row["arm_probability"] else ""
        sentences = [f"The experiment {experiment} assigned it to {variant}{share}."]
    if row["served_variant"] and row["served_variant"] != variant:
        sentences.append(f"{row['served_variant']} served it instead.")
    return sentences


def _explain_end(row: Mapping[str, Any]) -> EndReason:
    match row["outcome"]:
        case "disconnected":
            sentence = f"The caller closed the connection after {_duration(row['duration_us'])}."
        case "aborted":
            sentence = f"The gateway process stopped, or something broke in it, after {_duration(row['duration_us'])}."
        case _:
            message = f": {row['message'][:_MAX_MESSAGE_CHARACTERS]}" if row["message"] else "."
            sentence = f"{row['error'] or 'It was not answered'} (status {row['status']}){message}"
    evidence = EndEvidence(outcome=row["outcome"], status=row["status"], error=row["error"])
    return EndReason(sentence=sentence, salient=True, evidence=evidence)


def _failures(failed: Sequence[TimelineAttempt]) -> str:
    named = [f"{each.provider}/{each.served_model} failed ({each.error})" for each in failed[:_MAX_NAMED]]
    return ", ".join([*named, *([f"and {len(failed) - _MAX_NAMED} more"] if len(failed) > _MAX_NAMED else [])])


def _targets(attempts: Sequence[TimelineAttempt]) -> str:
    return ", ".join(dict.fromkeys(f"{each.provider}/{each.served_model}" for each in attempts))


def _duration(us: int | None) -> str:
    ms = (us or 0) / 1000
    if ms < 1000:
        return f"{ms:.1f} ms" if 0 < ms < 1 else f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} m"


def _usd(microusd: int) -> str:
    usd = microusd / 1_000_000
    if usd == 0:
        return "$0"
    return f"${usd:.4f}" if 0.0001 <= usd < 0.1 else f"${usd:.2g}" if usd < 0.0001 else f"${usd:,.2f}"
