"""Addresses of pages, files and mail boxes in a text."""

import re

ADDRESS_RUN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|\d+|.")
ADDRESS = re.compile(
    r"(?i:[a-z]+://|www\.)\S+|(?i:mailto:)?\S+@\S+\.\S+|~?/[\w.~-]+(?:/[\w.~-]*)*|localhost(?::\d+)?(?:/\S*)?"
    r"|(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?/\S*[A-Za-z]\S*|(?=\S*[A-Za-z-]\S*\.|\S*/)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:[a-z]{2,6}|COM|ORG|NET)(?::\d+)?(?:/\S*)?"
)
LONG_NUMBER = 3  # digits; numbers of an address with at least so many are read digit by digit
