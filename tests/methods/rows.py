"""One row for every method, and more for options that change what is learned; trained quickly."""

from mfcp.methods.base import FinetuneSettings, Method, register_members
from mfcp.methods.pretrain import PretrainSettings
from mfcp.predictors.cross_fitted import CrossFitted
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.mlp import Mlp
from mfcp.rules.base import Rule

register_members()
ROWS = {f"{kind}": {"kind": kind} for kind in Method.members} | {
    "two_stage_time": {"kind": "two_stage", "loss": "time"},
    "zeroth_order": {"kind": "decision_focused", "gradient": {"kind": "zeroth_order", "samples": 4}},
    "corrected": {"kind": "plan_loss", "corrects": ["nets"], "rule": "expected_cost"},
    "others_true": {"kind": "decision_focused", "others": "labels"},
    "alternating": {"kind": "decision_focused", "updates": "alternating"},
    "perturbed_times": {
        "kind": "decision_focused",
        "gradient": {"kind": "zeroth_order", "samples": 4, "perturbs": "time"},
    },
    "total_cost": {"kind": "decision_focused", "cost": "total"},
    "hard_penalty": {"kind": "decision_focused", "penalty": "hard"},
    "expected_softmin": {"kind": "plan_loss", "surrogate": "softmin", "rule": "expected_cost"},
    "relaxed_objective": {"kind": "decision_focused", "upper": "objective"},
    "ensemble": {"kind": "plan_loss", "surrogate": "listwise", "forecast": "nets", "rule": "expected_cost"},
    "perturbed": {"kind": "plan_loss", "surrogate": {"kind": "perturbed", "samples": 4}},
    **{f"two_stage_{rule}": {"kind": "two_stage", "rule": {"kind": rule}} for rule in Rule.members},
}
HEADS = {"predictor": Mlp(hidden=8), "training": HeadTraining(epochs=60, lr=0.02)}
PRETRAIN = PretrainSettings(
    **HEADS, folds=3, forecasts={"nets": CrossFitted(**HEADS), "held_out": CrossFitted(**HEADS, validation="held_out")}
)
FINETUNE = FinetuneSettings(steps=12, rounds=8, check_every=4)
