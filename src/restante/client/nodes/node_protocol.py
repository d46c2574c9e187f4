"""The calls about nodes as dialogues with a hub over HTTP."""

from __future__ import annotations

from restante.calls.call import query_of
from restante.calls.nodes import DrainNode, ListRounds, ReadNodes
from restante.client.transport.address import segment
from restante.client.transport.exchange import Dialogue, HttpRequest
from restante.client.transport.http_answers import value_of
from restante.client.transport.options import Terms
from restante.client.transport.requests import FOR_JSON, Dialogues, done, read
from restante.model.shards.node_answers import NodeDrain, NodeMap, RoundsInDoubt

_PATH = "/v1/nodes"


def read_nodes(terms: Terms, call: ReadNodes) -> Dialogue[NodeMap]:
    return (yield from read(terms, _PATH, NodeMap, query_of(call)))


def drain_node(terms: Terms, call: DrainNode) -> Dialogue[NodeDrain]:
    path = f"{_PATH}/{segment(call.node, 'node')}/drain"
    request = HttpRequest("POST", path, terms.timeout, query=query_of(call), headers=FOR_JSON)
    return value_of((yield from done(terms, request, 200)), NodeDrain, terms.address)


def list_rounds(terms: Terms, call: ListRounds) -> Dialogue[RoundsInDoubt]:
    return (yield from read(terms, "/v1/rounds", RoundsInDoubt, query_of(call)))


DIALOGUES: Dialogues = {ReadNodes: read_nodes, DrainNode: drain_node, ListRounds: list_rounds}
