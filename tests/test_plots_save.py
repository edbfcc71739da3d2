"""Charts as files, names as labels, labels that keep apart."""

import json
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.plots import labels, save, theme
from mdtrace.plots.names import short
from mdtrace.plots.roofline import roofline
from plot_rows import points, roofs

HOSTILE = "</script><script>alert(1)</script><!--"


def test_pictures_are_made_without_a_browser() -> None:
    chart = roofline(points({}), roofs())
    picture = save.png(chart, "dark", scale=1)
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 860
    assert height > 420
    drawing = save.svg(chart)
    assert drawing.startswith("<svg")
    assert "bf16 matrix 100 TFLOP/s" in drawing


def test_dark_and_light_differ_in_ink_alone() -> None:
    light, dark = theme.config("light"), theme.config("dark")
    assert light["background"] != dark["background"]
    assert light.keys() == dark.keys()


def test_a_page_needs_no_network_and_holds_hostile_names_as_text() -> None:
    page = save.html([roofline(points({"name": HOSTILE}), roofs())], f"Roofline of {HOSTILE}")
    assert "default-src 'none'" in page
    assert "alert(1)</script>" not in page
    assert "<title>Roofline of &lt;/script&gt;" in page
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=", page.replace(save.scripts(), ""))
    (found,) = re.findall(r'<script type="application/json" class="spec"[^>]*>(.*?)</script>', page)
    assert HOSTILE in json.dumps(json.loads(found))  # whole, for the tooltip


@given(st.text())
def test_json_in_a_script_element_reads_back_and_has_no_tag(text: str) -> None:
    held = save.script_json({"name": text})
    assert not set("<>&\u2028\u2029") & set(held)
    assert json.loads(held) == {"name": text}


def test_json_is_vega_lite() -> None:
    spec = json.loads(save.vega_lite(roofline(points({}), roofs())))
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    assert spec["config"]["background"] == "#ffffff"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("DistributedDataParallel_0/ResNet_0/BasicBlock_7/Conv2d_18", "BasicBlock_7/Conv2d_18"),
        ("aten::add", "aten::add"),
        ("void at::native::vectorized_elementwise_kernel<4, at::Fn>(int)", "vectorized_elementwise_kernel"),
        ("void at::native::(anonymous namespace)::max_pool<float>(int)", "at::native::max_pool"),
        (None, "no layer"),
        ("", "no layer"),
        ("///", "///"),
        ("evil\x1b[2Jname", "evil�[2Jname"),
        ("void <weird", "<weird"),
    ],
)
def test_names_are_shortened(name: str | None, label: str) -> None:
    assert short(name) == label


@given(st.text(max_size=200))
def test_labels_have_a_length_that_fits(name: str) -> None:
    assert 0 < len(short(name, 20)) <= 20


@given(
    st.lists(
        st.tuples(st.floats(0, 400), st.floats(0, 200), st.text("ab", min_size=1, max_size=12)), max_size=40
    )
)
def test_labels_never_lie_on_each_other(places: list[tuple[float, float, str]]) -> None:
    spots = [labels.Spot(x, y, 3, text) for x, y, text in places]
    sides = labels.beside(spots, labels.Room(400, 200), 12)
    assert len(sides) <= 12
    boxes = []
    for number, side in sides.items():
        spot, length = spots[number], 6.2 * len(spots[number].label)
        left = spot.x + spot.reach if side == "right" else spot.x - spot.reach - length
        boxes.append((left, left + length, spot.y - 6.5, spot.y + 6.5))
    for one in boxes:
        assert one[0] >= 0
        assert one[1] <= 400
        apart = [
            o is one or o[0] >= one[1] or one[0] >= o[1] or o[2] >= one[3] or one[2] >= o[3] for o in boxes
        ]
        assert all(apart)
