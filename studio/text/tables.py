"""Readings of written forms in English: abbreviations, symbols, units, money, letters."""

import re

from studio.core.text.typography import FRACTIONS, MONTHS

MONTH_NAMES = {name: name.lower() for name in MONTHS}
MONTH_NAMES |= {name[:3] + stop: name.lower() for name in MONTHS if name != "May" for stop in ("", ".")}
MONTH_NAMES |= {"Sept": "september", "Sept.": "september"}
WEEKDAYS = {
    short: day
    for day, shorts in {
        "monday": "Mon", "tuesday": "Tue Tues", "wednesday": "Wed", "thursday": "Thu Thur Thurs", "friday": "Fri",
        "saturday": "Sat", "sunday": "Sun",
    }.items()
    for short in shorts.split()
}  # fmt: skip

# Keys end with the full stop; a test checks that they equal core.typography.ABBREVIATIONS.
ABBREVIATIONS = {
    "Dr.": "doctor", "Mr.": "mister", "Mrs.": "missus", "Ms.": "miz", "Prof.": "professor", "Pres.": "president",
    "Rev.": "reverend", "Sgt.": "sergeant", "Capt.": "captain", "Cpt.": "captain", "Lt.": "lieutenant",
    "Col.": "colonel", "Gen.": "general", "Gov.": "governor", "Sen.": "senator", "Rep.": "representative",
    "Hon.": "honorable", "Jr.": "junior", "Sr.": "senior", "St.": "street",
    "Mt.": "mount", "Ft.": "fort", "Ave.": "avenue", "Blvd.": "boulevard",
    "Rd.": "road", "Inc.": "incorporated", "Ltd.": "limited", "Co.": "company", "Corp.": "corporation",
    "No.": "no", "Nos.": "numbers", "Fig.": "figure", "Vol.": "volume", "etc.": "etcetera", "vs.": "versus",
    "Vs.": "versus", "approx.": "approximately", "dept.": "department", "Dept.": "department", "pp.": "pages",
    "no.": "number", "nos.": "numbers", "figs.": "figures", "eq.": "equation", "pg.": "page", "Esq.": "esquire",
    "in.": "inches", "ft.": "feet", "mi.": "miles", "yd.": "yards", "min.": "minutes", "sec.": "seconds",
    "gal.": "gallons", "pt.": "pints", "qt.": "quarts", "yr.": "years", "yrs.": "years", "wk.": "weeks",
    "wks.": "weeks", "Pvt.": "private", "Sat.": "saturday", "Sun.": "sunday",
    "v.": "versus", "al.": "al", "Assoc.": "associate", "Asst.": "assistant",
    "Cmdr.": "commander", "Messrs.": "messieurs", "Attn.": "attention",
    "attn.": "attention", "est.": "established", "Est.": "established", "Rt.": "route", "Rte.": "route",
    "hon.": "honorable", "Supt.": "superintendent", "Msgr.": "monsignor", "Ct.": "court", "Cres.": "crescent",
    "Bldg.": "building", "bldg.": "building", "Univ.": "university", "Intl.": "international", "Natl.": "national",
    "govt.": "government", "Govt.": "government", "max.": "maximum", "Max.": "maximum", "Min.": "minimum",
    "avg.": "average", "Approx.": "approximately", "misc.": "miscellaneous",
    "cf.": "compare", "ca.": "circa", "c.": "circa", "Ph.D.": "p h d", "p.": "page", "fig.": "figure",
    "ext.": "extension", "Apt.": "apartment", "Figs.": "figures", "vol.": "volume", "Ch.": "chapter", "Sec.": "section",
    "Eq.": "equation", "Hwy.": "highway",
    "Pkwy.": "parkway", "Ln.": "lane", "Maj.": "major", "Cpl.": "corporal", "Adm.": "admiral", "Bros.": "brothers",
    "tsp.": "teaspoons", "tbsp.": "tablespoons", "oz.": "ounces", "lb.": "pounds", "lbs.": "pounds", "hr.": "hours",
    "hrs.": "hours", "mins.": "minutes", "secs.": "seconds", "yds.": "yards", "sq.": "square", "cu.": "cubic",
    "fl.": "fluid", "Rs.": "rupees", "Tel.": "telephone", "tel.": "telephone", "Drs.": "doctors", "Mx.": "mix",
    "Rm.": "room", "Op.": "opus", "doz.": "dozen", "mos.": "months", "Calif.": "california", "Tex.": "texas",
    "Fla.": "florida", "Ariz.": "arizona", "Colo.": "colorado", "Conn.": "connecticut", "Mich.": "michigan",
    "Minn.": "minnesota", "Nebr.": "nebraska", "Nev.": "nevada", "Okla.": "oklahoma", "Tenn.": "tennessee",
    "Wis.": "wisconsin", "Wyo.": "wyoming", "incl.": "including", "excl.": "excluding", "qty.": "quantity",
    "Qty.": "quantity", "ch.": "chapter", "Assn.": "association", "ver.": "version", "Ver.": "version",
    "Ste.": "suite", "Pt.": "part",
    "esp.": "especially", "viz.": "namely", "Amb.": "ambassador", "Atty.": "attorney", "Det.": "detective",
    "Insp.": "inspector", "Cdr.": "commander", "Brig.": "brigadier", "Mme.": "madame", "Pfc.": "private first class",
    "Pl.": "place", "Sq.": "square",
    "Fwy.": "freeway", "Dist.": "district", "Cf.": "compare", "Pp.": "pages", "Pg.": "page",
    "Avg.": "average", "Incl.": "including", "Excl.": "excluding", "Esp.": "especially", "Viz.": "namely",
    "apt.": "apartment", "ste.": "suite", "rm.": "room", "&c.": "etcetera",
} | {key: name for key, name in MONTH_NAMES.items() if key.endswith(".")}  # fmt: skip
DAYS_AND_MONTHS = frozenset((*WEEKDAYS, *(day.capitalize() for day in WEEKDAYS.values()), *MONTH_NAMES))
ABBREVIATIONS |= {f"{short}.": day for short, day in WEEKDAYS.items()}
# Also read without their full stop. "Dr" and "St" depend on their neighbours (``context``).
_NO_STOP = (
    "Mr Mrs Ms Prof Sgt Capt Cpt Jr Sr Mt Ave Blvd Rd Inc Ltd Corp etc vs approx dept Dept ext Apt Nos Hwy Pkwy Ln "
    "Maj Cpl Bros Esq Pvt Cmdr Messrs Attn attn Supt Msgr Ct Cres Bldg bldg Univ Intl Natl govt Govt avg misc Approx "
    "hrs mins secs lbs yds Tel Drs Mx Rm Feb Apr Jul Aug Sep "
    "Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri"
)
NUMBERED = {"No.": "number", "no.": "number", "No": "number", "#": "number", "Fig": "figure", "fig": "figure",
            "Figs": "figures", "figs": "figures", "Eq": "equation", "eq": "equation", "Vol": "volume", "vol": "volume",
            "p.": "page", "pp": "pages", "Rt": "route", "Rte": "route", "Ch": "chapter", "ch": "chapter",
            "Sec": "section", "sec.": "section", "est.": "established", "Est.": "established",
            "c.": "circa", "ca.": "circa", "Op.": "opus", "ch.": "chapter",
            "apt.": "apartment", "ste.": "suite", "rm.": "room"}  # fmt: skip
