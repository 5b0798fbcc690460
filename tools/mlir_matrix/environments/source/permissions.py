"""Define the permissions of builds. Runs that build nothing import this module, so it must import nothing slow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Permissions that the operator gives to builds."""

    #: ``--allow-network-builds``: to use the network, if the component's file requests it.
    network: bool = False
    #: ``--allow-unconfined-builds``: to run as the operator if the kernel cannot isolate them.
    unconfined: bool = False
    #: The component that the operator's own command builds (``bisect --build``). That command is not isolated.
    own: str = ""


NONE = Permissions()
