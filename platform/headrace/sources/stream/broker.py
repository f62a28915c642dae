"""The Kafka cluster that messages come from, and what each kind of client needs to be let in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.settings import Settings

USER = "headrace"
"""The one user of the embedded broker."""

_MODULES = {"PLAIN": "plain.PlainLoginModule"}
_SCRAM = "scram.ScramLoginModule"


@dataclass(frozen=True)
class Security:
    """How a cluster is entered; named as the settings `kafka_…` are. Default: without login and encryption.

    Args:
        truststore, keystore: PEM files: the authorities that the brokers' certificates are of; a private key
            in PKCS #8 with its own certificates.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    truststore: Path | None = None
    keystore: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    def librdkafka(self) -> dict[str, str]:
        """Properties of `confluent_kafka`'s clients."""
        found = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self._with_login:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.username"], found["sasl.password"] = self.username or "", self.password or ""
        if self._with_encryption:
            named = {
                "ssl.ca.location": self.truststore,
                "ssl.certificate.location": self.keystore,
                "ssl.key.location": self.keystore,
                "ssl.key.password": self.key_password,
            }
            found |= {name: str(value) for name, value in named.items() if value is not None}
        return found

    def jvm(self) -> dict[str, str]:
        """Properties of Kafka's own clients."""
        found = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self._with_login:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.jaas.config"] = login_module(self.mechanism, self.username or "", self.password or "")
        if self._with_encryption:
            for name, file in (("truststore", self.truststore), ("keystore", self.keystore)):
                if file is not None:
                    found |= {f"ssl.{name}.type": "PEM", f"ssl.{name}.location": str(file)}
            if self.key_password is not None:
                found["ssl.key.password"] = self.key_password
        return found

    def settings(self) -> dict[str, Any]:
        """As settings of somebody who enters the cluster as an external one."""
        return {
            "kafka_security_protocol": self.protocol,
            "kafka_sasl_mechanism": self.mechanism,
            "kafka_sasl_username": self.username,
            "kafka_sasl_password": self.password,
            "kafka_ssl_truststore": self.truststore,
            "kafka_ssl_keystore": self.keystore,
            "kafka_ssl_key_password": self.key_password,
        }

    @property
    def _with_login(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def _with_encryption(self) -> bool:
        return self.protocol.endswith("SSL")


def login_module(mechanism: str, username: str, password: str, **options: str) -> str:
    """A line of JAAS, as Java's programs say who logs in.

    Args:
        options: others than the user's name and password.
    """
    module = f"org.apache.kafka.common.security.{_MODULES.get(mechanism, _SCRAM)}"
    named = {"username": username, "password": password, **options}
    return f"{module} required {' '.join(f'{name}={_quoted(value)}' for name, value in named.items())};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class Broker:
    """Where messages come from.

    Args:
        bootstrap: `host:port, …`.
        registry: the schema registry's URL, None without one.
        security: how it is entered.
    """

    bootstrap: str
    registry: str | None = None
    security: Security = Security()

    @classmethod
    def of(cls, settings: Settings) -> Broker:
        """The cluster of these settings; the embedded one by the password that it was started with."""
        return cls(settings.kafka_bootstrap, settings.schema_registry_url, _security(settings))

    def client(self) -> dict[str, Any]:
        """What every client of `confluent_kafka` begins with. It says nothing by itself."""
        return {"bootstrap.servers": self.bootstrap, **self.security.librdkafka(), "log_level": 0}

    def jvm_client(self) -> dict[str, str]:
        """What every client of Kafka's own begins with."""
        return {"bootstrap.servers": self.bootstrap, **self.security.jvm()}

    def spark_options(self) -> dict[str, str]:
        """Options of Spark's source `kafka`."""
        return {f"kafka.{name}": value for name, value in self.jvm_client().items()}


def _security(settings: Settings) -> Security:
    if settings.kafka_bootstrap_servers is None:
        return Security("SASL_PLAINTEXT", "PLAIN", USER, settings.embedded_kafka_password)
    return Security(
        settings.kafka_security_protocol,
        settings.kafka_sasl_mechanism,
        settings.kafka_sasl_username,
        settings.kafka_sasl_password,
        settings.kafka_ssl_truststore,
        settings.kafka_ssl_keystore,
        settings.kafka_ssl_key_password,
    )