# Words that begin a sentence: before them, the full stop of dotted letters (U.S.) ends the previous one.
STARTERS = frozenset(
    "He She It They We I You The A An This That These Those There Then But And In On At So If When My His Her Our "
    "Their "
    "What Who Why How Where Now Many Most Some Later Please There Here Yes No Do Does Did Is Are Was Were Can Could "
    "Will Would Should For From After Before Since While Although However All Each Every Both One Two Not Nobody "
    "Everyone Once Until To By With As Or It's That's Let's I'm He's She's Don't".split()
)
DOTTED = {"e.g.": "for example", "i.e.": "that is"}
WORDS_TOO = frozenset("no c in al fig Sat Sun apt".split())  # abbreviations that are also words
# All other abbreviations (MAY_END) may end a sentence: before a capital, or last, their full stop also ends it.
_NEVER_LAST = (
    "Mr Mrs Ms Prof Pres Rev Sgt Capt Cpt Lt Col Gen Gov Sen Rep Hon hon Mt Ft Nos nos Fig Figs fig figs Vol vol vs Vs "
    "approx Approx pp cf ca p pg ext Apt Drs Mx Rm Op Ch Sec Eq eq Maj Cpl Adm sq cu fl Rs Tel tel Pvt Cmdr Messrs "
    "ch incl excl Ver ver Ste Pt esp viz Amb Atty Det Insp Cdr Brig Mme Pfc Attn attn "
    "Supt Msgr Assoc Asst v Rt Rte Est Univ Intl Natl Max Min Cf Ca Pp Pg Incl Excl Esp Viz apt ste rm"
)
# After these a name may continue: only a word of STARTERS begins a sentence there.
NAME_GOES_ON = frozenset(
    "Inc. Corp. Co. Ltd. Bros. Jr. Sr. Dept. Univ. Assoc. Intl. Natl. Govt. Calif. Tex. Fla.".split()
)
MAY_END = frozenset(ABBREVIATIONS) - {f"{short}." for short in _NEVER_LAST.split()}

