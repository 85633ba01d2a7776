"""How many replicas run, by their free slots: a policy of Ray Serve's autoscaling, which sends it by value."""

import math
from typing import Any

BUSY_SHARE = 0.7  # of the slots: a replica takes seconds to start, and a burst finds room meanwhile


def free_slots_policy(context: Any) -> tuple[int, dict[str, Any]]:
    """So many replicas that ``BUSY_SHARE`` of their slots are used or waited for; ``context``: AutoscalingContext."""
    shares = ((context.aggregated_metrics or {}).get("busy") or {}).values()
    wanted = math.ceil(sum(shares) / BUSY_SHARE - 1e-9) if shares else context.target_num_replicas
    return max(context.capacity_adjusted_min_replicas, min(context.capacity_adjusted_max_replicas, wanted)), {}
