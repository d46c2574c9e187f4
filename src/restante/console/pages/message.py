"""One message: its properties, and its data as JSON, text, a picture or octets, as much as a page can hold."""

from __future__ import annotations

import msgspec

from restante.console.pages.frame import page
from restante.console.pages.mailbox import check_mailbox
from restante.console.pages.shown_answers import ShownMessage
from restante.console.view.figures import byte_count, number, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, facts, section
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.decoders import json_decoder
from restante.errors import NotFound
from restante.limits import CONSOLE_HEX_BYTES_MAX, CONSOLE_PICTURE_BYTES_MAX, CONSOLE_SHOWN_BYTES_MAX

_PICTURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
"""The media types that are shown as pictures, and how such data begins. SVG is none of them: it is text that can hold scripts."""
_OCTETS_A_LINE = 16


async def message(visit: Visit) -> ConsoleReply:
    name, own = visit.place["recipient"], visit.place["id"]
    found = await _found(visit)
    return page(
        visit,
        "Message",
        section("What it is", facts(_facts(name, found))),
        section("Properties", _properties(found)) if found.properties else None,
        section("Data", _data(name, own, found), aside=_data_aside(name, own, found)),
        above=_actions(visit, name, found),
    )


async def _found(visit: Visit) -> ShownMessage:
    check_mailbox(visit, visit.place["recipient"])
    return await visit.hub.get(ShownMessage, "recipients", visit.place["recipient"], "messages", visit.place["id"])


def _facts(name: str, found: ShownMessage) -> list[tuple[str, Child]]:
    return [
        ("Recipient", link(name, "recipients", name)),
        ("State", badge(found.state)),
        ("Id", tag("code", found.id)),
        ("Number", number(found.sequence_number)),
        ("Origin", found.origin),
        ("Kind", found.kind),
        ("Document type", found.document_type),
        ("Media type", found.media_type or "–"),
        ("Weight", f"{whole(found.weight)} KiB"),
        ("Bundleable", "yes" if found.bundleable else "no"),
        ("Published", relative(found.published_at)),
        ("Collected", relative(found.collected_at, missing="not yet")),
        ("Expires", relative(found.expires_at, missing="never")),
        ("Producer's number", number(found.published_sequence_number)),
    ]


def _properties(found: ShownMessage) -> Markup:
    return facts((key, value) for key, value in sorted(found.properties.items()))


def _actions(visit: Visit, name: str, found: ShownMessage) -> Child:
    """The changes that may be made in its state, for those who may."""
    if not visit.visitor.operates:
        return None
    offered = {"waiting": ("set-aside", "withdraw"), "set_aside": ("release", "withdraw")}.get(found.state, ())
    titles = {"set-aside": "Set aside…", "withdraw": "Withdraw…", "release": "Release…"}
    return [
        tag(
            "a",
            titles[change],
            href=at("do", change, recipient=name, id=found.id),
            class_="button danger" if change == "withdraw" else "button",
        )
        for change in offered
    ]


# The data


def octets_of(found: ShownMessage) -> bytes | None:
    """The data as bytes: JSON as it came, text in UTF-8; None of a claim check."""
    if found.data_base64 is not None:
        return found.data_base64
    if found.text is not None:
        return found.text.encode()
    return bytes(found.data) or None


def picture_type(found: ShownMessage) -> str | None:
    """The type under which it may be shown as a picture: it says so, and begins so."""
    content, media_type = found.data_base64, (found.media_type or "").partition(";")[0].strip().lower()
    if content is None or len(content) > CONSOLE_PICTURE_BYTES_MAX:
        return None
    begins = any(content.startswith(start) for start in _PICTURES.get(media_type, ()))
    return media_type if begins else None


def _data(name: str, own: str, found: ShownMessage) -> Child:
    content = octets_of(found)
    if content is None:
        return tag("p", "A claim check: its origin delivers the content when the message is peeked.", class_="empty")
    if picture_type(found) is not None:
        picture = at("recipients", name, "messages", own, "picture")
        return tag("p", tag("img", src=picture, alt="The message’s data, a picture", class_="preview"), class_="framed")
    if not content:
        return tag("p", "Empty.", class_="empty")
    if bytes(found.data):
        return _cut(pretty(content), len(content))
    text = _as_text(found, content)
    return _hex(content) if text is None else _cut(text, len(content))