SYMBOLS = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "#": "hash", "<": "less than",
    ">": "greater than", "^": "caret", "~": "about", "\\": "backslash", "/": "slash", "*": "times", "_": "underscore",
    "|": "bar", "$": "dollars", "£": "pounds", "€": "euros", "¥": "yen", "₹": "rupees", "¢": "cents", "§": "section",
    "°": "degrees", "±": "plus or minus", "×": "times", "÷": "divided by", "µ": "micro", "²": "squared", "³": "cubed",
    "π": "pi", "√": "square root of", "‰": "per mille", "∞": "infinity", "≈": "about", "≠": "is not equal to",
    "≤": "less than or equal to",
    "≥": "greater than or equal to", "−": "minus", "→": "to", "⇒": "to", "Ω": "omega", "★": "star",
    "✓": "check", "✔": "check", "✗": "cross", "¶": "paragraph",
    "©": "copyright", "®": "registered", "™": "trademark", ".": "dot", ":": "colon", "-": "dash", ",": "comma",
    "?": "question mark", "!": "exclamation mark", ";": "semicolon", "'": "apostrophe",
}  # fmt: skip

# Signs of two and three characters, the longest first.
OPERATORS = {
    "!==": "is not equal to", "=/=": "is not equal to", "===": "equals", "!=": "is not equal to",
    "<>": "is not equal to", "~=": "about equals", "==": "equals",
    "<=": "less than or equal to", ">=": "greater than or equal to", "->": "to",
}  # fmt: skip
SHORT_FORMS = {
    "w/": "with", "w/o": "without", "w/in": "within", "w/out": "without", "W/": "with", "W/o": "without",
    "c/o": "care of", "b/c": "because", "b/w": "between",
}  # fmt: skip

CURRENCIES = {  # singular, plural, singular and plural of a hundredth
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"), "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"), "₺": ("lira", "lira", "kurush", "kurush"),
    "฿": ("baht", "baht", "satang", "satang"), "₪": ("shekel", "shekels", "agora", "agorot"),
    "₦": ("naira", "naira", "kobo", "kobo"), "₫": ("dong", "dong", "xu", "xu"), "₱": ("peso", "pesos", "cent", "cents"),
    "₴": ("hryvnia", "hryvnias", "kopek", "kopeks"), "₿": ("bitcoin", "bitcoins", "cent", "cents"),
    "Rs.": ("rupee", "rupees", "paisa", "paise"),
}  # fmt: skip
_DOLLARS = {"US": "u s", "C": "canadian", "CA": "canadian", "A": "australian", "AU": "australian", "NZ": "new zealand",
            "HK": "hong kong", "S": "singapore", "NT": "taiwan", "R": "brazilian"}  # fmt: skip
