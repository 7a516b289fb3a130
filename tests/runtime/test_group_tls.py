"""Groups over TLS: members show certificates with their names, and nobody else is let in."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from test_group import addresses, until

from beforehand.errors import InputError
from beforehand.runtime import Group, TcpTransport, Tls

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path, name: str) -> Path:
    made = folder / f"{name}.pem"
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", folder / f"{name}.key", "-out", made),
    )
    return made


def certificate(folder: Path, member: str, signed_by: Path) -> Tls:
    """For a member, as its common name."""
    key, request, made = (folder / f"{member}-{signed_by.stem}.{end}" for end in ("key", "csr", "pem"))
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={member}", "-keyout", key, "-out", request)
    signing = ("-CA", signed_by, "-CAkey", signed_by.with_suffix(".key"), "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", request, *signing, "-out", made)
    return Tls(made, key, signed_by)


def test_members_with_their_own_certificates_are_let_in_and_others_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    a, b = certificate(tmp_path, "a", ours), certificate(tmp_path, "b", ours)
    stranger = certificate(tmp_path, "b", theirs)
    other_name = certificate(tmp_path, "c", ours)

    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", peers, transport=TcpTransport(tls=a)) as here:
            for wrong in (TcpTransport(tls=stranger), TcpTransport(tls=other_name), TcpTransport()):
                caplog.clear()
                async with Group("b", peers, transport=wrong) as there:
                    sending = asyncio.create_task(there.send(b"let me in"))
                    await asyncio.sleep(0.5)
                    await sending
                    assert there.figures().transport.connected == set()
                    await there.close(timeout=0)
                assert here.figures().delivered == 0
            async with Group("b", peers, transport=TcpTransport(tls=b)) as there:
                await there.send(b"hello")
                await until(lambda: here.figures().delivered == 1)

    asyncio.run(run())


def test_certificates_that_cannot_be_used_are_told_of(tmp_path: Path) -> None:
    missing = Tls(tmp_path / "c.pem", tmp_path / "k.pem", tmp_path / "a.pem")

    async def run() -> None:
        with pytest.raises(InputError, match="the certificates of the group cannot be used"):
            await Group("a", {"a": "127.0.0.1:0"}, transport=TcpTransport(tls=missing)).open()

    asyncio.run(run())
