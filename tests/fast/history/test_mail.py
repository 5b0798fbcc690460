"""Mails of reports: no text adds a header, and no address is an option or a list."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.history.mail import make_mail, read_address, send


@given(st.text(), st.text())
def test_headers_are_ours(subject: str, text: str) -> None:
    found = message_from_bytes(make_mail(subject, text, ["lab@example.org", "root"]), policy=default)
    assert set(found.keys()) <= {
        "Subject", "To", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
    }  # fmt: skip
    assert (found["To"], found.defects) == ("lab@example.org, root", [])
    assert len(str(found["Subject"]).splitlines()) <= 1


def test_a_body_is_kept() -> None:
    found = message_from_bytes(make_mail("s\r\nBcc: evil@example.org", "a → b\n.\nTo: x\x1b[31m", []), policy=default)
    assert (found["Subject"], found["Bcc"], found["To"]) == ("s\\r\\nBcc: evil@example.org", None, None)
    assert found.get_content() == "a → b\n.\nTo: x\\x1b[31m\n"


@pytest.mark.parametrize(
    "address", ["", "-oQ/tmp", "a@b\nBcc: c@d", "a, b", "a@b@c", "a b", "<a@b>", "a@", "@b", "a@-b", "|sh", "x" * 400]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match=r"^--mail .*: expected an address, e\.g\. lab@example\.org$"):
        read_address(address)


def test_without_sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mlir_matrix.history.mail._USUAL", "/nowhere/sendmail")
    with pytest.raises(
        InfrastructureError, match="no sendmail on PATH or at /nowhere/sendmail: install a mail transfer"
    ):
        send(b"")