def pretty(content: bytes) -> str:
    """JSON with a line for each value. Content that is too long or too deep to format stays as it came."""
    if len(content) > 16 * CONSOLE_SHOWN_BYTES_MAX:
        return content[: CONSOLE_SHOWN_BYTES_MAX + 1].decode("utf-8", "replace")
    try:
        if _is_text(content):
            return json_decoder(str).decode(content)
        return msgspec.json.format(content, indent=2).decode()
    except (msgspec.MsgspecError, RecursionError):
        return content.decode("utf-8", "replace")


def _is_text(content: bytes) -> bool:
    """Whether JSON is one text. Numbers are not read: JSON has some that no program holds."""
    return content.lstrip(b" \t\r\n").startswith(b'"')


def _as_text(found: ShownMessage, content: bytes) -> str | None:
    if found.text is not None:
        return found.text
    if not (found.media_type or "").startswith("text/"):
        return None
    return content.decode("utf-8", "replace")


def _cut(text: str, length: int) -> Child:
    shown = text[:CONSOLE_SHOWN_BYTES_MAX]
    rest = None
    if len(shown) < len(text) or length > CONSOLE_SHOWN_BYTES_MAX:
        rest = tag("p", f"The beginning of {byte_count(length)}. Download it to see all.", class_="soft")
    return tag("pre", tag("code", shown), tabindex=0, aria_label="Data"), rest


def _hex(content: bytes) -> Child:
    part = content[:CONSOLE_HEX_BYTES_MAX]
    lines = [_hex_line(start, part[start : start + _OCTETS_A_LINE]) for start in range(0, len(part), _OCTETS_A_LINE)]
    rest = (
        None
        if len(part) == len(content)
        else tag("p", f"The first {byte_count(len(part))} of {byte_count(len(content))}.", class_="soft")
    )
    return tag("pre", tag("code", "\n".join(lines)), class_="hex", tabindex=0, aria_label="Data as octets"), rest


def _hex_line(start: int, octets: bytes) -> str:
    shown = "".join(chr(octet) if 32 <= octet < 127 else "·" for octet in octets)
    return f"{start:08x}  {octets.hex(' '):<{3 * _OCTETS_A_LINE - 1}}  {shown}"


def _data_aside(name: str, own: str, found: ShownMessage) -> Child:
    content = octets_of(found)
    if content is None:
        return None
    download = tag("a", "Download", href=at("recipients", name, "messages", own, "data"), download=True)
    return tag("span", byte_count(len(content)), class_="soft"), download


async def picture(visit: Visit) -> ConsoleReply:
    """The data as a picture, if it is one. A browser shows it, and takes it for nothing else."""
    found = await _found(visit)
    media_type = picture_type(found)
    if media_type is None or found.data_base64 is None:
        raise NotFound("The data of this message is not a picture that a page can show.")
    return ConsoleReply(found.data_base64, media_type=media_type, headers=_INERT)


async def download(visit: Visit) -> ConsoleReply:
    """The data as a file, which no browser opens by itself."""
    found = await _found(visit)
    content = octets_of(found)
    if content is None:
        raise NotFound("A claim check has no data here: its origin has it.")
    headers = {**_INERT, "content-disposition": 'attachment; filename="message-data.bin"'}
    return ConsoleReply(content, media_type="application/octet-stream", headers=headers)


_INERT = {"content-security-policy": "default-src 'none'; sandbox", "x-content-type-options": "nosniff"}
_MESSAGE = "recipients/{recipient}/messages/{id}"

ROUTES = (
    ConsoleRoute("GET", _MESSAGE, message, lambda visitor: visitor.opens),
    ConsoleRoute("GET", f"{_MESSAGE}/picture", picture, lambda visitor: visitor.opens),
    ConsoleRoute("GET", f"{_MESSAGE}/data", download, lambda visitor: visitor.opens),
)
