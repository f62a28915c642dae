#!/bin/sh
# A class of Kafka's, in the Java and with the jars that headrace brings.
java=$(python -c 'from headrace.java import find_java; print(find_java().binary)')
exec "$java" -XX:+UseSerialGC $JAVA_MEMORY -cp "/opt/headrace/.headrace/runtime/jars/kafka/*" "$@"
