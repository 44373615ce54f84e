"""Who may do what: bearer tokens with roles, of which the server keeps digests alone."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from cuvee.errors import InputError

VARIABLE, KEPT = "CUVEE_TOKEN", "tokens.json"
SHORTEST = 16  # characters of a token that somebody chose


class Role(IntEnum):
    """Name what a token allows; each role may do what those before it may."""

    read = 1  # targets, weights, scores, certificates
    predict = 2  # predictions, and models of any mixture
    adapt = 3  # new targets, and deleting them


@dataclass(frozen=True)
class Tokens:
    """Hold the role and the SHA-256 of every token."""

    known: tuple[tuple[Role, bytes], ...]

    def role(self, header: str | None) -> Role | None:
        """Return the role that an Authorization header stands for, or None.

        >>> Tokens.read("predict a-long-enough-token").role("Bearer a-long-enough-token").name
        'predict'
        """
        return self.find(header)[0]

    def find(self, header: str | None) -> tuple[Role | None, bytes]:
        """Return the role that an Authorization header stands for, and the SHA-256 of its token.

        However the header is spelt, the digest of one token is the same. Every token is compared in
        constant time, and all of them always are.
        """
        scheme, _, token = (header or "").partition(" ")
        digest = _digest(token.strip())
        role = None
        for kept, expected in self.known:
            if hmac.compare_digest(digest, expected) and scheme.lower() == "bearer":
                role = kept
        return role, digest

    @classmethod
    def read(cls, text: str, where: str = "the tokens") -> Tokens:
        """Return the tokens of a text: a token alone, or lines with a role and its token each."""
        known = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            role, token = ("adapt", words[0]) if len(words) == 1 else (words[0], words[1])
            if role not in Role.__members__ or len(words) > 2:
                raise InputError(
                    f"{where}: line {number} must be a token, or one of "
                    f"{', '.join(Role.__members__)}, a space and a token"
                )
            if len(token) < SHORTEST:
                raise InputError(
                    f"{where}: the token of line {number} has fewer than {SHORTEST} characters; "
                    "choose a longer one"
                )
            known.append((Role[role], _digest(token)))
        if not known:
            raise InputError(f"{where} holds no token; write one into it")
        return cls(tuple(known))


def tokens_of(
    file: Path | None, environment: Mapping[str, str], folder: Path | None
) -> tuple[Tokens, str | None]:
    """Return the tokens of a server, and the new one to show where one was made.

    They come from the file, or else from the variable CUVEE_TOKEN, or else from `folder`, where the
    digest of the token that was made at first start is kept. Without a folder that can be written a
    token is made at every start.
    """
    if file is not None:
        try:
            return Tokens.read(file.read_text(encoding="utf-8"), str(file)), None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {error}; give another --token-file") from None
    if environment.get(VARIABLE):
        return Tokens.read(environment[VARIABLE], f"the variable {VARIABLE}"), None
    if folder is not None and (folder / KEPT).exists():
        return _kept(folder / KEPT), None
    token = secrets.token_urlsafe(32)
    if folder is not None:
        content = json.dumps({"format": 1, "adapt": _digest(token).hex()})
        handle = os.open(folder / KEPT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w") as kept:
            kept.write(content)
    return Tokens(((Role.adapt, _digest(token)),)), token


def _kept(path: Path) -> Tokens:
    try:
        content = json.loads(path.read_bytes())
        return Tokens(((Role.adapt, bytes.fromhex(content["adapt"])),))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} cannot be read: remove it, and a new token is made and shown"
        ) from None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
