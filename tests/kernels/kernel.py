# SPDX-License-Identifier: Apache-2.0
"""Debian's cloud kernels, by series ("6.1"): downloaded by apt, which checks them, into a
folder of their own, and never installed."""

import fcntl
import pathlib
import re
import subprocess
import tarfile

OLDER_TRIED = 3  # the lists may name a package that the archive no longer has


def _version(package):
    return tuple(int(number) for number in re.findall(r"\d+", package))


def packages(series):
    """Names of the series' signed cloud kernels that apt knows, newest first. The series
    ends at a dot: 6.1.0-57 and 6.12.117+deb12 are no relatives."""
    pattern = rf"^linux-image-{re.escape(series)}\.[0-9].*-cloud-amd64$"
    listed = subprocess.run(["apt-cache", "search", "--names-only", pattern], text=True,
                            stdout=subprocess.PIPE, check=True).stdout
    return sorted((line.split()[0] for line in listed.splitlines()), key=_version, reverse=True)


def _cached(folder, package):
    return max(folder.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime,
               default=None)


def _download(folder, package):
    """The package's file, or None with a word about why."""
    if not _cached(folder, package):
        result = subprocess.run(["apt-get", "download", "-q", package], cwd=folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if result.returncode != 0:
            print(f"'{package}' cannot be downloaded:\n{result.stdout}", flush=True)
    return _cached(folder, package)


def fetch(series, folder):
    """Path of the newest package of the series that can be had; None when apt knows none. One
    at a time: several tests boot the same kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetch(series, folder)


def _fetch(series, folder):
    known = packages(series)
    if not known:  # perhaps the lists were never fetched here; without root this changes nothing
        subprocess.run(["apt-get", "update", "-q"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        known = packages(series)
    if not known:
        return None
    for package in known[:OLDER_TRIED]:
        path = _download(folder, package)
        if path:
            return path
    raise RuntimeError(f"none of {', '.join(known[:OLDER_TRIED])} can be downloaded")


def unpack_image(package, destination):
    """Writes the bootable image that the package holds; nothing else of it is needed."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package],
                          stdout=subprocess.PIPE) as reader:
        with tarfile.open(fileobj=reader.stdout, mode="r|") as archive:
            for member in archive:
                if pathlib.PurePosixPath(member.name).name.startswith("vmlinuz-"):
                    destination.write_bytes(archive.extractfile(member).read())
                    break
            else:
                raise RuntimeError(f"no kernel image in '{package}'")
        reader.stdout.read()  # to the end, or dpkg-deb complains of a broken pipe
    return destination
