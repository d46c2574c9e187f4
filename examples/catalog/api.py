"""The API of the catalogue: it reads from its own database, and asks workers for what may take its time.

Items are written at once, by those who have the API key. Comments, ratings and deletions are actions: accepted with
`202` as soon as the hub has them on its disk, and done by a worker. `Location` is where the result will be: `404` until
it is done, then `200`.
"""

from __future__ import annotations

import hmac
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

from examples.catalog import records
from examples.catalog.database import Database, DatabaseThrottled, DatabaseUnavailable
from examples.catalog.shapes import (
    RATING_MAX,
    RATING_MIN,
    AddComment,
    AddRating,
    CatalogItem,
    CommentDraft,
    DeleteObject,
    ItemComment,
    ItemDraft,
    ItemRating,
    RatingDraft,
    decode,
)
from examples.catalog.web import Answer, Handler, Problem, Request, Routes
from restante.client.surface.asynchronous import Hub
from restante.errors import Overloaded, RestanteError

T = TypeVar("T")
MISSING = "Missing required fields"
_RETRY = ("retry-after", "1")


class Catalog:
    """The handlers of the API."""

    def __init__(self, database: Database, hub: Hub, api_key: str) -> None:
        self._database, self._hub, self._api_key = database, hub, api_key.encode()

    def routes(self) -> Routes:
        item, comments, ratings = "/catalogitem/{id}", "/catalogitem/{id}/comments", "/catalogitem/{id}/ratings"
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", "/healthz"): self.healthy,
            ("GET", "/catalogitem"): self.list_items,
            ("POST", "/catalogitem"): self.create_item,
            ("GET", item): self.read_item,
            ("PUT", item): self.change_item,
            ("DELETE", item): self.delete_item,
            ("GET", comments): self.list_comments,
            ("POST", comments): self.create_comment,
            ("GET", comments + "/{id}"): self.read_comment,
            ("DELETE", comments + "/{id}"): self.delete_comment,
            ("GET", ratings): self.read_ratings,
            ("POST", ratings): self.create_rating,
            ("GET", ratings + "/{id}"): self.read_rating,
            ("DELETE", ratings + "/{id}"): self.delete_rating,
        }
        return Routes(handlers, recognised)

    async def healthy(self, _: Request) -> Answer:
        self._database.rows("SELECT 1 FROM items LIMIT 1")
        return Answer()

    # Items

    async def list_items(self, _: Request) -> Answer:
        return Answer(records.list_items(self._database))

    async def read_item(self, request: Request) -> Answer:
        return Answer(_found(records.find_item(self._database, request.ids[0])))

    async def create_item(self, request: Request) -> Answer:
        """A given id is kept; an item that has it is replaced."""
        self._authorise(request)
        draft = decode(request.body, ItemDraft)
        item = CatalogItem(
            id=_given_or_new(draft.id),
            name=_required(draft.name),
            description=_required(draft.description),
            price=_price(draft.price),
            image_url=draft.image_url,
            last_updated=_now(),
        )
        async with self._database.writing() as connection:
            records.put_item(connection, item, expires_at=records.expiry(test_data=_is_test(request)))
        return Answer(item, 201, (("location", f"/catalogitem/{item.id}"),))

    async def change_item(self, request: Request) -> Answer:
        """Only what is sent changes."""
        self._authorise(request)
        draft = _checked(decode(request.body, ItemDraft))
        expires_at = records.expiry(test_data=_is_test(request))
        async with self._database.writing() as connection:
            changed = records.change_item(connection, request.ids[0], draft, changed_at=_now(), expires_at=expires_at)
        return Answer(_found(changed))

    async def delete_item(self, request: Request) -> Answer:
        return await self._delete(request, "item", f"/catalogitem/{request.ids[0]}")

    # Comments

    async def list_comments(self, request: Request) -> Answer:
        self._known(request.ids[0])
        return Answer(records.newest_comments(self._database, request.ids[0]))

    async def read_comment(self, request: Request) -> Answer:
        return Answer(_found(records.find_comment(self._database, *request.ids)))

    async def create_comment(self, request: Request) -> Answer:
        draft = decode(request.body, CommentDraft)
        comment = ItemComment(
            id=_given_or_new(draft.id),
            catalog_item_id=request.ids[0],
            author_name=_required(draft.author_name),
            text=_required(draft.text),
            creation_date=_now(),
        )
        self._known(comment.catalog_item_id)
        action_id = await self._ask(request, "add_comment", AddComment(comment=comment, test_data=_is_test(request)))
        return _accepted(action_id, f"/catalogitem/{request.ids[0]}/comments/{comment.id}", comment)

    async def delete_comment(self, request: Request) -> Answer:
        item_id, comment_id = request.ids
        return await self._delete(request, "comment", f"/catalogitem/{item_id}/comments/{comment_id}")

    # Ratings

    async def read_ratings(self, request: Request) -> Answer:
        self._known(request.ids[0])
        return Answer(records.rating_summary(self._database, request.ids[0]))

    async def read_rating(self, request: Request) -> Answer:
        return Answer(_found(records.find_rating(self._database, *request.ids)))

    async def create_rating(self, request: Request) -> Answer:
        draft = decode(request.body, RatingDraft)
        rating = ItemRating(
            id=_given_or_new(draft.id),
            catalog_item_id=request.ids[0],
            rating=_stars(draft.rating),
            creation_date=_now(),
        )
        self._known(rating.catalog_item_id)
        action_id = await self._ask(request, "add_rating", AddRating(rating=rating, test_data=_is_test(request)))
        return _accepted(action_id, f"/catalogitem/{request.ids[0]}/ratings/{rating.id}", rating)

    async def delete_rating(self, request: Request) -> Answer:
        item_id, rating_id = request.ids
        return await self._delete(request, "rating", f"/catalogitem/{item_id}/ratings/{rating_id}")

    # --- Shared by the routes

    async def _delete(self, request: Request, what: str, location: str) -> Answer:
        """Accepted without a look whether it is there: deleting what is gone is fine."""
        self._authorise(request)
        body = DeleteObject(object_type=what, object_id=request.ids[-1])
        return _accepted(await self._ask(request, "delete_object", body), location)

    async def _ask(self, request: Request, action: str, body: object) -> str:
        """Have a worker do it; gives the action's id. Actions that concern one item are done in the order of acceptance."""
        accepted = await self._hub.act(
            action, concerns=request.ids[0], data=body, origin="catalog", correlation_id=request.correlation_id
        )
        return accepted.id

    def _known(self, item_id: str) -> None:
        if not records.has_item(self._database, item_id):
            raise Problem(404, "There is no such item.")

    def _authorise(self, request: Request) -> None:
        given = request.headers.get(b"x-api-key")
        if given is None:
            raise Problem(401, "Api Key was not provided")
        if not hmac.compare_digest(given, self._api_key):
            raise Problem(401, "Api Key is not valid")


