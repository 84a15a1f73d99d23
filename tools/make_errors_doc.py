#!/usr/bin/env python3
"""Makes docs/errors.md from the table TDM_STATUS_MAP in include/tandem/status.h.

make_errors_doc.py           writes the page
make_errors_doc.py --check   fails if the page is not what it would write
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/errors.md"
# first number of each group -> who can act
GROUPS = [(1, "The caller"), (10, "The machine"), (20, "The peers"), (30, "Us")]
ENTRY = re.compile(r'X\((\w+),\s*(\d+),\s*"([^"]+)"\)')

HEAD = """# Status codes

Every function that can fail returns a `tdm_status`; `tdm_error_text()` gives the full text: who, numbers, what was expected and
found, what to do next. The code says who can act. Made by `tools/make_errors_doc.py` from `include/tandem/status.h`.
"""


def page():
    header = (ROOT / "include/tandem/status.h").read_text()
    text, group = HEAD, None
    for name, number, meaning in ENTRY.findall(header):
        if int(number) == 0:
            continue
        owner = [title for first, title in GROUPS if int(number) >= first][-1]
        if owner != group:
            text += f"\n## {owner}\n\n| code | number | meaning |\n|---|---|---|\n"
            group = owner
        text += f"| `TDM_{name}` | {number} | {meaning} |\n"
    return text


def main():
    if "--check" not in sys.argv:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() == page():
        return 0
    print("docs/errors.md is not what include/tandem/status.h says: run tools/make_errors_doc.py")
    return 1


sys.exit(main())
