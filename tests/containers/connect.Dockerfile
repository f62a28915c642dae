# Stands in for Debezium's Connect image: worker and connectors of deploy/ivy.xml, entered by the same variables.
ARG HEADRACE_IMAGE
FROM ${HEADRACE_IMAGE}
USER root
COPY connect-entrypoint.sh properties.sh java.sh /usr/local/bin/
USER headrace
CMD ["connect-entrypoint.sh"]
