"""The door to the task pool: made of tables, described, split, drawn settings of."""

from mfcp.data.building import PoolRules, build_pool
from mfcp.data.splits import describe, draw_settings, family_of, split_groups, split_tasks
from mfcp.data.task_pool import TaskPool

__all__ = [
    "PoolRules",
    "TaskPool",
    "build_pool",
    "describe",
    "draw_settings",
    "family_of",
    "split_groups",
    "split_tasks",
]
