"""The asset graph that follows from layer files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing.utils import component_defs
from definitions_support import write_project
from repository import ROOT

import headrace
from headrace.catalog import Catalog
from headrace.errors import SpecError
from headrace.orchestration.build import build_definitions
from headrace.settings import Settings
from headrace.spec.alteration import Alteration
from headrace.spec.model import TableName

GRAPH = """\
shop/public/orders [source] <- -
shop/public/users [source] <- -
shop/public/visits [source] <- -
stg/orders [stg] hourly <- shop/public/orders | accounting dead_letters freshness parity runs source_parity
stg/users [stg] <- shop/public/users | accounting dead_letters freshness parity runs source_parity
stg/visits [stg] hourly <- shop/public/visits | accounting dead_letters freshness parity runs source_parity
dwd/orders [dwd] hourly <- stg/orders stg/users stg/visits(all) | accounting freshness named parity runs
dws/user_hour [dws] hourly <- dwd/orders | accounting counted freshness parity plausible runs
dws/user_total [dws] <- dwd/orders | accounting freshness parity runs
dws/user_day [dws] daily <- dws/user_hour | accounting freshness parity runs
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def graph_of(definitions: dg.Definitions) -> dg.AssetGraph:
    return definitions.resolve_asset_graph()


def describe(graph: dg.AssetGraph) -> str:
    lines = []
    for key in graph.toposorted_asset_keys:
        node = graph.get(key)
        whole = {k for k, m in node.partition_mappings.items() if isinstance(m, dg.AllPartitionMapping)}
        deps = [k.to_user_string() + ("(all)" if k in whole else "") for k in sorted(node.parent_keys)]
        words = [key.to_user_string(), f"[{node.group_name}]"]
        if node.partitions_def is not None:
            words.append(
                "hourly" if isinstance(node.partitions_def, dg.HourlyPartitionsDefinition) else "daily"
            )
        words += ["<-", *(deps or ["-"])]
        if node.check_keys:
            words += ["|", *sorted(k.name for k in node.check_keys)]
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def test_the_graph_is_the_layer_files(project: Path) -> None:
    described = describe(graph_of(build_definitions(project)))
    assert sorted(described.splitlines()) == sorted(GRAPH.splitlines())


def test_a_new_file_is_a_new_asset(project: Path) -> None:
    layer = project / "layers/dws/users.sql"
    layer.write_text(
        "CREATE MATERIALIZED TABLE dws.users (PRIMARY KEY (user_id)) FRESHNESS = INTERVAL '1' HOUR AS\n"
        "SELECT user_id FROM stg.users"
    )
    assert "dws/users [dws] <- stg/users | accounting freshness parity runs" in describe(
        graph_of(build_definitions(project))
    )


