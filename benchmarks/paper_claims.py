"""The paper's claims, measured: the table of `notebooks/paper.py` without a notebook.

Run `python benchmarks/paper_claims.py` (about a minute). The claims on recordings need the published files:
`--lg` a SensorScope meteo file of Le Genepi with station 18, `--gsa` the UCI file ethylene_CO.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "notebooks"))

import claims
import study


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40, help="how many draws of each stream")
    parser.add_argument("--lg", type=Path, help="SensorScope Le Genepi meteo file with station 18")
    parser.add_argument("--gsa", type=Path, help="UCI gas sensor array under dynamic mixtures, ethylene_CO.txt")
    parser.add_argument("--gsa-start", type=int, default=0, help="first second of the gas recording")
    parser.add_argument("--gsa-length", type=int, default=300, help="seconds of the gas recording")
    chosen = parser.parse_args(arguments)
    for path in (chosen.lg, chosen.gsa):
        if path is not None and not path.is_file():
            parser.error(f"{path}: there is no such file")
    found = claims.table(study.run_all(range(chosen.seeds)), chosen.lg, chosen.gsa, chosen.gsa_start, chosen.gsa_length)
    print(f"{chosen.seeds} draws of each stream\n")
    print(claims.as_text(found))


if __name__ == "__main__":
    main()
