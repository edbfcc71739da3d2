"""Names from traces, short enough for a label; the full name stays in the tooltip."""


def short(name: str | None, most: int = 32) -> str:
    """A label for a layer path, an operator or a kernel, at most `most` characters.

    Of a path the last parts that fit; of a C++ signature the function's own name.
    """
    if not name:
        return "no layer"
    clean = "".join(c if c.isprintable() else "�" for c in name[:2000])
    own = _path(clean, most) if "/" in clean else _signature(clean, most)
    return own if len(own) <= most else "…" + own[-(most - 1) :]


def _path(path: str, most: int) -> str:
    parts = [part for part in path.split("/") if part]
    if not parts:
        return path
    kept = parts[-1]
    for part in reversed(parts[:-1]):
        if len(part) + 1 + len(kept) > most or kept.count("/") == 1:
            break
        kept = f"{part}/{kept}"
    return kept


def _signature(name: str, most: int) -> str:
    """Without return type, template arguments, parameters and, where too long, namespaces."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    cut = min((i for i in (bare.find("<"), bare.find("(")) if i > 0), default=len(bare))
    bare = bare[:cut]
    if len(bare) <= most:
        return bare
    last = bare.rsplit("::", 1)[-1]
    return last if len(last) <= most else last[: most - 1] + "…"
