#!/bin/sh
exec java.sh org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
