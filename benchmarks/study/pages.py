"""Write the pages of the study, and their pictures, from the stored numbers: `python benchmarks/study/pages.py`.

No number is typed by hand: tables and sentences come from docs/study/results. `--text` leaves the pictures as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from string import Template

import page_answer
import page_believe
import page_k
import page_paper
from store import RESULTS, read

HERE = Path(__file__).resolve().parent
PAGES = {"temporal": page_answer, "believe": page_believe, "k": page_k, "paper": page_paper}


def filled(name, facts):
    """A template with its blanks filled."""
    return Template((HERE / "templates" / f"{name}.md").read_text(encoding="utf-8")).substitute(facts)


def overview(facts):
    """What the first page asks for: the answers in short."""
    believe = page_believe.misleading(read(RESULTS / "believe.csv"))
    return {
        "verdict": facts["temporal"]["verdict"],
        "failures": len(believe),
        "lost": facts["k"]["lost"],
        "k_streams": facts["k"]["streams"],
        "same": facts["paper"]["same"],
        "claims": facts["paper"]["claims"],
    }


def texts():
    """The text of every page by name."""
    facts = {name: part.facts() for name, part in PAGES.items()}
    return {name: filled(name, found) for name, found in {"index": overview(facts), **facts}.items()}


def pictures():
    """Draw all pictures again."""
    page_answer.picture(read(RESULTS / "answer.csv"))
    page_believe.pictures(read(RESULTS / "believe.csv"))
    page_k.pictures(read(RESULTS / "which_k.csv"))
    page_paper.picture(read(RESULTS / "paper_streams.csv"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", action="store_true", help="no pictures")
    options = parser.parse_args()
    for name, text in texts().items():
        (RESULTS.parent / f"{name}.md").write_text(text, encoding="utf-8")
    if not options.text:
        pictures()


if __name__ == "__main__":
    main()
