"""Make the certificates beside this file anew; needs `cryptography`, which the tests do not.

They are for nothing but these tests: their keys are no secret.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = Path(__file__).parent
Key = ec.EllipticCurvePrivateKey
Times = tuple[datetime, datetime]
Extension = tuple[x509.ExtensionType, bool]
LONG = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC))
OVER = (LONG[0], LONG[0] + timedelta(days=30))


def named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def made(key: Key, names: tuple[str, str], by: Key, times: Times, *extensions: Extension) -> bytes:
    builder = x509.CertificateBuilder(
        *map(named, names), key.public_key(), x509.random_serial_number(), *times
    )
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
    for extension, critical in ((own, False), (signer, False), *extensions):
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def for_server(*names: str) -> tuple[Extension, Extension]:
    said: list[x509.GeneralName] = [x509.DNSName(name) for name in names if not name[0].isdigit()]
    said += [x509.IPAddress(ip_address(name)) for name in names if name[0].isdigit()]
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (x509.SubjectAlternativeName(said), False), (usage, False)


def private(key: Key) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def main() -> None:
    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    rights = (x509.BasicConstraints(ca=True, path_length=0), True), (usage, True)
    right = for_server("hooks.example.org", "127.0.0.1")
    authority = made(root, ("tests", "tests"), root, LONG, *rights)
    (HERE / "authority.pem").write_bytes(authority)
    leaves = {
        "good": made(key, ("tests", "good"), root, LONG, *right),
        "expired": made(key, ("tests", "expired"), root, OVER, *right),
        "other": made(key, ("tests", "other"), root, LONG, *for_server("other.example.org")),
        "self": made(key, ("self", "self"), key, LONG, *right),
    }
    for name, leaf in leaves.items():
        (HERE / f"{name}.pem").write_bytes(leaf + private(key))


main()
