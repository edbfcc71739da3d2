"""What every test starts from."""

import pytest


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns, whatever runs the tests (xdist's workers claim 80)."""
    monkeypatch.setenv("COLUMNS", "100")
