#!/bin/sh
set -e
properties.sh KAFKA | grep -v '^heap\.opts=' > /tmp/server.properties
[ -f /var/lib/kafka/data/meta.properties ] ||
    JAVA_MEMORY=-Xmx128m java.sh kafka.tools.StorageTool format "--cluster-id=$CLUSTER_ID" -c /tmp/server.properties
JAVA_MEMORY=$KAFKA_HEAP_OPTS exec java.sh kafka.Kafka /tmp/server.properties
