"""From a manifest to a draft campaign: every sound at one rate and level, kept by content, then named in the store."""

from collections.abc import Callable, Mapping
from pathlib import Path

from studio.mos.campaigns import NewItem, NewStimulus, NewSystem, create
from studio.mos.clips import StoredClip, store_stimuli
from studio.mos.config import CampaignConfig
from studio.mos.draft import Manifest
from studio.mos.service import Listening
from studio.mos.sounds import Sound, read_clip


def build(
    listening: Listening,
    name: str,
    config: CampaignConfig,
    manifest: Manifest,
    *,
    seed: int | None = None,
    traces: Mapping[tuple[str, str], str] | None = None,
    heard: Callable[[], None] = lambda: None,
) -> list[str]:
    """Make a draft campaign of a manifest; answers what the experimenter should know.

    Args:
        traces: by (item, system), where the trace of a clip lies.
        heard: called each time a sound was read, three times for each.

    Raises:
        BadFile: a sound cannot be taken, or something that the kind needs is missing; nothing was made.
        BadOption: the name is taken, or the settings do not fit the kind.
    """

    def loader(path: Path) -> Callable[[], Sound]:
        def load() -> Sound:
            heard()
            return read_clip(path)

        return load

    clips, told = store_stimuli({key: loader(path) for key, path in manifest.files.items()}, listening.clips)
    listening.store.write_now(
        lambda session: create(
            session,
            name,
            config,
            [NewSystem(s.name, s.role, s.voice) for s in manifest.systems],
            [NewItem(i.name, i.text, i.role, i.expected) for i in manifest.items],
            [_stimulus(key, clip, (traces or {}).get(key)) for key, clip in clips.items()],
            seed,
        )
    )
    return [*manifest.warnings, *told]


def _stimulus(key: tuple[str, str], clip: StoredClip, trace: str | None) -> NewStimulus:
    return NewStimulus(
        item=key[0],
        system=key[1],
        sha=clip.sha,
        rate_hz=clip.rate_hz,
        samples=clip.samples,
        source_sha=clip.source_sha,
        source_rate_hz=clip.source_rate_hz,
        gain_db=clip.gain_db,
        lufs_before=clip.lufs_before,
        lufs_after=clip.lufs_after,
        peak_dbfs=clip.peak_dbfs,
        trace=trace,
    )
