"""Speaking a text from Python in one call."""

from pathlib import Path

from studio.core.errors import BadText, StudioError
from studio.core.events import Failed, Unsupported
from studio.core.ports import SpeakRequest
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
        BadText: the text is empty, or nothing of it can be spoken.
        BadVoice: there is no such voice or speaker, or its files do not match its card.
        BadOption: an option is unknown or outside its range.
        StudioError: the voice broke off; what it had made is lost.
    """
    from studio.engine.loop import open_engine  # torch comes with it

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
