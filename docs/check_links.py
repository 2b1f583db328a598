"""Check every link of the built site: `python docs/check_links.py docs/_build/html`.

Links inside the site must have a target. Links to other sites are not opened; they must be https and have a host name.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page."""
    return frozenset(re.findall(r'\bid="([^"]+)"', page.read_text(errors="ignore")))


def broken(page: Path, link: str) -> bool:
    """Whether a link of a page has no target, or is not a proper address of another site."""
    parts = urlsplit(link)
    if parts.scheme in ("data", "mailto"):
        return False
    if parts.scheme or parts.netloc:
        return parts.scheme != "https" or not re.fullmatch(r"([\w-]+\.)+[a-z]{2,}", parts.netloc)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.exists():
        return True
    return bool(parts.fragment) and target.suffix == ".html" and unquote(parts.fragment) not in anchors(target)


def main() -> int:
    """Print each broken link; returns 1 if there is one."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/_build/html")
    links = [(page, link) for page in root.rglob("*.html") for link in re.findall(r'href="([^"]+)"', page.read_text())]
    found = [(page, link) for page, link in links if broken(page, link)]
    for page, link in found:
        print(f"{page.relative_to(root)}: {link} is broken")
    print(f"{len(links)} links, {len(found)} broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
