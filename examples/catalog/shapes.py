"""The shapes of the catalogue: items, comments and ratings, in JSON with names in camelCase and without nulls."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TypeVar

import msgspec

T = TypeVar("T", bound="Shape")

LIST_ITEMS_MAX = 100
LIST_COMMENTS_MAX = 10
RATING_MIN, RATING_MAX = 1, 5
TEST_DATA_SECONDS = 30


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """JSON in camelCase, without fields that are None."""


class CatalogItem(Shape, frozen=True, kw_only=True):
    """An item as readers see it; a list leaves its description out."""

    id: str
    name: str
    price: Decimal
    last_updated: datetime
    description: str | None = None
    image_url: str | None = None


class ItemDraft(Shape, frozen=True, kw_only=True):
    """An item as it is sent: `POST` needs name, description and price, `PUT` changes only what is there."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    price: Decimal | None = None
    image_url: str | None = None


class ItemComment(Shape, frozen=True, kw_only=True):
    id: str
    catalog_item_id: str
    author_name: str
    text: str
    creation_date: datetime


class CommentDraft(Shape, frozen=True, kw_only=True):
    id: str | None = None
    author_name: str | None = None
    text: str | None = None


class ItemRating(Shape, frozen=True, kw_only=True):
    id: str
    catalog_item_id: str
    rating: int
    creation_date: datetime


class RatingDraft(Shape, frozen=True, kw_only=True):
    id: str | None = None
    rating: int | None = None


class RatingSummary(Shape, frozen=True, kw_only=True, omit_defaults=False):
    """The ratings of an item together. Without a vote the average is 0."""

    average_rating: float
    number_of_votes: int


class AddComment(Shape, frozen=True, kw_only=True):
    """The body of the action `add_comment`."""

    comment: ItemComment
    test_data: bool = False


class AddRating(Shape, frozen=True, kw_only=True):
    """The body of the action `add_rating`."""

    rating: ItemRating
    test_data: bool = False


class DeleteObject(Shape, frozen=True, kw_only=True):
    """The body of the action `delete_object`: `item`, `comment` or `rating`, and its id."""

    object_type: str
    object_id: str


class Misfit(ValueError):
    """JSON that is not what it should be; the text says where."""


_encoder = msgspec.json.Encoder(decimal_format="number")


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def decode(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Misfit(str(error)) from None