def test_a_suite_that_cannot_be_read_costs_its_own_expectations_only(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (project / "layers/dws/user_hour.checks.yml").write_text("checks:\n  - typ: x\n")
    definitions = build_definitions(project)
    graph = describe(graph_of(definitions))
    assert (
        "dws/user_hour [dws] hourly <- dwd/orders | accounting checks_file counted freshness parity runs"
        in graph
    )
    assert len(graph.splitlines()) == len(GRAPH.splitlines())
    assert "user_hour.checks.yml:2:" in caplog.text
    [check] = [c for c in definitions.asset_checks or () for key in c.check_keys if key.name == "checks_file"]
    spec = check.get_spec_for_check_key(next(iter(check.check_keys)))
    assert "user_hour.checks.yml:2:" in (spec.description or "")


def test_owners_are_on_the_asset(project: Path) -> None:
    file = project / "layers/dwd/orders.sql"
    assert "WITH (" in file.read_text()
    file.write_text(file.read_text().replace("WITH (", "WITH ('owners' = 'team:sales', ", 1))
    specs = {s.key: s for s in build_definitions(project).resolve_all_asset_specs()}
    assert list(specs[dg.AssetKey(["dwd", "orders"])].owners) == ["team:sales"]
    assert not specs[dg.AssetKey(["dws", "user_hour"])].owners


def test_what_an_asset_shows(project: Path) -> None:
    definitions = build_definitions(project)
    spec = next(s for s in definitions.resolve_all_asset_specs() if s.key == dg.AssetKey(["dwd", "orders"]))
    assert spec.description == (
        "Orders with their user\n\nFreshness INTERVAL '10' SECOND of dws.user_hour. CONTINUOUS."
    )
    assert spec.kinds == {"spark", "delta", "sql"}
    assert (spec.tags["layer"], spec.tags["refresh_mode"]) == ("dwd", "CONTINUOUS")
    assert spec.metadata["query"].value.startswith("```sql\nSELECT o.order_id")
    reference = spec.metadata["dagster/code_references"].code_references[0]
    assert Path(reference.file_path) == project / "layers/dwd/orders.sql"
    assert (
        (project / "layers/dwd/orders.sql")
        .read_text()
        .splitlines()[reference.line_number - 1]
        .startswith("SELECT")
    )
    columns = {c.name: c for c in spec.metadata["dagster/column_schema"].columns}
    assert list(columns) == ["order_id", "user_id", "name", "page", "amount", "logdate"]
    assert columns["amount"].type == "decimal(12, 2)"
    assert not columns["order_id"].constraints.nullable
    assert spec.freshness_policy.fail_window.to_timedelta() == timedelta(hours=1, minutes=5, seconds=10)


def test_the_report_and_data_docs_are_pointed_to(project: Path) -> None:
    definitions, settings = build_definitions(project), Settings.load(project)
    metadata = {s.key.to_user_string(): s.metadata for s in definitions.resolve_all_asset_specs()}
    assert metadata["dws/user_hour"]["report"].value == str(settings.report_page)
    page = metadata["dws/user_hour"]["data_docs"].value
    assert page == str(settings.data_docs / "expectations/dws/user_hour.html")
    assert "report" in metadata["dwd/orders"] and "data_docs" not in metadata["dwd/orders"]
    specs = [s for c in definitions.asset_checks or () for s in c.check_specs if s.name == "plausible"]
    assert [s.metadata["data_docs"].value for s in specs] == [page]


def test_freshness_and_mode_follow_from_the_file(project: Path) -> None:
    specs = {s.key.to_user_string(): s for s in build_definitions(project).resolve_all_asset_specs()}
    assert specs["dws/user_day"].freshness_policy.fail_window.to_timedelta() == timedelta(days=1)
    assert specs["dws/user_day"].tags["refresh_mode"] != "CONTINUOUS"
    assert specs["stg/users"].metadata["declared_freshness"] == "10 s (of dws.user_hour)"
    assert specs["stg/users"].metadata["declared_freshness_seconds"] == 10.0


def test_what_a_statement_has_set_is_shown(project: Path) -> None:
    name = TableName("dws", "user_hour")
    alterations = Catalog(Settings.load(project).catalog).alterations
    alterations.set(Alteration(name, "FRESHNESS", "INTERVAL '2' DAY", "INTERVAL '10' SECOND"))
    specs = {s.key.to_user_string(): s for s in build_definitions(project).resolve_all_asset_specs()}
    assert specs["dws/user_hour"].freshness_policy.fail_window.to_timedelta() == timedelta(days=2)
    assert specs["dws/user_hour"].tags["refresh_mode"] == "INCREMENTAL"


def test_code_version_ignores_layout_and_sees_the_query(project: Path) -> None:
    def version() -> str | None:
        specs = build_definitions(project).resolve_all_asset_specs()
        return next(s.code_version for s in specs if s.key == dg.AssetKey(["dws", "user_total"]))

    path, before = project / "layers/dws/user_total.sql", version()
    path.write_text(path.read_text().replace("SELECT user_id,", "-- a remark\nSELECT  user_id,"))
    assert version() == before
    path.write_text(path.read_text().replace("COUNT(*)", "COUNT(order_id)"))
    assert version() != before


def test_partition_keys_are_labels_up_to_the_open_one(project: Path) -> None:
    graph = graph_of(build_definitions(project, start=date(2026, 11, 20)))
    hours = graph.get(dg.AssetKey(["dws", "user_hour"])).partitions_def
    days = graph.get(dg.AssetKey(["dws", "user_day"])).partitions_def
    with dg.partition_loading_context(effective_dt=dg_time("2026-11-21T01:30")):
        assert hours.get_first_partition_key() == "2026112000"
        assert hours.get_last_partition_key() == "2026112101"
        assert list(days.get_partition_keys()) == ["2026-11-20", "2026-11-21"]


def dg_time(text: str):
    from datetime import UTC, datetime

    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_blocking_is_what_fails(project: Path) -> None:
    graph = graph_of(build_definitions(project))
    blocking = {k.name for k in graph.asset_check_keys if graph.get(k).blocking}
    assert blocking == {"counted"}


def test_a_wrong_layer_file_is_named_with_its_line(project: Path) -> None:
    path = project / "layers/dws/user_total.sql"
    path.write_text(path.read_text().replace("dwd.orders", "dwd.order"))
    with pytest.raises(SpecError, match=rf"{path}:2:\d+: .*dwd.order(?s:.*)did you mean `dwd.orders`"):
        build_definitions(project)


def test_every_layer_file_of_the_reference_project_is_an_asset() -> None:
    graph = graph_of(build_definitions(ROOT))
    files = {(f.parent.name, f.stem) for f in (ROOT / "layers").glob("*/*.sql")}
    assert {tuple(k.path) for k in graph.executable_asset_keys} == files
    assert {graph.get(k).group_name for k in graph.executable_asset_keys} == {"stg", "dwd", "dws"}


PURITY = """
import sys
def refuse(event, args):
    if event == "subprocess.Popen" and args[0] == "file":
        return  # platform.architecture() of the standard library
    if event.startswith(("socket.connect", "socket.bind", "subprocess.", "os.system")):
        raise SystemExit(f"{event} {args}")
sys.addaudithook(refuse)
from headrace.orchestration.definitions import defs
repository = defs().get_repository_def()
assert repository.assets_defs_by_key
heavy = {"pyspark", "great_expectations", "delta", "confluent_kafka", "psycopg", "sqlalchemy", "pandas"}
print("loaded", heavy & set(sys.modules))
"""


def test_loading_opens_no_spark_and_no_network(project: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PURITY],
        env={**os.environ, "HEADRACE_PROJECT": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "loaded set()\n"), run.stderr


def dg_says(directory: Path, *arguments: str) -> str:
    """stdout of Dagster's own command in a project. It must succeed."""
    dg_command = Path(sys.executable).with_name("dg")
    if not dg_command.exists():
        pytest.skip("dagster-dg-cli is not installed")
    environment = {k: v for k, v in os.environ.items() if k not in ("HEADRACE_PROJECT", "DAGSTER_HOME")}
    environment |= {"PYTHONPATH": str(directory / "src")}
    run = subprocess.run(
        [str(dg_command), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_dg_check_defs_passes_at_the_root() -> None:
    assert "All definitions loaded successfully" in dg_says(ROOT, "check", "defs")


def test_a_strangers_project_takes_the_tables_in_by_a_file_alone(tmp_path: Path) -> None:
    write_project(tmp_path / "warehouse")
    stranger = tmp_path / "stranger"
    package = stranger / "src" / "stranger" / "defs"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "definitions.py").write_text(
        "from pathlib import Path\nfrom dagster import definitions, load_from_defs_folder\n\n\n@definitions\n"
        "def defs():\n    return load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    (stranger / "pyproject.toml").write_text(
        '[project]\nname = "stranger"\nversion = "1"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "stranger"\n[tool.dg.cli]\ntelemetry.enabled = false\n'
        'suppress_warnings = ["project_and_activated_venv_mismatch"]\n'
    )
    dg_says(stranger, "scaffold", "defs", "headrace.Layers", "tables", "--project", "../warehouse")
    assert "type: headrace.Layers" in (package / "tables" / "defs.yaml").read_text()
    listed = json.loads(dg_says(stranger, "list", "defs", "--json"))
    assets = {asset["asset_key"]: asset["group_name"] for asset in listed["assets"]}
    assert assets["dws/user_hour"] == "dws" and assets["shop/public/orders"] == "source"
    assert {"streams", "refresh_workflows"} <= {sensor["name"] for sensor in listed["sensors"]}


def test_the_component_builds_the_same_graph(project: Path) -> None:
    component = headrace.Layers(project=str(project), partition_start="2026-11-01")
    definitions = component_defs(component=component)
    assert describe(graph_of(definitions)) == describe(graph_of(build_definitions(project)))
