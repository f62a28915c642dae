"""One project's settings: environment (`HEADRACE_*`), then the files of a project, then these defaults."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote, urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headrace.errors import TerminalError, did_you_mean
from headrace.storage.location import Location
from headrace.storage.object_path import ObjectPath
from headrace.storage.object_store import ObjectStore

Port = Annotated[int, Field(ge=1, le=65535)]
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmgKMG]$")]

LOOPBACK = "127.0.0.1"
SETTINGS_FILE = "headrace.toml"
ENVIRONMENT_FILE = ".headrace/environment.toml"
"""What `headrace clone` has set in this checkout; it comes before `headrace.toml`, which is everybody's."""
CATALOG_FILE = "catalog.db"
SQLITE = "sqlite:///"
SOURCE_ROLE = "headrace_source"
"""By which the embedded PostgreSQL is followed. It replicates and reads, and owns nothing."""
CONNECT_USER = "headrace"
"""The one user of the embedded Connect worker's REST interface."""


def checkout() -> Path | None:
    """The repository headrace runs from, or None where it is installed as a wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "deploy" / "ivy.xml").is_file() else None


def _default_home() -> Path:
    if (root := checkout()) is not None:
        return root / ".headrace" / "runtime"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "headrace"


class Settings(BaseSettings):
    """Where a project's data and services are. Relative paths count from the project directory."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    project: Path = Field(description="the directory with `layers/` and `deploy/connectors/`")
    home: Path = Field(default_factory=_default_home, description="fetched JVM artifacts, shared by projects")
    data: Path = Field(
        default=Path(".headrace/data"), description="the warehouse, the services' state and their logs"
    )

    environment: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9_-]{0,40})?$",
        description="name of an environment beside the production: it leaves sources and connectors as they "
        "are, and publishes nothing",
    )

    # Below the ports that systems give to outgoing connections, of which one may have any of those just now.
    postgres_port: Port = 25432
    kafka_port: Port = 29092
    kafka_controller_port: Port = 29093
    connect_port: Port = 28083
    gateway_port: Port = 28080
    supervised: bool = Field(
        default=True,
        description="`up` starts the services and watches them; a container engine does in place of it",
    )
    spark_connect: bool = Field(
        default=False,
        description="also serve Spark Connect; whoever has its token does what the server's user may",
    )
    spark_connect_port: Port = 25002
    flight_sql: bool = Field(
        default=False, description="also serve Arrow Flight SQL, by which BI tools read tables"
    )
    flight_sql_port: Port = 25003
    dagster_port: Port = 23000
    dagster_host: str = Field(default=LOOPBACK, description="where Dagster listens; it has no login")

    postgres_url: str | None = Field(
        default=None, description="an external server's URL; None: the embedded one"
    )
    postgres_database: str = Field(default="shop", description="the captured database of the embedded server")

    kafka_bootstrap_servers: str | None = Field(
        default=None, description="host:port, … of an external Kafka cluster; None: the embedded broker"
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="how the external Kafka cluster is entered"
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="by which an external cluster's login is proven"
    )
    kafka_sasl_username: str | None = Field(default=None, description="the external cluster's user")
    kafka_sasl_password: str | None = Field(default=None, repr=False, description="that user's password")
    kafka_ssl_truststore: Path | None = Field(
        default=None, description="PEM file of the authorities that sign the external brokers' certificates"
    )
    kafka_ssl_keystore: Path | None = Field(
        default=None, description="PEM file of the client's private key (PKCS #8) and certificates"
    )
    kafka_ssl_key_password: str | None = Field(
        default=None, repr=False, description="of the private key in `kafka_ssl_keystore`"
    )
    connect_url: str | None = Field(
        default=None,
        description="an external Kafka Connect's REST address, also with a login; None: the embedded worker",
    )
    schema_registry_url: str | None = Field(
        default=None, description="the registry of the schemas of topics in Avro; None: there are none"
    )
    connect_plugins: Path | None = Field(
        default=None, description="a folder with more plugins of the embedded worker, such as converters"
    )
    connect_group: str = Field(
        default="headrace-connect",
        pattern=r"^[\w.-]+$",
        description="the embedded worker's group and the prefix of its topics: one a project in a cluster",
    )

    warehouse_url: str | None = Field(
        default=None,
        description="`s3://bucket/folder` for the tables, or `file:///folder` that several machines share; "
        "None: a folder in `data`",
    )
    standby: bool = Field(
        default=False,
        description="the server waits for the one that has the warehouse's lease, and takes over from it",
    )
    serves: str = Field(
        default="",
        description="sources, with commas between, whose tables this server keeps; empty: all of them",
    )
    s3_endpoint: str | None = Field(
        default=None, description="address of an object store other than Amazon's, `http://host:port`"
    )
    s3_region: str | None = Field(default=None, description="of the bucket; None: as the environment says")
    s3_access_key_id: str | None = Field(
        default=None, description="who writes the bucket; None: as the environment or the machine's role says"
    )
    s3_secret_access_key: str | None = Field(default=None, repr=False, description="by which that is proven")

    catalog_url: str | None = Field(
        default=None,
        description="a PostgreSQL database for the catalog, its own; None: an SQLite file in `data`",
    )

    shadow_one_in: int = Field(
        default=0,
        ge=0,
        description="every so many refreshes of a table its alternative runs, too, and must agree; 0: never",
    )

    partition_start: date | None = Field(
        default=None,
        description="first day of the partitions that Dagster shows; None: where the data begins",
    )

    automation: str = Field(
        default="",
        description="layers, with commas between, whose checks and alerts Dagster begins by itself",
    )

    snapshot: Literal["auto", "connector", "bulk"] = Field(
        default="auto", description="who reads a source for the first time; `auto` goes by its size"
    )
    slot_lag_warning: Memory = Field(
        default="1g", description="log that a source keeps for its connector from which `status` warns"
    )
    slot_lag_alarm: Memory = Field(default="8g", description="the same, from which `status` is not well")
    source_replicas: str = Field(
        default="",
        description="standbys that comparisons read in place of their source: `shop=host:port`, …",
    )
    dead_letters_limit: int = Field(
        default=1_000, ge=0, description="open dead letters of a table beyond which it halts"
    )
    schema_change_behavior: Literal["exception", "ignore", "lenient", "try_evolve", "evolve"] = Field(
        default="lenient", description="what stg tables do when their source's columns change"
    )
    bulk_snapshot_rows: int = Field(
        default=100_000, ge=0, description="estimated rows of a source from which `auto` takes `bulk`"
    )
    bulk_snapshot_connections: int = Field(
        default=2, ge=1, le=32, description="connections that a bulk snapshot reads by at the same time"
    )

    log_level: Literal["DEBUG", "INFO", "WARNING"] = "INFO"
    log_format: Literal["text", "json"] = Field(
        default="text", description="lines of the warehouse server's log: for people, or an object each"
    )
    otlp_endpoint: str | None = Field(
        default=None, description="who gathers traces, by OpenTelemetry's protocol: `http://host:4318`"
    )
    spark_master: str = "local[*]"
    spark_conf: str = Field(
        default="", description="more of Spark's configuration: `spark.executor.memory=4g; …`"
    )
    driver_memory: Memory = "1700m"
    snapshot_memory: Memory = Field(
        default="512m", description="rows of snapshots that the warehouse server keeps at hand"
    )
    kafka_memory: Memory = "512m"
    connect_memory: Memory = "640m"

    compaction_interval_seconds: float = Field(default=60.0, gt=0)
    small_files: int = Field(
        default=64,
        ge=2,
        description="small files of a changelog or a snapshot partition before they are merged",
    )
    backfill_partitions_at_once: int = Field(
        default=24, gt=0, description="partitions that one backfill of a cascade takes"
    )
    backfill_pause_seconds: float = Field(
        default=0.5, ge=0, description="between two backfills of a cascade: the streams have the machine"
    )
    changelog_retention_hours: float = Field(
        default=168.0, gt=0, description="changes older than this go, where no reader needs them"
    )
    vacuum_hours: int = Field(
        default=24, ge=1, description="age at which files that no reader needs are deleted"
    )
    reader_expiry_hours: float = Field(
        default=168.0, gt=0, description="a reader without progress for this long holds nothing back any more"
    )
    scheduler: Literal["warehouse", "dagster"] = Field(
        default="warehouse", description="who begins the refreshes of tables that do not stream"
    )
    max_offsets_per_trigger: int = Field(default=1_000_000, gt=0)
    continuous_threshold_seconds: int = Field(
        default=1800, ge=0, description="a table whose declared freshness is at most this runs CONTINUOUS"
    )

    @classmethod
    def load(cls, project: Path) -> Settings:
        """The settings of the project in that directory. Raises TerminalError where one is wrong."""
        directory = project.expanduser().resolve()
        if not directory.is_dir():
            raise TerminalError(
                f"`project={project}` is not a directory; run `headrace init {project}` first"
            )
        try:
            return cls(project=directory)
        except ValidationError as error:
            raise TerminalError(_explain(error, directory)) from None
        except tomllib.TOMLDecodeError as error:
            raise TerminalError(f"{_garbled(directory)}: not TOML: {error}") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        project = init_settings().get("project")
        sources = (init_settings, env_settings)
        if project is None:
            return sources
        files = (TomlConfigSettingsSource(settings_cls, toml_file=file) for file in _files(Path(project)))
        return (*sources, *files)

    @property
    def slot_lag(self) -> tuple[int, int]:
        """Bytes of `slot_lag_warning` and `slot_lag_alarm`."""
        return _bytes(self.slot_lag_warning), _bytes(self.slot_lag_alarm)

    @field_validator(
        "postgres_url",
        "catalog_url",
        "otlp_endpoint",
        "warehouse_url",
        "s3_endpoint",
        "s3_region",
        "s3_access_key_id",
        "s3_secret_access_key",
        "kafka_bootstrap_servers",
        "kafka_sasl_username",
        "kafka_sasl_password",
        "kafka_ssl_truststore",
        "kafka_ssl_keystore",
        "kafka_ssl_key_password",
        "connect_url",
        "schema_registry_url",
        "connect_plugins",
        "partition_start",
        mode="before",
    )
    @classmethod
    def _blank_is_embedded(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("postgres_url", "catalog_url")
    @classmethod
    def _names_a_database(cls, value: str | None) -> str | None:
        if value is not None:
            url = urlsplit(value)
            if url.scheme not in ("postgresql", "postgres") or not (url.hostname and url.path.strip("/")):
                raise ValueError("must read postgresql://user:password@host:port/database")
        return value

    @field_validator("warehouse_url")
    @classmethod
    def _names_a_folder_of_a_bucket(cls, value: str | None) -> str | None:
        if value is None:
            return None
        url = urlsplit(value)
        bucket, folder = url.scheme in ("s3", "s3a") and url.netloc, url.path.strip("/")
        if not folder or not (bucket or (url.scheme == "file" and not url.netloc)):
            raise ValueError("must read s3://bucket/folder, or file:///folder")
        if "//" in url.path or re.search(r"[`\s?#%]", value):
            raise ValueError("must be of plain characters, with single slashes between them")
        return value

    @field_validator("s3_endpoint", "otlp_endpoint")
    @classmethod
    def _names_an_object_store(cls, value: str | None) -> str | None:
        return _web_address(value, "must read http://host:port, or https://host:port")

    @field_validator("kafka_bootstrap_servers")
    @classmethod
    def _names_brokers(cls, value: str | None) -> str | None:
        if value is not None and not all(host and port for host, port in _addresses(value)):
            raise ValueError("must read host:port, or several with commas between")
        return value

    @field_validator("source_replicas")
    @classmethod
    def _names_standbys(cls, value: str) -> str:
        for source, server in _standbys(value).items():
            [(host, port)] = _addresses(server)
            if source and host and port:
                continue
            raise ValueError("must read source=host:port, or several with commas between")
        return value

    @field_validator("spark_conf")
    @classmethod
    def _configures_spark(cls, value: str) -> str:
        if any("=" not in entry for entry in _entries(value)):
            raise ValueError("must read spark.name=value, or several with semicolons between")
        return value

    @field_validator("connect_url")
    @classmethod
    def _names_a_worker(cls, value: str | None) -> str | None:
        return _web_address(value, "must read http://host:port, or http://user:password@host:port")

    @field_validator("schema_registry_url")
    @classmethod
    def _names_a_registry(cls, value: str | None) -> str | None:
        form = "must read http://host:port, or with the path of the registry's interface"
        return _web_address(value, form)

    @model_validator(mode="after")
    def _resolve_paths(self) -> Settings:
        for name in ("home", "data", "connect_plugins", "kafka_ssl_truststore", "kafka_ssl_keystore"):
            if getattr(self, name) is None:
                continue
            path = self.project / Path(getattr(self, name)).expanduser()
            object.__setattr__(self, name, Path(os.path.normpath(path)))
        if re.search(r"%|\s[;#]|[\r\n]", str(self.data)):
            raise ValueError(
                "the supervisor cannot log to a `data` path with `%`, ` ;`, ` #` or a line break"
            )
        return self

    @model_validator(mode="after")
    def _kafka_can_be_entered(self) -> Settings:
        """Of an external cluster; the embedded broker has a login of its own."""
        if self.kafka_bootstrap_servers is None:
            return self
        protocol = self.kafka_security_protocol
        if protocol.startswith("SASL_") and not (self.kafka_sasl_username and self.kafka_sasl_password):
            raise ValueError(
                f"`kafka_security_protocol={protocol}` needs `kafka_sasl_username` and `kafka_sasl_password`"
            )
        if self.kafka_sasl_username and not protocol.startswith("SASL_"):
            raise ValueError(
                f"`kafka_sasl_username` is sent to nobody by `kafka_security_protocol={protocol}`: "
                "SASL_SSL or SASL_PLAINTEXT is"
            )
        for name in ("kafka_ssl_truststore", "kafka_ssl_keystore"):
            file: Path | None = getattr(self, name)
            if file is not None and not file.is_file():
                raise ValueError(f"`{name}={file}`: there is no such file")
        return self

    @model_validator(mode="after")
    def _keys_of_object_store_are_whole(self) -> Settings:
        if (self.s3_access_key_id is None) != (self.s3_secret_access_key is None):
            raise ValueError("set both of `s3_access_key_id` and `s3_secret_access_key`, or none")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Settings:
        shared = {port for port, n in Counter(self.ports.values()).items() if n > 1}
        if shared:
            same = sorted(name for name, port in self.ports.items() if port in shared)
            raise ValueError("two services cannot share a port: " + ", ".join(same))
        return self

    @property
    def ports(self) -> dict[str, int]:
        """Every port that this stack listens on, by setting name."""
        unused = set()
        if self.postgres_url is not None:
            unused |= {"postgres_port"}
        if self.kafka_bootstrap_servers is not None:
            unused |= {"kafka_port", "kafka_controller_port"}
        if self.connect_url is not None:
            unused |= {"connect_port"}
        if not self.spark_connect:
            unused |= {"spark_connect_port"}
        if not self.flight_sql:
            unused |= {"flight_sql_port"}
        return {name: port for name, port in self.all_ports.items() if name not in unused}

    @property
    def all_ports(self) -> dict[str, int]:
        """Those, too, that it would listen on with other settings."""
        return {name: getattr(self, name) for name in type(self).model_fields if name.endswith("_port")}

    @property
    def warehouse(self) -> Location:
        """Where the tables are."""
        if self.warehouse_url is None:
            return self.data / "warehouse"
        if self.warehouse_url.startswith("file:"):
            return Path(urlsplit(self.warehouse_url).path)
        return ObjectPath.parse(self.warehouse_url, self.object_store)

    @property
    def served(self) -> tuple[str, ...]:
        """The sources that `serves` names, in order; () for all."""
        return tuple(sorted({name.strip() for name in self.serves.split(",")} - {""}))

    def keeps(self, source: str) -> bool:
        """Whether this server keeps the tables of a source."""
        return not self.served or source in self.served

    @property
    def object_store(self) -> ObjectStore:
        """How the bucket of `warehouse_url` is reached."""
        return ObjectStore(self.s3_endpoint, self.s3_region, self.s3_access_key_id, self.s3_secret_access_key)

    @property
    def state(self) -> Path:
        return self.data / "state"

    @property
    def automated(self) -> frozenset[str]:
        """The layers that `automation` names."""
        return frozenset(filter(None, (name.strip() for name in self.automation.split(","))))

    @property
    def report(self) -> Path:
        """Where `headrace report` leaves its page and Data Docs for those who link them."""
        return self.data / "report"

    @property
    def report_page(self) -> Path:
        return self.report / "index.html"

    @property
    def data_docs(self) -> Path:
        return self.report / "data_docs"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def catalog(self) -> str:
        """The catalog's SQLAlchemy URL."""
        if self.catalog_url is not None:
            return urlsplit(self.catalog_url)._replace(scheme="postgresql+psycopg").geturl()
        return f"{SQLITE}{self.state / CATALOG_FILE}"

    @property
    def connectors(self) -> Path:
        return self.project / "deploy" / "connectors"

    @property
    def gateway_token(self) -> Path:
        return self.state / "gateway.token"

    @property
    def gateway_read_token(self) -> Path:
        """What clients that only read present in its place."""
        return self.state / "gateway.read.token"

    @property
    def postgres_password(self) -> Path:
        return self.state / "postgres.password"

    @property
    def kafka_password(self) -> Path:
        """That of the embedded broker's one user; a file that only its owner reads."""
        return self.state / "kafka.password"

    @property
    def connect_password(self) -> Path:
        """That of the embedded worker's REST interface, likewise."""
        return self.state / "connect.password"

    @property
    def embedded_kafka_password(self) -> str:
        """What `kafka_password` holds; empty before the first start."""
        return _held(self.kafka_password)

    @property
    def kafka_bootstrap(self) -> str:
        """The brokers that clients begin with: external ones where they are set, else the embedded one."""
        return self.kafka_bootstrap_servers or f"{LOOPBACK}:{self.kafka_port}"

    @property
    def kafka_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each of `kafka_bootstrap`."""
        return [(host, port) for host, port in _addresses(self.kafka_bootstrap) if port]

    @property
    def connect_rest(self) -> str:
        """Where Connect's REST interface answers, with the login that it wants: the external worker's where
        one is set, else the embedded one's."""
        if self.connect_url is not None:
            return self.connect_url
        password = _held(self.connect_password)
        login = f"{CONNECT_USER}:{quote(password)}@" if password else ""
        return f"http://{login}{LOOPBACK}:{self.connect_port}"

    @property
    def gateway_url(self) -> str:
        return f"http://{LOOPBACK}:{self.gateway_port}"

    @property
    def flight_sql_url(self) -> str:
        return f"grpc://{LOOPBACK}:{self.flight_sql_port}"

    @property
    def dagster_url(self) -> str:
        return f"http://{LOOPBACK}:{self.dagster_port}"

    @property
    def spark_connect_token(self) -> Path:
        """What clients of Spark Connect must know; a file that only its owner reads."""
        return self.state / "spark_connect.token"

    @property
    def snapshot_bytes(self) -> int:
        """`snapshot_memory` in bytes."""
        return _bytes(self.snapshot_memory)

    def jars(self, group: Literal["spark", "s3", "kafka", "plugins"]) -> Path:
        """The folder of fetched JVM artifacts of one configuration of `deploy/ivy.xml`."""
        return self.home / "jars" / group

    def postgres_dsn(self, database: str | None = None) -> str:
        """A URL for psycopg: the external server where one is set, else the embedded one.

        Args:
            database: another database of the same server. Default: the captured one.
        """
        if self.postgres_url is not None:
            url = urlsplit(self.postgres_url)
            return url._replace(path=f"/{quote(database)}").geturl() if database else self.postgres_url
        name = quote(database or self.postgres_database)
        return f"postgresql://headrace:{quote(self._owner_password)}@{LOOPBACK}:{self.postgres_port}/{name}"

    def variables(self) -> dict[str, str]:
        """These settings as variables: a process started with them loads exactly the same."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {f"HEADRACE_{name.upper()}": "" if v is None else str(v) for name, v in values.items()}

    @property
    def digest(self) -> str:
        """The same for equal settings, another for others; it tells nothing of them."""
        return hashlib.sha256(repr(sorted(self.variables().items())).encode()).hexdigest()

    @property
    def spark_configuration(self) -> dict[str, str]:
        """`spark_conf` by name."""
        pairs = (entry.partition("=") for entry in _entries(self.spark_conf))
        return {name.strip(): value.strip() for name, _, value in pairs}

    def source_replica(self, source: str) -> str | None:
        """Host and port of the standby that comparisons read in place of a source."""
        return _standbys(self.source_replicas).get(source)

    @property
    def source_password(self) -> str:
        """Of the role by which the embedded server is followed."""
        return hmac.new(self._owner_password.encode(), SOURCE_ROLE.encode(), "sha256").hexdigest()

    @property
    def _owner_password(self) -> str:
        return _held(self.postgres_password)

    @staticmethod
    def own_source_variables() -> dict[str, str]:
        """Variables of the environment that connector files may name."""
        return {k: v for k, v in os.environ.items() if k.startswith("HEADRACE_SOURCE_") and k != _REPLICAS}

    @staticmethod
    def target_variables() -> dict[str, str]:
        """Variables of the environment that 'publish' of a layer file may name."""
        return {k: v for k, v in os.environ.items() if k.startswith("HEADRACE_TARGET_")}

    def source_environment(self) -> dict[str, str]:
        """What the `${env:…}` placeholders of connector files resolve to.

        The embedded server is followed by a role that owns nothing, an external one by that of its URL. Other
        variables that begin with HEADRACE_SOURCE_ are the user's, for sources of his own.
        """
        url = urlsplit(self.postgres_dsn())
        user, password = url.username or "", url.password or ""
        if self.postgres_url is None:
            user, password = SOURCE_ROLE, self.source_password
        return self.own_source_variables() | {
            "HEADRACE_SOURCE_HOST": url.hostname or LOOPBACK,
            "HEADRACE_SOURCE_PORT": str(url.port or 5432),
            "HEADRACE_SOURCE_USER": unquote(user),
            "HEADRACE_SOURCE_PASSWORD": unquote(password),
            "HEADRACE_SOURCE_DATABASE": unquote(url.path.lstrip("/")),
            # Where connectors of MySQL's kind keep the history of their tables' columns.
            "HEADRACE_SOURCE_KAFKA": self.kafka_bootstrap,
        }


def _files(project: Path) -> tuple[Path, Path]:
    """Of a project's settings, in the order in which they count."""
    return project / ENVIRONMENT_FILE, project / SETTINGS_FILE


def _garbled(project: Path) -> Path:
    """The file that is not TOML."""
    for file in _files(project):
        try:
            tomllib.loads(file.read_text() if file.is_file() else "")
        except tomllib.TOMLDecodeError:
            return file
    raise AssertionError("both can be read")


def _held(file: Path) -> str:
    """The secret in a file, empty where there is none yet."""
    return file.read_text().strip() if file.is_file() else ""


_REPLICAS = "HEADRACE_SOURCE_REPLICAS"
"""A setting, and no variable of a connector file."""


def _addresses(servers: str) -> list[tuple[str, int | None]]:
    """Host and port of each; None for one that is no port."""
    found: list[tuple[str, int | None]] = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        found.append((host.strip("[]"), int(port) if port.isdecimal() and 0 < int(port) < 65536 else None))
    return found


def _web_address(value: str | None, form: str) -> str | None:
    """The address without a slash at its end. Raises ValueError with `form` where it is none."""
    if value is None:
        return None
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(form)
    return value.rstrip("/")


def _entries(listed: str) -> list[str]:
    return [entry.strip() for entry in listed.split(";") if entry.strip()]


def _standbys(listed: str) -> dict[str, str]:
    """Host and port, as they are written, by the name of the source."""
    entries = (entry.partition("=") for entry in listed.split(",") if entry.strip())
    return {source.strip(): server.strip() for source, _, server in entries}


def _explain(error: ValidationError, project: Path) -> str:
    """One line a wrong setting: its name, where it can come from, and what is wrong with it."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting `{name}`; {did_you_mean(name, Settings.model_fields)}")
            continue
        # A URL may hold a password.
        value = "…" if name.endswith(("_url", "_password")) else problem["input"]
        where = f"`{name}={value}`: " if name else ""
        lines.append(where + problem["msg"].removeprefix("Value error, "))
    shown = "\n  ".join(lines)
    files = ", ".join(str(f) for f in _files(project) if f.is_file() or f.name == SETTINGS_FILE)
    return f"settings of {project} (environment HEADRACE_*, then {files}):\n  {shown}"


def _bytes(memory: str) -> int:
    return int(memory[:-1]) << {"k": 10, "m": 20, "g": 30}[memory[-1].lower()]
