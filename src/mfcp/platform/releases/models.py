"""A platform's releases: kept whole or not at all, used only where their hashes hold, promoted and rolled back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from mfcp.errors import DataError, MfcpError
from mfcp.files import locked, replacing_folder
from mfcp.platform.state.store import Note, Store
from mfcp.release.model import Release, verify


class Models:
    """The releases of one platform, in `home`/models/<version>, and which of them decides.

    Args:
        home: folder of the platform.
        store: knows what was added, promoted and rolled back.
    """

    def __init__(self, home: Path, store: Store) -> None:
        self.folder = Path(home) / "models"
        self.store = store

    def add(self, folder: Path, metrics: Mapping[str, float]) -> str:
        """Take a release in; its version. The first one of a platform is its champion at once.

        A release that is there already is left as it is, unless its files are damaged: then they are replaced.

        Args:
            folder: of the release; it stays where it is.
            metrics: kept with the entry.

        Raises:
            DataError: not a whole release, or no room for it.
        """
        release = Release.load(folder)
        target = self.folder / release.version
        with self._alone():
            try:
                verify(target, release.version)
            except DataError:
                self._copy(Path(folder), target)
            self.store.add_model(release.version, str(target), dict(metrics), release.data)
            self.store.refuse(release.version, None)
            if self.current() is None:
                self.promote(release.version, "the first release of this platform")
        return release.version

    def current(self) -> str | None:
        """Version of the release that was promoted last and not rolled back, whether or not its files hold."""
        stack = self._stack()
        return stack[-1] if stack else None

    def champion(self) -> Release | None:
        """The release that decides, None on a platform without any.

        One whose files are damaged is refused, which is an event of the outbox, and the one before it decides.

        Raises:
            MfcpError: none that was ever champion is whole.
        """
        versions = list(dict.fromkeys(reversed(self._stack())))
        for version in versions:
            if (release := self._trusted(version)) is not None:
                return release
        if not versions:
            return None
        raise MfcpError(
            f"{self.folder}: no champion is whole ({', '.join(versions)} are damaged or missing); restore one from a "
            "backup, or add a new release and promote it"
        )

    def challenging(self) -> str | None:
        """Version of the newest release, if it was never champion; what was rolled back does not challenge again."""
        versions = list(self.store.models()["version"])
        return versions[-1] if versions and versions[-1] not in set(self.store.champions()["version"]) else None

    def challenger(self) -> Release | None:
        """The release of `challenging`, None where its files are damaged: an event of the outbox."""
        version = self.challenging()
        return None if version is None else self._trusted(version)

    def promote(self, version: str, why: str) -> None:
        """Let a release decide from now on.

        Raises:
            DataError: unknown, or not whole.
        """
        known = list(self.store.models()["version"])
        if version not in known:
            raise DataError(f"release '{version}': not known here; known: {', '.join(known) or 'none'}")
        verify(self.folder / version, version)
        if version != self.current():
            self._crown(version, "promote", why)

    def rollback(self, why: str) -> str:
        """Let the champion before this one decide again; its version.

        Raises:
            MfcpError: there is none, or none that is whole.
        """
        stack = self._stack()
        for version in reversed(stack[:-1]):
            if self._trusted(version) is not None:
                self._crown(version, "rollback", why)
                return version
        raise MfcpError(f"{self.folder}: no earlier champion that is whole; nothing to roll back to, nothing changed")

    def _crown(self, version: str, action: str, why: str) -> None:
        event = Note(action, kind="event", content={"version": version, "before": self.current(), "why": why})
        self.store.crown(version, "promote" if action == "promote" else "rollback", why, [event])

    def _stack(self) -> list[str]:
        """Champions from the first to the current one, without those that were rolled back."""
        stack: list[str] = []
        for row in self.store.champions().itertuples():
            version = str(row.version)
            if row.action == "rollback":
                while stack and stack[-1] != version:
                    stack.pop()
            if stack[-1:] != [version]:
                stack.append(version)
        return stack

    def _trusted(self, version: str) -> Release | None:
        known = self.store.models().set_index("version")["refused"]
        try:
            release = Release.load(self.folder / version, version)
        except DataError as error:
            event = Note("model_refused", kind="event", content={"version": version, "why": str(error)})
            self.store.refuse(version, str(error), [event])
            return None
        if pd.notna(known.get(version)):
            self.store.refuse(version, None)  # mended
        return release

    def _copy(self, source: Path, target: Path) -> None:
        with replacing_folder(target) as temporary:
            for path in sorted(source.iterdir()):
                shutil.copyfile(path, temporary / path.name)
                _sync(temporary / path.name)
            verify(temporary, target.name)
            _sync(temporary)
        _sync(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process adds at a time, so that what another left half-copied when it was killed can be cleared."""
        with locked(self.folder / ".lock", wait_s=float("inf")):
            for left in self.folder.glob(".*.*"):
                shutil.rmtree(left, ignore_errors=True)
            yield


def _sync(path: Path) -> None:
    """Onto the disk itself, before anything refers to it: a machine may lose its power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
