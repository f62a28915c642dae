"""`${start_date}` and `${end_date}`: the only parameters of a query."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokens import Token, TokenType

from headrace.errors import SpecError, did_you_mean
from headrace.spec.sql.query import Query, query_tokens

PARAMETERS = ("start_date", "end_date")
QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)


def check_parameters(query: Query, *, partitioned: bool) -> None:
    """`${start_date}` and `${end_date}`, both or none, outside of quotes, nothing else of the kind."""
    used: dict[str, int] = {}
    tokens = query_tokens(query.text)
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.PARAMETER:
            name = parameter_at(query.text, tokens, i)
            if name is None:
                raise _unknown_parameter(query, tokens, i)
            used.setdefault(name, token.start)
        elif token.token_type in QUOTED and "${" in token.text:
            hint = "write ${start_date} without quotes: it is a typed parameter"
            raise query.error("a parameter inside quotes is plain text", token.start, hint)
    if len(used) == 1:
        (name, offset), (missing,) = next(iter(used.items())), set(PARAMETERS) - set(used)
        raise query.error(
            f"${{{name}}} is used, but not ${{{missing}}}", offset, "a refresh names both ends of a range"
        )
    if used and not partitioned:
        hint = "declare PARTITIONED BY (…) and its 'partition.fields.<column>.date-formatter'"
        raise query.error("a range parameter in a table without partitions by time", min(used.values()), hint)


def parameter_at(text: str, tokens: Sequence[Token], i: int) -> str | None:
    """The name, where `tokens[i:i+4]` are exactly `${start_date}` or `${end_date}`."""
    if i + 3 < len(tokens):
        written = text[tokens[i].start : tokens[i + 3].end + 1]
        return next((p for p in PARAMETERS if written == f"${{{p}}}"), None)
    return None


def _unknown_parameter(query: Query, tokens: Sequence[Token], i: int) -> SpecError:
    written = re.match(r"[$@](\{[^}\s]*\}?|\w*)", query.text[tokens[i].start :])
    name = written[0] if written else tokens[i].text
    known = [f"${{{p}}}" for p in PARAMETERS]
    hint = did_you_mean(name, known) or "the parameters are " + " and ".join(known)
    return query.error(f"{name} is no parameter", tokens[i].start, hint)
