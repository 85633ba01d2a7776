"""The Python API: ``import studio`` loads each of these names when it is first used."""

from pathlib import Path

from studio.core.checks import is_number
from studio.core.errors import BadOption, BadText, BadVoice, StudioError
from studio.core.events import Failed, Unsupported
from studio.core.folders import VOICES, speakers_folder
from studio.core.ports import MAX_TEMPERATURE, SpeakRequest
from studio.core.speaking import speak
from studio.core.text.reasons import nothing_spoken
from studio.core.traces.trace import Trace, collect_trace, open_trace
from studio.inspection.replay import replay
from studio.markup.parts import open_marked
from studio.text.normalise import best

__all__ = ["open_trace", "replay", "speak", "synthesize"]


def synthesize(
    text: str,
    voice: str = "",
    *,
    seed: int = 0,
    temperature: float | None = None,
    speed: float = 1.0,
    device: str = "auto",
    voices: str | Path = VOICES,
    **options: object,
) -> Trace:
    """Speak a text and return its trace, whose ``pcm`` (int16 [T]), ``rate_hz`` and ``events`` hold the result.

    Args:
        voice: ``name`` or ``name:speaker``; empty for the first voice.
        seed: repeats an utterance; 0 to 2**53 - 1.
        temperature: None for the card's own; 0 is greedy.
        speed: 2 is twice as fast, its pitch kept; 0.5 to 2.
        device: auto, cpu or cuda.
        voices: folder of voices.
        options: the family's options (SpeakStream: ``scheme``, ``m``, ``n``).

    Raises:
        BadText: the text is no str, is empty, or nothing of it can be spoken.
        BadVoice: the voice or speaker does not exist, or its files do not match its card.
        BadOption: an option is unknown, outside its range, or of another type.
        NeedsPackage: another speed needs PyAV.
        StudioError: the voice failed; the sound so far is lost.
    """
    from studio.engine.engine import open_engine  # imports torch

    _check(text, voice, seed, temperature, speed, device, voices)
    if not text.strip():
        raise BadText("the text is empty", "give at least one word")
    engine = open_engine(Path(voices), best(), device=device, speakers=speakers_folder())
    try:
        request = SpeakRequest(voice=voice, seed=seed, temperature=temperature, options=options)
        utterance = open_marked(engine, request, "plain", speed)
        utterance.push_text(text)
        utterance.end()
        trace = collect_trace(utterance.provenance, utterance.events())
    finally:
        engine.close()
    last = trace.events[-1]
    if isinstance(last, Failed):
        raise StudioError(last.message)
    if not len(trace.pcm):
        raise nothing_spoken(event.why for event in trace.events if isinstance(event, Unsupported))
    return trace


def _check(
    text: object, voice: object, seed: object, temperature: object, speed: object, device: object, voices: object
) -> None:
    """Raises BadText, BadVoice or BadOption for a value of another type than its annotation."""
    if not isinstance(text, str):
        raise BadText(f"the text is {_described(text)}", "give a str; studio say reads text as it comes")
    if not isinstance(voice, str):
        raise BadVoice(f"the voice is {_described(voice)}", "give its name, or name:speaker, as a str")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise BadOption(f"the seed is {_described(seed)}", "give an int, 0 to 2**53 - 1")
    if temperature is not None and not is_number(temperature):
        allowed = f"give a number, 0 to {MAX_TEMPERATURE:g}, or None"
        raise BadOption(f"the temperature is {_described(temperature)}", allowed)
    if not is_number(speed):
        raise BadOption(f"the speed is {_described(speed)}", "give a number, 0.5 to 2")
    if not isinstance(device, str):
        raise BadOption(f"the device is {_described(device)}", "give auto, cpu or cuda")
    if not isinstance(voices, str | Path):
        raise BadOption(f"voices is {_described(voices)}", "give the path of a folder of voices")


def _described(value: object) -> str:
    return f"{value!r:.40}, of type {type(value).__name__}"
