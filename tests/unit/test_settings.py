from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace.errors import TerminalError
from headrace.settings import Settings
from headrace.tokens import ensure_token


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in os.environ:
        if name.startswith("HEADRACE_"):
            monkeypatch.delenv(name)


def refusal(project: Path) -> str:
    with pytest.raises(TerminalError) as error:
        Settings.load(project)
    return str(error.value)


def test_environment_wins_over_file_and_file_over_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").write_text("kafka_port = 1001\ngateway_port = 1002\n")
    monkeypatch.setenv("HEADRACE_GATEWAY_PORT", "1003")
    settings = Settings.load(tmp_path)
    assert (settings.kafka_port, settings.gateway_port, settings.connect_port) == (1001, 1003, 28083)
    assert settings.kafka_bootstrap == "127.0.0.1:1001"


def test_relative_paths_count_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DATA", "../elsewhere")
    settings = Settings.load(tmp_path)
    assert settings.data == tmp_path.parent / "elsewhere"
    assert settings.state == settings.data / "state"
    assert settings.gateway_token == settings.state / "gateway.token"


def test_spark_connect_is_served_where_somebody_asks_for_it(tmp_path: Path) -> None:
    """Who reaches it may do what the server may."""
    assert "spark_connect_port" not in Settings.load(tmp_path).ports
    (tmp_path / "headrace.toml").write_text("spark_connect = true\n")
    assert Settings.load(tmp_path).ports["spark_connect_port"] == 25002


