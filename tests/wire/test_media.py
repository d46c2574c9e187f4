"""Media types: what a Content-Type says, and which answer an Accept gets."""

from __future__ import annotations

import pytest

from restante.errors import NotAcceptable, UnsupportedMediaType
from restante.wire import media

OFFERED = (media.JSON, media.CLOUDEVENTS_BATCH, media.ARROW)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, media.JSON),
        ("", media.JSON),
        ("*/*", media.JSON),
        ("application/*", media.JSON),
        (media.ARROW, media.ARROW),
        (f"{media.ARROW};q=0.5, {media.JSON};q=0.9", media.JSON),
        (f"{media.ARROW}, */*;q=0.1", media.ARROW),
        (f"*/*, {media.JSON};q=0", media.CLOUDEVENTS_BATCH),
        ("text/html, application/cloudevents-batch+json;q=0.2", media.CLOUDEVENTS_BATCH),
        (f"{media.JSON};q=0.3;x=y, {media.ARROW};Q=0.30", media.JSON),
        ("APPLICATION/JSON", media.JSON),
    ],
)
def test_the_type_that_is_liked_best_is_chosen(accept: str | None, expected: str) -> None:
    assert media.negotiate(accept, OFFERED) == expected


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "text/*", "application/json;q=nonsense", ";"])
def test_an_answer_that_cannot_be_given_is_an_error_that_names_what_can(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="accept one of application/json"):
        media.negotiate(accept, OFFERED)


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/json ;x=y"]
)
def test_parameters_and_case_do_not_matter(content_type: str) -> None:
    assert media.body_type(content_type) == media.JSON


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_a_body_of_another_type_is_refused_with_a_hint(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaType, match="send"):
        media.body_type(content_type)
