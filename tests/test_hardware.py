"""The hardware table: complete, sourced, matched by the names in traces; the user's file over it."""

from pathlib import Path

import pytest

from mdtrace.errors import InputError, UsageError
from mdtrace.hardware.entry import Entry, read_entries
from mdtrace.hardware.match import Device, match
from mdtrace.hardware.table import choose, find, read_file, table

GB = 1_000_000_000
WANTED = (
    "v100-sxm2-16", "v100-sxm2-32", "v100-pcie-16", "v100-pcie-32", "t4", "a10", "a100-sxm-40", "a100-sxm-80",
    "a100-pcie-40", "a100-pcie-80", "l4", "l40s", "h100-sxm", "h100-pcie", "h100-nvl", "h200-sxm", "b200",
    "gb200", "rtx-3090", "rtx-4090", "rtx-5090", "mi210", "mi250x-gcd", "mi250x",
    "mi300x", "mi325x", "mi355x",
)  # fmt: skip


def _matched(name: str | None, **facts: int) -> tuple[str | None, str | None]:
    found = match(Device(name, **facts), choose().entries)
    return found.entry.id if found.entry else None, found.doubt


@pytest.mark.parametrize("name", WANTED)
def test_each_device_has_all_roofs_with_their_sources(name: str) -> None:
    entry = table()[name]
    for number in (entry.memory_gb, entry.memory_gb_per_s, entry.link_gb_per_s, entry.compute_units):
        assert number is not None
    assert entry.vector_tflops["f32"] > 0
    assert entry.matrix_tflops["f16"] > 0
    assert entry.matches
    for source in (entry.sources.peaks, entry.sources.memory, entry.sources.link):
        assert source is not None
        assert any(year in source for year in map(str, range(2017, 2027)))
    assert (entry.internode_gb_per_s is None) == (entry.sources.internode is None)


@pytest.mark.parametrize(
    ("name", "dtype", "unit", "tflops"),
    [
        ("v100-sxm2-16", "f16", "matrix", 125),
        ("v100-sxm2-16", "f32", "matrix", 15.7),
        ("a100-sxm-80", "bf16", "matrix", 312),
        ("a100-sxm-80", "tf32", "matrix", 156),
        ("h100-sxm", "f8e4m3", "matrix", 1979),
        ("h100-sxm", "f32", "matrix", 67),
        ("b200", "f4", "matrix", 9000),
        ("mi300x", "bf16", "matrix", 1307.4),
        ("mi300x", "f64", "vector", 81.7),
    ],
)
def test_peaks(name: str, dtype: str, unit: str, tflops: float) -> None:
    found = table()[name].peak(dtype, unit)  # type: ignore[arg-type]
    assert found is not None
    assert found[0] == pytest.approx(tflops * 1e12)


def test_arithmetic_without_units_of_its_own_runs_on_those_of_a_wider_type() -> None:
    assert table()["v100-sxm2-16"].peak("bf16", "matrix") == (15.7e12, "f32")
    assert table()["a100-sxm-40"].peak("f8e5m2", "matrix") == (312e12, "f16")
    assert table()["h100-sxm"].peak("i64", "vector") == (67e12, "f32")
    assert Entry().peak("f32", "matrix") is None


def test_ridge_point() -> None:
    assert table()["a100-sxm-80"].ridge("bf16") == pytest.approx(312e12 / 2039e9)
    assert Entry(matrix_tflops={"f32": 1.0}).ridge("f32") is None


@pytest.mark.parametrize(
    ("name", "memory", "units", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 85_018_279_936, 132, "h100-sxm"),
        ("NVIDIA H100 PCIe", 85_018_279_936, 114, "h100-pcie"),
        ("NVIDIA H100 NVL", None, None, "h100-nvl"),
        ("NVIDIA H100", 85_018_279_936, 114, "h100-pcie"),
        ("Tesla V100-SXM2-16GB", 16_944_988_160, 80, "v100-sxm2-16"),
        ("Tesla V100-DGXS-32GB", 34_087_305_216, 80, "v100-sxm2-32"),
        ("Tesla V100-PCIE-32GB", None, None, "v100-pcie-32"),
        ("NVIDIA A100-SXM4-80GB", None, None, "a100-sxm-80"),
        ("NVIDIA A100-SXM4-40GB", None, None, "a100-sxm-40"),
        ("NVIDIA A100 80GB PCIe", None, None, "a100-pcie-80"),
        ("NVIDIA A100-PG509-200", 42_297_524_224, 108, "a100-sxm-40"),
        ("AMD Instinct MI300X", 206_141_652_992, 304, "mi300x"),
        ("AMD Instinct MI250X", 68_702_699_520, 110, "mi250x-gcd"),
        ("AMD Instinct MI250X", 137_405_399_040, 220, "mi250x"),
        ("AMD Radeon Graphics", 68_702_699_520, 104, "mi250-gcd"),
        ("NVIDIA B200", 191_503_138_816, 148, "b200"),
        ("NVIDIA GB200", None, None, "gb200"),
        ("NVIDIA L4", None, None, "l4"),
        ("NVIDIA L40S", None, None, "l40s"),
        ("Tesla T4", None, None, "t4"),
        ("nvidia geforce rtx 4090", None, None, "rtx-4090"),
    ],
)
def test_names_of_traces_are_matched(name: str, memory: int | None, units: int | None, expected: str) -> None:
    found = match(Device(name, memory, units), choose().entries)
    assert found.entry is not None
    assert (found.entry.id, found.doubt) == (expected, None)