CURRENCIES |= (
    {f"{prefix}$": (f"{nation} dollar", f"{nation} dollars", "cent", "cents") for prefix, nation in _DOLLARS.items()}
    | {
        f"${nation}": (f"{_DOLLARS[nation]} dollar", f"{_DOLLARS[nation]} dollars", "cent", "cents")
        for nation in ("US", "CA", "AU", "NZ", "HK")
    }
    | {"R$": ("real", "reais", "centavo", "centavos"), "MX$": ("mexican peso", "mexican pesos", "cent", "cents")}
)
CODES = {  # ISO 4217, read as the sign or by name
    "USD": "US$", "CAD": "C$", "AUD": "A$", "NZD": "NZ$", "HKD": "HK$", "SGD": "S$", "EUR": "€", "GBP": "£",
    "JPY": "¥", "INR": "₹", "KRW": "₩", "RUB": "₽", "TRY": "₺", "THB": "฿", "ILS": "₪", "NGN": "₦", "VND": "₫",
    "PHP": "₱", "UAH": "₴", "BRL": "R$", "CHF": "CHF", "CNY": "CNY", "RMB": "CNY", "SEK": "SEK", "NOK": "NOK",
    "DKK": "DKK", "PLN": "PLN", "MXN": "MXN", "ZAR": "ZAR", "BTC": "BTC",
    "Rs": "₹", "Rs.": "₹", "kr": "kr",
}  # fmt: skip
CURRENCIES |= {
    "CHF": ("swiss franc", "swiss francs", "rappen", "rappen"), "CNY": ("yuan", "yuan", "fen", "fen"),
    "SEK": ("swedish krona", "swedish kronor", "ore", "ore"),
    "NOK": ("norwegian krone", "norwegian kroner", "ore", "ore"),
    "DKK": ("danish krone", "danish kroner", "ore", "ore"), "PLN": ("zloty", "zlotys", "grosz", "groszy"),
    "MXN": ("mexican peso", "mexican pesos", "cent", "cents"), "ZAR": ("rand", "rand", "cent", "cents"),
    "BTC": ("bitcoin", "bitcoins", "cent", "cents"), "kr": ("krone", "kroner", "ore", "ore"),
}  # fmt: skip
SCALES = frozenset(("hundred", "thousand", "million", "billion", "trillion", "lakh", "crore"))
SCALE_LETTERS = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion",
                 "mln": "million", "bln": "billion", "B": "billion", "b": "billion", "T": "trillion",
                 "tn": "trillion"}  # fmt: skip

