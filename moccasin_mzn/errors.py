"""The one exception for bad input, and how values are shown in its message."""

_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 256


class InputError(ValueError):
    """Bad input. The message is one clear line saying what is wrong and where.

    The command line prints the message and exits with status 2.
    """


def shown(value: object) -> str:
    """`value` as a short piece of one line, for use in a message."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"  # repr refuses integers of many digits
    text = " ".join(repr(value).split())
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[: _SHOWN_CHARACTERS - 4]} ..."
    return text
