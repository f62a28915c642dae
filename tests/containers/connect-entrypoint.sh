#!/bin/sh
set -e
{
    properties.sh CONNECT
    for name in BOOTSTRAP_SERVERS GROUP_ID CONFIG_STORAGE_TOPIC OFFSET_STORAGE_TOPIC STATUS_STORAGE_TOPIC \
        OFFSET_FLUSH_INTERVAL_MS; do
        printf '%s=%s\n' "$(printf %s "$name" | tr 'A-Z_' 'a-z.')" "$(printenv "$name")"
    done
    echo "rest.advertised.host.name=$ADVERTISED_HOST_NAME"
    echo "rest.advertised.port=$ADVERTISED_PORT"
    echo key.converter=org.apache.kafka.connect.json.JsonConverter
    echo value.converter=org.apache.kafka.connect.json.JsonConverter
    echo plugin.path=/opt/headrace/.headrace/runtime/jars/plugins
} > /tmp/connect.properties
JAVA_MEMORY=$HEAP_OPTS exec java.sh org.apache.kafka.connect.cli.ConnectDistributed /tmp/connect.properties
