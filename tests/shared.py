"""Where the shared real traces and cases lie: beside the checkout, if at all."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def shared(*parts: str) -> Path:
    """A file or folder of shared material; the test skips, saying so, where it is absent."""
    path = ROOT.parent / "shared" / Path(*parts)
    if not path.exists():
        pytest.skip(f"shared/{'/'.join(parts)} is not beside the checkout")
    return path
