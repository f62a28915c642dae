"""One object store, as each of its four clients is told of it: obstore, delta-rs, Arrow and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow.fs as pafs
    from obstore.store import S3Store

T = TypeVar("T")

DEFAULT_REGION = "us-east-1"
"""What servers other than Amazon's take, which have no regions."""

REQUEST_TIMEOUT, RETRY_TIMEOUT = timedelta(seconds=5), timedelta(seconds=2)
"""Of small files. A lease is renewed by the same client, and must learn in time that it could not be."""


@dataclass(frozen=True)
class ObjectStore:
    """A store that speaks S3. What is None is found as every client of Amazon's finds it: in the environment,
    in `~/.aws`, or asked of the machine.

    Args:
        endpoint: address of a server other than Amazon's, `http://host:port`.
        region: of the bucket.
        access_key_id: who writes.
        secret_access_key: by which that is proven.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)

    @property
    def plain(self) -> bool:
        """Whether the server is spoken to without TLS."""
        return self.endpoint is not None and self.endpoint.startswith("http://")

    @property
    def bucket_region(self) -> str | None:
        """The region, one for servers that have none; None: as the environment says."""
        return self.region or (DEFAULT_REGION if self.endpoint is not None else None)

    def for_delta(self) -> dict[str, str]:
        """`storage_options` of delta-rs. A commit is put where there is none of its version, or fails."""
        return _given({
            "aws_endpoint": self.endpoint,
            "aws_region": self.bucket_region,
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_allow_http": "true" if self.plain else None,
            "aws_conditional_put": "etag",
        })  # fmt: skip

    def for_spark(self) -> dict[str, str]:
        """Spark's configuration for `s3a://`, without the key: that is in `environment`."""
        conf = {"spark.hadoop.fs.s3a.endpoint.region": self.bucket_region}
        if self.endpoint is not None:
            conf |= {
                "spark.hadoop.fs.s3a.endpoint": self.endpoint,
                "spark.hadoop.fs.s3a.path.style.access": "true",
                "spark.hadoop.fs.s3a.connection.ssl.enabled": str(not self.plain).lower(),
            }
        return _given(conf)

    def environment(self) -> dict[str, str]:
        """The key as Amazon's own clients find it: a JVM's configuration is on its command line, which
        everybody can read.
        """
        return _given(
            {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}
        )

    def for_arrow(self) -> pafs.S3FileSystem:
        """Arrow's own client; one for all."""
        return _arrow(self)

    def bucket(self, name: str) -> S3Store:
        """The client of small files, listing and conditional puts; one a bucket."""
        return _bucket(self, name)


def _given(options: Mapping[str, T | None]) -> dict[str, T]:
    """Those that are said; a client finds the others itself."""
    return {name: value for name, value in options.items() if value is not None}


@cache
def _arrow(store: ObjectStore) -> pafs.S3FileSystem:
    from pyarrow.fs import S3FileSystem

    options: dict[str, Any] = {
        "access_key": store.access_key_id,
        "secret_key": store.secret_access_key,
        "region": store.bucket_region,
    }
    if store.endpoint is not None:
        scheme, _, address = store.endpoint.partition("://")
        options |= {"scheme": scheme, "endpoint_override": address}
    return S3FileSystem(**_given(options))


@cache
def _bucket(store: ObjectStore, name: str) -> S3Store:
    from obstore.store import S3Store

    options: dict[str, Any] = {
        "endpoint": store.endpoint,
        "region": store.bucket_region,
        "access_key_id": store.access_key_id,
        "secret_access_key": store.secret_access_key,
    }
    return S3Store(
        name,
        client_options={"allow_http": store.plain, "timeout": REQUEST_TIMEOUT},
        retry_config={"max_retries": 3, "retry_timeout": RETRY_TIMEOUT},
        **_given(options),
    )
