"""Worker processes, and the one counter of work done that all of them advance."""

import multiprocessing
import signal
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


class Pool(AbstractContextManager["Pool"]):
    """`workers` processes, started when first needed; with one worker everything runs here.

    Workers are fresh interpreters: forking a process that has run Arrow or DuckDB threads can hang.
    Pickled (into a worker), a pool becomes a pool of one that advances the same counter.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._executor: ProcessPoolExecutor | None = None
        if _done is None:
            _adopt(multiprocessing.get_context("spawn").Value("q", 0))

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of the items, whichever worker is done first."""
        if self.workers == 1:
            return map(call, items)
        if self._executor is None:
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self.workers, context, initializer=_begin, initargs=(_done,))
        with _undisturbed():  # a worker whose start is cut short complains on stderr
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
