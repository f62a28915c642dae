#!/bin/sh
# An empty folder becomes a cluster with the user and the database that the variables name.
set -e
[ "$1" = postgres ] || exec "$@"
as_server() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
chown postgres /var/lib/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    chmod 644 /tmp/password
    as_server initdb --username="$POSTGRES_USER" --pwfile=/tmp/password $POSTGRES_INITDB_ARGS
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    as_server pg_ctl -w -o "-c listen_addresses= -c unix_socket_directories=/tmp -p 5432" start
    PGPASSWORD=$POSTGRES_PASSWORD psql -h /tmp -U "$POSTGRES_USER" -d postgres -c "CREATE DATABASE \"$POSTGRES_DB\""
    as_server pg_ctl -w stop
fi
exec setpriv --reuid postgres --regid postgres --init-groups "$@" -c "listen_addresses=*" -c unix_socket_directories=/tmp
