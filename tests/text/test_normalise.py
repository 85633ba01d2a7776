"""Readings of numbers, dates, money, units, abbreviations, capitals and symbols."""

import re
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.errors import NeedsPackage
from studio.core.text.typography import SYMBOLS
from studio.core.text.words import WordStream
from studio.text import normalise
from studio.text.normalise import best, english, plain

READINGS = """
0 | zero
7 | seven
007 | zero zero seven
100 | one hundred
101 | one hundred and one
1,000 | one thousand
1,999 | one thousand nine hundred and ninety nine
1,234,567 | one million two hundred and thirty four thousand five hundred and sixty seven
12345 | twelve thousand three hundred and forty five
1234567890123456 | one two three four five six seven eight nine zero one two three four five six
3.14 | three point one four
0.05 | zero point zero five
.5 | point five
-5 | minus five
+5 | plus five
~5 km | about five kilometers
1st | first
22nd place | twenty second place
101st | one hundred and first
1999 | nineteen ninety nine
2026. | twenty twenty six.
1905 | nineteen oh five
2000 | two thousand
2005 | two thousand five
1800 | eighteen hundred
1000 | one thousand
the 1990s | the nineteen nineties
the '90s, | the nineties,
March 3rd, 2026 | march third, twenty twenty six
on March 3 2026 we | on march third twenty twenty six we
3 March 2026 | the third of march twenty twenty six
Jan. 5 | january fifth
in March we | in march we
May I help | may i help
May 5 | may fifth
3/4/2026 | march fourth twenty twenty six
25/12/2026 | december twenty fifth twenty twenty six
2026-11-20 | november twentieth twenty twenty six
20.11.2026 | november twentieth twenty twenty six
7:45 | seven forty five
7:45 p.m. | seven forty five p m.
at 7:45 p.m. on | at seven forty five p m on
at 8 a.m. The | at eight a m. the
8 pm, then | eight p m, then
4:30pm | four thirty p m
10:30 | ten thirty
10:05 | ten oh five
12:00 | twelve o'clock
10:30:15 | ten thirty and fifteen seconds
$3.50 | three dollars and fifty cents
$.00 | zero dollars
-$.00 | minus zero dollars
$.99 | ninety nine cents
$0.99 | ninety nine cents
$1.01 | one dollar and one cent
$1 | one dollar
$1,000.50 | one thousand dollars and fifty cents
$5 million | five million dollars
$5.5 billion. | five point five billion dollars.
$5m | five million dollars
£20 | twenty pounds
€7 | seven euros
20€ | twenty euros
¥500 | five hundred yen
5¢ | five cents
$5-$10 | five dollars to ten dollars
$20/hr | twenty dollars per hour
50% | fifty percent
50 % | fifty percent
12.5%, | twelve point five percent,
10-20% | ten to twenty percent
1/2 | one half
3/4 cup | three quarters cup
7/8 | seven eighths
3/100 | three hundredths
2 1/2 cups | two and a half cups
2½ cups | two and a half cups
½ | one half
22/7 | twenty two over seven
24/7 | twenty four seven
250 g | two hundred and fifty grams
1 kg | one kilogram
1/2 km | one half kilometer
5km | five kilometers
100 km/h | one hundred kilometers per hour
25 mph | twenty five miles per hour
21°C | twenty one degrees celsius
21 °C | twenty one degrees celsius
-5°F | minus five degrees fahrenheit
90° | ninety degrees
5 m² | five square meters
16 kHz | sixteen kilohertz
400 ms. | four hundred milliseconds.
2 GB | two gigabytes
5x | five times
5 ft 3 in | five feet three inches
5 apples | five apples
555-1234 | five five five, one two three four
555-123-4567 | five five five, one two three, four five six seven
(555) 123-4567 | five five five, one two three, four five six seven
+44 20 7946 0958 | plus four four, two zero, seven nine four six, zero nine five eight
10-20 | ten to twenty
10–20 | ten to twenty
1999-2005 | nineteen ninety nine to two thousand five
pp. 10-20 | pages ten to twenty
10 - 20 | ten to twenty
5 - 3 = 2 | five minus three equals two
2 + 2 = 4 | two plus two equals four
2+2=4 | two plus two equals four
2 * 3 | two times three
x² | x squared
1.2.3 | one point two point three
Dr. Smith | doctor smith
Mr. and Mrs. Jones | mister and missus jones
St. Paul | saint paul
on Main St. there | on main street there
on Main St. | on main street.
cats vs. dogs | cats versus dogs
etc. The | etcetera. the
etc., and | etcetera, and
e.g. this | for example this
i.e. that | that is that
No. 5 | number five
No. That | no. that
Prof. Lee, Ph.D. | professor lee, p h d.
J. R. R. Tolkien | j r r tolkien
U.S. army | u s army
So do I. Then | so do i. then
TTS | t t s
GPU, | g p u,
GPUs | g p u's
AI | a i
NASA | nasa
NASA's AI | nasa's a i
USA | u s a
HTML5 | h t m l five
I AM HERE | i am here
IT WAS HOT | it was hot
OK | okay
World War II | world war two
COVID-19 | covid nineteen
mp3 | m p three
B2B | b two b
v2.0 | v two point zero
R&D | r and d
this & that | this and that
me@example.com | me at example dot com
www.example.com | w w w dot example dot com
WWW.Example.COM | w w w dot example dot com
<me@example.com>, then | me at example dot com, then
mailto:me@example.com | mailto colon me at example dot com
example.org:8080 | example dot org colon eight zero eight zero
http://a.org/a_1 | h t t p colon slash slash a dot org slash a underscore one
/home/me/notes.txt | slash home slash me slash notes dot t x t
192.168.0.255 | one nine two dot one six eight dot zero dot two five five
1.2.3 | one point two point three
<tags> and List<String> | tags and list string
3 < 5 and a<b | three less than five and a less than b
either|or | either bar or
5*6 is 2 * 15 | five times six is two times fifteen
a*b | a star b
**bold** _and_ ~new~ | bold and new
#5 | number five
# 5 | number five
#tag | hashtag tag
C++ | c plus plus
and/or | and or
well-known | well known
3-year-old | three year old
Hello,world | hello, world
end.Next | end. next
snake_case | snake case
don't it's | don't it's
"""


