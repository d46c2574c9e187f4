"""An authority of a test's own, and the certificates that it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from restante.settings import ClusterSettings

DAY = timedelta(days=1)


class Authority:
    """Its certificate, and those of nodes, lie in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        basics = x509.BasicConstraints(ca=True, path_length=0)
        made = self._builder(self._name, self._key.public_key()).add_extension(basics, critical=True)
        usage = _usage(signs_certificates=True)
        self.file = folder / f"{name}.pem"
        self._write(self.file, made.add_extension(usage, critical=True).sign(self._key, hashes.SHA256()))

    def issue(self, name: str, address: str = "127.0.0.1", *, passphrase: bytes | None = None) -> ClusterSettings:
        """The settings of a node at an address, with a certificate for it."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._builder(named, key.public_key()).add_extension(where, critical=False)
        made = made.add_extension(issuer, critical=False).add_extension(_usage(), critical=True)
        certificate, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._write(certificate, made.sign(self._key, hashes.SHA256()))
        hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        forms = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        key_file.write_bytes(key.private_bytes(*forms))
        return ClusterSettings(certificate_file=str(certificate), key_file=str(key_file), authority_file=str(self.file))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        begun = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        dated = begun.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
        return dated.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)

    def _write(self, path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _usage(*, signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
