"""State of rows, and how a passage begins: with speakers to attend to, or after the codes of a recording."""

from collections.abc import Sequence

import torch
from torch import Tensor

from studio.engine.families.kyutai.cpu import CpuKyutaiLM
from studio.engine.families.kyutai.model import ZERO, KyutaiLM
from studio.engine.families.kyutai.policy import KyutaiInput
from studio.engine.families.kyutai.speakers import read_labels
from studio.engine.nets.sampling import FrameNoise

KyutaiNet = KyutaiLM | CpuKyutaiLM
_KEPT_PREFIXES = 8  # K and V of as many recordings are kept, about 25 MB each for ten seconds and two bytes a number


class KyutaiSlots:
    """State of all rows.

    Attributes:
        state: of the backbone.
        fed: int64 [slots, 1 + n_q], output of the last step: text token and codes.
        forced: int64 [slots, steps, dep_q], codes of a passage's first steps, in which sound is not sampled yet.
        noise: position in the noise stream; on the CPU.
    """

    def __init__(self, net: KyutaiNet, count: int, vectors: int, forced_steps: int = 1) -> None:
        c = net.config
        self.state = net.init_state(count, vectors)
        device = self.state.position.device
        self.fed = torch.full((count, 1 + c.n_q), ZERO, device=device)
        self.forced = torch.full((count, forced_steps, c.dep_q), ZERO, device=device)
        self.noise = FrameNoise(count, 1 + c.dep_q, torch.device("cpu"))

    def reset(self, slot: int) -> None:
        """Give a slot to a new row; its first step sets the rest."""
        self.noise.reset(slot)

    def clear(self, slot: int) -> None:
        """An empty context."""
        self.state.position[slot] = 0
        for ring in self.state.rings:
            ring[slot] = 0


class Attending:
    """Passages of a model that attends to its speaker.

    Args:
        speakers: vectors [1, S, width] of each speaker of the voice, and where there is one, bool [1, S].
        strengths: of guidance that the model was trained with.
    """

    def __init__(self, net: KyutaiNet, speakers: Sequence[tuple[Tensor, Tensor]], strengths: Sequence[float]) -> None:
        self._net, self._speakers, self._strengths = net, speakers, strengths
        self._attended: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def begin(self, slots: KyutaiSlots, row: Sequence[int], given: KyutaiInput) -> None:
        """Set the conditions of a passage in its slot, which begins with an empty context."""
        state, (slot, *_) = slots.state, row
        if given.speaker not in self._attended:
            vectors, present = self._speakers[given.speaker]
            self._attended[given.speaker] = self._net.attend(vectors.to(state.offset), present.to(slots.fed.device))
        slots.clear(slot)
        for stored, own in zip(state.others, self._attended[given.speaker], strict=True):
            for mine, theirs in zip(stored, own, strict=True):
                mine[slot] = theirs[0]
        labels = read_labels(self._strengths, given.guidance)
        state.offset[slot] = self._net.offset({name: one.to(slots.fed.device) for name, one in labels.items()})[0]


class Prefixed:
    """Passages of a model that continues a recording.

    While the recording's codes are fed, with the delays of all codes, there is no text. Guidance has a second slot,
    which is fed neither the recording nor text.

    Args:
        delay_steps: of the audio behind the text.
        delays: int64 [1 + n_q], of the text and of each codebook; ``initial`` int64 [1 + n_q], tokens until then.
    """

    def __init__(self, net: KyutaiNet, delay_steps: int, delays: Tensor, initial: Tensor) -> None:
        self._net, self._delay_steps, self._delays, self._initial = net, delay_steps, delays, initial
        self._begun: dict[bytes, tuple[list[Tensor], Tensor, Tensor]] = {}

    def begin(self, slots: KyutaiSlots, row: Sequence[int], given: KyutaiInput) -> None:
        """Set the state after the recording in both slots of a row."""
        assert given.prefix is not None, "a prefixed model needs the codes of a recording"
        key = given.prefix.tobytes()
        begun = self._begun.pop(key, None) or self._run(torch.from_numpy(given.prefix).to(slots.fed.device))
        self._begun[key] = begun  # the last one: the first one is the longest unused
        if len(self._begun) > _KEPT_PREFIXES:
            del self._begun[next(iter(self._begun))]
        rings, fed, forced = begun
        for number, slot in enumerate(row):
            slots.clear(slot)
            slots.state.position[slot] = len(given.prefix)
            for mine, theirs in zip(slots.state.rings, rings, strict=True):
                mine[slot, :, : theirs.shape[2]] = theirs[number]
            slots.fed[slot], slots.forced[slot] = fed, forced

    def _run(self, prefix: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """Run a recording, int64 [T, dep_q].

        Returns:
            What the rings hold after it, [2, heads, T', head_width], for both slots; what the last step made; and the
            codes of the steps after it in which the recording's delayed codes are still fed.
        """
        c, steps = self._net.config, len(prefix)
        delays = self._delays[1 : 1 + c.dep_q] + self._delay_steps
        longest = int(delays.max())
        made = prefix.new_full((steps + longest, 1 + c.n_q), ZERO)
        for codebook, delay in enumerate(delays.tolist()):
            made[delay : delay + steps, 1 + codebook] = prefix[:, codebook]
        before = torch.cat((made.new_full((1, 1 + c.n_q), ZERO), made[: steps - 1]))
        is_initial = torch.arange(steps, device=prefix.device)[:, None] <= self._delays
        fed = torch.where(is_initial, self._initial, torch.stack((before, torch.full_like(before, ZERO))))
        state = self._net.init_state(2)
        self._net.advance(fed, state, torch.arange(2, device=prefix.device))
        rings = [one[:, :, :steps].clone() for one in state.rings]
        return rings, made[steps - 1], made[steps:, 1 : 1 + c.dep_q]
