from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer

from headrace.settings import Settings
from headrace.sources.stream.broker import Broker, Security, login_module
from headrace.tokens import ensure_token


def test_a_cluster_without_a_login_is_entered_as_ever(tmp_path: Path) -> None:
    broker = Broker.of(Settings(project=tmp_path, kafka_bootstrap_servers="k:9092"))
    assert broker.client() == {"bootstrap.servers": "k:9092", "log_level": 0}
    assert broker.jvm_client() == {"bootstrap.servers": "k:9092"}
    assert broker.spark_options() == {"kafka.bootstrap.servers": "k:9092"}


def test_the_embedded_broker_is_entered_by_its_own_password(tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, kafka_bootstrap_servers=None)
    password = ensure_token(settings.kafka_password)
    broker = Broker.of(settings)
    client = broker.client()
    assert (client["sasl.username"], client["sasl.password"]) == ("headrace", password)
    assert client["security.protocol"] == broker.jvm_client()["security.protocol"] == "SASL_PLAINTEXT"
    assert password in broker.spark_options()["kafka.sasl.jaas.config"]
    assert password not in repr(broker)


def test_a_companys_cluster_is_entered_by_login_and_certificates(tmp_path: Path) -> None:
    for name in ("ca.pem", "own.pem"):
        (tmp_path / name).touch()
    settings = Settings(
        project=tmp_path,
        kafka_bootstrap_servers="k:9093",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-256",
        kafka_sasl_username="ann",
        kafka_sasl_password="p",
        kafka_ssl_truststore=Path("ca.pem"),
        kafka_ssl_keystore=Path("own.pem"),
        kafka_ssl_key_password="k",
    )
    broker = Broker.of(settings)
    assert broker.client() == {
        "bootstrap.servers": "k:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "p",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.location": str(tmp_path / "own.pem"),
        "ssl.key.password": "k",
        "log_level": 0,
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert broker.jvm_client() == {
        "bootstrap.servers": "k:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{scram} required username="ann" password="p";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "own.pem"),
        "ssl.key.password": "k",
    }


def test_librdkafka_knows_each_way() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            broker = Broker("127.0.0.1:1", security=Security(protocol, mechanism, "ann", "p"))
            Consumer({**broker.client(), "group.id": "g"}).close()


def test_quotes_and_backslashes_of_a_password_are_part_of_it() -> None:
    assert login_module("PLAIN", "a", 'x"y\\z').endswith(r'required username="a" password="x\"y\\z";')
