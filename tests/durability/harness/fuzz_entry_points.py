"""All entry points that are fuzzed, with the share of requests of each."""

import logging
from collections.abc import Callable, Mapping

from durability.harness import fuzz_targets as fuzz
from durability.harness.fuzz_adapters import adapter_sockets
from durability.harness.target import Target

DOORS: Mapping[str, tuple[Callable[[Target, int, int], fuzz.Outcome], float]] = {
    door.__name__: (door, share)
    for door, share in (
        (fuzz.our_routes, 0.25),
        (fuzz.mounted_routes, 0.2),
        (fuzz.raw_http, 0.05),
        (fuzz.speak_socket, 0.15),
        (fuzz.live_socket, 0.1),
        (adapter_sockets, 0.2),
        (fuzz.raw_frames, 0.05),
    )
}


def through(name: str, target: Target, requests: int, number: int) -> fuzz.Outcome:
    """Fuzz one entry point with its share of the requests."""
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # websockets logs a closed connection as an error
    door, share = DOORS[name]
    return door(target, max(1, round(share * requests)), number)
