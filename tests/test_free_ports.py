"""The ports that tests use are theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import free_ports


def test_a_port_is_given_once_and_below_those_of_outgoing_connections() -> None:
    given = [free_ports.free_port() for _ in range(50)]
    assert len(set(given)) == 50
    system = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if system.exists():
        assert max(given) < int(system.read_text().split()[0])


def test_another_run_of_the_tests_does_not_get_it() -> None:
    port = free_ports.free_port()
    asked = (
        "import sys, free_ports; from pathlib import Path; import tempfile, os;"
        "folder = Path(tempfile.gettempdir()) / f'beforehand-test-ports-{os.getuid()}';"
        f"sys.exit(free_ports._hold({port}, folder / '{port}'))"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=Path(__file__).parent, check=False)
    assert done.returncode == 0
