"""Letters and homographs: the reading that the words in view ask for."""

import time

import pytest

from studio.text import phonemes

LETTER_A = "ˈA"


@pytest.mark.parametrize(
    "text",
    """a i is here|the u s a won|come at eight a m today|vitamin a is good|vitamin a, please|the n b a final|an a c unit
an a p i key|a t m cards|hepatitis a and b|from a to z|q and a time|grade a milk|plan a failed|she got an a.
an a is best|i a t a codes|d n a tests|the a b c song|a s a p""".replace("\n", "|").split("|"),
)
def test_letter_a_is_its_name(text):
    words = text.split()
    spoken = phonemes.pronounce(words)
    places = [i for i, word in enumerate(words) if word.strip(",.") == "a"]
    assert all(spoken[i].rstrip(",.") == LETTER_A for i in places), spoken


@pytest.mark.parametrize(
    "text",
    """a dog|give me a minute|plan a trip|point a finger|such a good day|a u s citizen|a b b c reporter|what a day
take a break|plan b a week later|type a letter|a d v d player|half a mile|a""".replace("\n", "|").split("|"),
)
def test_article_stays_the_article(text):
    words = text.split()
    assert phonemes.pronounce(words)[len(words) - 1 - words[::-1].index("a")] == "ɐ"


@pytest.mark.parametrize(
    ("word", "first", "second"),
    [
        (
            "read",
            "i have read it|she read it aloud|it was read aloud|we read it last year|mary read the letter",
            "to read it|i read every day|please read this|you can read",
        ),
        (
            "live",
            "they live here|to live well|people live in towns|i live alone|we never live there",
            "live music|a live show|we are live now|the show was broadcast live|they went live|we watched it live",
        ),
        (
            "lives",
            "she lives here|he lives alone|a man who lives in town",
            "their lives changed|save lives|nine lives",
        ),
        (
            "close",
            "close the door|to close it|please close it|at the close of day|they close at nine|the shops close early",
            "close to me|a close friend|it is close|very close|come close",
        ),
        (
            "use",
            "to use it|use the key|we use it|can i use this",
            "of no use|make use of it|the use of force|its use is rare",
        ),
        (
            "used",
            "he used to sing|i'm used to it|we got used to noise",
            "it was used to cut wood|they used it|a used car",
        ),
        (
            "wind",
            "to wind it|wind the clock|they wind it up",
            "the wind blew|a strong wind|wind and rain",
        ),
        (
            "tear",
            "to tear it|tear it up|wear and tear|a tear in the cloth",
            "a tear ran down|a tear in her eye",
        ),
        (
            "lead",
            "lead pipes leak|made of lead|lead paint|lead is a heavy metal",
            "to lead them|they lead us|take the lead|a lead singer",
        ),
        (
            "bass",
            "he caught a bass|a bass in the lake",
            "a bass guitar|she plays bass",
        ),
        (
            "wound",
            "he wound it up|it wound around",
            "a deep wound|the wound healed",
        ),
        (
            "minute",
            "in minute detail|minute amounts",
            "a minute ago|one minute",
        ),
        (
            "record",
            "to record it|record the song|we record it",
            "a record|the record shows|world record",
        ),
        (
            "object",
            "they object to it|i object",
            "an object|the object fell",
        ),
        (
            "present",
            "to present it|they present it|present the case",
            "a present|at present|she was present",
        ),
        (
            "desert",
            "to desert them|they desert it",
            "the desert is dry|a desert",
        ),
        (
            "produce",
            "to produce it|they produce oil",
            "fresh produce|the produce is local",
        ),
        (
            "refuse",
            "to refuse it|they refuse",
            "the refuse|of refuse",
        ),
        (
            "content",
            "the content of it|its content",
            "they were content|she is content",
        ),
        (
            "separate",
            "to separate them|separate the eggs",
            "a separate room|they are separate",
        ),
        (
            "estimate",
            "to estimate it|they estimate it",
            "an estimate|the estimate was low",
        ),
        (
            "resume",
            "her resume is long|a resume",
            "to resume it|they resume work",
        ),
        (
            "house",
            "to house them|they house us",
            "a house|the house is big",
        ),
        (
            "project",
            "to project it|they project growth",
            "a project|the project failed",
        ),
    ],
)
def test_homographs(word, first, second):
    def reading(text):
        words = text.split()
        return phonemes.pronounce(words)[words.index(word)]

    one, other = ({reading(text) for text in texts.split("|")} for texts in (first, second))
    assert len(one) == len(other) == 1 and one != other, {
        text: reading(text) for texts in (first, second) for text in texts.split("|")
    }


def test_titles_are_words():
    spoken = phonemes.pronounce(["sammy", "davis", "jr.", "ms", "smith", "vs", "mr", "jones"])
    assert spoken[2] == "ʤˈunjəɹ." and spoken[3] == "mˈɪz" and spoken[5] == "vˈɜɹsəs"


def test_reading_keeps_the_mark_and_needs_no_later_word():
    assert phonemes.pronounce(["i", "have", "read,"])[2] == "ɹˈɛd,"
    assert phonemes.pronounce(["they", "live"])[1] == "lˈɪv"
    assert phonemes.pronounce(["to", "record"])[1] == "ɹəkˈɔɹd"


def test_rules_cost_less_than_a_millisecond_a_word():
    words = "they live near the close of the wind and read a record of use".split()
    entries = phonemes._front_end().lexicon.golds
    started = time.process_time()
    for _ in range(100):
        for i in range(len(words)):
            phonemes.homograph_phonemes(words, i, entries)
    assert (time.process_time() - started) / (100 * len(words)) < 0.001
