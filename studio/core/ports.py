"""What the rooms see of each other: the engine, an utterance, a normaliser of text.

``serve`` and ``ui`` know the engine only through these.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from studio.core.cards import Card
from studio.core.events import Event

MAX_TEMPERATURE = 2.0
MAX_SEED = 2**53 - 1  # what a browser's number holds exactly


@dataclass(frozen=True)
class SpeakRequest:
    """How an utterance is to be spoken.

    Attributes:
        voice: ``name`` or ``name:speaker``; empty for the engine's first voice.
        seed: the noise is a function of (seed, frame, channel), so a seed repeats an utterance; 0 to MAX_SEED.
        temperature: None for the card's own; 0 is greedy.
        options: the family's options by name (SpeakStream: scheme, m, n); absent ones take their defaults.
        credit_samples: how far ahead of 0 the voice may run before ``grant`` is called; None for no limit.
        is_guest: it leaves one place free, where there are more, and half of the queue, to those who are none.
        client: who asks, such as a network address: clients that have fewer places are served first. Empty for somebody
            of whom nothing is known.
    """

    voice: str = ""
    seed: int = 0
    temperature: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    credit_samples: int | None = None
    is_guest: bool = False
    client: str = ""


class Utterance(Protocol):
    """One stream of text in and events out, for one listener. Every method may be called from any thread.

    Where no place is free it waits in a queue: ``queued`` says how many are before it. Text is taken meanwhile, and
    spoken when ``ready`` says that there is a place. One that leaves before that has no ``ready``.

    Attributes:
        provenance: what its trace says about who speaks it; see ``studio.core.traces.provenance``.
    """

    id: int
    card: Card
    provenance: Mapping[str, Any]

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed after ``end`` or ``cancel``, Full where too much waits to be spoken."""
        ...

    def flush(self) -> None:
        """Speak every committed word without waiting for more; the utterance goes on. Raises Closed."""
        ...

    def end(self) -> None:
        """No more text will come: the last token is committed and everything is spoken. Raises Closed."""
        ...

    def cancel(self, played_sample: int = 0) -> None:
        """Stop; a ``cancelled`` event says what had been heard, then ``ended`` follows."""
        ...

    def settled(self) -> int:
        """How many characters of the text as sent can no longer be revised: they were heard, or are just being said."""
        ...

    def revise(self, char_start: int, text: str) -> None:
        """Replace the text as sent from a character on, ``""`` to take it back; what was made of it and not heard is
        made anew, from what ``revised`` says on. An utterance that was ended stays so.

        Raises:
            TooLate: before ``settled``; call again with what can still be changed.
            BadText: past the end of the text as sent.
            Closed: after ``cancel``, or when everything was spoken.
        """
        ...

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """New options from the next segment on. Raises BadOption, Closed."""
        ...

    def grant(self, until_sample: int) -> None:
        """Let the voice run on until this sample (a receiver's credit); it only ever grows."""
        ...

    def played(self, sample: int) -> None:
        """The listener has heard everything before ``sample``; recorded as an event."""
        ...

    def note(self, event: Event) -> None:
        """Add an event of the caller's (``edited``, a ``network`` wait) to the stream; its t_ms is set here."""
        ...

    def listen(self, news: Callable[[], None]) -> None:
        """Have ``news`` called, by any thread and soon done, whenever something was said that ``taken`` will answer."""
        ...

    def taken(self, most: int | None = None) -> list[Event]:
        """Every event since the last call, or the first ``most`` of them, in order, without waiting; for who does not
        wait in ``events``.

        Who calls ``listen`` takes them so: while about a thousand wait, no more sound is made and no more text read.
        """
        ...

    def events(self) -> Iterator[Event]:
        """Every event in order, waiting for the next one; ends after ``ended`` or ``failed``."""
        ...


class Engine(Protocol):
    """Hosts voices and speaks utterances."""

    def cards(self) -> Sequence[Card]:
        """Cards of the voices that can be spoken, the default first."""
        ...

    def open(self, request: SpeakRequest) -> Utterance:
        """Begin an utterance, or let it wait for a place: first come, first served, of clients with as few places.

        In a full queue the last of a client that has most there makes room for one that would have fewer: it fails
        with ``busy``.

        Raises:
            BadVoice, BadOption: it cannot be spoken so.
            Busy: every place is taken, and the queue is full.
            Closing: ``drain`` was called.
            Stuck: it computes something that does not come back.
        """
        ...

    def is_loaded(self, voice: str) -> bool:
        """Whether to open a voice, by its name, does not take the seconds in which it is loaded."""
        ...

    def places_free(self) -> int:
        """How many more utterances can begin now; none while any waits."""
        ...

    def drain(self) -> None:
        """Let nothing new begin; what speaks takes no more text, says what is committed, and ends."""
        ...

    def close(self) -> None:
        """Stop everything and free what is held."""
        ...


class Normaliser(Protocol):
    """Turns written tokens into spoken words; a pure function of the tokens.

    Given the tokens of one held group (no white space inside a token), it answers, for each spoken word, the word
    (lower case letters and apostrophes, with at most one trailing mark of ``,.?!;:``) and the index of the written
    token that it came from. A token it cannot say yields no word.
    """

    def __call__(self, tokens: Sequence[str]) -> list[tuple[str, int]]: ...
