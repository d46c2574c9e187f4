"""The README as a package index shows it: its relative links lead to the project's home, where the files are.

A hook of the build (`[tool.hatch.metadata.hooks.custom]` in pyproject.toml). In a checkout the links stay relative, so
that they work there and on any site that shows the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)(\))|(src=\"|href=\")(?![a-z]+:|#)([^\"]+)(\")")


class PackageReadme(MetadataHookInterface):
    """Makes the links absolute while a package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = absolute_links(text, files=self.config["files"], raw=self.config["raw"])
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}


def absolute_links(text: str, *, files: str, raw: str) -> str:
    """Pages lead to where `files` are shown, pictures to where they are served `raw`."""

    def absolute(match: re.Match[str]) -> str:
        before, target, after = [part for part in match.groups() if part is not None]
        home = raw if target.endswith((".svg", ".png")) else files
        return f"{before}{home}{target}{after}"

    return _LINK.sub(absolute, text)
