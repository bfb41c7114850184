"""Certificates for a SuperLink, and keys for nodes to prove who they are.

A certificate authority of our own signs the SuperLink's certificate, so that nodes know whom they talk to. Nodes prove
themselves with ECDSA keys (P-384): the private key stays with the organisation, the public one is registered at the
SuperLink. Organisations should make their own (`fedpact flower key`), which bear their names; those made here are for
a rehearsal and bear none.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedpact.deals.signatures import new_signing_key
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import make_folder, replace_files

CLOCKS = timedelta(hours=1)  # by how much clocks may be apart
Key = ec.EllipticCurvePrivateKey


def write_keys(folder: Path, *, host: str, nodes: int = 0, days: int = 365) -> list[Path]:
    """Write `ca.crt`, `ca.key`, `server.crt`, `server.key` and, per node k, `node-k.key` and `node-k.key.pub`.

    `host` is the name or address by which nodes reach the SuperLink, `days` for how long the certificates are valid.
    """
    if not host.strip() or days < 1 or nodes < 0:
        raise InvalidInput(f"host must be a name or an address and days at least 1, got {host!r} and {days}")
    authority, server = new_signing_key().private, new_signing_key().private
    root = _certificate("fedpact rehearsal CA", authority, authority, None, days, host=None)
    own = _certificate(host, server, authority, root, days, host=host)
    pem = serialization.Encoding.PEM
    contents = {"ca.crt": root.public_bytes(pem), "server.crt": own.public_bytes(pem)}
    for name, key in (("ca.key", authority), ("server.key", server)):
        contents[name] = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for index in range(nodes):
        member = new_signing_key()
        contents |= {f"node-{index}.key": member.private_bytes(), f"node-{index}.key.pub": member.public.encode()}
    with error_context(str(folder)):
        _write(folder, contents)
    return [folder / name for name in contents]


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    there = [name for name in contents if (folder / name).exists()]
    if there:
        raise InvalidInput(f"{', '.join(there)} exist already; name another folder: keys are not replaced")
    make_folder(folder)
    for private in (True, False):
        chosen = {folder / name: part for name, part in contents.items() if name.endswith(".key") is private}
        replace_files(chosen, private=private)


def _certificate(
    name: str, key: Key, authority: Key, root: x509.Certificate | None, days: int, *, host: str | None
) -> x509.Certificate:
    """A certificate signed by the authority; of itself if there is no root yet."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(root.subject if root is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=root is None, path_length=0 if root is None else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=root is None), critical=True)
    )
    if host is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(host)), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(authority, hashes.SHA384())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    signs = {"digital_signature": True, "key_cert_sign": signs_certificates, "crl_sign": signs_certificates}
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(**signs, **dict.fromkeys((*others, "encipher_only", "decipher_only"), False))


def _alternatives(host: str) -> list[x509.GeneralName]:
    """The host, and this machine: the coordinator's own processes reach the SuperLink there."""
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        try:
            address = x509.DNSName(host)
        except ValueError as error:
            raise InvalidInput(f"host must be a name or an address, got {host!r}") from error
    return names if address in names else [*names, address]