_REGULAR = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "nm": "nanometer",
    "mi": "mile", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "L": "liter", "l": "liter", "ml": "milliliter", "mL": "milliliter", "cl": "centiliter", "h": "hour",
    "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "s": "second", "sec": "second", "secs": "second",
    "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "B": "byte", "kB": "kilobyte", "KB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "W": "watt", "kW": "kilowatt", "MW": "megawatt",
    "kWh": "kilowatt hour", "V": "volt", "mA": "milliamp", "dB": "decibel", "ha": "hectare", "Pa": "pascal",
    "kPa": "kilopascal", "kcal": "kilocalorie", "cal": "calorie", "px": "pixel", "°": "degree", "m²": "square meter",
    "Ω": "ohm", "kΩ": "kilohm", "MΩ": "megohm", "kJ": "kilojoule", "mW": "milliwatt",
    "mV": "millivolt", "kV": "kilovolt", "GW": "gigawatt", "GWh": "gigawatt hour", "MWh": "megawatt hour",
    "Wh": "watt hour", "mAh": "milliamp hour", "Ah": "amp hour", "hPa": "hectopascal", "bar": "bar", "µg": "microgram",
    "mcg": "microgram", "dl": "deciliter", "dL": "deciliter", "mo": "month", "yds": "yard", "dm": "decimeter",
    "t": "ton", "K": "kelvin", "tsp": "teaspoon",
    "tbsp": "tablespoon", "Tbsp": "tablespoon", "pt": "pint", "qt": "quart", "gal": "gallon", "kbit": "kilobit",
    "Mbit": "megabit", "Gbit": "gigabit", "MP": "megapixel", "mol": "mole", "wk": "week", "wks": "week",
    "yr": "year", "yrs": "year", "mol/L": "mole per liter",
    "sqm": "square meter", "kN": "kilonewton", "MJ": "megajoule", "J": "joule", "GJ": "gigajoule", "kts": "knot",
    "pts": "pint", "qts": "quart", "gals": "gallon", "kgs": "kilogram", "kms": "kilometer",
    "kt": "knot", "deg": "degree", "mos": "month", "pcs": "piece", "pc": "piece", "ly": "light year",
    "Nm": "newton meter",
    "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "PB": "petabyte", "kn": "knot", "nmi": "nautical mile",
}  # fmt: skip
UNITS = {unit: (name, name + "s") for unit, name in _REGULAR.items()} | {
    "ft": ("foot", "feet"), "sqft": ("square foot", "square feet"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"), "hz": ("hertz", "hertz"),
    "lx": ("lux", "lux"), "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"),
    "°C": ("degree celsius", "degrees celsius"), "°F": ("degree fahrenheit", "degrees fahrenheit"),
    "psi": ("pound per square inch", "pounds per square inch"), "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "kbps": ("kilobit per second", "kilobits per second"), "Gbps": ("gigabit per second", "gigabits per second"),
    "mpg": ("mile per gallon", "miles per gallon"), "bpm": ("beat per minute", "beats per minute"),
    "ppm": ("part per million", "parts per million"),
    "Mbps": ("megabit per second", "megabits per second"), "fps": ("frame per second", "frames per second"),
    "rpm": ("revolution per minute", "revolutions per minute"), "%": ("percent", "percent"), "¢": ("cent", "cents"),
    "ft-lb": ("foot pound", "foot pounds"), "ft-lbs": ("foot pound", "foot pounds"),
    "lb-ft": ("pound foot", "pound feet"), "bbl": ("barrel", "barrels"), "IU": ("i u", "i u"),
    "dBm": ("d b m", "d b m"), "dBA": ("d b a", "d b a"),
    "dpi": ("dot per inch", "dots per inch"),
    "ppi": ("pixel per inch", "pixels per inch"), "ppb": ("part per billion", "parts per billion"),
    "bps": ("bit per second", "bits per second"), "doz": ("dozen", "dozen"),
    "lbf": ("pound force", "pounds force"),
    "kgm²": ("kilogram square meter", "kilogram square meters"),
    "inch": ("inch", "inches"), "hp": ("horsepower", "horsepower"), "bhp": ("brake horsepower", "brake horsepower"),
    "cc": ("c c", "c c"),
    "st": ("stone", "stone"), "in²": ("square inch", "square inches"), "‰": ("per mille", "per mille"),
    "wpm": ("word per minute", "words per minute"), "x": ("times", "times"), "×": ("times", "times"),
}  # fmt: skip

# With prefixes: 8 MPa, 5 mmol, 3 µF; without those that are words or names: TV, pH, MA.
_PREFIXES = {"p": "pico", "n": "nano", "µ": "micro", "u": "micro", "m": "milli", "k": "kilo", "M": "mega", "G": "giga"}
_PREFIXED = (
    "mol:mole:pnµmk F:farad:pnµum Pa:pascal:mkMG N:newton:pnµmk Nm:newton meter:mk g:gram:pnµum L:liter:pnµum "
    "l:liter:nµum W:watt:nµmkMG V:volt:nµmkM A:amp:nµmk J:joule:nµmkMG s:second:pnµm b:bit:kMG eV:electron volt:mkMG "
    "Sv:sievert:µm Bq:becquerel:kMG m:meter:nµmk"
)
for _one in re.findall(r"(\w+):([\w ]+?):([\wµ]+)", _PREFIXED):
    for _short in _one[2]:
        UNITS.setdefault(f"{_short}{_one[0]}", (f"{_PREFIXES[_short]}{_one[1]}", f"{_PREFIXES[_short]}{_one[1]}s"))

