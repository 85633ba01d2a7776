"""Cells of CSV files that a spreadsheet takes as text, whatever somebody typed into them."""

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def safe_cell(value: object) -> object:
    """Text that a spreadsheet could run as a formula gets a leading apostrophe; numbers stay as they are.

    Text that begins with an apostrophe gets one too, so that ``plain_text`` is its exact inverse.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_DANGEROUS) else value


def plain_text(cell: str) -> str:
    """The text behind a cell that ``safe_cell`` wrote."""
    return cell.removeprefix("'")
