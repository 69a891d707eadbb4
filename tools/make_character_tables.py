#!/usr/bin/env python3
"""Writes src/text/jinja/character_tables.c: what Python's str methods know of Unicode beyond utf8proc.

Run from the repository root:  python3 tools/make_character_tables.py
"""
import sys
import unicodedata

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]


def ranges(test):
    found = []
    for code in (ord(c) for c in CHARACTERS if test(c)):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def write_ranges(out, name, pairs):
    out.write(f"const qn_code_range {name}[] = {{\n")
    for first, last in pairs:
        out.write(f"    {{0x{first:X}, 0x{last:X}}},\n")
    out.write(f"}};\nconst size_t {name}_count = sizeof {name} / sizeof {name}[0];\n\n")


def codes(text):
    padded = [ord(c) for c in text] + [0, 0, 0]
    return ", ".join(f"0x{code:X}" for code in padded[:3])


def main():
    category = unicodedata.category
    with open("src/text/jinja/character_tables.c", "w", encoding="ascii") as out:
        out.write("/* Made by tools/make_character_tables.py. */\n")
        out.write('#include "text/jinja/character_tables.h"\n\n')
        write_ranges(out, "qn_other_lowercase", ranges(lambda c: c.islower() and category(c) != "Ll"))
        write_ranges(out, "qn_other_uppercase", ranges(lambda c: c.isupper() and category(c) != "Lu"))
        write_ranges(out, "qn_other_digit", ranges(lambda c: c.isdigit() and not c.isdecimal()))
        write_ranges(
            out,
            "qn_other_numeric",
            ranges(lambda c: c.isnumeric() and category(c) not in ("Nd", "Nl", "No")),
        )
        out.write("const qn_special_case qn_special_cases[] = {\n")
        for c in CHARACTERS:
            if len(c.upper()) > 1 or len(c.title()) > 1:
                out.write(f"    {{0x{ord(c):X}, {{{codes(c.upper())}}}, {{{codes(c.title())}}}}},\n")
        out.write("};\nconst size_t qn_special_cases_count = sizeof qn_special_cases / sizeof qn_special_cases[0];\n")


if __name__ == "__main__":
    main()