SINGULARS = {  # singulars of the words of units and currencies, by plural
    many: one
    for names in (*UNITS.values(), *(currency[:2] for currency in CURRENCIES.values()))
    for one, many in zip(names[0].split(), names[1].split(), strict=True)
    if one != many
}
LENGTHS = frozenset(("mm", "cm", "dm", "m", "km", "mi", "ft", "in", "yd", "µm"))  # with ²: square; other units: squared
RATED = {"N": ("newton", "newtons"), "J": ("joule", "joules")}  # only before a slash: "5 N" may be north
PER = frozenset(  # words after a slash that make a rate
    "hour day night week month year second minute person head piece unit item mile kilo pound seat user word".split()
)
VULGAR = {"⅐": "1/7", "⅑": "1/9", "⅒": "1/10", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6",
          "¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8",
          "⅞": "7/8"}  # fmt: skip
assert set(VULGAR) == set(FRACTIONS)

# Capitals: two or three letters are spelled, except these words; longer ones only if in SPELLED or without a vowel.
_CAPITAL_WORDS = (
    "ah am an as at be by do eh go ha he hi if in is it me my no of oh on or ox so to up we all and any are ask bad "
    "bag bed bet big bit box boy bus but buy can car cat cow cry cup cut day did die dog dry due ear eat egg end "
    "eye fan far fat few fit fix fly for fun gas get got gun guy had has hat her hey him his hit hot how ice its "
    "job joy key kid law lay leg let lie lot low mad man map may men met mix mom mud new nor not now nut odd off "
    "oil old one our out own pay pen per pet pie pin put ram ran red rid rom row run sad sat saw say sea see set "
    "she shy sim sir sit six sky son sun tea ten the tie tip toe too top try two use van war was way web wet who "
    "why win won wow yes yet you zip zoo"
)
CAPITAL_WORDS = frozenset(_CAPITAL_WORDS.split())
SOUNDS = frozenset("hm hmm hmmm mm mmm sh shh shhh psst pst brr brrr grr grrr tsk zzz nth pfft".split())  # no vowel
SPELLED = frozenset(
    ("isbn", "issn", "iban", "html", "http", "https", "ieee", "ascap", "ymca", "ncaa", "ucla", "lapd", "aclu")
)
READ_AS = {
    "PhD": "p h d",
    "BSc": "b s c",
    "MSc": "m s c",
    "mgr": "manager",
    "gov't": "government",
    "int'l": "international",
    "nat'l": "national",
    "ii": "two",
    "iii": "three",
    "iv": "i v",
    "vii": "seven",
    "viii": "eight",
    "Mk": "mark",
    "pH": "p h",
    "ssh": "s s h",
    "http": "h t t p",
    "https": "h t t p s",
    "Hrs": "hours",
    "Etc": "etcetera",
    "ave": "avenue",
    "blvd": "boulevard",
    "rd": "road",
    "hwy": "highway",
    "aka": "a k a",
    "arXiv": "arxiv",
    "OK": "okay",
    "Ok": "okay",
    "ok": "okay",
} | {short: (ABBREVIATIONS | MONTH_NAMES)[f"{short}."] for short in _NO_STOP.split()}

