"""Files and folders that no profiler makes: nothing hangs, nothing crashes, nothing is lost in silence."""

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from mdtrace.build.job import build
from mdtrace.commands import sql
from mdtrace.errors import UsageError
from mdtrace.metrics.engine import run
from mdtrace.tables.dataset import Dataset, open_dataset


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block must end in time."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def operator(name: str, ts: Any = 1, dur: Any = 2, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def kineto(path: Path, events: list[Any]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


def ingest(tmp_path: Path, *files: Path) -> Dataset:
    return build(list(files), tmp_path / "out.mdtrace")


@pytest.mark.parametrize("following", range(0, 9000, 750))
def test_an_event_of_kilobytes_before_a_bad_one(tmp_path: Path, following: int) -> None:
    """The piece decoded at once shrinks below the long event, and must not grow and shrink for ever."""
    events = [operator("a" * 3000), {"ph": "X", "cat": 5, "pid": 1}, operator("b"), operator("c" * following)]
    with within(20):
        dataset = ingest(tmp_path, kineto(tmp_path / "t.json", events))
    names = dataset.table("host_ops", ["name"]).column(0).to_pylist()
    assert names == ["a" * 3000, "b", "c" * following]


def kernel(name: str, ts: Any = 1, dur: Any = 2, **args: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
    return {**event, "args": {"device": 0, "stream": 7, **args}}


def all_reduce(elements: Any, ranks: Any) -> dict[str, Any]:
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float", "Group size": ranks}
    return kernel("ncclDevKernel_AllReduce_Sum_f32", **{"Collective name": "allreduce", **sizes})


@pytest.mark.parametrize(
    ("elements", "ranks", "payload", "known_ranks", "busbw"),
    [
        (1000, 2, 4000, 2, 2.0),  # 4000 bytes in 2 µs, times 2(n-1)/n
        (2**61, 2, None, 2, None),
        (1000, 2**31 - 1, 4000, 2**31 - 1, 4.0),
        (1000, 0, 4000, None, None),
        (10**40, -1, None, None, None),
    ],
)
def test_sizes_of_collectives_that_no_number_holds(
    tmp_path: Path,
    elements: int,
    ranks: int,
    payload: int | None,
    known_ranks: int | None,
    busbw: float | None,
) -> None:
    dataset = ingest(tmp_path, kineto(tmp_path / "t.json", [all_reduce(elements, ranks)]))
    (row,) = run(dataset, "collective_transfers").arrow().to_pylist()
    assert (row["payload_bytes"], row["group_size"]) == (payload, known_ranks)
    assert row["busbw_gb_s"] == (None if busbw is None else pytest.approx(busbw))


def test_the_cost_of_a_collective_that_no_number_holds(tmp_path: Path) -> None:
    sizes = {"In msg nelems": 2**61, "Out msg nelems": 2**61, "dtype": "Float", "Group size": 2}
    record = operator("record_param_comms", args={"Collective name": "allreduce", **sizes})
    dataset = ingest(tmp_path, kineto(tmp_path / "t.json", [record]))
    (cost,) = dataset.table("op_costs", ["flops", "bytes", "reason"]).to_pylist()
    assert cost == {"flops": None, "bytes": None, "reason": "out of range"}


NOT_UTF8 = os.fsdecode(b"odd\xff")


def test_files_whose_names_are_not_utf8(tmp_path: Path) -> None:
    inputs = tmp_path / NOT_UTF8
    inputs.mkdir()
    files = [kineto(inputs / NOT_UTF8, [operator("a")]), inputs / "n.sqlite", inputs / f"{NOT_UTF8}-gone"]
    with sqlite3.connect(files[1]) as export:
        export.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT)")
        export.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 'b')")
    export.close()
    dataset = ingest(tmp_path, *files)
    assert dataset.table("host_ops", ["name"]).column(0).to_pylist() == ["b", "a"]
    assert dataset.table("sources", ["file"]).column(0).to_pylist() == ["n.sqlite", "odd?"]
    messages = dataset.table("diagnostics", ["message"]).column(0).to_pylist()
    assert any("odd?-gone: does not exist" in m for m in messages)


def test_a_dataset_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    trace = kineto(tmp_path / "t.json", [operator("a")])
    for call in (lambda p: build([trace], p), open_dataset):
        with pytest.raises(UsageError, match="not UTF-8"):
            call(tmp_path / NOT_UTF8)
    assert list(tmp_path.iterdir()) == [trace]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = command(tmp_path, "ingest", "loop")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: loop: cannot be read")


def test_nothing_in_names_steers_the_terminal(tmp_path: Path) -> None:
    nasty = "a\x1b[31m\u009b31m\u202eb\x07"
    build([kineto(tmp_path / "t.json", [operator(nasty)])], tmp_path / "x.mdtrace")
    queries = ["SELECT name FROM host_ops", "SELECT name::INTEGER FROM host_ops"]
    outputs = [command(tmp_path, "sql", "x.mdtrace", query) for query in queries]
    outputs += [command(tmp_path, "ops", "x.mdtrace"), command(tmp_path, "info", f"{nasty}.mdtrace")]
    for done in outputs:
        text = done.stdout + done.stderr
        assert "31m" in text
        assert all(c.isprintable() or c == "\n" for c in text), text


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "mdtrace", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_prompt_without_a_home_has_a_history_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert isinstance(sql._history(), InMemoryHistory)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert isinstance(sql._history(), FileHistory)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    kineto(tmp_path / "t.json", [operator("a")])
    call = f'"{sys.executable}" -m mdtrace'
    for line, code in (("ingest t.json", 0), ("ops t.mdtrace", 0), ("sql t.mdtrace", 2)):  # no query
        done = shell(tmp_path, f"{call} {line} {closed}")
        assert (done.returncode, done.stderr.count("Traceback")) == (code, 0), done.stderr


