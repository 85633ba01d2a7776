"""The texts of a corpus: sentences of many kinds, mixed so that every part is a fair sample; byte-pair encodings."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from studio.core.errors import BadFile, bad_file, needs
from studio.core.files import read_lines
from studio.core.text.typography import MARKS, is_abbreviation
from studio.core.text.words import whole_text
from studio.engine.families.common.text_tokens import WORD_START, Spelling, alphabet_of, spell_phonemes
from studio.text.normalise import best
from studio.text.phonemes import in_dictionary
from studio.train.teachers.port import normalised_words

PROSE, USAGE, WORDS = "prose", "usage", "words"
GRAMMAR = Path(__file__).with_name("grammar.toml")
_SLOT = re.compile(r"\{(\w+)(?::(\d+)-(\d+))?\}(s\b)?")
_EXAMPLE = re.compile(r'"([^"]+)"')
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:?!'\"()\-’$%/&]+")
_BARE_SHARE = 0.1  # of usage examples without a final mark, as people type
_FREQUENT, _COMMON = 36_000, 3_000
_MAX_REJECTED = 2000  # texts per kind and shard
_BLOCK = 400  # frequent words are shuffled in blocks: words of equal frequency are in alphabetical order


@dataclass(frozen=True)
class CorpusText:
    """A text and its kind: prose, usage, words, or a rule of the grammar."""

    kind: str
    text: str


def read_texts(path: Path) -> list[CorpusText]:
    """Read the output of ``write_texts``. Raises BadFile."""
    with bad_file(
        f"the texts {path} cannot be read", "make them with `studio train texts`", ValueError, TypeError, RecursionError
    ):
        texts = [CorpusText(**json.loads(line)) for line in read_lines(path)]
        if any(type(one.kind) is not str or type(one.text) is not str for one in texts):
            raise TypeError("a kind or a text is not a string")
        return texts


def write_texts(texts: Iterable[CorpusText], path: Path) -> int:
    """Write one text per line, as JSON; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"kind": t.kind, "text": t.text}, ensure_ascii=False) + "\n" for t in texts]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def usage_examples(wordnet: Path) -> list[str]:
    """WordNet's usage examples, in the order of its files. Raises BadFile if these are missing."""
    examples: list[str] = []
    for part in ("noun", "verb", "adj", "adv"):
        path = wordnet / f"data.{part}"
        if not path.is_file():
            raise BadFile(f"there is no {path}", "apt-get install wordnet-base, or name its folder with --wordnet")
        for line in path.read_text(encoding="utf-8").splitlines():
            examples += _EXAMPLE.findall(line.partition(" | ")[2])
    return list(dict.fromkeys(example.strip() for example in examples))


def frequent_words() -> list[str]:
    """English words of the phoneme dictionary, the most frequent first. Raises NeedsPackage."""
    with needs("word frequencies need wordfreq, which is not installed", "train"):
        from wordfreq import top_n_list
    words = (w for w in top_n_list("en", 2 * _FREQUENT) if re.fullmatch("[a-z]{2,}|a|i", w))
    return [w for w in words if in_dictionary(w)][:_FREQUENT]


