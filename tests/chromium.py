"""A page in headless Chromium, watched over its debugging pipe: console, exceptions, requests, answers."""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--remote-debugging-pipe", "--window-size=1200,1600",
)  # fmt: skip


def chromium() -> str:
    """The browser's path; the test skips, saying so, where none is installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found


@dataclass
class Seen:
    """What happened while a page was open."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)


def visit(page: Path, questions: list[str], folder: Path, dark: bool = False) -> Seen:
    """Open a page, wait until its charts are drawn, and ask JavaScript expressions of it."""
    ours, browsers = os.pipe(), os.pipe()
    command = [chromium(), *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    shell = f'exec "$@" 3<&{browsers[0]} 4>&{ours[1]}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", shell, "chromium", *command],
        pass_fds=(browsers[0], ours[1]),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(browsers[0])
    os.close(ours[1])
    try:
        with os.fdopen(ours[0], "rb") as answers, os.fdopen(browsers[1], "wb") as orders:
            return _Talk(answers, orders).visit(page.resolve().as_uri(), questions, dark)
    finally:
        process.terminate()
        process.wait(timeout=20)


class _Talk:
    """Messages of the DevTools protocol: JSON, each ended by a zero byte."""

    def __init__(self, answers: Any, orders: Any) -> None:
        self.answers, self.orders = answers, orders
        self.count = 0
        self.seen = Seen()
        self.session: str | None = None

    def visit(self, address: str, questions: list[str], dark: bool) -> Seen:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        self.ask("Page.navigate", url=address)
        until = time.monotonic() + 60
        while self.value("document.body && document.body.dataset.drawn") != "yes":
            if time.monotonic() > until:
                pytest.fail(f"the charts were not drawn in a minute; errors: {self.seen.errors}")
            time.sleep(0.1)
        self.seen.answers = [self.value(question) for question in questions]
        return self.seen

    def value(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def ask(self, method: str, **parameters: Any) -> Any:
        self.count += 1
        order: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            order["sessionId"] = self.session
        self.orders.write(json.dumps(order).encode() + b"\0")
        self.orders.flush()
        while True:
            message = self._next()
            if message.get("id") == self.count:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _next(self) -> dict[str, Any]:
        held = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                pytest.fail("the browser has left")
            held += byte
        message: dict[str, Any] = json.loads(held)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.seen.errors.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.seen.errors.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.seen.errors.append(str(parameters["entry"]))
        elif method == "Network.requestWillBeSent":
            self.seen.requests.append(parameters["request"]["url"])