def test_the_runtime_of_a_checkout_lies_in_it(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    assert settings.jars("kafka").parts[-4:] == (".headrace", "runtime", "jars", "kafka")


def test_a_process_started_with_the_settings_loads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headrace.toml").write_text('driver_memory = "3g"\nmax_offsets_per_trigger = 7\n')
    settings = Settings.load(tmp_path)
    for name, value in settings.variables().items():
        monkeypatch.setenv(name, value)
    assert Settings.load(tmp_path) == settings


def test_standbys_are_named_by_their_sources(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('source_replicas = "shop=a.example:5433, crm=[::1]:5432"\n')
    settings = Settings.load(tmp_path)
    assert settings.source_replica("shop") == "a.example:5433"
    assert settings.source_replica("crm") == "[::1]:5432"
    assert settings.source_replica("other") is None


def test_unknown_setting_names_the_known_one(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("kafka_prot = 1\n")
    assert "unknown setting `kafka_prot`; did you mean `kafka_port`" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("kafka_port = 0", "`kafka_port=0`"),
        ('driver_memory = "lots"', "`driver_memory=lots`"),
        ("kafka_port = 28080", "cannot share a port: gateway_port, kafka_port"),
        ('postgres_url = "mysql://u:secret@h/d"', "must read postgresql://user:password@host:port/database"),
        ('kafka_bootstrap_servers = "broker"', "must read host:port"),
        ('kafka_bootstrap_servers = "a:1,b:65536"', "must read host:port"),
        ('source_replicas = "replica:5432"', "must read source=host:port"),
        ('source_replicas = "shop=replica"', "must read source=host:port"),
        ('connect_url = "connect:8083"', "must read http://host:port"),
        ('connect_url = "ftp://u:secret@h:8083"', "must read http://host:port"),
        ('warehouse_url = "/srv/warehouse"', "must read s3://bucket/folder"),
        ('warehouse_url = "s3://bucket"', "must read s3://bucket/folder"),
        ('warehouse_url = "s3://bucket/a b"', "must be of plain characters"),
        ('warehouse_url = "s3://bucket/a//b"', "must be of plain characters"),
        ('s3_endpoint = "store:9000"', "must read http://host:port"),
        ('s3_access_key_id = "ann"', "set both of `s3_access_key_id` and `s3_"),
        ('kafka_sasl_password = ["secret"]', "`kafka_sasl_password=…`"),
        ('kafka_security_protocol = "TLS"', "`kafka_security_protocol=TLS`"),
        ('connect_group = "a b"', "`connect_group=a b`"),
        ('data = "50%"', "cannot log to a `data` path with `%`"),
        ("compaction_interval_seconds = 0", "`compaction_interval_seconds=0`"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "headrace.toml").write_text(toml)
    message = refusal(tmp_path)
    assert said in message
    assert str(tmp_path / "headrace.toml") in message
    assert "secret" not in message.replace("s3_secret_access_key", "")


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("kafka_port = = 1\n")
    assert f"{tmp_path / 'headrace.toml'}: not TOML" in refusal(tmp_path)


def test_missing_project_names_the_next_command(tmp_path: Path) -> None:
    assert "run `headrace init" in refusal(tmp_path / "absent")


def test_an_external_server_is_used_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", "postgresql://ann:p%40ss@db.example:6000/sales")
    settings = Settings.load(tmp_path)
    assert settings.postgres_dsn() == "postgresql://ann:p%40ss@db.example:6000/sales"
    assert settings.postgres_dsn("other") == "postgresql://ann:p%40ss@db.example:6000/other"
    assert "postgres_port" not in settings.ports
    assert settings.source_environment() == {
        "HEADRACE_SOURCE_HOST": "db.example",
        "HEADRACE_SOURCE_PORT": "6000",
        "HEADRACE_SOURCE_USER": "ann",
        "HEADRACE_SOURCE_PASSWORD": "p@ss",
        "HEADRACE_SOURCE_DATABASE": "sales",
        "HEADRACE_SOURCE_KAFKA": settings.kafka_bootstrap,
    }


def test_the_embedded_server_is_followed_by_a_role_that_is_not_its_owner(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    settings.state.mkdir(parents=True)
    settings.postgres_password.write_text("secret")
    followed = settings.source_environment()
    assert followed["HEADRACE_SOURCE_USER"] == "headrace_source" != urlsplit(settings.postgres_dsn()).username
    assert "secret" in settings.postgres_dsn() and "secret" not in followed["HEADRACE_SOURCE_PASSWORD"]


def test_external_brokers_and_an_external_worker_are_used_as_given(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(
        'kafka_bootstrap_servers = "k1.example:9092, [::1]:9093"\nconnect_url = "http://u:p@connect.example:8083/"\n'
    )
    settings = Settings.load(tmp_path)
    assert settings.kafka_bootstrap == "k1.example:9092, [::1]:9093"
    assert settings.kafka_addresses == [("k1.example", 9092), ("::1", 9093)]
    assert settings.connect_rest == "http://u:p@connect.example:8083"
    assert not {"kafka_port", "kafka_controller_port", "connect_port"} & settings.ports.keys()
    embedded = Settings(project=tmp_path, kafka_bootstrap_servers=None, connect_url=None)
    assert embedded.kafka_bootstrap == "127.0.0.1:29092"
    assert embedded.connect_rest == "http://127.0.0.1:28083"
    assert {"kafka_port", "kafka_controller_port", "connect_port"} <= embedded.ports.keys()


CLUSTER = 'kafka_bootstrap_servers = "k:9092"\n'


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('kafka_security_protocol = "SASL_SSL"', "needs `kafka_sasl_username` and `kafka_sasl_password`"),
        ('kafka_sasl_username = "ann"', "is sent to nobody by `kafka_security_protocol=PLAINTEXT`"),
        ('kafka_ssl_truststore = "ca.pem"', "ca.pem`: there is no such file"),
    ],
)
def test_a_cluster_that_cannot_be_entered_is_told_before_it_is_asked(
    tmp_path: Path, toml: str, said: str
) -> None:
    (tmp_path / "headrace.toml").write_text(CLUSTER + toml)
    assert said in refusal(tmp_path)


def test_no_password_is_shown_with_the_settings(tmp_path: Path) -> None:
    login = 'kafka_security_protocol = "SASL_SSL"\nkafka_sasl_username = "ann"\n'
    (tmp_path / "headrace.toml").write_text(f'{CLUSTER}{login}kafka_sasl_password = "secret"\n')
    settings = Settings.load(tmp_path)
    assert settings.kafka_sasl_password == "secret" and "secret" not in repr(settings)


def test_tables_lie_in_data_unless_an_object_store_is_named(tmp_path: Path) -> None:
    assert Settings.load(tmp_path).warehouse == tmp_path / ".headrace" / "data" / "warehouse"
    (tmp_path / "headrace.toml").write_text(
        'warehouse_url = "s3://lake/shop/"\ns3_endpoint = "http://127.0.0.1:9000/"\n'
        's3_access_key_id = "ann"\ns3_secret_access_key = "secret"\n'
    )
    settings = Settings.load(tmp_path)
    assert str(settings.warehouse / "dws") == "s3://lake/shop/dws"
    assert settings.object_store.endpoint == "http://127.0.0.1:9000"
    assert "secret" not in f"{settings!r} {settings.warehouse!r}"


def test_the_embedded_worker_is_asked_with_its_login(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path)
    ensure_token(settings.connect_password)
    url = urlsplit(settings.connect_rest)
    assert (url.username, url.password) == ("headrace", settings.connect_password.read_text().strip())
    assert (url.hostname, url.port) == ("127.0.0.1", settings.connect_port)


def test_importing_settings_is_light() -> None:
    heavy = "{'pyspark', 'dagster', 'confluent_kafka', 'psycopg'} & set(sys.modules)"
    code = f"import sys, headrace.settings; sys.exit(bool({heavy}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
