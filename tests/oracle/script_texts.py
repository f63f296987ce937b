"""Lines in twelve scripts: parts of real sentences, random characters of each script, and both mixed.

The sentences are article 1 of the Universal Declaration of Human Rights, which is in the public domain.
"""

import random
import unicodedata

# Name of the script: the text, and the ranges of its random characters.
SCRIPTS: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "latin": (
        "All human beings are born free and equal in dignity and rights. They're endowed with reason. "
        "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. "
        "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. "
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Łódź, Ærø, straße",
        [(0x21, 0x17F), (0x1E00, 0x1EFF)],
    ),
    "cyrillic": (
        "Все люди рождаются свободными и равными в своем достоинстве и правах. "
        "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
        [(0x400, 0x52F)],
    ),
    "greek": (
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
        [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    ),
    "arabic": (
        "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. تمام افراد بشر آزاد بدنیا می‌آیند، ۱۲۳",
        [(0x600, 0x6FF)],
    ),
    "hebrew": ("כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם", [(0x591, 0x5F4)]),
    "devanagari": (
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३",
        [(0x900, 0x97F)],
    ),
    "bengali": ("সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।", [(0x980, 0x9FE)]),
    "tamil": (
        "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும் சமமானவர்கள்.",
        [(0xB80, 0xBFA)],
    ),
    "thai": ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ๑๒๓", [(0xE01, 0xE5B)]),
    "han": (
        "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
        [(0x4E00, 0x9FFF)],
    ),
    "kana": (
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"
        "コンピューター ｶﾞｷﾞ",
        [(0x3041, 0x30FF), (0xFF61, 0xFF9F)],
    ),
    "hangul": (
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        [(0xAC00, 0xD7A3), (0x1100, 0x11FF)],
    ),
}
SPACES = [" "] * 8 + ["  ", "   ", "\n", " \n", "\t", "\u00a0", "\u3000", "\r\n", "\u2009 ", "\u200b", "\x1c"]
MARKS = [
    *".,;:!?'\"()[]<>-–—…%$€£¢&@#*/\\|~^_+=",
    "'s",
    "'re",
    "'LL",
    "n't",
    "...",
    "♪♪",
    "👍🏽",
    "🇵🇱",
    "<|en|>",
]
NUMBERS = [
    "0",
    "7",
    "42",
    "1999",
    "1,234,567",
    "3.14",
    "²",
    "½",
    "٣٤",
    "१९",
    "Ⅷ",
    "2nd",
    "1960s",
    "$5.20",
    "10%",
]


def assigned(first: int, last: int) -> list[str]:
    """Characters that Unicode has had for long, so that all libraries know them."""
    return [
        chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) not in ("Cn", "Cs")
    ]


def part_of(text: str, draw: random.Random) -> str:
    first = draw.randrange(len(text))
    return text[first : first + draw.choice([1, 3, 10, 40, 120])]


def random_line(characters: list[str], draw: random.Random) -> str:
    parts = []
    for _ in range(draw.randint(1, 12)):
        kind = draw.random()
        if kind < 0.6:
            parts.append("".join(draw.choices(characters, k=draw.randint(1, 8))))
        elif kind < 0.8:
            parts.append(draw.choice(MARKS))
        else:
            parts.append(draw.choice(NUMBERS))
        if draw.random() < 0.6:
            parts.append(draw.choice(SPACES))
    return "".join(parts)


def mixed_line(text: str, draw: random.Random) -> str:
    """A part of a sentence with spaces, marks and numbers put in."""
    words = part_of(text, draw).split(" ")
    for _ in range(draw.randint(1, 4)):
        words.insert(draw.randint(0, len(words)), draw.choice(MARKS + NUMBERS))
    return "".join(word + draw.choice(SPACES) for word in words)


def lines(count: int, seed: int) -> list[str]:
    """As many lines, of all scripts in turn; a third each of sentences, random characters and both."""
    draw = random.Random(seed)
    characters = {
        name: [c for ends in ranges for c in assigned(*ends)] for name, (_, ranges) in SCRIPTS.items()
    }
    names = list(SCRIPTS)
    made = []
    for number in range(count):
        name = names[number % len(names)]
        text = SCRIPTS[name][0]
        kind = number // len(names) % 3
        if kind == 0:
            made.append(part_of(text, draw))
        else:
            made.append(random_line(characters[name], draw) if kind == 1 else mixed_line(text, draw))
    return made


NUMBER_WORDS = [
    "zero",
    "oh",
    "o",
    "one",
    "two",
    "three",
    "five",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "nineteen",
    "twenty",
    "thirty",
    "fifty",
    "ninety",
    "hundred",
    "thousand",
    "million",
    "billion",
    "decillion",
    "hundreds",
    "thousandth",
    "millions",
    "first",
    "second",
    "third",
    "fourth",
    "ninth",
    "twelfth",
    "twentieth",
    "sixties",
    "sixes",
    "ones",
    "minus",
    "negative",
    "plus",
    "positive",
    "dollar",
    "dollars",
    "pounds",
    "euro",
    "cents",
    "cent",
    "percent",
    "per",
    "and",
    "double",
    "triple",
    "point",
    "and",
    "a",
    "half",
    "3",
    "12",
    "100",
    "2.5",
    "1.50",
    "0",
    "007",
    "$5",
    "£3",
    "¢7",
    "€0.07",
    "-4",
    "10.0",
    "1.2.3",
    "$2",
    "¢50",
    "٣",
]
SPEECH_WORDS = [
    "hmm",
    "uh",
    "um",
    "mm",
    "won't",
    "can't",
    "let's",
    "ain't",
    "y'all",
    "wanna",
    "gonna",
    "i'ma",
    "should've",
    "he'd",
    "been",
    "she's",
    "gone",
    "they'd",
    "done",
    "it's",
    "got",
    "we're",
    "i'm",
    "i'll",
    "mr",
    "mrs",
    "st",
    "dr.",
    "prof.",
    "jr",
    "the",
    "colour",
    "of",
    "aluminium",
    "(laughs)",
    "[noise]",
    "<unk>",
    "o'clock",
    "'s",
    "'",
    ".",
    "...",
    "a.m.",
    "1,000",
    "1,2,3",
    "50%",
    "%",
    "$",
    "Ärger",
    "naïve",
    "ß",
    "ÅNGSTRÖM",
    "café's",
    "ΟΔΟΣ",
    "İstanbul",
    "ﬁne",
    "①",
    "half",
    "past",
    "a",
    "and",
    "the",
]


def spoken_lines(count: int, seed: int) -> list[str]:
    """Numbers in words, contractions, titles and marks, in any order."""
    draw = random.Random(seed)
    return [
        " ".join(
            draw.choice(NUMBER_WORDS if draw.random() < 0.75 else SPEECH_WORDS)
            for _ in range(draw.randint(1, 12))
        )
        for _ in range(count)
    ]
