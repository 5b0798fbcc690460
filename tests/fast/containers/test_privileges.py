"""What a container is asked to be: the least that an action can do with."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from mlir_matrix.containers import privileges
from mlir_matrix.containers.reaper import LABEL, me
from mlir_matrix.plan.request import Limits


def test_only_the_action_s_folder_can_be_written() -> None:
    binds = privileges.action_binds("/s/1", Path("/b"))
    assert [bind for bind in binds if bind.endswith(":rw")] == ["/s/1:/work/action:rw"]
    assert "/s/1/in:/work/action/in:ro" in binds
    assert "/b:/matrix/bytecode:ro" in binds
    assert [bind for bind in privileges.precompile_binds(Path("/b")) if bind.endswith(":rw")] == [
        "/b:/matrix/bytecode:rw"
    ]


def test_what_is_taken_away() -> None:
    host = privileges.host_config(binds=[], memory_mb=100, cpus=1.5)
    assert (host["network_mode"], host["ipc_mode"], host["read_only"]) == ("none", "none", True)
    assert {words.split(",")[0] for words in host["tmpfs"].values()} == {"ro"}, "nor is there other room to write to"
    assert (host["cap_drop"], host["security_opt"]) == (["ALL"], ["no-new-privileges"])
    assert host["mem_limit"] == host["memswap_limit"] == 100 << 20
    assert (host["nano_cpus"], host["pids_limit"]) == (1_500_000_000, privileges.MOST_PROCESSES)


def test_limits_are_no_higher_than_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman without root could not set others."""
    monkeypatch.setattr(
        resource, "getrlimit", {resource.RLIMIT_NOFILE: (1024, 4096), resource.RLIMIT_NPROC: (-1, -1)}.get
    )
    found = {each["Name"]: each for each in privileges.host_config(binds=[], memory_mb=1, cpus=1)["ulimits"]}
    assert found["nofile"] == {"Name": "nofile", "Soft": 1024, "Hard": 1024}
    assert privileges.MOST_PROCESSES < found["nproc"]["Soft"] == found["nproc"]["Hard"]


def test_it_says_whose_it_is() -> None:
    made = privileges.config(["x"], privileges.User(inside="1:1"))
    assert made["labels"] == {LABEL: str(me())}
    assert made["environment"]["PATH"] == ""
    assert made["environment"]["HOME"] == "/work/action"


@pytest.mark.parametrize(
    ("uid", "rootless", "inside", "owner"),
    [(0, False, "10001:10001", 10001), (1000, False, "1000:1001", -1), (1000, True, "0:0", -1), (0, True, "0:0", -1)],
)
def test_never_the_machine_s_root(
    uid: int, rootless: bool, inside: str, owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: uid + 1)
    assert privileges.choose_user(10001, rootless=rootless) == privileges.User(inside=inside, owner=owner)


def test_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert privileges.cpus_of({"passes"}, Limits(jobs=4)) == 2
    assert privileges.cpus_of({"passes"}, Limits(jobs=16)) == 1
    assert privileges.cpus_of({"link", "link_kit"}, Limits(jobs=4)) == 8


def test_memory_is_the_action_s_and_the_worker_s() -> None:
    assert privileges.memory_of(Limits(jobs=1, memory_mb=500)) > 500
