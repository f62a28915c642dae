"""sql: one statement, and its rows."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._shared import progress
from headrace.cli._shared.options import Json, Project, open_client
from headrace.cli._shared.output import print_json, print_result, print_rows


def sql(
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help='E.g. "SELECT * FROM dws.user_hour".')
    ],
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run one statement.

    SELECT …; SHOW MATERIALIZED TABLES; SHOW PARTITIONS T; SHOW WORKFLOWS; DESCRIBE MATERIALIZED TABLE T;
    EXPLAIN MATERIALIZED TABLE T [HISTORY];
    CREATE [OR ALTER] MATERIALIZED TABLE …; DROP MATERIALIZED TABLE [IF EXISTS] T;
    APPLY [BLUE GREEN] [DRY RUN];
    ALTER MATERIALIZED TABLE T {SUSPEND | RESUME | REFRESH PARTITION (…) [CASCADE [DRY RUN]]
    | REFRESH NEW | SET {FRESHNESS | REFRESH_MODE} = … | RESET {FRESHNESS | REFRESH_MODE | IMMUTABLE}
    | SET IMMUTABLE WHERE (column < 'label')
    | AS <query> | ROLLBACK | REWIND TO {VERSION n | TIMESTAMP '…'} [CASCADE] [DRY RUN]
    | RESYNC [DRY RUN]};
    VERIFY [T, …] [PARTITION (…)] [WITHOUT SOURCE] [REPAIR]; CHECK T [PARTITION (…)];
    CHANGES T [FROM VERSION n]; SHOW DEAD LETTERS [T]; SHOW QUARANTINE T.
    """
    with open_client(project) as client:
        finished = progress.run(client, statement)
        if finished.has_rows:
            print_rows(client.rows(finished.id), as_json=as_json)
        elif as_json:
            print_json(finished.result)
        else:
            print_result(finished.result)
