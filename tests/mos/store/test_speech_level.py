"""Active speech level: against the recommendation's own procedure, sample by sample, and for signals of known level."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mos.rated import MOS, write_sounds
from mos.world import SQLITE_ONLY, World

from studio.core.clips import to_float
from studio.core.errors import BadOption
from studio.mos.campaign.config import load_template
from studio.mos.stimuli.building import build_campaign, extend_campaign
from studio.mos.stimuli.editing import change_settings
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.sounds import LEVEL_RULES, SourceSound, max_level, normalise
from studio.mos.store.speech_level import active_level_dbov
from studio.mos.store.tables import Stimulus

RATE_HZ = 8000


def by_the_recommendation(pcm: np.ndarray, rate_hz: int) -> float:
    """P.56, section 8 (method B), written out with its counters."""
    g = math.exp(-1 / (rate_hz * 0.03))
    hangover = math.ceil(0.2 * rate_hz)
    thresholds = [2.0**-k for k in range(15, 0, -1)]
    active, since = [0] * 15, [hangover] * 15
    p = q = energy = 0.0
    for x in pcm.tolist():
        energy += x * x
        p = g * p + (1 - g) * abs(x)
        q = g * q + (1 - g) * p
        for j, threshold in enumerate(thresholds):
            if q >= threshold:
                active[j], since[j] = active[j] + 1, 0
            elif since[j] < hangover:
                active[j], since[j] = active[j] + 1, since[j] + 1
    before = None
    for count, threshold in zip(active, thresholds, strict=True):
        if not count:
            break
        level = 10 * math.log10(energy / count)
        margin = level - 20 * math.log10(threshold)
        if margin <= 15.9:
            assert before is not None
            return before[0] + (before[1] - 15.9) / (before[1] - margin) * (level - before[0])
        before = level, margin
    raise AssertionError("no level")


def bursts(seed: int) -> np.ndarray:
    """Noise in bursts of random length and level, like words with pauses, three seconds."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(0, rng.choice([0.0, 0.02, 0.1]), int(rng.integers(400, 4000))) for _ in range(12)]
    return np.concatenate(parts)[: 3 * RATE_HZ].clip(-1, 1).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_levels_are_those_of_the_recommendation(seed: int) -> None:
    pcm = bursts(seed)
    assert active_level_dbov(pcm, RATE_HZ) == pytest.approx(by_the_recommendation(pcm, RATE_HZ), abs=1e-6)
    assert active_level_dbov(np.stack((pcm, pcm), axis=1), RATE_HZ) == active_level_dbov(pcm, RATE_HZ)


def test_pauses_do_not_count_and_a_gain_moves_the_level_by_itself() -> None:
    sine = np.sin(2 * np.pi * 440 * np.arange(2 * RATE_HZ) / RATE_HZ).astype(np.float32)
    alone = active_level_dbov(0.1 * sine, RATE_HZ)
    assert alone == pytest.approx(-23.01, abs=0.1)
    with_pause = np.concatenate((0.1 * sine, np.zeros(6 * RATE_HZ, np.float32)))
    assert active_level_dbov(with_pause, RATE_HZ) == pytest.approx(alone, abs=0.7)  # the mean power falls by 6 dB
    assert active_level_dbov(0.05 * with_pause / 0.1, RATE_HZ) == pytest.approx(
        active_level_dbov(with_pause, RATE_HZ) - 6.0206, abs=0.02
    )
    assert active_level_dbov(np.zeros(RATE_HZ, np.float32), RATE_HZ) is None


def test_rules_of_levels() -> None:
    """Active level ignores a pause that integrated loudness gates away only in part; ``keep`` changes nothing."""
    loud, soft = (SourceSound(factor * bursts(1), RATE_HZ) for factor in (0.5, 0.1))
    active, keep = LEVEL_RULES["active"], LEVEL_RULES["keep"]
    level = min(max_level(sound, active) for sound in (loud, soft))
    for sound in (loud, soft):
        made = normalise(sound, level, active)
        assert active_level_dbov(made.pcm, RATE_HZ) == pytest.approx(level, abs=0.1)  # the thresholds are fixed
    assert max_level(loud, keep) == 0.0 and normalise(soft, 0.0, keep).gain_db == 0.0
    assert (normalise(soft, 0.0, keep).pcm == soft.pcm).all()
    over = SourceSound(1.5 * np.sin(np.arange(RATE_HZ)).astype(np.float32), RATE_HZ)
    assert max_level(over, keep) == pytest.approx(-3.53)  # all sounds then get this gain


@SQLITE_ONLY
@pytest.mark.parametrize("levels", ["integrated", "active", "keep"])
def test_campaigns_are_levelled_by_their_setting(world: World, tmp_path: Path, levels: str) -> None:
    folder = write_sounds(tmp_path / "sounds")
    config = replace(MOS, levels=levels)
    build_campaign(world.listening, "first", config, read_manifest(folder), seed=1)
    more = write_sounds(tmp_path / "more", items=4)
    for path in more.glob("*/item[012].wav"):
        path.unlink()
    (more / "texts.txt").write_text("item3|The fourth.", encoding="utf-8")
    extend_campaign(world.listening, "first", more)
    rows = world.all(Stimulus)
    assert len(rows) == 12 and (levels == "keep") == all(row.gain_db == 0 for row in rows)
    sounds = [SourceSound(to_float(world.listening.clips.read(row.clip_sha)[0]), 16_000) for row in rows]
    measured = [LEVEL_RULES[levels].measure(sound) for sound in sounds]
    assert max(measured) - min(measured) < (20 if levels == "keep" else 0.2)
    with pytest.raises(BadOption, match="have been brought to their level"):
        change_settings(world.listening, "first", replace(config, levels="keep" if levels == "active" else "active"))


def test_speech_in_noise_has_one_active_level() -> None:
    assert load_template("p835").levels == "active" and load_template("mushra").levels == "integrated"
