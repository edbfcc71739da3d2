"""Worker processes, and the one counter of work done that all of them advance."""

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from mdtrace.errors import MdtraceError
from mdtrace.process import settle

T = TypeVar("T")
R = TypeVar("R")

# What workers of most ingests need, loaded from a pool's making on, beside what this process does.
_MODULES = ("mdtrace.ingest.kineto", "mdtrace.tables.writer")

_done: Any = None  # the shared counter, in parent and workers alike


def _adopt(counter: Any) -> None:
    global _done
    _done = counter


def _begin(counter: Any) -> None:
    settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends its workers
    _adopt(counter)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that would end the work are held back until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda n, _: held.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in held:
            signal.raise_signal(caught)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in the block do not hear Ctrl-C: this one does, and ends them."""
    multiprocessing.resource_tracker.ensure_running()  # which lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """What runs as the main module is not imported by processes started in the block: no task of ours is
    defined there, and a script may have no guard against being imported."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name, None) for name in ("__file__", "__spec__")}
    try:
        for name in hidden:
            setattr(main, name, None)
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)


class Pool(AbstractContextManager["Pool"]):
    """`workers` processes, started when first needed; with one worker everything runs here.

    Workers are forked off a fresh interpreter: forking this process, which may have run Arrow or DuckDB
    threads, can hang. Pickled (into a worker), a pool becomes a pool of one that advances the same counter.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._executor: ProcessPoolExecutor | None = None
        self._context = multiprocessing.get_context("forkserver")
        if workers > 1:
            self._context.set_forkserver_preload(list(_MODULES))
            with _deaf_children():
                multiprocessing.forkserver.ensure_running()
        if _done is None:
            _adopt(self._context.Value("q", 0))

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of the items, whichever worker is done first."""
        if self.workers == 1:
            return map(call, items)
        with _undisturbed(), _without_main():  # a worker whose start is cut short complains on stderr
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    self.workers, self._context, initializer=_begin, initargs=(_done,)
                )
            results = self._executor.map(call, items)
        return self._results(results)

    @staticmethod
    def _results(results: Iterator[R]) -> Iterator[R]:
        try:
            yield from results
        except BrokenProcessPool as error:
            raise MdtraceError(
                "a worker process died", "most likely the memory ran out: use fewer with --jobs"
            ) from error

    @staticmethod
    def advance(amount: int) -> None:
        """Add to the work done (bytes of input), from any process."""
        if _done is not None:
            with _done.get_lock():
                _done.value += amount

    @staticmethod
    def done() -> int:
        """Work done so far, over all processes."""
        return 0 if _done is None else int(_done.value)

    def __reduce__(self) -> tuple[type["Pool"], tuple[int]]:
        return Pool, (1,)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            if kind is not None:  # nothing that the workers still do is wanted
                for worker in multiprocessing.active_children():
                    worker.terminate()
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
