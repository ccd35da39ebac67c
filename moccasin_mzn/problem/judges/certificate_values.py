"""Values of certificates: what they must be, and what is wrong with them, in one line."""

from __future__ import annotations

import json
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph

MOST_BITS = 256
Json = Any  # a JSON value that has not been checked yet


class CertificateError(ValueError):
    """What is wrong with a certificate and where, in one line."""


def require(is_so: bool, text: str) -> None:
    """Refuse what is not so, with this text."""
    if not is_so:
        raise CertificateError(text)


def read(where: str, value: Json, form: Json) -> Json:
    """Return a value of a form: an integer for one that is no less, a graph for its nodes, which become positions, str
    for a line of text, bool for true or false, [form] for a list, forms by key for an object, None for anything."""
    expected: Json = {list: "a list", dict: "an object", type: "a text of one line"}.get(type(form))
    if type(form) is list and type(value) is list:
        return [read(f"{where}[{k}]", one, form[0]) for k, one in enumerate(value)]
    if type(form) is dict and type(value) is dict:
        for key in (*form, *value):
            wrong = "unknown key" if key in value else "there is no key"
            require(key in value and key in form, f"{where}: {wrong} {shown(key)}")
        return {key: read(f"{where}.{key}", value[key], one) for key, one in form.items()}
    elif type(form) is int:
        fits = type(value) is int and form <= value < 1 << MOST_BITS
        require(fits, f"{where} is {shown(value)}, expected an integer in {form}..2^{MOST_BITS}-1")
    elif form is bool:
        require(type(value) is bool, f"{where} is {shown(value)}, expected true or false")
    elif isinstance(form, ComputationGraph):
        try:
            return form.position_of(value)
        except ValueError:
            raise CertificateError(f"{where}: node {shown(value)} is not in the graph") from None
    elif form is not None and not (form is str and type(value) is str and value.isprintable() and value):
        raise CertificateError(f"{where} is {shown(value)}, expected {expected}")
    return value


def shown(value: Json) -> str:
    """Return a value as messages show it, cut short."""
    if type(value) in (list, dict) or (type(value) is int and value.bit_length() > MOST_BITS):
        return {list: "a list", dict: "an object", int: "a huge integer"}[type(value)]
    return text if len(text := json.dumps(value)) <= 60 else f"{text[:56]} ..."
