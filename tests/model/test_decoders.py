"""Decoders for a type that several threads ask for at the same time."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = '''
import gc
import sys
import threading
import types

from restante.decoders import converted, json_decoder, packed_decoder

SOURCE = """
import msgspec

class Inner(msgspec.Struct):
    first: "int | None" = None
    second: "str | None" = None
    third: "list[int]" = []

class Outer(msgspec.Struct):
    some: "list[Inner]"
    more: "tuple[Inner, ...]" = ()
    named: "dict[str, Inner]" = {}
"""
TEXT = b'{"some": [{"first": 1}], "more": [{"second": "a"}], "named": {"b": {"third": [2]}}}'
WAYS = [
    lambda kind: json_decoder(kind).decode(TEXT),
    lambda kind: converted({"some": [{"first": 1}]}, kind),
    lambda kind: packed_decoder(kind).decode(bytes.fromhex("81a4736f6d6590")),
]


def fresh(number):
    module = sys.modules[f"fresh{number}"] = types.ModuleType(f"fresh{number}")
    exec(SOURCE, module.__dict__)
    return module.Outer


def decode(way, kind, together, found):
    together.wait()
    found.append(way(kind).some)


sys.setswitchinterval(1e-6)
gc.set_threshold(20)
for number in range(150):
    kind, together, found = fresh(number), threading.Barrier(6), []
    threads = [threading.Thread(target=decode, args=(way, kind, together, found)) for way in WAYS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6, found
print("decoded")
'''


def test_threads_that_decode_a_type_for_the_first_time_at_once() -> None:
    # In a process of its own: where it goes wrong, the process ends with a segmentation fault.
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "decoded\n"), ended.stderr[-2000:]
