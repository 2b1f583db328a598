"""A headless Chromium for looking at reports."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1400,1500",
)


def missing() -> str:
    """Why there is no browser to test with, or an empty text."""
    try:
        import selenium.webdriver  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    absent = [program for program in ("chromium", "chromedriver") if not shutil.which(program)]
    return f"there is no {' and no '.join(absent)}" if absent else ""


@contextmanager
def chromium() -> Iterator[object]:
    """Start a browser with a profile of its own, and end it."""
    from selenium import webdriver

    with TemporaryDirectory(prefix="icvi-browser-") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def open_report(driver: object, path: Path, seconds: float = 30) -> None:
    """Open a report and wait until it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(path.resolve().as_uri())
    WebDriverWait(driver, seconds).until(lambda d: d.execute_script("return document.body.dataset.ready") == "yes")


def errors(driver: object) -> list[str]:
    """What the console complains about."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
