from __future__ import annotations

import json
from dataclasses import replace

from headrace.settings import checkout
from headrace.sources.connect import ConnectorFile
from headrace.sources.mysql.history import entering, variables
from headrace.sources.stream.broker import Broker, Security

ROOT = checkout()
assert ROOT is not None
FILE = ConnectorFile.read(ROOT / "docs" / "examples" / "mariadb.json")
BROKER = Broker("k:9092", security=Security("SASL_PLAINTEXT", "PLAIN", "ann", "secret"))


def test_a_connector_enters_kafka_by_variables_of_its_worker() -> None:
    config = entering(FILE, BROKER).config
    assert config.items() >= FILE.config.items() and "secret" not in json.dumps(config)
    for client in ("producer", "consumer"):
        named = config[f"schema.history.internal.{client}.sasl.jaas.config"]
        assert named == "${env:HEADRACE_SOURCE_KAFKA_SASL_JAAS_CONFIG}"
    assert 'password="secret"' in variables(BROKER)["HEADRACE_SOURCE_KAFKA_SASL_JAAS_CONFIG"]


def test_what_a_connectors_file_says_itself_stays() -> None:
    own = {"schema.history.internal.producer.security.protocol": "SSL"}
    config = entering(replace(FILE, config=FILE.config | own), BROKER).config
    assert config.items() >= own.items()
    elsewhere = replace(FILE, config=FILE.config | {"schema.history.internal.kafka.bootstrap.servers": "o:1"})
    assert entering(elsewhere, BROKER) == elsewhere


def test_without_a_login_nothing_is_added() -> None:
    assert entering(FILE, Broker("k:9092")) == FILE and not variables(Broker("k:9092"))
    shop = ConnectorFile.read(ROOT / "deploy" / "connectors" / "shop.json")
    assert entering(shop, BROKER) == shop
