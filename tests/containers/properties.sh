#!/bin/sh
# Variables with a prefix as Java properties: KAFKA_NODE_ID=1 is node.id=1.
env | sed -n "s/^$1_//p" | while IFS='=' read -r name value; do
    printf '%s=%s\n' "$(printf %s "$name" | tr 'A-Z_' 'a-z.')" "$value"
done
