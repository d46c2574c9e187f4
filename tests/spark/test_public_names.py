"""The names of `restante.spark` are imported when they are asked for: each is where the table says."""

from __future__ import annotations

import pytest

import restante.spark


@pytest.mark.parametrize("name", restante.spark.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert callable(getattr(restante.spark, name))
