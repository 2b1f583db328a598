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
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no other machine is asked for anything
    "--hide-scrollbars",
    "--window-size=1400,1500",
)


NEEDED = ("selenium", "chromium", "chromedriver")


@contextmanager
def chromium() -> Iterator[object]:
    """Start a browser with its own profile, and end it."""
    from selenium import webdriver

    with TemporaryDirectory(prefix="icvi-browser-") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        driver = webdriver.Chrome(options=options, service=service)
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
