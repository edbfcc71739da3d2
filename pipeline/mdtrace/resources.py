"""Finds what travels with the package: the table declarations and packaged data."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def schemas() -> Traversable:
    """The folder of table declarations: in the package when installed, else of the checkout."""
    packaged = files("mdtrace") / "schemas"
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parents[2] / "schemas"
