"""Sentences that say why a request was slow, dear, sent there, failed or was refused."""

from typing import Any

import pytest

from app.api.admin.records.explain import explain_inference, explain_refusal
from app.api.admin.records.reasons import Reason
from app.store.records.episode_timeline import timeline_attempts
from app.store.records.refusal_queries import StoredRefusal

ROW: dict[str, Any] = {
    **{"duration_us": 900_000, "first_token_us": None, "streamed": False, "status": 200, "outcome": "answered", "error": None},
    **{"message": None, "model": "fast", "served_provider": "openai", "served_model": "gpt-5-mini", "endpoint": "https://api.openai.com"},
    **{"input_tokens": 1842, "output_tokens": 96, "cached_tokens": None, "reasoning_tokens": None, "cost_microusd": 4100},
    **{"charge_basis": "reported", "price": "openai/gpt-5-mini/2026-01-01", "variant": None, "served_variant": None},
    **{"experiment": None, "arm_probability": None, "not_enrolled": None, "attempts": None, "served_us": 880_000},
    **{"charged_input": 1842, "charged_output": 96},
}


def attempt(provider: str, started_us: int, duration_us: int, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        **{"provider": provider, "model": "m", "endpoint": "http://gpu-1", "started_us": started_us, "duration_us": duration_us},
        **{"error": error, **more},
    }


def reasons(usual_us: int | None = None, **fields: Any) -> dict[str, Reason]:
    row = {**ROW, **fields}
    row["served_us"] = row["duration_us"] - 20_000
    found = explain_inference(row, timeline_attempts(row), usual_us)
    return {type(each).__struct_config__.tag: each for each in found}  # pyright: ignore[reportReturnType]


def test_usual_request_has_no_salient_reason():
    found = reasons()
    assert list(found) == ["latency", "cost", "route"] and not any(each.salient for each in found.values())
    assert found["latency"].sentence == (
        "900 ms for the whole response with 96 output tokens; it was not streamed, so when it began is not known."
    )
    assert found["cost"].sentence == "$0.0041: 1,842 input tokens, and 96 output tokens, as the host reported them."
    assert found["route"].sentence == "openai/gpt-5-mini is the target of fast that came first, and it served at once."


def test_time_lost_on_failed_attempts_comes_first():
    attempts = [attempt("gpu", 1_000, 2_000_000, "Overloaded"), attempt("openai", 2_010_000, 300_000)]
    found = reasons(duration_us=4_210_000, attempts=attempts)
    latency, route = found["latency"], found["route"]
    assert latency.salient and latency.sentence == "2.00 s of 4.21 s were lost on an attempt that failed: gpu/m."
    assert latency.evidence.part == "failed_attempts" and latency.evidence.failed_attempts_us == 2_000_000  # pyright: ignore
    assert route.salient and route.sentence == "openai/gpt-5-mini served it after gpu/m failed (Overloaded)."


@pytest.mark.parametrize(
    ("fields", "part", "sentence"),
    [
        ({"first_token_us": 3_000_000, "duration_us": 4_000_000}, "first_token", "before the first token; the rest came at 96 tokens"),
        ({"first_token_us": 1_000_000, "duration_us": 4_000_000}, "generation", "The first token came after 1.00 s; 96 tokens took 3.00 s"),
        (
            {"first_token_us": 3_800_000, "duration_us": 4_000_000, "attempts": [attempt("gpu", 3_000_000, 800_000)]},
            "waiting",
            "3.00 s of 4.00 s passed before the first attempt began.",
        ),
    ],
)
def test_largest_part_of_a_stream_is_named(fields: dict[str, Any], part: str, sentence: str):
    latency = reasons(streamed=True, **fields)["latency"]
    assert sentence in latency.sentence and latency.evidence.part == part and latency.salient  # pyright: ignore


def test_slow_is_what_is_slower_than_the_model_usually_is():
    assert not reasons(4_000_000, duration_us=5_000_000)["latency"].salient
    slow = reasons(400_000, duration_us=900_000)["latency"]
    assert slow.salient and slow.sentence.endswith("Half of the model's requests of the day before took at most 400 ms.")
    assert not reasons(1_000, duration_us=9_000)["latency"].salient, "nobody waits for 9 ms"


def test_prices_that_are_not_known_or_hold_failed_attempts_are_salient():
    unpriced = reasons(cost_microusd=None, charge_basis=None)["cost"]
    assert unpriced.salient and unpriced.sentence == "No price of openai/gpt-5-mini is known, so it counts in no cost."
    attempts = [attempt("gpu", 0, 10, "TimedOut", cost_microusd=3000), attempt("openai", 20, 30, cost_microusd=1100)]
    partly = reasons(attempts=attempts, charge_basis="reserved")["cost"]
    assert partly.salient and partly.sentence.endswith("its caller left. $0.0030 of it are for attempts that failed.")
    free = reasons(cost_microusd=0, input_tokens=None, output_tokens=None)["cost"]
    assert free.sentence == "Nothing was charged: no host did work that it bills."


def test_experiments_and_candidates_are_explained():
    assigned = reasons(variant="friendly", experiment="support", arm_probability=0.5)["route"].sentence
    assert assigned.startswith("The experiment support assigned it to friendly, whose share is 50 %.")
    outside = reasons(variant="plain", experiment="support", not_enrolled="holdout")["route"].sentence
    assert outside.startswith("It got plain outside of the experiment support: its unit is held out.")
    best = {"number": 0, "endpoint": "gpu-1", "score": 3, "cached_tokens": 1200, "load_tokens": 50, "unavailable": None}
    chosen = reasons(attempts=[attempt("gpu", 0, 10, candidates=[best, {**best, "endpoint": "gpu-2"}])])["route"]
    assert "Of 2 endpoints gpu-1 had the lowest score: about 1,200 tokens" in chosen.sentence and chosen.evidence.candidates == 2  # pyright: ignore


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"outcome": "disconnected", "status": 499}, "The caller closed the connection after 900 ms."),
        ({"outcome": "failed", "status": 502, "error": "UpstreamRejected", "message": "No."}, "UpstreamRejected (status 502): No."),
        ({"outcome": "aborted", "status": 500}, "The gateway process stopped, or something broke in it, after 900 ms."),
    ],
)
def test_what_was_not_answered_says_how_it_ended(fields: dict[str, Any], sentence: str):
    end = reasons(**fields, served_provider=None)["end"]
    assert end.sentence == sentence and end.salient


def refusal(**fields: Any) -> StoredRefusal:
    nothing: dict[str, Any] = dict.fromkeys(StoredRefusal.__struct_fields__, None)
    return StoredRefusal(**{**nothing, **fields})


def test_refusal_names_the_limit_and_the_field():
    limited = refusal(status=429, error="LimitExceeded", rule="20 a minute", message="Wait for 3 s.")
    assert explain_refusal(limited).sentence == "The limit 20 a minute refused it: Wait for 3 s."
    wrong = refusal(status=400, error="InvalidRequest", param="top_p")
    assert explain_refusal(wrong).sentence == "It was refused (InvalidRequest) for its field top_p."