# A Roman numeral of one letter is read after these words; "I" and "V" are letters elsewhere.
PARTS = frozenset(
    "War Part Chapter Act Scene Book Volume Phase Stage Section Article Title Type Class Level Unit Figure Table "
    "Appendix WrestleMania Wrestlemania Olympiad Fantasy Quest Opus Symphony Sonata Element Saw Sequel Vatican "
    "Bowl Mk Vol. Ch. Sec. Fig. Game Rocky Episode Season Tier Schedule Canto Psalm Division Category Group Grade "
    "Mark Apollo".split()
)
# After the first names of sovereigns a numeral is an ordinal.
SOVEREIGNS = frozenset(
    "Henry Elizabeth Louis Charles George Edward James William Richard Mary John Paul Benedict Pius Leo Gregory "
    "Innocent "
    "Clement Urban Napoleon Nicholas Alexander Peter Catherine Frederick Wilhelm Philip Ferdinand Francis Joseph Ivan "
    "Ramesses Ramses Rameses Ptolemy Cleopatra Darius Xerxes Victor Umberto Albert Leopold Christian Margrethe Harald "
    "Gustav Carl Sigismund Constantine Justinian Theodosius Otto Robert David Kenneth Boniface Sixtus Julius "
    "Juan Alfonso Felipe Carlos Pedro Manuel Mehmed Selim Murad Suleiman Tsar Rama".split()
)
# After these names "I" is more often the word than a numeral.
COMMON_NAMES = frozenset("Mary John Paul Peter Alexander Joseph Victor Albert Otto Robert David Kenneth Juan".split())
# After one of these and any name, a numeral is an ordinal.
RULERS = frozenset("King Queen Pope Emperor Empress Tsar Czar Prince Sultan Shah Pharaoh Kaiser Duke Saint".split())
BOOKS = frozenset(  # with chapter and verse: 3:16
    "Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth Samuel Kings Chronicles Ezra Job Psalm Psalms "
    "Proverbs Isaiah Jeremiah Ezekiel Daniel Matthew Mark Luke John Acts Romans Corinthians Galatians Ephesians "
    "Philippians Colossians Thessalonians Timothy Hebrews James Peter Jude Revelation Quran Surah".split()
)
TIMED = frozenset("took take takes taking lasted lasts last for within ran runs of in".split())  # 1:23:45 is a duration
PLACES = frozenset(  # 12B is not an amount after these
    "apt apartment room gate flat seat row suite floor bus exit unit section figure fig table part class no page house "
    "block building platform bay lot locker ward door route track chapter question exercise appendix terminal".split()
)
DATED = frozenset("on due by until till since before after dated".split())  # 5/8 is a date after these
DAYS_FOLLOW = frozenset("on by until till next last every this you since each".split())  # Sat and Sun are days
YEARS = frozenset("year in since by until from year after before circa".split())  # 1066 is a year after these
CALLED = frozenset("call dial phone ring text".split())  # 911 is read digit by digit after these
CODED = frozenset("pin code passcode password otp".split())  # 1234 is read digit by digit after these
COUNTED = frozenset(  # a number of four digits before these is not a year
    "people persons men women children students users visitors voters votes seats words characters pages steps "
    "calories points copies items units times tokens lines rows files miles meters metres kilometers hours days "
    "employees workers soldiers houses books samples patients participants members followers".split()
)
MINUS_FOLLOWS = frozenset("is was are were be at to of from reached hit minus equals below".split())  # it was - 5
SCORED = frozenset("won lost win lose beat lead led drew scored score".split())  # 3 - 1 is a score after these
MARKED = frozenset("got scored rated gave rating score".split())  # 9/10 is "out of" after these
MONTHS_FOLLOW = frozenset("in In late early mid last next".split())  # Jan and Mar are months, not names, after these
NOT_MARKED = frozenset("of to the a an each done = + equals".split())  # gave 1/10 to charity
CLEAR_MONTHS = frozenset(MONTH_NAMES) & frozenset("Feb Apr Jul Aug Sep Sept Oct Nov Dec".split())
NAME_PARTS = frozenset("van von del de der ten".split())  # Jan van Eyck, Mar del Plata
FOOT_LONG = frozenset(  # a 6' fence
    "fence wall ladder pole cable cord rope table board ceiling pool drop tree boat tape hose beam plank rug snake "
    "shark sofa bed shelf bench counter section length piece man woman person tall long wide deep high".split()
)
SIZED = frozenset(  # after an amount of inches these are not what it measures: 12" wide, a 12" ruler
    "wide long tall high deep thick across apart away above below up down off out more less than of is was are were "
    "x × in on at to by and or but from with for if so as when while that which it he she they we i you last next "
    "this yesterday today overnight per each every because before after since until too only left right over under "
    "around between behind".split()
)
STREETS = frozenset("St. Ave. Blvd. Rd. St Ave Blvd Rd Street Avenue Boulevard Road Drive Place Court".split())
STATES = frozenset(  # a ZIP code follows
    "AL AK AZ AR CA CO CT DC DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR "
    "PA RI SC SD TN TX UT VT VA WA WV WI WY".split()
)
