"""Partition labels: text such as `2024010100` that sorts as time does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.errors import Location, SpecError
from headrace.spec.model import TableSpec
from headrace.spec.partitions.label_range import LabelRange

FORMATS = (
    *("yyyy", "yyyyMM", "yyyyMMdd", "yyyyMMddHH", "yyyyMMddHHmm"),
    *("yyyy-MM", "yyyy-MM-dd", "yyyy-MM-dd HH", "yyyy-MM-dd HH:mm"),
)
FIELDS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, 23, 59, tzinfo=UTC)
LONGEST_RANGE = 100_000


def is_format(text: str) -> bool:
    return text in FORMATS


def parse_label(spec: TableSpec, text: str) -> str:
    """`text`, if it names a partition of the table.

    Raises:
        SpecError: it is not of the declared format, or names no time there is.
    """
    _start(spec, text)
    return text


def label_range(spec: TableSpec, labels: LabelRange) -> list[str]:
    """All labels from the start to the end of a range."""
    start, end = labels.start, labels.end
    first, last = _start(spec, start), _start(spec, end)
    if first > last:
        raise _refuse(
            spec, f"the range of {spec.name} starts at '{start}', after its end '{end}'", "exchange them"
        )
    found, moment = [], first
    while moment <= last:
        found.append(_label(_format(spec), moment))
        if len(found) > LONGEST_RANGE:
            message = f"'{start}' to '{end}' are more than {LONGEST_RANGE:,} partitions of {spec.name}"
            raise _refuse(spec, message, "refresh it in parts")
        if (following := _next(_format(spec), moment)) is None:
            break
        moment = following
    return found


def label_at(spec: TableSpec, moment: datetime) -> str:
    """The partition that holds an instant, in the zone of the table's labels."""
    return label_of(spec, moment.astimezone(spec.completion.zone))


def label_before(spec: TableSpec, label: str) -> str:
    """The partition before this one."""
    return label_of(spec, _start(spec, label) - timedelta(minutes=1))


def label_after(spec: TableSpec, label: str) -> str:
    """The partition after this one; the same at the end of the calendar."""
    following = _next(_format(spec), _start(spec, label))
    return label if following is None else label_of(spec, following)


def cannot_keep(spec: TableSpec) -> str | None:
    """Why no partition of the table can be immutable; None where some can."""
    if spec.source is not None:
        return "a stg table follows its source"
    if spec.partition_format is None:
        return "it has no partitions by time"
    if spec.partition_column not in spec.primary_key:
        return (
            f"its key lacks the partition column `{spec.partition_column}`, so a row may leave its partition"
        )
    return None


def open_range(spec: TableSpec) -> LabelRange:
    """The labels a stream runs between: everything."""
    pattern = _format(spec)
    return LabelRange(_label(pattern, FIRST), _label(pattern, LAST))


def mutable_range(spec: TableSpec, bound: str, labels: LabelRange | None) -> LabelRange | None:
    """What of a range, or of the whole table, is not immutable; None for the whole table.

    Args:
        bound: the first label that is not immutable, "" where none is.
    """
    if labels is not None:
        return labels.clip(first=bound)
    return LabelRange(bound, open_range(spec).end) if bound else None


def bounds(spec: TableSpec, label: str) -> tuple[datetime, datetime]:
    """When the partition begins and when the next one does, in UTC."""
    start = _start(spec, label)
    return start, _next(_format(spec), start) or datetime.max.replace(tzinfo=UTC)


def label_of(spec: TableSpec, moment: datetime) -> str:
    """The label of the partition that holds this time, taken as it is written, whatever its zone."""
    return _label(_format(spec), moment)


def is_label(spec: TableSpec, text: str | None) -> bool:
    """Whether a value of the partition column names a partition by time."""
    try:
        return text is not None and bool(_start(spec, text))
    except SpecError:
        return False


def shape(spec: TableSpec) -> str:
    """A regular expression that takes the table's labels, and no text of another form."""
    return re.sub("|".join(FIELDS), lambda m: f"[0-9]{{{len(m[0])}}}", _format(spec))


def _format(spec: TableSpec) -> str:
    if spec.partition_format is None:
        column = spec.partition_column or "<column>"
        option = f"'partition.fields.{column}.date-formatter' = 'yyyyMMddHH'"
        hint = f"declare PARTITIONED BY ({column}) WITH ({option})"
        raise _refuse(spec, f"{spec.name} has no partitions by time", hint)
    return spec.partition_format


def _label(pattern: str, moment: datetime) -> str:
    # strftime does not pad the year on every platform.
    values = {"yyyy": f"{moment.year:04}", "MM": f"{moment.month:02}", "dd": f"{moment.day:02}",
              "HH": f"{moment.hour:02}", "mm": f"{moment.minute:02}"}  # fmt: skip
    return re.sub("|".join(values), lambda m: values[m[0]], pattern)


def _start(spec: TableSpec, text: str) -> datetime:
    pattern = _format(spec)
    # Lengths are checked first: strptime takes "2024111" for yyyyMMdd, and digits of any script.
    try:
        if not re.fullmatch(shape(spec), text):
            raise ValueError
        return datetime.strptime(text, re.sub("|".join(FIELDS), lambda m: FIELDS[m[0]], pattern)).replace(
            tzinfo=UTC
        )
    except ValueError:
        example = _label(pattern, datetime(2024, 1, 31, 9, tzinfo=UTC))
        column = spec.partition_column
        message = f"'{text}' is no partition of {spec.name}: `{column}` has the format {pattern}"
        raise _refuse(spec, message, f"write it like '{example}'") from None


def _next(pattern: str, moment: datetime) -> datetime | None:
    """The start of the following partition, or None at the end of the calendar."""
    try:
        if "dd" in pattern:
            unit = "minutes" if "mm" in pattern else "hours" if "HH" in pattern else "days"
            return moment + timedelta(**{unit: 1})
        if "MM" in pattern and moment.month < 12:
            return moment.replace(month=moment.month + 1)
        return moment.replace(year=moment.year + 1, month=1)
    except (OverflowError, ValueError):
        return None


def _refuse(spec: TableSpec, message: str, hint: str) -> SpecError:
    return SpecError(message, spec.partition_location or Location(spec.path, 1), hint)
