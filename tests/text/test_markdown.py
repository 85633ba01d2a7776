"""Markdown of language models as a person would read it aloud."""

import time

import pytest

from studio.text.markdown import spoken_markdown


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Plain text stays as it is.", "Plain text stays as it is."),
        ("**Bold**, *soft*, ***both***, __strong__ and ~~gone~~ words.", "Bold, soft, both, strong and gone words."),
        ("# A title\nText below.", "A title.\nText below."),
        ("## Why?\n\nBecause.", "Why?\nBecause."),
        ("Title\n=====\nText.", "Title.\nText."),
        ("- milk\n- eggs\n* bread", "milk.\neggs.\nbread."),
        ("1. Mix it\n2. Bake it", "1. Mix it.\n2. Bake it."),
        ("- outer\n  - inner", "outer.\ninner."),
        ("- [x] done\n- [ ] open", "done.\nopen."),
        ("> A quotation\n> goes on.", "A quotation\ngoes on."),
        ("See [the manual](https://example.org/a_b?c=1) now.", "See the manual now."),
        ("![A red kite](kite.png) flies.", "A red kite flies."),
        ("Run `make app` first.", "Run make app first."),
        ("Before.\n```python\nprint(1)\n```\nAfter.", "Before.\nAfter."),
        ("| name | age |\n|---|---|\n| Ann | 7 |\n| Bob | |", "name, age.\nAnn, 7.\nBob."),
        ("<think>They want a greeting.\n\nBe brief.</think>Hello!", "Hello!"),
        ("Yes. <think>I was cut", "Yes."),
        ("A <b>bold</b> line<br>and another &amp; more.", "A bold line and another & more."),
        ("<p>Hello</p>", "Hello"),
        ("<!-- hidden --> shown", "shown"),
        ("2 * 3 * 4 = 24, snake_case_name, a < b > c", "2 * 3 * 4 = 24, snake_case_name, a < b > c"),
        ("5*6 and 7*8", "5×6 and 7×8"),
        (r"Not \*marked\*.", "Not *marked*."),
        ("One line\nand the next.\n\nA new paragraph.", "One line\nand the next.\nA new paragraph."),
        ("    four spaces are no code", "four spaces are no code"),
        ("Above.\n\n---\n\nBelow.", "Above.\nBelow."),
        ("A link [1] and [x] stay.", "A link [1] and [x] stay."),
        ("", ""),
    ],
)
def test_markdown_is_read_as_a_person_would(written: str, spoken: str) -> None:
    assert spoken_markdown(written) == spoken


@pytest.mark.parametrize("piece", ["*", "[", "<think>", "<!--", "`", "> ", "- ", "![](", "| a |\n|", "&", "<b "])
def test_hostile_text_takes_no_time(piece: str) -> None:
    began_s = time.process_time()
    spoken_markdown((piece * 4096)[:4096])
    assert time.process_time() - began_s < 1.0
