"""`python -m bench.bare_protocol PORT`: the least that answers a publish over HTTP: parsed by httptools, answered at once.

Nothing is decoded, checked or stored. It is what a publish is measured against: no server in Python does less.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import httptools
import uvloop

from bench.server import LOCALHOST

ANSWER = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class BareProtocol(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Called by the parser when a request has come whole."""
        self._transport.write(ANSWER)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(BareProtocol, LOCALHOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
