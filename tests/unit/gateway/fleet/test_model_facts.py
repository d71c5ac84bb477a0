"""The facts about a model before it is used: those of a model with an experiment are true of every arm."""

import httpx2

from app.domain.experiments import ExperimentConfig
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.model_facts import ModelFacts, model_facts
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot


def facts(arms: dict[str, float], *, prices: tuple[Price, ...] = ()) -> ModelFacts:
    models = {
        "small": ModelConfig((Target("p", "s"),), context_length=1000, capabilities=("vision", "tools")),
        "large": ModelConfig((Target("p", "l"),), context_length=9000, capabilities=("vision", "tools")),
        "blind": ModelConfig((Target("p", "b"),), capabilities=("tools",)),
        "fast": ModelConfig((), experiment=ExperimentConfig(arms)),
    }
    snapshot: Snapshot = build_snapshot(1, {"p": ProviderConfig("openai", "http://p/v1")}, models, (), prices)
    fleet = Fleet(Settings(), httpx2.MockTransport(lambda _: httpx2.Response(404)))
    fleet.apply_snapshot(snapshot)
    return model_facts(snapshot, fleet.table, "fast", 0.0)


def test_experiment_has_what_all_arms_have_and_their_shortest_context():
    of_both = facts({"small": 1.0, "large": 1.0})
    assert (of_both.context_length, of_both.capabilities, of_both.pricing) == (1000, ("vision", "tools"), None)


def test_what_one_arm_lacks_is_not_known():
    of_both = facts({"small": 1.0, "blind": 1.0})
    assert (of_both.context_length, of_both.capabilities) == (None, None)


def test_experiment_has_a_price_only_if_its_arms_have_the_same():
    def price(model: str, usd: float) -> Price:
        return Price(provider="p", model=model, input=usd, output=2.0)

    arms = {"small": 1.0, "large": 1.0}
    same = facts(arms, prices=(price("s", 1.0), price("l", 1.0))).pricing
    assert same is not None and (same.input, same.output) == (1.0, 2.0)
    assert facts(arms, prices=(price("s", 1.0), price("l", 3.0))).pricing is None
    assert facts(arms, prices=(price("s", 1.0),)).pricing is None
