"""Markdown of a reply is left out while its pieces come."""

import pytest

from studio.chat.spoken import SpokenReply
from studio.text.markdown import spoken_markdown

REPLY = """<think>The user wants a list.</think>Sure! Here **is a** list of *things* to do:

1. First, **do** it.
2. Then `rest`

# Heading

- a
- b

| x | y |
|---|---|
| 1 | 2 |

```python
print(1)
```
See [the page](http://x.example) now.
Good-bye"""


def spoken(text: str, size: int) -> str:
    reply = SpokenReply()
    return "".join([*(reply.feed(text[at : at + size]) for at in range(0, len(text), size)), reply.end()])


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_pieces_are_read_as_the_whole_text(size: int) -> None:
    assert spoken(REPLY, size).split() == spoken_markdown(REPLY).split()


def test_plain_words_pass_at_once_and_marks_are_held() -> None:
    reply = SpokenReply()
    pieces = ["The ket", "tle is ", "**very", " hot** ", "now"]
    assert [reply.feed(piece).split() for piece in pieces] == [["The"], ["kettle", "is"], [], ["very", "hot"], []]
    assert reply.end().split() == ["now"]


def test_reasoning_and_code_that_do_not_end_are_not_spoken() -> None:
    assert spoken("<think>never ends. Really not", 3).strip() == ""
    assert spoken("See:\n```\nx = 1", 3).split() == ["See:"]
