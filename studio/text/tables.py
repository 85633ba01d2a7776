"""Readings of written forms in English: abbreviations, symbols, units, money, letters."""

from studio.core.text.typography import MONTHS

MONTH_NAMES = {name: name.lower() for name in MONTHS}
MONTH_NAMES |= {name[:3] + ".": name.lower() for name in MONTHS if name != "May"} | {"Sept.": "september"}

# Keys end with the full stop; a test holds them equal to core.typography.ABBREVIATIONS.
ABBREVIATIONS = {
    "Dr.": "doctor", "Mr.": "mister", "Mrs.": "missus", "Ms.": "miz", "Prof.": "professor", "Rev.": "reverend",
    "Sgt.": "sergeant", "Capt.": "captain", "Lt.": "lieutenant", "Col.": "colonel", "Gen.": "general",
    "Gov.": "governor", "Sen.": "senator", "Rep.": "representative", "Hon.": "honorable", "Jr.": "junior",
    "Sr.": "senior", "St.": "street", "Mt.": "mount", "Ft.": "fort", "Ave.": "avenue", "Blvd.": "boulevard",
    "Rd.": "road", "Inc.": "incorporated", "Ltd.": "limited", "Co.": "company", "Corp.": "corporation",
    "No.": "no", "Nos.": "numbers", "Fig.": "figure", "Vol.": "volume", "etc.": "etcetera", "vs.": "versus",
    "Vs.": "versus", "approx.": "approximately", "dept.": "department", "Dept.": "department", "pp.": "pages",
    "cf.": "compare", "Ph.D.": "p h d",
} | {key: name for key, name in MONTH_NAMES.items() if key.endswith(".")}  # fmt: skip
DOTTED = {"e.g.": "for example", "i.e.": "that is"}
# These may end a sentence: with a capital after them, or nothing, their full stop is also the sentence's.
MAY_END = frozenset(
    ("etc.", "Jr.", "Sr.", "Ave.", "Blvd.", "Rd.", "Inc.", "Ltd.", "Co.", "Corp.", "No.", "Ph.D.", "St.")
)

SYMBOLS = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "#": "hash", "<": "less than",
    ">": "greater than", "^": "caret", "~": "about", "\\": "backslash", "/": "slash", "*": "times", "_": "underscore",
    "|": "bar", "$": "dollars", "£": "pounds", "€": "euros", "¥": "yen", "₹": "rupees", "¢": "cents", "§": "section",
    "°": "degrees", "±": "plus or minus", "×": "times", "÷": "divided by", "µ": "micro", "²": "squared", "³": "cubed",
    "π": "pi", "√": "square root of", "∞": "infinity", "≈": "about", "≠": "is not", "≤": "at most", "≥": "at least",
    "©": "copyright", "®": "registered", "™": "trademark", ".": "dot", ":": "colon", "-": "dash", ",": "comma",
    "?": "question mark", "!": "exclamation mark", ";": "semicolon", "'": "apostrophe",
}  # fmt: skip

CURRENCIES = {  # one, several, a hundredth, hundredths
    "$": ("dollar", "dollars", "cent", "cents"), "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"), "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}  # fmt: skip
SCALES = frozenset(("hundred", "thousand", "million", "billion", "trillion"))
SCALE_LETTERS = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion",
                 "B": "billion", "b": "billion", "T": "trillion", "tn": "trillion"}  # fmt: skip

_REGULAR = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "nm": "nanometer",
    "mi": "mile", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "L": "liter", "l": "liter", "ml": "milliliter", "mL": "milliliter", "cl": "centiliter", "h": "hour",
    "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "s": "second", "sec": "second", "secs": "second",
    "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "B": "byte", "kB": "kilobyte", "KB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "W": "watt", "kW": "kilowatt", "MW": "megawatt",
    "kWh": "kilowatt hour", "V": "volt", "mA": "milliamp", "dB": "decibel", "ha": "hectare", "Pa": "pascal",
    "kPa": "kilopascal", "kcal": "kilocalorie", "cal": "calorie", "px": "pixel", "°": "degree", "m²": "square meter",
    "km²": "square kilometer", "cm²": "square centimeter", "m³": "cubic meter", "cm³": "cubic centimeter",
}  # fmt: skip
UNITS = {unit: (name, name + "s") for unit, name in _REGULAR.items()} | {
    "ft": ("foot", "feet"), "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"),
    "°C": ("degree celsius", "degrees celsius"), "°F": ("degree fahrenheit", "degrees fahrenheit"),
    "km/h": ("kilometer per hour", "kilometers per hour"), "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"), "m/s": ("meter per second", "meters per second"),
    "Mbps": ("megabit per second", "megabits per second"), "fps": ("frame per second", "frames per second"),
    "rpm": ("turn per minute", "turns per minute"), "%": ("percent", "percent"), "¢": ("cent", "cents"),
    "wpm": ("word per minute", "words per minute"), "x": ("times", "times"), "×": ("times", "times"),
}  # fmt: skip

VULGAR = {"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}

# Capitals: two or three letters are spelled but for these words; four and five only where listed or without a vowel.
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
SPELLED = frozenset(("html", "http", "https", "ieee", "ascap", "ymca", "ncaa", "ucla", "lapd", "aclu"))
READ_AS = {"OK": "okay", "Ok": "okay", "ok": "okay",
         "II": "two", "III": "three", "IV": "four", "VI": "six", "VII": "seven", "VIII": "eight", "IX": "nine",
         "XI": "eleven", "XII": "twelve", "XIII": "thirteen", "XIV": "fourteen", "XV": "fifteen"}  # fmt: skip
