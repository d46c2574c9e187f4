"""The app whose one action does nothing, for `restante work` and for what workers cost."""

from __future__ import annotations

import msgspec

from restante.work import App

app = App("bench")


class Numbered(msgspec.Struct):
    number: int


@app.action("nothing")
async def nothing(body: Numbered) -> int:
    return body.number
