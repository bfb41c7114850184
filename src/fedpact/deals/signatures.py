"""Members' keys and signatures: ECDSA on the curve P-384 with SHA-384, as Flower's nodes prove themselves.

A member signs a document: plain data, written in the one way that ledgers write it, after words that say what the
signature is for. Its key is a file in OpenSSH format, so that `ssh-keygen -t ecdsa -b 384` makes one as well; public
keys are compared without their comments. Signatures and digests are hexadecimal.

It needs the package cryptography: `pip install "fedpact[signatures]"`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpact.deals.ledger import canonical_json
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import PRIVATE, read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

PURPOSE = b"fedpact signs this document, version 1\n"  # no signature made for anything else is one of a document
CURVE = "secp384r1"
MAX_KEY_LENGTH = 1000  # characters of a public key
KEY_RULE = "must be an ECDSA key on the curve P-384 in OpenSSH format, as `fedpact flower key` makes"


@dataclass(frozen=True, eq=False)
class SigningKey:
    """A member's private key."""

    private: EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, in OpenSSH format without a comment."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

        return self.private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    def sign(self, document: Mapping[str, Any]) -> str:
        """The signature of a document."""
        return self.sign_bytes(PURPOSE + canonical_json(document))

    def sign_bytes(self, content: bytes) -> str:
        """The signature of bytes, which say themselves what they are for."""
        return self.private.sign(content, _ecdsa()).hex()

    def private_bytes(self) -> bytes:
        """The private key, in OpenSSH format."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

        return self.private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def document_digest(document: Mapping[str, Any]) -> str:
    """A number for a document."""
    return hashlib.sha256(PURPOSE + canonical_json(document)).hexdigest()


def is_signed_by(public: Any, document: Mapping[str, Any], signature: Any) -> bool:
    """Whether a signature is that of a document by the owner of a public key; whatever is not one is none."""
    return is_signature(public, PURPOSE + canonical_json(document), signature)


def is_signature(public: Any, content: bytes, signature: Any) -> bool:
    """Whether a signature is that of bytes by the owner of a public key."""
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    if not isinstance(signature, str) or not isinstance(public, str):
        return False
    try:
        load_public_key(public).verify(bytes.fromhex(signature), content, _ecdsa())
    except (InvalidSignature, InvalidInput, ValueError):
        return False
    return True


def load_public_key(text: str) -> EllipticCurvePublicKey:
    """The public key that a text in OpenSSH format holds."""
    if len(text) > MAX_KEY_LENGTH:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {len(text)} characters")
    return _public_key(" ".join(text.split()[:2]))


def plain_key(text: Any) -> str:
    """A public key without its comment, checked."""
    if not isinstance(text, str):
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}")
    load_public_key(text)
    return " ".join(text.split()[:2])


@lru_cache(maxsize=256)
def _public_key(text: str) -> EllipticCurvePublicKey:
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key  # noqa: PLC0415

    try:
        found = load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}") from error
    if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name != CURVE:
        raise InvalidInput(f"a member's public key {KEY_RULE}, got {short_repr(text)}")
    return found


def new_signing_key() -> SigningKey:
    """A key that nobody has had before."""
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return SigningKey(ec.generate_private_key(ec.SECP384R1()))


def read_signing_key(path: Path) -> SigningKey:
    """The private key in a file."""
    with error_context(str(path)):
        return parse_signing_key(read_bytes(path))


def parse_signing_key(content: bytes) -> SigningKey:
    """The private key in a text in OpenSSH format."""
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key  # noqa: PLC0415

    try:
        found = load_ssh_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(f"a member's key {KEY_RULE}, without a passphrase: {error}") from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name != CURVE:
        raise InvalidInput(f"a member's key {KEY_RULE}")
    return SigningKey(found)


def write_signing_key(path: Path, *, name: str = "") -> SigningKey:
    """Make a key: the private one goes to `path`, which nobody else may read, the public one to `path`.pub.

    Parameters
    ----------
    name
        Whose key it is; it is the comment of the public one.

    Raises
    ------
    InvalidInput
        If one of the files is there already: keys are not replaced.
    """
    key, public = new_signing_key(), path.with_name(path.name + ".pub")
    comment = " ".join(name.split())
    with error_context(str(path)):
        for file, text, mode in (
            (path, key.private_bytes(), PRIVATE),
            (public, f"{key.public} {comment}".rstrip().encode(), 0o644),
        ):
            try:
                with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
                    opened.write(text.rstrip() + b"\n")
            except FileExistsError as error:
                raise InvalidInput(f"{file.name} exists already; keys are not replaced: name another file") from error
            except OSError as error:
                raise InvalidInput(f"{file.name} cannot be written: {error.strerror}") from error
    return key


@dataclass(frozen=True, kw_only=True)
class KnownKeys:
    """Public keys that are known from elsewhere than the coordinator.

    Attributes
    ----------
    by_name, by_place
        Those whose comment is a member's name, and those of files `node-PLACE.key.pub`.
    """

    by_name: Mapping[str, str] = field(default_factory=dict)
    by_place: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether there are any."""
        return bool(self.by_name or self.by_place)

    def key_of(self, name: str, place: int) -> str | None:
        """A member's key, if it is known."""
        return self.by_name.get(name, self.by_place.get(place))


def read_known_keys(path: Path) -> KnownKeys:
    """Public keys in a file, one per line, or in the .pub files of a folder.

    Whose key it is its comment says, the member's name: `ecdsa-sha2-nistp384 AAAA... University`. Of a file
    `node-2.key.pub` without a comment the number says it, the member's place.
    """
    files = sorted(path.glob("*.pub")) if path.is_dir() else [path]
    by_name: dict[str, str] = {}
    by_place: dict[int, str] = {}
    for file in files:
        place = re.fullmatch(r"node-(\d+)(\.key)?\.pub", file.name)
        with error_context(str(file)):
            for line in read_bytes(file).decode(errors="replace").splitlines():
                if not line.strip():
                    continue
                key, name = plain_key(line), " ".join(line.split()[2:])
                if name and by_name.setdefault(name, key) != key:
                    raise InvalidInput(f'there are two keys of "{name}"; keep the right one')
                if not name and place is None:
                    raise InvalidInput("a public key must end in the name of the member it belongs to")
                if not name and place is not None:
                    by_place[int(place[1])] = key
    if not by_name and not by_place:
        raise InvalidInput(f"{path}: there is no public key in it; members' keys are files that end in .pub")
    return KnownKeys(by_name=by_name, by_place=by_place)


def _ecdsa() -> Any:
    _require_cryptography()
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return ec.ECDSA(hashes.SHA384())


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("What checks signatures", "signatures") from error