class HeldOut:
    """Texts excluded from training, alone or within a longer text."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentences = [s for t in texts for s in (t, *re.split(r"(?<=[.!?])\s+", t))]
        spoken = [" ".join(w.word for w in normalised_words(s)) for s in sentences]
        self._words = {_bare(s) for s in [*sentences, *spoken] if s}
        self._lengths = sorted({len(w) for w in self._words if len(w) >= 4})

    def contains(self, text: str) -> bool:
        """Whether a text is held out, or contains a held-out sentence of four words or more."""
        words = _bare(text)
        if words in self._words:
            return True
        return any(words[i : i + n] in self._words for n in self._lengths for i in range(len(words) - n + 1))


def _bare(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9']+", text.lower().replace("’", "'")))


class Grammar:
    """Expands the rules of ``grammar.toml``; ``next_word`` provides {word}, ``common`` the choices of {common}."""

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
        """A random text of a rule, with sentence case."""
        text = self._expand(f"{{{rule}}}")
        if text[:1].islower() and text[-1:] in MARKS + '"':
            text = text[0].upper() + text[1:]
        text = re.sub(r"\b([aA])(?= (?:[aeio]|u(?!s|ni)))", r"\1n", text)
        return re.sub(r"(\S+[.!?]) ([a-z])", _capital, text.replace("m..", "m."))

    def _expand(self, form: str) -> str:
        return _SLOT.sub(self._fill, form)

    def _fill(self, slot: re.Match[str]) -> str:
        name, low, high, several = slot.groups()
        if name == "int":
            return str(self._rng.randint(int(low), int(high)))
        if name in self._built_in:
            return self._built_in[name]()
        text = self._expand(self._rng.choice(self._rules[name]))
        return _plural(text) if several else text

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


def draw_texts(
    sentences: Sequence[str], wordnet: Path, counts: dict[str, int], shards: int, held_out: HeldOut, seed: int
) -> Iterator[CorpusText]:
    """Texts of ``shards`` shards, each with ``counts[kind]`` texts of every kind in random order. Deterministic.

    Carriers ({word}) use the most frequent words that no earlier text has, so that every spelling occurs.

    Raises:
        BadFile: the recipe has no kinds, or there is too little prose to fill a shard.
    """
    if not counts or not shards:
        raise BadFile("this recipe has no kinds of text, or no shards", "use one with [corpus.kinds] and stages")
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
        shard: dict[CorpusText, None] = {}
        for kind in sorted(counts, key=lambda k: (k == WORDS, k)):
            accepted = rejected = 0
            while accepted < counts[kind]:
                candidate = next(pools[kind], "") if kind in pools else grammar.text(kind)
                if not candidate or rejected > _MAX_REJECTED:
                    raise BadFile(
                        f"there are {accepted} of {counts[kind]} texts of kind {kind!r}", "give more sentences"
                    )
                text = CorpusText(kind, candidate)
                words = normalised_words(text.text)
                if (
                    not words
                    or text in shard
                    or held_out.contains(text.text)
                    or held_out.contains(" ".join(w.word for w in words))
                ):
                    rejected += 1
                    continue
                shard[text] = None
                seen.update(w.word.rstrip(MARKS) for w in words)
                accepted += 1
        order = list(shard)
        rng.shuffle(order)
        yield from order


def _capital(end: re.Match[str]) -> str:
    """Capitalise the letter after a sentence end, but not after an abbreviation."""
    token, letter = end.groups()
    return f"{token} {letter if is_abbreviation(token[:-1]) else letter.upper()}"


def _plural(noun: str) -> str:
    if re.search("[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search("(s|x|z|ch|sh)$", noun) else "s")


def _shuffled(texts: Iterable[str], rng: Random) -> Iterator[str]:
    """Unique texts in random order, reshuffled when they are used up."""
    pool = list(dict.fromkeys(texts))
    while pool:
        rng.shuffle(pool)
        yield from pool


def _usable(example: str) -> bool:
    return _PLAIN.fullmatch(example) is not None and 2 <= len(example.split()) <= 30


def _sentence(example: str, rng: Random) -> str:
    """Add the capital and the full stop, which WordNet's examples lack."""
    if rng.random() < _BARE_SHARE or example[-1] in MARKS:
        return example
    return example[0].upper() + example[1:] + "."


def read_spoken(path: Path) -> Iterator[list[str]]:
    """Spoken words of a corpus' texts. Raises BadFile."""
    normalise = best()
    for text in read_texts(path):
        yield [word.word for word in whole_text(normalise, text.text).words]


def train_bpe(texts: Iterable[Sequence[str]], size: int, out: Path, spelling: Spelling = "letters") -> int:
    """Train an encoding of ``size`` tokens on spoken words and write it as JSON; returns the vocabulary size.

    A word begins with ``▁`` and marks are separate, so a word's tokens do not depend on its neighbours, and a committed
    word can be encoded at once. Phonemes are those of each word in isolation.

    Raises:
        BadFile: no text has a word.
        NeedsPackage: tokenizers is not installed.
    """
    with needs("training an encoding needs the package tokenizers", "train"):
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(f"[{MARKS}]"), "isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet_of(spelling), show_progress=False, special_tokens=[]
    )
    if spelling == "phonemes":
        texts = ([_pronounced(word) for word in words] for words in texts)
    written = [" ".join(words) for words in texts if words]
    if not written:
        raise BadFile("there is no text with a word to train an encoding on", "make some with `studio train texts`")
    tokenizer.train_from_iterator(written, trainer)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    tokenizer.save(str(part))
    part.replace(out)
    return tokenizer.get_vocab_size()


def _pronounced(word: str) -> str:
    """A word's phonemes and its mark."""
    bare = word.rstrip(MARKS)
    return spell_phonemes(bare) + word[len(bare) :]
