"""What every test starts from."""

import pytest
from hypothesis import settings

# The same examples in every run: a failure can be repeated, and a slow machine fails nothing.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns, whatever runs the tests (xdist's workers claim 80)."""
    monkeypatch.setenv("COLUMNS", "100")