def test_what_a_name_leaves_open_is_said() -> None:
    assert _matched("NVIDIA A100", memory_bytes=42_297_524_224) == (
        "a100-sxm-40", "NVIDIA A100 may also be a100-pcie-40",
    )  # fmt: skip


def test_memory_bandwidth_of_the_driver_decides() -> None:
    found = _matched("NVIDIA H100", memory_bytes=85_018_279_936, memory_bytes_per_s=2_039 * GB)
    assert found == ("h100-pcie", None)


def test_a_known_name_with_other_properties_is_doubted() -> None:
    name, doubt = _matched("NVIDIA B200", memory_bytes=48 * GB)
    assert name == "b200"
    assert doubt == "NVIDIA B200 has other memory or units than the table's NVIDIA B200"


@pytest.mark.parametrize("name", ["NVIDIA A10G", "Quadro P400", "xH100x", "", "L40"])
def test_unknown_devices_have_no_entry(name: str) -> None:
    assert _matched(name)[0] is None


def test_no_name_no_entry() -> None:
    assert _matched(None) == (None, "the file names no device")


def test_a_users_file_changes_an_entry_and_adds_another(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        """
        [h100-sxm]
        memory_gb_per_s = 3000
        matrix_tflops = { bf16 = 800 }
        [lab]
        like = "a100-sxm-80"
        name = "Lab GPU"
        matches = ["Lab GPU"]
        link_gb_per_s = 10
        sources.link = "measured"
        """
    )
    both = read_file(file)
    changed, added = both["h100-sxm"], both["lab"]
    assert changed.name == "NVIDIA H100 SXM 80 GB"
    assert (changed.memory_gb_per_s, changed.link_gb_per_s) == (3000, 450)
    assert (changed.matrix_tflops["bf16"], changed.matrix_tflops["f8"]) == (800, 1979)
    assert (changed.sources.memory, changed.sources.peaks) == ("my.toml", "my.toml")
    assert changed.sources.link == "NVIDIA H100 datasheet, 2023"
    assert (added.id, added.name, added.link_gb_per_s, added.memory_gb) == ("lab", "Lab GPU", 10, 80)
    assert added.sources.link == "measured"
    chosen = choose(str(file))
    assert chosen.all_devices is None
    assert chosen.own == {"h100-sxm", "lab"}
    assert match(Device("Lab GPU 1"), chosen.entries).entry == added
    assert match(Device("NVIDIA H100 80GB HBM3"), chosen.entries).entry == changed
    assert match(Device("NVIDIA B200"), chosen.entries).entry == table()["b200"]


def test_a_file_of_one_entry_is_for_all_devices(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text('[mine]\nkind = "cpu"\nmatrix_tflops = { f32 = 0.1 }\n')
    chosen = choose(str(file))
    assert chosen.all_devices is not None
    assert (chosen.all_devices.id, chosen.all_devices.kind) == ("mine", "cpu")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("memory_gb = 3", "memory_gb stands outside a device"),
        ("[a]\nmemory_gbs = 3", "[a]: it contains unknown field `memory_gbs`"),
        ("[a]\nmemory_gb = '3'", "[a]: Expected `float | null`, got `str` - at `memory_gb`"),
        ("[a]\nmemory_gb_per_s = -1", "[a]: Expected `float` > 0.0 - at `memory_gb_per_s`"),
        ("[a]\nmatrix_tflops = { fp16 = 1 }", "[a]: Invalid enum value 'fp16'"),
        ("[a]\nlike = 'b'", "[a]: like = b: no such hardware"),
        ("[a]\nid = 'b'", "[a] has a key id"),
        ("[a", "not TOML"),
        ("", "holds no device"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "my.toml"
    file.write_text(text)
    with pytest.raises(InputError) as raised:
        read_file(file)
    assert raised.value.what.startswith("my.toml: ")
    assert says in raised.value.what


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        choose(str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        choose(str(tmp_path / "bytes.toml"))


def test_hardware_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="h1000: no such hardware"):
        choose("h1000")
    assert choose("H100-SXM").all_devices == table()["h100-sxm"]
    assert choose("empirical").empirical
    assert find("zzz") == []
    assert [e.id for e in find("a100")] == ["a100-sxm-40", "a100-sxm-80", "a100-pcie-40", "a100-pcie-80"]
    assert [e.id for e in find("MI300X")] == ["mi300x"]


def test_entries_keep_the_order_of_the_file() -> None:
    assert list(read_entries("[b]\n[a]\n", "x.toml")) == ["b", "a"]
