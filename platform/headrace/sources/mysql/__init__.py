"""MySQL and MariaDB: what `sources.database` asks, by the protocol that both speak."""
