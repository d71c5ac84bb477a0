"""Certificates and keys as files, made for one test."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

NAMES = (x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")))


def write_pair(folder: Path, *, days: float = 90, key_type: str = "ec", passphrase: bytes | None = None) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key: FOLDER/tls.crt and FOLDER/tls.key, replaced if they are there."""
    key = ec.generate_private_key(ec.SECP256R1()) if key_type == "ec" else rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "narthex test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(NAMES), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
    return _replace(folder / "tls.crt", certificate.public_bytes(pem)), _replace(folder / "tls.key", private)


def _replace(path: Path, content: bytes) -> Path:
    partial = path.with_name(path.name + ".new")
    partial.write_bytes(content)
    partial.chmod(0o600)
    return partial.replace(path)
