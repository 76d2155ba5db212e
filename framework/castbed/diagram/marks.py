"""What all drawings share: the colours for light and for dark surroundings, lines and words."""

from __future__ import annotations

from xml.sax.saxutils import escape

COLOURS = 6
STYLE = """
.cst{--back:#ffffff;--ink:#1f2933;--soft:#65727f;--line:#c5ccd3;--wrong:#d1242f;
--m0:#0b62c4;--m1:#0a7d55;--m2:#8250df;--m3:#a15c00;--m4:#0f7c8a;--m5:#b0389b}
@media (prefers-color-scheme:dark){.cst{--back:#171b21;--ink:#e6eaee;--soft:#9aa5b1;--line:#414b57;--wrong:#ff6b63;
--m0:#6cb0ff;--m1:#4cc38a;--m2:#b794ff;--m3:#f0a94b;--m4:#4fc3d4;--m5:#f08be0}}
.cst text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;font-size:12px;fill:var(--ink)}
.cst .head{font-size:15px;font-weight:600}.cst .words{font-size:13px}.cst .soft{fill:var(--soft);font-size:11px}
.cst .name{font-weight:600;font-size:13px}
.cst .tick{stroke:var(--line);stroke-dasharray:2 4}
""".strip()


def opening(width: int, height: int, title: str, style: str = "") -> list[str]:
    """The first parts of a self-contained picture; `</svg>` closes it."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cst" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}\n{style}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="var(--back)"/>',
    ]


def line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def words(x: float, y: float, text: str, style: str, anchor: str = "start") -> str:
    shown = escape(printable(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{shown}</text>'


def printable(text: str) -> str:
    """Without the control characters that XML does not allow."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
