"""A progress bar for work that reports to the pool's counter."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int, done: Callable[[], int], *, quiet: bool = False) -> Iterator[None]:
    """Show how far the work in the block is, on stderr, where that is a terminal.

    Args:
        total: work to do, in the counter's unit.
        done: work done so far.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    stop = threading.Event()
    start = done()
    with bar:
        task = bar.add_task(title, total=total)

        def watch() -> None:
            while not stop.wait(0.1):
                bar.update(task, completed=min(done() - start, total))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
