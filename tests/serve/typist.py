"""A live campaign of two voices, and a rater's page that types to them."""

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
from mos.world import AB
from serve.mos_serving import Browser, ServedTests
from websockets.sync.client import ClientConnection, connect

from studio.core.packets import Packet, unpack_packet
from studio.mos.campaign.manifest import SystemSpec

LIVE = replace(AB, kind="live", raters_per_stimulus=8, trials_per_sitting=2)
VOICES = (
    SystemSpec("zebrafinch", voice={"voice": "tone", "speaker": "low", "seed": 5, "m": 2, "temperature": 0.3}),
    SystemSpec("nightjar", voice={"voice": "", "speaker": "high", "m": 3, "n": 2}),
)


class Typist:
    """A rater's page on the live socket."""

    def __init__(self, served: ServedTests, rater: Browser) -> None:
        self.texts: list[str] = []
        self.number = 0
        self.sound: list[Packet] = []
        self.ws: ClientConnection = connect(served.url.replace("http", "ws") + "/mos/live", proxy=None)
        self.say("enter", token=rater.headers["Authorization"].removeprefix("Bearer "))
        assert self.hear()["type"] == "entered"

    def say(self, kind: str, **more: Any) -> None:
        self.ws.send(json.dumps({"type": kind, **more}))

    def hear(self) -> Any:
        """The next message; audio is collected and played at once."""
        while isinstance(data := self.ws.recv(timeout=20), bytes):
            packet = unpack_packet(data)
            self.sound.append(packet)
            self.say("played", utterance=packet.utterance, sample=packet.first_sample + len(packet.pcm))
        self.texts.append(data)
        return json.loads(data)

    def until(self, *kinds: str) -> list[Any]:
        out = [self.hear()]
        while out[-1]["type"] not in kinds:
            out.append(self.hear())
        return out

    def take(self, trial: str, slot: int) -> dict[str, Any]:
        self.number += 1
        self.sound = []
        self.say("take", utterance=self.number, trial=trial, slot=slot)
        return self.until("opened", "error")[-1]

    def type(self, trial: str, *pieces: str, pause_s: float = 0.05) -> dict[str, Any]:
        """Type to the first voice, with pauses; returns the last word message."""
        assert self.take(trial, 0)["type"] == "opened"
        at = 0
        for piece in pieces:
            self.say("edit", utterance=self.number, at=at, insert=piece)
            at += len(piece)
            time.sleep(pause_s)
        self.say("end", utterance=self.number)
        return self.until("kept", "error", "again", "dropped")[-1]

    def again(self, trial: str, most: int = 8) -> tuple[dict[str, Any], list[Any]]:
        """Replay to the second voice until the keys are on time; the last word message and the shown keys."""
        for _ in range(most - 1):
            said = self.once_more(trial)
            if said[0]["type"] != "again":
                return said
        return self.once_more(trial)

    def once_more(self, trial: str) -> tuple[dict[str, Any], list[Any]]:
        opened = self.take(trial, 1)
        if opened["type"] == "error":
            return opened, []
        heard = self.until("kept", "error", "again", "dropped")
        return heard[-1], [one for one in heard if one["type"] == "typed"]

    def pcm(self) -> np.ndarray:
        return np.concatenate([packet.pcm for packet in self.sound])


def vote(rater: Browser, trial: str, *takes: dict[str, Any], outcome: str = "b") -> Any:
    plays = [{"slot": k, "plays": 1, "heard_ms": one["samples"] / 24} for k, one in enumerate(takes)]
    choices = [{"question": "preference", "outcome": outcome}]
    return rater.post("answer", {"trial": trial, "choices": choices, "plays": plays, "response_ms": 1.0})
