"""What Spark's functions are to a planner: aggregates, generators, volatile ones, and the unknown.

Names that sqlglot knows have a class of their own; all others come as `exp.Anonymous`. An anonymous
function that is not listed here may be anything, so it counts as unknown and stops every strategy but FULL.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOLATILE_NODES: tuple[type[exp.Expr], ...] = (
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentTimestampLTZ,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Shuffle,
    exp.Uniform,
    exp.Uuid,
    exp.CurrentCatalog,
    exp.CurrentDatabase,
    exp.CurrentSchema,
    exp.CurrentUser,
    exp.CurrentVersion,
    exp.SessionUser,
)
_VOLATILE_NAMES = _words(
    """
    current_path input_file_block_length input_file_block_start input_file_name java_method
    monotonically_increasing_id now reflect spark_partition_id try_reflect user version
    """
)
_CLOCK_WORDS = frozenset({"now", "today", "yesterday", "tomorrow"})
_GENERATOR_NODES = (exp.Generator, exp.UDTF)
_GENERATOR_NAMES = frozenset({"inline_outer", "json_tuple"})
_AGGREGATE_NAMES = _words(
    """
    bitmap_and_agg count_min_sketch every histogram_numeric hll_sketch_agg hll_union_agg mean
    measure schema_of_variant_agg some std theta_intersection_agg theta_sketch_agg theta_union_agg
    try_avg try_sum
    """
)
_SCALAR_NAMES = _words(
    """
    aes_decrypt array_repeat array_union arrays_overlap bigint bin binary bround btrim cardinality
    conv crc32 date_part datepart decimal e expm1 find_in_set forall format_number from_csv from_xml
    get hash hypot is_valid_utf8 is_valid_variant is_variant_null isnotnull isnull json_array_length
    log1p luhn_check make_date make_dt_interval make_time make_timestamp_ltz make_timestamp_ntz
    make_valid_utf8 make_ym_interval map_concat map_entries map_filter map_values map_zip_with mask
    nullifzero octet_length pmod positive printf quote regexp schema_of_csv schema_of_json
    schema_of_variant schema_of_xml sentences shiftrightunsigned smallint time_bucket
    time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds timestamp_micros timestamp_millis timestamp_seconds tinyint to_csv to_time
    to_timestamp_ltz to_timestamp_ntz to_varchar to_variant_object to_xml transform_keys
    transform_values try_aes_decrypt try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_mod try_parse_json try_parse_url try_to_binary try_to_date
    try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_get
    url_decode url_encode validate_utf8 variant_get weekday xpath xpath_boolean xpath_double
    xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 zeroifnull
    zip_with
    """
)


def is_volatile(node: exp.Expr) -> bool:
    """Whether the same row may give another value in another run."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _VOLATILE_NAMES
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        # CAST('now' AS TIMESTAMP) and TIMESTAMP 'today' read the clock
        return node.this.name.strip().lower() in _CLOCK_WORDS and bool(
            node.to.is_type(*exp.DataType.TEMPORAL_TYPES)
        )
    return isinstance(node, _VOLATILE_NODES)


def is_generator(node: exp.Expr) -> bool:
    """Whether the function makes several rows of one."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _GENERATOR_NAMES
    return isinstance(node, _GENERATOR_NODES) and not isinstance(node, exp.Lateral | exp.Values)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the function aggregates, with or without OVER."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _AGGREGATE_NAMES
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Binary)  # `x LIKE ANY (…)` is a predicate
    return isinstance(node, exp.AggFunc)


def is_unknown(node: exp.Expr) -> bool:
    """Whether nothing is known about the function."""
    if not isinstance(node, exp.Anonymous):
        return isinstance(node, exp.AnonymousAggFunc | exp.QueryTransform)
    known = _VOLATILE_NAMES | _GENERATOR_NAMES | _AGGREGATE_NAMES | _SCALAR_NAMES
    return node.name.lower() not in known


def own_nodes(root: exp.Expr) -> Iterator[exp.Expr]:
    """`root` and all nodes below it, not descending into queries (the query node itself is yielded)."""
    yield from root.walk(prune=lambda n: isinstance(n, exp.Query))


def windowed(node: exp.Expr) -> bool:
    """Whether `node` is the function that an OVER clause belongs to."""
    child, parent = node, node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        if parent.this is not child:
            return False
        child, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is child
