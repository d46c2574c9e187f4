"""The README on a package index: no link is left that works only in a checkout."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.package_readme import absolute_links

CHECKOUT = Path(__file__).parents[2]


def test_pages_lead_to_the_files_and_pictures_to_their_bytes() -> None:
    text = '![a](docs/a.svg) [b](docs/b.md#c) [d](https://d.example/) [e](#e) <img src="f.png">'
    assert absolute_links(text, files="https://x.example/", raw="https://y.example/") == (
        "![a](https://y.example/docs/a.svg) [b](https://x.example/docs/b.md#c) [d](https://d.example/) [e](#e) "
        '<img src="https://y.example/f.png">'
    )


def test_every_link_of_the_readme_becomes_absolute() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    homes = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    text = absolute_links((CHECKOUT / "README.md").read_text(encoding="utf-8"), files=homes["files"], raw=homes["raw"])
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 30
    assert all(target.startswith("https://") for target in targets)
    assert project["project"]["urls"]["Source"] == homes["files"]
