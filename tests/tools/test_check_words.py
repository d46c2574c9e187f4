"""The check of words: it finds what it is for, and lets pass what is meant otherwise."""

from __future__ import annotations

import ast

import pytest

from tools import check_words
from tools.check_words import INSIDE, PLAIN, _texts_of, docstrings, found, nameless, shown_texts


@pytest.mark.parametrize("text", ["Whoever asks.", "It tells all.", "Begin anew.", "Mend it.", "What is behind it."])
def test_words_that_nobody_says_are_found(text: str) -> None:
    assert len(list(found("a page", text, PLAIN))) == 1


@pytest.mark.parametrize("text", ["Behind a proxy.", "A reader falls behind.", "Restante-Made-Anew: true", "Amend it."])
def test_other_meanings_pass(text: str) -> None:
    assert list(found("a page", text, PLAIN)) == []


def test_words_of_the_inside_are_found_in_texts_and_not_in_remarks() -> None:
    tree = ast.parse('"""A shelf."""\nsay("Two mailbags were merged.")\n')
    assert [line for text in _texts_of(tree) for line in found("tour.py", text, INSIDE)] == [
        "tour.py: 'mailbags' in “…Two mailbags were merged.…”"
    ]


def test_docstrings_that_do_not_name_their_thing_are_found() -> None:
    source = '"""Whether a lock holds."""\nSIZE = 1\n"""What it takes."""\nLATE = 2\n"""When it ends."""\ndef answer():\n    """The answer of it."""\n'
    assert list(nameless(source)) == [(3, "What it takes."), (5, "When it ends.")]


@pytest.mark.parametrize(
    "text", ["By shard.", "From home: judge these runs.", "Through the backplane.", "Such as `a, b`."]
)
def test_docstrings_that_say_where_before_they_say_what_are_found(text: str) -> None:
    assert list(nameless(f'"""{text}"""\n')) == [(1, text)]
    assert list(nameless(f"# {text}\n")) == []


def test_docstrings_of_classes_that_begin_like_questions_are_found() -> None:
    source = (
        'class Lock:\n    """How a lock is held."""\n    at: int\n    """Where a lock lies."""\n'
        '    def why(self):\n        """Why a lock is held."""\n'
    )
    assert list(nameless(source)) == [(2, "How a lock is held.")]


def test_comments_that_do_not_name_their_thing_are_found() -> None:
    source = (
        "# The size, and\n# what it takes.\nSIZE = 1  # It is small.\n# Its end,\n# in seconds.\nLATE = '# Who asks?'\n"
    )
    assert list(nameless(source)) == [(3, "It is small."), (4, "Its end, in seconds.")]


@pytest.mark.parametrize(
    "text", ["A lock. Who has it goes on.", "A lock; what it guards is safe.", "A lock that somebody has."]
)
def test_sentences_about_nobody_are_found(text: str) -> None:
    assert len(list(nameless(f'"""{text}"""'))) == 1
    assert len(list(nameless(f"# {text}"))) == 1


def test_questions_and_headings_about_what_must_stay_true_pass() -> None:
    assert list(nameless('"""A lock. Who has it? What must stay true: one has it."""')) == []


def test_docstrings_of_the_client_and_texts_of_the_code_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(source.endswith("recipient_async.py, peek") for source, _ in docstrings())
    monkeypatch.setattr(check_words, "SOURCES", check_words.SOURCES / "client" / "transport")
    texts = dict(shown_texts())
    assert "src/restante/client/transport/unreachable.py" in texts
    assert all(" " in text.strip() for text in texts.values())
