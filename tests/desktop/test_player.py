"""The ring buffer and its callback, driven block by block; the sink that keeps time; missing loudspeakers."""

import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.desktop import devices
from studio.desktop.devices import NULL, NullOutput, open_output, output_names
from studio.desktop.player import PREBUFFER_S, Player

RATE_HZ = 24_000
BLOCK = 240
PREBUFFER = round(PREBUFFER_S * RATE_HZ)


class Device:
    """Calls the callback by hand; ``delay_s`` is how long a block takes to the loudspeaker."""

    def __init__(self, player: Player, delay_s: float = 0.0) -> None:
        self.player, self.delay_s = player, delay_s

    def take(self, blocks: int = 1, frames: int = BLOCK, status: object = None) -> np.ndarray:
        timing = SimpleNamespace(currentTime=7.0, outputBufferDacTime=7.0 + self.delay_s)
        out = np.full((blocks, frames, 1), 99, np.int16)
        for block in out:
            self.player.fill(block, frames, timing, status)
        return out.reshape(-1)


def ramp(samples: int, first: int = 1) -> np.ndarray:
    return (np.arange(first, first + samples) % 30_000 + 1).astype(np.int16)


def test_samples_come_out_in_order_and_whole_across_the_end_of_the_ring() -> None:
    player = Player(RATE_HZ)
    device, heard, sent = Device(player), [], []
    for k in range(40):  # ten times the ring's length in all
        pcm = ramp(RATE_HZ * 2, 17 * k)
        player.play(pcm)
        sent.append(pcm)
        heard.append(device.take(len(pcm) // BLOCK))
    assert np.array_equal(np.concatenate(heard), np.concatenate(sent))
    assert player.end == 40 * 2 * RATE_HZ


def test_playback_starts_with_some_samples_buffered_but_waits_no_longer_than_they_last() -> None:
    player = Player(RATE_HZ)
    device = Device(player)
    player.play(ramp(600))
    before = device.take(PREBUFFER // BLOCK)
    assert not before.any() and np.array_equal(device.take()[:5], ramp(5))
    other = Player(RATE_HZ)
    other.play(ramp(PREBUFFER))
    assert Device(other).take()[0] == 2


def test_running_dry_fades_out_and_is_reported() -> None:
    player = Player(RATE_HZ)
    player.play(np.full(PREBUFFER + 100, 8000, np.int16))
    device = Device(player)
    heard = device.take(PREBUFFER // BLOCK)
    assert not player.ran_dry and (heard == 8000).all()
    tail = device.take(2)
    assert player.ran_dry and (tail[:100] == 8000).all()
    assert (np.diff(tail[100:].astype(int)) <= 0).all() and tail[100] > 7900 and tail[-1] == 0
    assert np.abs(np.diff(tail[100:].astype(int))).max() < 100  # no click


def test_a_cut_replaces_what_was_not_played_and_a_stop_silences_at_once() -> None:
    player = Player(RATE_HZ)
    device = Device(player)
    player.play(ramp(4800))
    device.take(10)
    player.cut(3600)
    player.play(np.full(600, 5, np.int16))
    assert (device.take(5)[-1], (device.take(2) == 5).sum()) == (ramp(3600)[-1], 480)
    assert 3840 <= player.stop() <= 4080
    assert (device.take(3)[240:] == 0).all() and player.end == 4080


def test_the_position_is_what_has_left_the_loudspeaker_not_what_was_handed_over() -> None:
    player = Player(RATE_HZ)
    player.play(ramp(4800))
    began_s = time.perf_counter()
    Device(player, delay_s=100.0).take(10)
    assert player.position() == 0 and player.end == 4800
    assert player.time_of(0) == pytest.approx(began_s + 100.0, abs=5.0)
    first_s, later_s = player.time_of(0), player.time_of(241)
    assert first_s is not None and later_s is not None and later_s >= first_s + 1 / RATE_HZ
    assert player.time_of(4800) is None


def test_the_callback_allocates_no_memory_for_samples() -> None:
    player = Player(RATE_HZ)
    player.play(ramp(100_000))
    timing, out = SimpleNamespace(currentTime=0.0, outputBufferDacTime=0.0), np.zeros((20_000, 1), np.int16)
    player.fill(out, len(out), timing, None)
    tracemalloc.start()
    player.fill(out, len(out), timing, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < out.nbytes / 10


def test_a_late_device_is_counted_while_sound_is_played() -> None:
    player = Player(RATE_HZ)
    device, late = Device(player), SimpleNamespace(output_underflow=True)
    device.take(status=late)  # of silence
    player.play(ramp(PREBUFFER + BLOCK))
    device.take()
    device.take(status=late)
    device.take(status=SimpleNamespace(output_underflow=False))
    assert player.underflows == 1


def test_the_sink_takes_no_more_than_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(NullOutput, "take", lambda _, block: taken.append(len(block)))
    player = Player(RATE_HZ)
    began_s = time.perf_counter()
    output = open_output(player, NULL, "")
    while len(taken) < 30:
        time.sleep(0.005)
    elapsed_s = time.perf_counter() - began_s
    output.close()
    assert sum(taken[:30]) / RATE_HZ <= elapsed_s + 0.021  # one block at once, one that was taken meanwhile
    count = len(taken)
    time.sleep(0.03)
    assert len(taken) == count


def fake_sounddevice(**names: object) -> SimpleNamespace:
    return SimpleNamespace(**{"PortAudioError": RuntimeError, "query_devices": lambda **_: [], **names})


def test_a_missing_loudspeaker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadOption, match=r"no audio output; do without, or .*pipewire-alsa"):
        monkeypatch.setattr(devices, "sounddevice_module", lambda _: fake_sounddevice())
        output_names("do without")

    def refused(**_: object) -> None:
        raise RuntimeError("Invalid sample rate")

    monkeypatch.setattr(devices, "sounddevice_module", lambda _: fake_sounddevice(OutputStream=refused))
    with pytest.raises(BadOption, match="Invalid sample rate"):
        open_output(Player(RATE_HZ), "USB", "do without")