def _accepted(action_id: str, location: str, body: object = None) -> Answer:
    return Answer(body, 202, (("location", location), ("x-action-id", action_id), _RETRY))


def recognised(error: Exception) -> Problem | None:
    """The problem that the callers of the API are told of a database or a hub that did not do it."""
    match error:
        case DatabaseThrottled():
            return Problem(503, "The database has too much to do. Try again later.", _RETRY)
        case DatabaseUnavailable():
            return Problem(500, "The database is not available.")
        case Overloaded():
            return Problem(503, "The hub has too much to do. Try again later.", _RETRY)
        case RestanteError():
            return Problem(500, "The hub did not accept it.")
        case _:
            return None


def _found(value: T | None) -> T:
    if value is None:
        raise Problem(404, "There is no such thing.")
    return value


def _now() -> datetime:
    return datetime.now(UTC)


def _is_test(request: Request) -> bool:
    return (request.header("x-test-data") or "").lower() == "true"


def _given_or_new(given: str | None) -> str:
    try:
        return str(uuid.uuid4() if given is None else uuid.UUID(given))
    except ValueError:
        raise Problem(400, f"An id is a UUID, not {given!r}.") from None


def _checked(draft: ItemDraft) -> ItemDraft:
    """The changes of an item that were sent: each field may be missing, and is right if it is there."""
    for text in (draft.name, draft.description):
        if text is not None:
            _required(text)
    if draft.price is not None:
        _price(draft.price)
    return draft


def _required(text: str | None) -> str:
    if text is None or not text.strip():
        raise Problem(400, MISSING)
    return text


def _price(price: Decimal | None) -> Decimal:
    if price is None:
        raise Problem(400, MISSING)
    if not price.is_finite() or price < 0:
        raise Problem(400, "A price is a number, 0 or more.")
    return price


def _stars(rating: int | None) -> int:
    if rating is None:
        raise Problem(400, MISSING)
    if not RATING_MIN <= rating <= RATING_MAX:
        raise Problem(400, f"A rating is a number from {RATING_MIN} to {RATING_MAX}.")
    return rating
