"""The number of replicas by their free slots: a policy of Ray Serve's autoscaling, which pickles it by value."""

import math
from typing import Any

BUSY_SHARE = 0.7  # of the slots: the rest serves a burst during the seconds in which a replica starts


def free_slots_policy(context: Any) -> tuple[int, dict[str, Any]]:
    """The number of replicas with ``BUSY_SHARE`` of their slots used or waited for; ``context``: AutoscalingContext."""
    shares = ((context.aggregated_metrics or {}).get("busy") or {}).values()
    wanted = math.ceil(sum(shares) / BUSY_SHARE - 1e-9) if shares else context.target_num_replicas
    return max(context.capacity_adjusted_min_replicas, min(context.capacity_adjusted_max_replicas, wanted)), {}