def say(text: str, normaliser: object = None) -> str:
    stream = WordStream(normaliser or english())  # type: ignore[arg-type]
    changes = stream.push(text)
    changes.extend(stream.end())
    assert not changes.unsupported, changes.unsupported
    return " ".join(word.word for word in changes.words)


@pytest.mark.parametrize("line", READINGS.strip().splitlines())
def test_readings(line: str) -> None:
    written, spoken = line.split(" | ")
    assert say(written) == spoken


def test_each_word_names_its_token() -> None:
    assert english()(["$5", "million,"]) == [("five", 0), ("million", 1), ("dollars,", 1)]
    assert english()(["21", "°C", "7:45", "p.m.", "x"])[-6:] == [
        *(("seven", 2), ("forty", 2), ("five", 2)),
        *(("p", 3), ("m", 3), ("x", 4)),
    ]


def test_lone_symbol_without_a_reading_is_reported() -> None:
    stream = WordStream(english())
    changes = stream.push("# Heading ")
    assert [word.word for word in changes.words] == ["heading"]
    assert "can't be spoken" in changes.unsupported[0].why


def test_plain_reads_words_and_reports_the_rest() -> None:
    stream = WordStream(plain())
    changes = stream.push("Well-known TTS, it's 5 $3 Dr. ok ")
    assert [word.word for word in changes.words] == ["well", "known", "t", "t", "s,", "it's", "dr", "okay"]
    assert len(changes.unsupported) == 2
    assert "install" in changes.unsupported[0].why


def test_without_num2words_best_equals_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(best(), normalise.EnglishNormaliser)
    monkeypatch.setattr(normalise, "find_spec", lambda name: None)
    assert isinstance(best(), normalise.PlainNormaliser)
    with pytest.raises(NeedsPackage, match="pip install"):
        english()


def test_words_never_load_the_number_library() -> None:
    code = (
        "import sys, time; t = time.perf_counter()\n"
        "from studio.text.normalise import best; n = best(); n(['Hello,']); n(['TTS']); n(['Dr.', 'Lee'])\n"
        "assert 'num2words' not in sys.modules; n(['5', 'x']); assert 'num2words' in sys.modules\n"
        "assert not {'torch', 'gradio', 'numpy.fft'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plain_words_take_microseconds() -> None:
    normaliser = english()
    begin = time.perf_counter()
    for _ in range(20_000):
        normaliser(["Hello,"])
    assert time.perf_counter() - begin < 2.0  # 100 microseconds each on a loaded machine; about 2 when idle


_SIGNS = "".join(sorted(SYMBOLS)) + "".join(map(chr, range(33, 127)))


@settings(max_examples=600, deadline=None)
@given(st.lists(st.text(_SIGNS + "0123456789" * 8, min_size=1, max_size=14), min_size=1, max_size=5))
def test_any_input_yields_speakable_words_in_token_order(tokens: Sequence[str]) -> None:
    for normaliser in (english(), plain()):
        said = normaliser(tokens)
        assert all(re.fullmatch(r"[a-z']{1,40}[,.?!;:]?", word) for word, _ in said), said
        order = [k for _, k in said]
        assert order == sorted(order)
        assert set(order) <= set(range(len(tokens)))


@pytest.mark.parametrize("end", ["", "x", "ish", "-ish", "km", "-km", "th", "%", "k", "in", "-noon", "/day", "'s"])
def test_a_token_whose_part_has_no_reading_is_read_otherwise(end: str) -> None:
    for part in ("3/12345678901", "1234:56", "25:61", "3/0", "12345678901/3", "99/99/99", "2024-19-39"):
        for begin in ("", "-", "−", "$", "~", "2-", "tel:", "noon-", "#"):
            written = f"{begin}{part}{end}"
            words = [word for word, _ in english()([written, "x"])]
            assert words and not any("None" in word for word in words), written


@pytest.mark.parametrize("token", ["9" * 200, "1," * 99 + "1", "a1" * 100, "$" * 200, "1/" * 99 + "1", "1-" * 99 + "1"])
def test_hostile_tokens_are_bounded(token: str) -> None:
    begin = time.perf_counter()
    assert len(english()([token])) <= 600
    assert time.perf_counter() - begin < 1.0
