"""Decides which tokens are held until the next one is complete, because it may change how they are spoken."""

import re

from studio.core.text.typography import CURRENCY, FRACTIONS, MARKS, MONTHS, MUTE, is_abbreviation

# Words whose reading depends on the next token, and abbreviations whose reading does not.
BESIDE = frozenset(
    "Dr St Ft Fig fig Figs figs Eq eq Vol vol pp No Rt Rte Ch ch Sec "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec USD CAD AUD NZD HKD SGD EUR GBP JPY INR KRW "
    "RUB TRY THB ILS NGN VND PHP UAH BRL CHF CNY RMB SEK NOK DKK PLN MXN ZAR BTC Rs sq cu fl Gen Col Gov Sen Rep "
    "Rev Adm Lt Sat Sun kr $US $CA $AU $NZ $HK exp Exp".split()
) | frozenset(MONTHS)
BETWEEN = frozenset("x×")  # held behind a held amount: 10 x 20 cm
SELF_CONTAINED = frozenset(
    "Mr Mrs Ms Pres Prof Rev Sgt Capt Cpt Lt Col Gen Maj Cpl Adm Gov Sen Rep Hon Mt Ft Nos vs Vs approx cf "
    "ext Apt Drs Mx Rm e.g i.e".split()
)
# Amounts: 5, $2.50, US$3, Rs.5, 10-20, 1/2, #, 1st, 2.5m, 6e-5; a variable (2x) before a sign; the second time of
# "6 pm-8 pm".
_GROWING = re.compile(
    f"[^A-Za-z%¢]*[0-9#{re.escape(CURRENCY)}{FRACTIONS}][^A-Za-z%¢]*|[0-9]{{1,2}}(?:st|nd|rd|th)|[0-9,]+[a-z]"
    r"|[0-9]{1,4}[-~][A-Z][a-z]{2,8}\.?"
    r"|[0-9.,]+(?:[kmKMBT]|bn|mn|[eE][-+]?[0-9]+)|(?:Rs\.|[A-Z]{3})[0-9][0-9.,]*|[lL]/100"
    rf"|(?:thousand|[mbt]rillion|[mb]illion|°[CF]?|[GMTk]B|[kGM]?Hz|km|kg|cm|mm|mg|m[lL]|k?W|mi|mph|ft|lbs?|hrs|mins?)[-~][{re.escape(CURRENCY)}]?[0-9][0-9.,]*"
    rf"|X[IVX]{{1,4}}|[0-9][0-9./{FRACTIONS}]*inch|[0-9][0-9.,]*x[0-9][0-9.,x]*"
    r"|[A-Z]{1,3}\$[0-9.,-]*|[apAP]\.?[mM]\.?[-~][0-9][0-9:.]*"
)
_WHOLE = re.compile(r"[0-9]+(?:([./-])[0-9]+\1[0-9]+|(?:\.[0-9]+){3})[:/0-9]*")  # dates, versions and addresses


def can_grow(token: str) -> bool:
    """Whether the next token can still change how this one is spoken. A mark at its end closes it."""
    if token[-1] in MARKS:
        base = token[:-1]
        return token[-1] == "." and base not in SELF_CONTAINED and is_abbreviation(base)
    if token in MUTE or token[-1] == "-" or token in BESIDE:
        return True
    return _GROWING.fullmatch(token) is not None and _WHOLE.fullmatch(token) is None
