# Stands in for the published Kafka image: the broker of deploy/ivy.xml, entered by the variables that compose.yml sets.
ARG HEADRACE_IMAGE
FROM ${HEADRACE_IMAGE}
USER root
COPY --chown=headrace kafka-api-versions.sh /opt/kafka/bin/kafka-broker-api-versions.sh
COPY kafka-entrypoint.sh properties.sh java.sh /usr/local/bin/
RUN install -d -o headrace /var/lib/kafka/data
USER headrace
VOLUME /var/lib/kafka/data
CMD ["kafka-entrypoint.sh"]
