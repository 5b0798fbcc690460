"""What the operator allows builds. Runs that build nothing import it, so it imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """What the operator allows builds."""

    #: ``--allow-network-builds``: the network, where the component's file asks for it.
    network: bool = False
    #: ``--allow-unconfined-builds``: to run as the operator where the kernel cannot confine them.
    unconfined: bool = False
    #: The component whose command is the operator's own (``bisect --build``), which nothing confines.
    own: str = ""


NONE = Permissions()
