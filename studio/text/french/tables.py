"""Readings of written forms in French: abbreviations, symbols, units, money, capitals."""

MONTHS = tuple("janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split())

# Keys include the full stop. That of an abbreviation in MAY_END may also end the sentence.
ABBREVIATIONS = {
    "M.": "monsieur", "MM.": "messieurs", "Mr.": "monsieur", "Mme.": "madame", "Mlle.": "mademoiselle",
    "Dr.": "docteur", "Pr.": "professeur", "Prof.": "professeur", "St.": "saint", "Ste.": "sainte",
    "Mgr.": "monseigneur", "etc.": "et cetera", "cf.": "confer", "env.": "environ", "ex.": "exemple", "p.": "page",
    "pp.": "pages", "art.": "article", "chap.": "chapitre", "vol.": "volume", "fig.": "figure", "éd.": "édition",
    "tél.": "téléphone", "bd.": "boulevard", "av.": "avenue", "apr.": "après", "ap.": "après", "réf.": "référence",
    "max.": "maximum", "min.": "minimum", "hab.": "habitants", "dép.": "département", "J.-C.": "jésus-christ",
    "c.-à-d.": "c'est-à-dire", "s.v.p.": "s'il vous plaît", "S.V.P.": "s'il vous plaît", "janv.": "janvier",
    "févr.": "février", "avr.": "avril", "juill.": "juillet", "sept.": "septembre", "oct.": "octobre",
    "nov.": "novembre", "déc.": "décembre", "lun.": "lundi", "mar.": "mardi", "mer.": "mercredi", "jeu.": "jeudi",
    "ven.": "vendredi", "sam.": "samedi", "dim.": "dimanche", "app.": "appartement", "resp.": "respectivement",
    "qqch.": "quelque chose", "qqn.": "quelqu'un", "inf.": "inférieur", "sup.": "supérieur", "cap.": "capitaine",
    "th.": "thermostat", "pers.": "personnes", "s.": "siècle",
}  # fmt: skip
SHORT_FORMS = {
    "Mr": "monsieur", "Mme": "madame", "Mmes": "mesdames", "Mlle": "mademoiselle", "Mlles": "mesdemoiselles",
    "Dr": "docteur", "Drs": "docteurs", "Pr": "professeur", "Mgr": "monseigneur", "St": "saint", "Ste": "sainte",
    "Sts": "saints", "Stes": "saintes", "bd": "boulevard", "Bd": "boulevard", "bld": "boulevard", "Bld": "boulevard",
    "n°": "numéro", "N°": "numéro", "#": "numéro", "svp": "s'il vous plaît", "SVP": "s'il vous plaît",
    "stp": "s'il te plaît", "cf": "confer", "Cie": "compagnie", "Sté": "société", "RDV": "rendez-vous",
    "Rdv": "rendez-vous", "rdv": "rendez-vous", "tél": "téléphone", "Tél": "téléphone", "vs": "versus",
    "qqch": "quelque chose", "qqn": "quelqu'un", "OK": "okay", "ok": "okay",
}  # fmt: skip
MAY_END = frozenset(("etc.", "J.-C.", "hab.", "s.v.p.", "S.V.P.", "max.", "min.", "app.", "s."))
WORDS_TOO = ("sept", "mer", "jeu", "art", "vol", "ex", "cap")  # abbreviations only before numbers, else words
# Tokens whose reading depends on the next one.
BESIDE = frozenset(
    "Me p. av. ap. apr. n° N° # million millions milliard milliards k M Md Mds / x l/100 L/100 "
    "etc. J.-C. hab. s.v.p. S.V.P. max. min. app. s.".split()
) | {f"{word}." for word in WORDS_TOO}

CURRENCIES = {  # singular, plural; feminine ones are in FEMININE
    "€": ("euro", "euros"), "$": ("dollar", "dollars"), "£": ("livre", "livres"), "¥": ("yen", "yens"),
    "EUR": ("euro", "euros"), "USD": ("dollar", "dollars"), "GBP": ("livre", "livres"),
    "CHF": ("franc suisse", "francs suisses"), "₿": ("bitcoin", "bitcoins"), "₽": ("rouble", "roubles"),
    "₹": ("roupie", "roupies"), "FF": ("franc", "francs"),
}  # fmt: skip
SCALES = {"k": "mille", "M": "million", "Md": "milliard", "Mds": "milliard"}

_PREFIXES = {"k": "kilo", "M": "méga", "G": "giga", "T": "téra", "m": "milli", "c": "centi", "d": "déci", "h": "hecto",
             "µ": "micro", "n": "nano"}  # fmt: skip
_PREFIXED = {  # a unit's name and its prefixes
    "m": ("mètre", "kcdmµn"), "g": ("gramme", "kmµ"), "l": ("litre", "cdmh"), "L": ("litre", "cdmh"),
    "s": ("seconde", "mµn"), "W": ("watt", "kMGTm"), "Wh": ("wattheure", "kMGT"), "V": ("volt", "km"),
    "Hz": ("hertz", "kMG"), "o": ("octet", "kMGT"), "bit": ("bit", "kMG"), "Pa": ("pascal", "hkM"),
    "J": ("joule", "kM"), "cal": ("calorie", "k"), "eV": ("électronvolt", "kMG"), "A": ("ampère", "m"),
}  # fmt: skip
_REGULAR = {
    prefix + unit: _PREFIXES[prefix] + name for unit, (name, prefixes) in _PREFIXED.items() for prefix in prefixes
}
_REGULAR |= {unit: name for unit, (name, _) in _PREFIXED.items() if unit not in ("A", "o")} | {
    "t": "tonne", "ha": "hectare", "h": "heure", "min": "minute", "mn": "minute", "j": "jour", "Ko": "kilooctet",
    "dB": "décibel", "px": "pixel", "bar": "bar", "mol": "mole", "N": "newton", "Ω": "ohm", "po": "pouce",
    "tr": "tour", "GB": "gigaoctet", "MB": "mégaoctet", "°": "degré", "hab.": "habitant",
}  # fmt: skip
UNITS = {unit: (name, name if name.endswith(("s", "z")) else f"{name}s") for unit, name in _REGULAR.items()} | {
    "°C": ("degré celsius", "degrés celsius"), "°F": ("degré fahrenheit", "degrés fahrenheit"),
    "K": ("kelvin", "kelvins"), "ch": ("cheval", "chevaux"), "%": ("pour cent", "pour cent"),
    "‰": ("pour mille", "pour mille"), "km/h": ("kilomètre heure", "kilomètres heure"),
    "cm³": ("centimètre cube", "centimètres cubes"), "ppm": ("partie par million", "parties par million"),
}  # fmt: skip
PER = {"h": "heure", "s": "seconde", "min": "minute", "j": "jour", "jour": "jour", "mois": "mois", "an": "an",
       "personne": "personne", "heure": "heure", "semaine": "semaine", "nuit": "nuit", "pers": "personne"}  # fmt: skip

SYMBOLS = {
    "@": "arobase", ".": "point", "/": "slash", ":": "deux-points", "-": "tiret", "_": "tiret bas",
    "?": "point d'interrogation", "=": "égale", "&": "et", "#": "dièse", "%": "pour cent", "+": "plus", "~": "tilde",
    "×": "fois", "*": "fois", "÷": "divisé par", "<": "inférieur à", ">": "supérieur à", "≤": "inférieur ou égal à",
    "≥": "supérieur ou égal à", "≠": "différent de", "≈": "environ égal à", "±": "plus ou moins", "−": "moins",
    "→": "vers", "⇒": "vers", "°": "degrés", "§": "paragraphe", "π": "pi", "√": "racine de", "∞": "infini",
    "‰": "pour mille", "€": "euros", "$": "dollars", "£": "livres", "©": "copyright", "®": "", "™": "", "|": "",
    "µ": "micro", "\\": "antislash", "Ω": "oméga", "★": "étoile", "^": "puissance", "²": "au carré", "³": "au cube",
}  # fmt: skip

# Before these words a number is feminine: une heure, vingt et une pages. Others by their endings (``is_feminine``).
FEMININE = frozenset(
    "heure minute seconde journée année semaine nuit fois page personne femme fille chose tonne place voix part "
    "ville rue maison voiture chambre pièce ligne table partie image photo lettre phrase idée question réponse école "
    "classe équipe vie main tête langue carte porte fenêtre chaise bouteille tasse tranche douzaine centaine vingtaine "
    "trentaine dizaine quinzaine cuillère goutte paire boîte étoile île pomme poire orange fleur feuille fraise "
    "carotte tomate mère sœur amie étudiante vache poule chèvre plage route gare étape marche amende victoire "
    "défaite calorie roupie mole partie demi-heure".split()
)
FEMININE_ENDINGS = tuple("tion sion té ée ette ance ence esse ure euse trice aison elle erie".split())
MASCULINE = frozenset("été comté côté lycée musée trophée silence squelette traité arrêté député pâté".split())

# A Roman numeral of one letter is read after these words, and after names of rulers.
PARTS = frozenset(
    "chapitre tome acte scène partie article livre volume titre annexe niveau phase classe type étape".split()
)
RULERS = frozenset(
    "Louis Charles Henri François Napoléon Philippe Guillaume Jean Paul Jean-Paul Pie Benoît Léon Grégoire Clovis "
    "Robert Élisabeth Elisabeth Catherine Frédéric Georges Édouard Richard Jacques Albert Léopold Nicolas Alexandre "
    "Pierre Ramsès Alphonse Ferdinand Innocent Urbain Boniface Victor-Emmanuel Mohammed Hassan Baudouin".split()
)
DATED = frozenset("le du au dès avant après depuis jusqu'au".split())  # 14/07 is a date after these

# Capitals: two or three letters are spelled, except these words; longer ones unless they sound like a word.
CAPITAL_WORDS = frozenset(
    "le la les un une de du des et ou où à au aux en il on je tu ne pas non oui si ça ce se sa son mon ma ta ton mes "
    "tes ses sur par que qui quoi est es ai as ont va vas vu vue eau an ans bon feu fin art ici car dès été lui moi "
    "toi nos vos zut oh ah eh hé hop ok bas dit fou gaz jeu jus lac lit loi mal mer mot mur nez nom or pie pot pur "
    "rat riz roi rue sac sec sel ski sol tel thé toit tri vie vin vol zoo ena caf vif onu fnac cnil temps corps".split()
)
SPELLED = frozenset("ratp isbn rsvp hdmi".split())
