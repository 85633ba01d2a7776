"""The Live page's output: texts typed into Chromium, captured after the audio worklet and transcribed."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from rich.progress import track

from studio.bench.evaluation.settings import HeardSetting
from studio.bench.material import read_texts
from studio.bench.page.browser import (
    captured,
    open_page,
    running_app,
    type_words,
    utterances_played,
    wait_utterances_played,
)
from studio.core.clips import write_wav
from studio.core.errors import BadVoice
from studio.measure.recognisers.registry import open_recogniser
from studio.measure.report import no_bar, print_table, recogniser_name
from studio.measure.wer import corpus_errors, word_errors

RATE_HZ = 24_000


def eval_heard(setting: HeardSetting) -> dict[str, Any]:
    """Transcripts and stalls of each text. Only rendered speech is captured, not pauses.

    Raises:
        NeedsPackage: playwright, chromium or the recogniser is missing.
        BadFile: the recogniser's weights are missing.
        PageFailed: the app did not start, or samples were lost on their way.
        BadVoice: the page has no such voice or speaker.
    """
    texts = read_texts(setting.texts)[: setting.count]
    recogniser, rows = open_recogniser(setting.recogniser), []
    name, _, speaker = setting.voice.partition(":")
    asked = urlencode({key: value for key, value in (("tap", "1"), ("voice", name), ("speaker", speaker)) if value})
    with running_app(setting.command) as url, open_page(f"{url}?{asked}") as page:
        took = [page.locator(f'.settings [data-set="{one}"]').input_value() for one in ("voice", "speaker")]
        voice = ":".join(took)
        if setting.voice not in ("", took[0], voice):
            raise BadVoice(
                f"the page has no voice {setting.voice!r:.100}", f"it took {voice}; `studio voices` lists them"
            )
        for number, text in enumerate(track(texts, "typing", disable=no_bar(setting.quiet)), 1):
            before, began_s = utterances_played(page), time.monotonic()
            type_words(page, text.split(), setting.wpm)
            page.keyboard.press("Control+Enter")
            wait_utterances_played(page, before + 1, 180.0)
            figures = page.evaluate("document.querySelector('.live').figures")
            pcm = captured(page, number)
            page.locator('[data-do="clear"]').click()
            if setting.keep:
                setting.keep.mkdir(parents=True, exist_ok=True)
                write_wav(setting.keep / f"heard-{number:02}.wav", pcm, RATE_HZ)
            heard = recogniser.transcribe(pcm, RATE_HZ)
            rows.append(
                {
                    "text": text,
                    "heard": heard,
                    "wer": corpus_errors([word_errors(text, heard)]).rate,
                    "audio_s": len(pcm) / RATE_HZ,
                    "typed_s": time.monotonic() - began_s,
                    "stalls": figures["stalls"]["count"],
                }
            )
    errors = corpus_errors([word_errors(row["text"], row["heard"]) for row in rows])
    about = {"voice": voice, "texts": setting.texts.name, "wpm": setting.wpm, "recogniser": recogniser.about}
    out = {**about, "wer": errors.rate, "rows": rows}
    if not setting.quiet:
        show(out)
    return out


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [[row["heard"], row["wer"], row["audio_s"], row["stalls"]] for row in out["rows"]]
    typed = f"{out['texts']} typed at {out['wpm']:g} wpm"
    who = f" of {out['voice']}" if "voice" in out else ""  # absent from older results
    title = f"Heard in the browser{who}, {typed}; WER of all {out['wer']:.3f} by {recogniser_name(out)}"
    print_table(title, ("what is heard", "WER", "speech s", "stalls"), rows)
