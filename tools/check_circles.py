"""Fails if modules of the package import each other in a circle, for types or inside functions too."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import grimp


def main() -> int:
    graph = grimp.build_graph("restante", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        print("imported in a circle:", " <- ".join(error.args[1]))
        return 1
    print(f"{len(imports)} modules import each other without a circle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
