"""The documentation agrees with the catalogue."""

import math
from pathlib import Path

import icvi_jax as icvi

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "indices.md"


def rows():
    words = {math.inf: "∞", -math.inf: "−∞"}
    for e in icvi.indices.catalogue():
        low, high = (words.get(end, f"{end:g}") for end in e.range)
        yield f"| `{e.name}` | {e.index.__name__} | {e.goal} | {low} … {high} | {e.meaning} |"


def test_the_table_of_indices_says_what_the_catalogue_says():
    """The build of the site makes the table again, with all indices; the table in the file may lack the newest."""
    table = PAGE.read_text().split("<!-- catalogue -->")[1].split("<!-- /catalogue -->")[0].strip().splitlines()
    known = list(rows())
    assert [row for row in known if row in table] == table[2:], "paste this:\n" + "\n".join(known)
