"""Make a mail of a report, and give it to the machine's sendmail."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import harmless

#: Where sendmail is if it is not on PATH, as in cron.
_USUAL = "/usr/sbin/sendmail"
#: An address without comments, quotes and lists; or a user of this machine.
_ADDRESS = re.compile(r"[A-Za-z0-9][\w.+=-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,252})?", re.ASCII)


def read_address(address: str) -> str:
    """Return an address. Raise UsageError."""
    if not _ADDRESS.fullmatch(address):
        raise UsageError(f"--mail {printable(address)}: expected an address, e.g. lab@example.org")
    return address


def make_mail(subject: str, text: str, addresses: Sequence[str]) -> bytes:
    """Return a mail. Control characters become text, so that the subject adds no header."""
    message = EmailMessage(policy=SMTP.clone(linesep="\n"))
    message["Subject"] = printable(subject, 200)
    if addresses:
        message["To"] = ", ".join(addresses)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(harmless(text))
    return message.as_bytes()


def send(mail: bytes) -> None:
    """Give a mail to sendmail, which reads the addresses in it. Raise InfrastructureError."""
    program = shutil.which("sendmail") or shutil.which(_USUAL)
    if not program:
        raise InfrastructureError(
            f"no sendmail on PATH or at {_USUAL}: install a mail transfer agent such as msmtp-mta, or give the mail to "
            "another program: matrix history today --format mail | …"
        )
    # -i: a line with a dot alone does not end the mail.
    done = subprocess.run([program, "-t", "-i"], input=mail, capture_output=True, check=False)
    if done.returncode:
        reason = printable((done.stderr or done.stdout).decode(errors="replace").strip(), 300)
        raise InfrastructureError(f"{program} did not take the mail (exit code {done.returncode}): {reason}")
