"""Speaking a text from Python in one call."""

from pathlib import Path

from studio.core.errors import BadOption, BadText, BadVoice, StudioError
from studio.core.events import Failed, Unsupported
from studio.core.numbers import is_number
from studio.core.ports import MAX_TEMPERATURE, SpeakRequest
from studio.core.shipped import VOICES
from studio.core.traces.trace import Trace, collect
from studio.text.normalise import best


def synthesize(
    text: str,
    voice: str = "",
    *,
    seed: int = 0,
    temperature: float | None = None,
    device: str = "auto",
    voices: str | Path = VOICES,
    **options: object,
) -> Trace:
    """Speak a text and return its trace, whose ``pcm`` (int16 [T]), ``rate_hz`` and ``events`` hold the result.

    Args:
        voice: ``name`` or ``name:speaker``; empty for the first voice.
        seed: repeats an utterance; 0 to 2**53 - 1.
        temperature: None for the card's own; 0 is greedy.
        device: auto, cpu or cuda.
        voices: folder of voices.
        options: the family's options (SpeakStream: ``scheme``, ``m``, ``n``).

    Raises:
        BadText: the text is none, or empty, or nothing of it can be spoken.
        BadVoice: there is no such voice or speaker, or its files do not match its card.
        BadOption: an option is unknown, outside its range, or of another type.
        StudioError: the voice broke off; what it had made is lost.
    """
    from studio.engine.loop import open_engine  # torch comes with it

    _check(text, voice, seed, temperature, device, voices)
    if not text.strip():
        raise BadText("the text is empty", "give at least one word")
    engine = open_engine(Path(voices), best(), device=device)
    try:
        request = SpeakRequest(voice=voice, seed=seed, temperature=temperature, options=options)
        utterance = engine.open(request)
        utterance.push_text(text)
        utterance.end()
        trace = collect(utterance.provenance, utterance.events())
    finally:
        engine.close()
    last = trace.events[-1]
    if isinstance(last, Failed):
        raise StudioError(last.message)
    if not len(trace.pcm):
        reasons = [event.why for event in trace.events if isinstance(event, Unsupported)]
        raise BadText("nothing of the text can be spoken", next(iter(reasons), "give at least one word"))
    return trace


def _check(text: object, voice: object, seed: object, temperature: object, device: object, voices: object) -> None:
    """Raises BadText, BadVoice, BadOption for what is of another type than its annotation says."""
    if not isinstance(text, str):
        raise BadText(f"the text is {_told(text)}", "give a str; studio say takes text as it comes")
    if not isinstance(voice, str):
        raise BadVoice(f"the voice is {_told(voice)}", "give its name, or name:speaker, as a str")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise BadOption(f"the seed is {_told(seed)}", "give an int, 0 to 2**53 - 1")
    if temperature is not None and not is_number(temperature):
        raise BadOption(f"the temperature is {_told(temperature)}", f"give a number, 0 to {MAX_TEMPERATURE:g}, or None")
    if not isinstance(device, str):
        raise BadOption(f"the device is {_told(device)}", "give auto, cpu or cuda")
    if not isinstance(voices, str | Path):
        raise BadOption(f"voices is {_told(voices)}", "give the path of a folder of voices")


def _told(value: object) -> str:
    return f"{value!r:.40}, of type {type(value).__name__}"
