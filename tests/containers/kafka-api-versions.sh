#!/bin/sh
# As the published image's: fails where no broker answers at `--bootstrap-server HOST:PORT`.
exec /opt/headrace/.venv/bin/python -c '
import sys
from confluent_kafka.admin import AdminClient
AdminClient({"bootstrap.servers": sys.argv[2]}).list_topics(timeout=10)' "$@"
