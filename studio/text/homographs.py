"""Rules that choose the reading of a homograph by the words in view, and decide whether "a" is the letter.

The dictionary keys some 700 words by part of speech ("record", "live"). Its own tagger uses only the previous word;
these rules use the words before and after, closed classes first. A few words differ by meaning, not by part of
speech ("bass", "lead"); for these, words of the clause decide. Each rule works without the words after, so a short
look-ahead falls back on the words before. Cost: some microseconds per word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from studio.core.text.typography import MARKS


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DETERMINERS = _set(
    "a an the this these those my your his her its our their some any no every each another such what which whose "
    "both either neither all many few several much more most one two three four five six seven eight nine ten "
    "first second third last next same own new old good great public private full final official personal daily "
    "fresh local"
)
_MODALS = _set(
    "to can could will would shall should may might must cannot do does did don't doesn't didn't won't can't "
    "couldn't wouldn't shouldn't let's let please help i'll you'll he'll she'll it'll we'll they'll i'd you'd "
    "he'd she'd we'd they'd"
)
_PERFECT = _set("have has had having i've you've we've they've haven't hasn't hadn't")
_BE = _set(
    "is are was were be been being am i'm you're we're they're he's she's it's that's isn't aren't wasn't weren't "
    "get got"
)
_PLURAL_SUBJECTS = _set("i you we they who people men women children")
_SINGULAR_SUBJECTS = _set("he she it")
_OBJECTS = _set("me him them it us her himself herself itself themselves yourself")
_PREPOSITIONS = _set(
    "of in on at by for with from into about as than through during without within against under over between "
    "among near after before behind since until upon onto across along around"
)
_PLACES = _PREPOSITIONS | _set("here there up down out off away together alone abroad longer forever again early late")
_TRANSPARENT = _set(
    "not never always often also just really only still even already ever usually sometimes now then once soon probably"
)
_PAST = _set(
    "was were had did didn't wasn't said came went saw took sat got made found knew thought told gave left "
    "yesterday ago last earlier before"
)
_PRESENT = _set("every usually often always sometimes daily tomorrow is are do don't will now")
_AMOUNTS = _set("prices costs rates sales numbers profits wages taxes levels temperatures speeds risks values")
_CONJUNCTIONS = _set("and or but then if when while because so")
_LIVE_NOUNS = _set(
    "music show shows concert concerts broadcast stream streams performance performances audience coverage tv "
    "television event events version wire wires ammunition animals recording recordings album feed video band "
    "action"
)
_METAL_NOUNS = _set(
    "pipe pipes paint paints poisoning acid battery batteries ore bullet bullets exposure shot weights pencil "
    "pencils glass roof content"
)
_METALS = _set("metal metals heavy toxic mercury zinc copper tin iron silver poison poisonous")
_FISH = _set(
    "fish fishing fished caught catch lake river sea striped largemouth smallmouth pond boat angler bait grilled"
)
_SMALL_NOUNS = _set(
    "detail details amount amounts particle particles quantity quantities trace traces difference differences"
)
_EYES = _set("eye eyes cheek cheeks cried crying cry wept sad face")
_ADJECTIVES = _set("invalid content minute close live deliberate elaborate")  # before a noun, these are not nouns
_LETTER_NOUNS = _set("vitamin hepatitis appendix exhibit annex influenza strep serie grade letter")
_COUNTED_NOUNS = _set("plan group type class section part option point team level category block side gate unit zone")
# Words that never follow the article.
_AFTER_LETTER = _set("is was are were has and or of than from with the these those they she we it to for in")
_VOWEL_LETTERS = frozenset("aefhilmnorsx")  # their names begin with a vowel: the article before them is "an"
_INITIALISMS = _set(
    "abc ac acdc acl ad adhd adp ak aka ap apa api apis apr aps at atf atm atms atp att au aws ab abs aba aca acm "
    "acp act"
)
# Readings that the dictionary lacks.
_OWN: Mapping[str, Mapping[str, str]] = {
    "lead": {"DEFAULT": "lˈid", "METAL": "lˈɛd"},
    "bass": {"DEFAULT": "bˈAs", "FISH": "bˈæs"},
    "resume": {"DEFAULT": "ɹəzˈum", "NOUN": "ɹˈɛzəmˌA"},
    "tear": {"DEFAULT": "tˈɪɹ", "VERB": "tˈɛɹ"},
    "invalid": {"DEFAULT": "ɪnvˈælɪd", "NOUN": "ˈɪnvəlɪd"},
    "bow": {"DEFAULT": "bˈO", "VERB": "bˈW"},
    "bowed": {"DEFAULT": "bˈWd"},
}
_TITLES: Mapping[str, str] = {
    "mr": "mˈɪstəɹ", "mrs": "mˈɪsɪz", "ms": "mˈɪz", "jr": "ʤˈunjəɹ", "sr": "sˈinjəɹ", "vs": "vˈɜɹsəs",
}  # fmt: skip
_LETTER_A, _LETTER_I = "ˈA", "ˈI"


@dataclass(frozen=True)
class _Context:
    """A word and its neighbours without marks; None beyond a mark and beyond the words in view.

    Attributes:
        before: the word before, adverbs skipped; ``earlier`` the one before that.
        clause: all words in view, for words that differ by meaning.
        is_last: whether a mark follows the word.
    """

    word: str
    previous: str | None
    before: str | None
    earlier: str | None
    next: str | None
    after_next: str | None
    clause: Sequence[str]
    at: int
    is_last: bool


def is_homograph(word: str, entries: Mapping[str, object]) -> bool:
    """Whether a spoken word (a mark may follow) is read in several ways, or can be a letter."""
    bare = word.rstrip(MARKS)
    return bare in ("a", "i") or _readings(bare, entries) is not None


def _readings(word: str, entries: Mapping[str, object]) -> Mapping[str, str] | None:
    """The readings of a homograph by part of speech; None for other words."""
    if word in _OWN:
        return _OWN[word]
    entry = entries.get(word)
    if not isinstance(entry, Mapping) or entry.keys() <= {"DEFAULT", "None", "DT"}:
        return None
    return cast("Mapping[str, str]", entry)


def homograph_phonemes(words: Sequence[str], i: int, entries: Mapping[str, object]) -> str | None:
    """Phonemes of word ``i`` if its context decides; None to leave the word to the dictionary's front end.

    Args:
        words: spoken words in view.
        entries: the dictionary: phonemes, or readings by part of speech.
    """
    word = words[i].rstrip(MARKS)
    if word in _TITLES:
        return _TITLES[word]
    if word == "a":
        return _LETTER_A if _is_letter(words, i) else None
    if word == "i":
        return _LETTER_I if i and _single(words[i - 1]) else None
    readings = _readings(word, entries)
    if readings is None:
        return None
    tag = _tag(_context(words, i))
    if tag is None:
        return readings["DEFAULT"] if word in _OWN else None
    keys = [tag]
    if tag == "ADJ" and word not in _ADJECTIVES:
        keys.append("NOUN")
    if tag == "NOUN" and "VERB" not in readings and word not in _ADJECTIVES:
        keys.append("ADJ")
    if tag == "VBD":
        keys.append("VERB")
    return next((readings[key] for key in keys if key in readings), readings["DEFAULT"])


def _single(word: str) -> bool:
    """Whether a spoken word is one letter, without a mark."""
    return len(word) == 1


def _bare(words: Sequence[str], i: int) -> str | None:
    return words[i].rstrip(MARKS) if 0 <= i < len(words) else None


def _context(words: Sequence[str], i: int) -> _Context:
    def left(k: int) -> str | None:
        return _bare(words, k) if k >= 0 and words[k][-1:] not in MARKS else None

    def skips(word: str | None) -> bool:
        return word is not None and (word in _TRANSPARENT or (word.endswith("ly") and len(word) > 4))

    k = i - 1
    while skips(left(k)):
        k -= 1
    before, is_last = left(k), words[i][-1:] in MARKS
    following = None if is_last else _bare(words, i + 1)
    ends_next = following is None or words[i + 1][-1:] in MARKS
    return _Context(
        words[i].rstrip(MARKS),
        left(i - 1),
        before,
        left(k - 1) if before is not None else None,
        following,
        None if ends_next else _bare(words, i + 2),
        [word.rstrip(MARKS) for word in words],
        i,
        is_last,
    )


def _tag(c: _Context) -> str | None:
    """Part of speech, or meaning, of a homograph; None if its context does not decide."""
    special = _SPECIAL.get(c.word)
    return special(c) if special else _verb_or_noun(c)


def _verb_or_noun(c: _Context) -> str | None:
    """VERB, NOUN or ADJ for a word that can be any of them; None if its context does not decide."""
    before, following = c.before, c.next
    takes_object = following in _OBJECTS or following in _set("the a an this these those my your his its our their")
    if before in _MODALS:
        is_preposition = before == "to" and c.earlier in _set("according due prior similar relative thanks")
        return "NOUN" if is_preposition else "VERB"
    if before in _BE or before in _set("very so too quite more most feel felt seems seemed"):
        return "ADJ"
    if before in _PERFECT:
        return "NOUN"
    is_question = before in _SINGULAR_SUBJECTS and c.earlier in _MODALS  # "did he record it"
    if before in _PLURAL_SUBJECTS or is_question or (before in _SINGULAR_SUBJECTS and c.word.endswith("s")):
        return "VERB"
    if before in ("that", "who", "which"):
        return "VERB" if following in _PLACES or takes_object else "NOUN"
    if before in _DETERMINERS or before in _PREPOSITIONS:
        is_attribute = following is not None and following not in _PLACES | _BE | _CONJUNCTIONS | _MODALS | _PERFECT
        return "ADJ" if is_attribute and before in _DETERMINERS else "NOUN"
    if before is None or before in _CONJUNCTIONS:
        return "VERB" if takes_object else None
    if before in _AMOUNTS and following in _PLACES | {None} and c.word in ("increase", "decrease"):
        return "VERB"
    is_plural = before.endswith("s") and not before.endswith("ss")
    if is_plural != c.word.endswith("s") and (takes_object or (is_plural and following in _PLACES)):
        return "VERB"
    return "NOUN" if before.endswith(("ous", "ful", "al", "ive", "ic", "able", "less")) else None


def _read(c: _Context) -> str | None:
    if c.before in _PERFECT or c.before in _BE or c.previous in _set("well widely"):
        return "VBN"
    is_subject = c.before in _PLURAL_SUBJECTS | _SINGULAR_SUBJECTS
    if is_subject and c.earlier in _PERFECT:  # "have you read it"
        return "VBN"
    if c.before in _MODALS or c.before in _DETERMINERS or (is_subject and c.earlier in _MODALS):
        return "VERB"
    if c.before in _SINGULAR_SUBJECTS or (c.before not in _PLURAL_SUBJECTS and _is_name(c)):
        return "VBD"
    left, right = c.clause[: c.at], c.clause[c.at + 1 :]
    is_past = any(word in _PAST or (word.endswith("ed") and len(word) > 4) for word in left)
    is_past = is_past or any(word in _set("yesterday ago last earlier once") for word in right)
    is_present = any(word in _PRESENT for word in [*left[-6:], *right])
    return "VBD" if is_past and not (is_present and c.before in _PLURAL_SUBJECTS) else "VERB"


def _is_name(c: _Context) -> bool:
    """Whether a singular noun or a name precedes the word."""
    closed = _CONJUNCTIONS | _PREPOSITIONS | _OBJECTS
    return c.before is not None and c.before not in closed and not c.before.endswith("s")


def _live(c: _Context) -> str | None:
    if c.before in _MODALS:
        return "VERB"
    if c.next in _LIVE_NOUNS or c.before in _BE or c.before in _set("go goes going went gone"):
        return "ADJ"
    if c.before in _DETERMINERS - _set("all both many few most some"):
        return "ADJ"
    if c.before in _OBJECTS and c.earlier in _set("watch watched watching see saw seen hear heard stream streamed"):
        return "ADJ"
    is_played = c.before is not None and c.before.endswith(("ed", "ing", "cast")) and c.next not in ("in", "at")
    return "ADJ" if is_played else "VERB"


def _lives(c: _Context) -> str | None:
    if c.before in _DETERMINERS or c.before in _PREPOSITIONS or c.before in _set("save saves saved human people's"):
        return "NOUN"
    is_verb = c.before in _SINGULAR_SUBJECTS | _set("who that which") or c.next in _PLACES
    return "VERB" if is_verb else "NOUN"


def _close(c: _Context) -> str | None:
    if c.before in _DETERMINERS:
        return "NOUN" if c.is_last or c.next in ("of", "to") else "ADJ"
    if c.before in _set("come came get got stay stayed keep kept stand stood") or c.next == "to":
        return "VERB" if c.before == "to" and c.next != "to" else "ADJ"
    tag = _verb_or_noun(c)
    return "VERB" if tag == "VERB" else "ADJ"


def _use(c: _Context) -> str | None:
    if c.before in _set("make makes made making no much little any") or c.next == "of":
        return "VERB" if c.before in _MODALS else "NOUN"
    return _verb_or_noun(c) or ("VERB" if c.before is None or c.before in _CONJUNCTIONS else None)


def _used(c: _Context) -> str | None:
    if c.next != "to":
        return "DEFAULT"
    if c.before not in _BE:
        return "VBD"
    is_accustomed = c.before in ("get", "got") or c.before in _set("i'm you're we're they're he's she's am")
    follows = c.after_next or ""
    return "VBD" if is_accustomed or follows.endswith("ing") or follows in _DETERMINERS | _OBJECTS else "DEFAULT"


def _wind(c: _Context) -> str | None:
    if c.before is None and c.next in ("up", "down") and c.after_next not in _BE:
        return "VERB"
    tag = _verb_or_noun(c)
    is_path = c.next in _set("through along around up down its") and tag is None and c.before is not None
    return "VERB" if tag == "VERB" or is_path else "NOUN"


def _tear(c: _Context) -> str | None:
    if c.clause[max(0, c.at - 2) : c.at] == ["wear", "and"] or c.next in _set("apart down up off along out"):
        return "VERB"
    is_rip = c.next in ("in", "through") and c.word == "tear" and not _EYES.intersection(c.clause)
    return "VERB" if is_rip or _verb_or_noun(c) == "VERB" else "NOUN"


def _wound(c: _Context) -> str | None:
    if c.before in _DETERMINERS or c.before in _MODALS:
        return "NOUN"
    turns = c.next in _set("up around round down through its his her their tightly back")
    return "VBD" if turns or c.before in _PLURAL_SUBJECTS | _SINGULAR_SUBJECTS else "NOUN"


def _dove(c: _Context) -> str | None:
    is_noun = c.before in _DETERMINERS or c.before is None
    return "VERB" if not is_noun and c.next in _set("into in under down off for to from") else "NOUN"


def _minute(c: _Context) -> str | None:
    return "ADJ" if c.next in _SMALL_NOUNS or c.before in _set("very so extremely") else "NOUN"


def _lead(c: _Context) -> str | None:
    if c.before in _MODALS or c.before in _PLURAL_SUBJECTS:
        return "VERB"
    is_metal = c.next in _METAL_NOUNS or (_METALS.intersection(c.clause) and c.before not in ("the", "a"))
    is_metal = is_metal or c.before in _set("contain contains contained containing molten pure melted")
    return "METAL" if is_metal or c.before == "of" or (c.before == "as" and c.earlier == "heavy") else "NOUN"


def _content(c: _Context) -> str | None:
    is_pleased = c.next in ("with", "to") and c.before not in _DETERMINERS
    return "ADJ" if is_pleased else _verb_or_noun(c)


def _bass(c: _Context) -> str | None:
    return "FISH" if _FISH.intersection(c.clause) else "DEFAULT"


def _bow(c: _Context) -> str | None:
    if c.before is None and c.next in _set("to before down"):
        return "VERB"
    is_bend = c.earlier in _set("took take takes taking") or _set("ship boat").intersection(c.clause)
    return "VERB" if is_bend or _verb_or_noun(c) == "VERB" else "NOUN"


_SPECIAL = {
    "read": _read, "live": _live, "lives": _lives, "close": _close, "use": _use, "used": _used, "wind": _wind,
    "winds": _wind, "tear": _tear, "tears": _tear, "wound": _wound, "dove": _dove, "minute": _minute, "lead": _lead,
    "bass": _bass, "bow": _bow, "content": _content,
}  # fmt: skip


def _is_letter(words: Sequence[str], i: int) -> bool:
    """Whether "a" is the letter: in a run of letters, after a noun counted by letters, or where no noun can follow."""
    if words[i] != "a":  # an article has no mark
        return True

    def letter(k: int) -> str:
        word = words[k] if 0 <= k < len(words) else ""
        return word.rstrip(MARKS) if len(word.rstrip(MARKS)) == 1 else ""

    first = i
    while first > 0 and letter(first - 1) and words[first - 1][-1:] not in MARKS:
        first -= 1
    last = i
    while letter(last + 1) and words[last][-1:] not in MARKS:
        last += 1
    before = words[first - 1] if first else ""
    if first < i:
        is_counted = i - first == 1 and before in _COUNTED_NOUNS | _LETTER_NOUNS and last == i
        return not is_counted
    if last > i:
        run = "".join(letter(k) for k in range(i, last + 1))
        return run[1] in _VOWEL_LETTERS or run in _INITIALISMS or before in _set("the an this that any your")
    if before in _LETTER_NOUNS or words[max(0, i - 2) : i] == ["q", "and"] or before in ("an", "the"):
        return True
    following = words[i + 1].rstrip(MARKS) if i + 1 < len(words) else None
    return following in _AFTER_LETTER or (before in _COUNTED_NOUNS and following in _BE | _set("failed works worked"))
