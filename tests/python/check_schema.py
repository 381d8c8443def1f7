"""Validates recorded documents with PyPI's jsonschema: python3 check_schema.py RECORD.

Each line of RECORD is a JSON array of a schema and a document (test_schema, with
DOPPLERGL_SCHEMA_RECORD). Prints the number of valid documents; the first invalid one ends it.
"""
import decimal
import json
import re
import sys

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.validators import validator_for

checker = Draft202012Validator.FORMAT_CHECKER


def validator(schema):
    """Old forms of keywords are those of draft 7; 2020-12 has no booleans as exclusive bounds."""
    text = json.dumps(schema, default=float)
    if re.search(r'"exclusiveM[a-z]+": (true|false)', text):
        return None
    old = '"items": [' in text or '"dependencies"' in text
    latest = Draft7Validator if old else Draft202012Validator
    return validator_for(schema, default=latest)(schema, format_checker=checker)


count = skipped = 0
for line in open(sys.argv[1], encoding="utf-8"):
    # Doubles cannot show that 4.72 is a multiple of 0.01.
    schema, document = json.loads(line, parse_float=decimal.Decimal)
    check = validator(schema)
    if check is None:
        skipped += 1
        continue
    for error in check.iter_errors(document):
        sys.exit(f"{json.dumps(schema, default=float)}: {json.dumps(document, default=float)}: {error.message}")
    count += 1
print(f"{count} documents are valid, {skipped} were skipped")
