"""Write, audit, publish on the running stack: a bad batch is stopped, in the stream and in a backfill."""

from __future__ import annotations

import psycopg
import pytest
from chain_support import eventually
from running_shop import Shop

from headrace.gateway.client import StatementFailed

CITIES = "dws.cities"
CREATE = f"""\
CREATE MATERIALIZED TABLE {CITIES} (PRIMARY KEY (city))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT city, count(*) AS n FROM stg.users WHERE city IS NOT NULL GROUP BY city"""
NO_SUCH_CITY = """\
checks:
  - type: expect_column_values_to_not_be_in_set
    kwargs: {column: city, value_set: [Atlantis]}
"""
FEW = """\
checks:
  - type: expect_column_sum_to_be_between
    kwargs: {column: n, max_value: 5}
"""


def cities(shop: Shop) -> dict[str, int]:
    rows = shop.client.query(f"SELECT city, n FROM {CITIES}").to_pylist()
    return {row["city"]: row["n"] for row in rows}


@pytest.mark.long
def test_readers_see_the_old_rows_until_a_bad_batch_is_mended(shop: Shop) -> None:
    shop.wait_caught_up()
    suite = shop.settings.project / "layers" / "dws" / "cities.checks.yml"
    shop.client.run(CREATE)
    eventually("its first rows", lambda: cities(shop))
    try:
        suite.write_text(NO_SUCH_CITY)
        before = cities(shop)
        with psycopg.connect(shop.dsn, autocommit=True) as source:
            [(moved, city)] = source.execute(
                "SELECT user_id, city FROM users WHERE city IS NOT NULL ORDER BY user_id DESC LIMIT 1"
            ).fetchall()
            source.execute("UPDATE users SET city = 'Atlantis' WHERE user_id = %s", (moved,))
            eventually("it halts", lambda: shop.status()[CITIES].state == "FAILED")
            says = shop.status()[CITIES].last_error or ""
            assert f"{suite}:2:5" in says and "'city': 'Atlantis'" in says
            assert f"headrace resume {CITIES}" in says
            assert cities(shop) == before and shop.status()["stg.users"].state == "RUNNING"
            source.execute("UPDATE users SET city = %s WHERE user_id = %s", (city, moved))
        gone = "SELECT user_id FROM stg.users WHERE city = 'Atlantis'"
        eventually("what mends it", lambda: not shop.client.query(gone).num_rows)
        shop.client.run(f"ALTER MATERIALIZED TABLE {CITIES} RESUME")
        eventually("it runs", lambda: shop.status()[CITIES].state == "RUNNING")
        shop.verify(CITIES)
        assert cities(shop) == before

        suite.write_text(FEW)
        version = shop.status()[CITIES].version
        with pytest.raises(StatementFailed, match=r"cities.checks.yml:2:5: .*does not hold.*observed: \d+"):
            shop.client.run(f"ALTER MATERIALIZED TABLE {CITIES} REFRESH")
        assert (cities(shop), shop.status()[CITIES].version) == (before, version)
        suite.write_text(FEW.replace("max_value: 5", f"max_value: {sum(before.values())}"))
        shop.client.run(f"ALTER MATERIALIZED TABLE {CITIES} REFRESH")
        shop.verify(CITIES)
    finally:
        suite.unlink(missing_ok=True)
        shop.client.run(f"DROP MATERIALIZED TABLE {CITIES}")