def test_a_full_disk_in_the_words_of_the_system(tmp_path: Path) -> None:
    build([kineto(tmp_path / "t.json", [operator("a")])], tmp_path / "t.mdtrace")
    done = shell(tmp_path, f'"{sys.executable}" -m mdtrace ops t.mdtrace --format csv > /dev/full')
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_ingest_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    kineto(tmp_path / "t.json", [{}] * 2_000_000)
    line = [sys.executable, "-m", "mdtrace", "ingest", "t.json", "--jobs", "2"]
    with subprocess.Popen(
        line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        try:
            with within(60):
                while len(list(tmp_path.iterdir())) < 2:
                    time.sleep(0.01)
                if number == signal.SIGINT:  # a terminal sends it to workers too
                    os.killpg(running.pid, number)
                else:
                    running.send_signal(number)
                _, said = running.communicate()
        finally:
            running.kill()
    assert (running.returncode, said) == (128 + number, b"")
    assert [f.name for f in tmp_path.iterdir()] == ["t.json"]


@pytest.mark.parametrize(
    ("before", "token", "behind"),
    [
        ('{"x":', "}{", ',"traceEvents":[EVENT]}'),
        ('{"traceEvents":[EVENT],"y":', "}{", "}"),
        ('{"traceEvents":[EVENT,', "}{", ",EVENT]}"),
        ('{"traceEvents":[EVENT,', "{}", ",EVENT]}"),
        ('{"traceEvents":[EVENT,{"ph":"X","ts":', "0", "},EVENT]}"),
        ('{"traceEvents":[EVENT,{"ph":"X","ts":', "9e15", "},EVENT]}"),
    ],
)
def test_long_repeats_take_linear_time(tmp_path: Path, before: str, token: str, behind: str) -> None:
    """Each took minutes, growing with the square of the length."""
    event = json.dumps(operator("a"))
    text = before + token * (300_000 // len(token)) + behind
    (tmp_path / "t.json").write_text(text.replace("EVENT", event))
    with within(60):
        names = ingest(tmp_path, tmp_path / "t.json").table("host_ops", ["name"]).column(0).to_pylist()
    assert names
    assert set(names) <= {"a", None}


ENDLESS = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["table", "csv", "parquet"])
def test_a_signal_ends_a_query(tmp_path: Path, number: signal.Signals, form: str) -> None:
    """DuckDB itself looks for signals now and then only, and has its own errors for an interrupted query."""
    build([kineto(tmp_path / "t.json", [operator("a")])], tmp_path / "t.mdtrace")
    line = [sys.executable, "-m", "mdtrace", "sql", "t.mdtrace", ENDLESS, "--format", form]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        time.sleep(3)  # it is in the query, and stays there
        running.send_signal(number)
        with within(60):
            out, said = running.communicate()
    assert (running.returncode, out, said) == (128 + number, b"", b"")


def test_the_prompt_outlives_an_interrupted_query(tmp_path: Path) -> None:
    build([kineto(tmp_path / "t.json", [operator("a")])], tmp_path / "t.mdtrace")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ["XDG_STATE_HOME"] = str(tmp_path / "state")
        os.execv(sys.executable, [sys.executable, "-m", "mdtrace", "sql", "t.mdtrace"])
    said = b""

    def until(wanted: bytes) -> None:
        nonlocal said
        while wanted not in said:
            said += os.read(terminal, 1 << 16)
        said = said[said.index(wanted) + len(wanted) :]

    with within(90):
        until(b"Ctrl-D")
        until(b"mdtrace>")
        os.write(terminal, ENDLESS.encode() + b";\r")
        until(b"\x1b[?2004l")  # the prompt is left for the query
        time.sleep(2)
        os.write(terminal, b"\x03")
        until(b"interrupted")
        os.write(terminal, b"SELECT 40 + 2 AS x;\r")
        until(b"int32")
        until(b"42")
        until(b"mdtrace>")
        os.write(terminal, b"\x04")
        _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert status == 0


def test_a_command_loads_no_pandas(tmp_path: Path) -> None:
    """pyarrow would, at its first array, which takes half a second."""
    kineto(tmp_path / "t.json", [operator("a")])
    code = "import sys; from mdtrace.commands import main; sys.argv = sys.argv[1:]\ntry: main()\n"
    code += "finally: print(*sys.modules)"
    for line in (["ingest", "t.json"], ["overlap", "t.mdtrace"], ["report", "t.mdtrace"]):
        run_line = [sys.executable, "-c", code, "mdtrace", *line]
        done = subprocess.run(run_line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        modules = done.stdout.split()
        assert "pyarrow" in modules
        assert "pandas" not in modules


def test_workers_do_not_import_the_main_module(tmp_path: Path) -> None:
    """A script without the usual guard may use a pool."""
    kineto(tmp_path / "a.json", [operator("a")])
    kineto(tmp_path / "b.json", [operator("b")])
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from mdtrace.build.job import build\n"
        "from mdtrace.ingest.pool import Pool\n"
        "print('once')\n"
        "with Pool(2) as pool:\n"
        "    print(len(build([Path('a.json'), Path('b.json')], Path('o'), pool=pool).files['host_ops']))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("once\n2\n", "")
