"""Worker processes, and the one counter of work done that all of them advance."""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_done: Any = None  # the shared counter, in parent and workers alike


def _adopt(counter: Any) -> None:
    global _done
    _done = counter


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
            self._executor = ProcessPoolExecutor(self.workers, context, initializer=_adopt, initargs=(_done,))
        return self._executor.map(call, items)

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
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
