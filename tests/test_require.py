"""What a test needs and does not find: a reason to skip, and with CI=true to fail."""

import pytest


def test_a_missing_program_skips_and_with_ci_fails(require, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs no_such_program, which"):
        require("pytest", "no_such_program")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs no_such_program, which"):
        require("pytest", "no_such_program")
    require("pytest")
