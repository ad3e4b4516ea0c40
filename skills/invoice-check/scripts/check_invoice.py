"""Checks one invoice, given as JSON, and prints a report as JSON.

Usage: python3 check_invoice.py <invoice.json> [--today YYYY-MM-DD]

Exit status: 0 nothing found, 1 something found, 2 the file cannot be used.
Amounts are decimals as text ("1022.36"). Python standard library only.
"""

import argparse
import json
import sys
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, getcontext

CENT = Decimal("0.01")
getcontext().prec = 80
MAX_LINES = 5000

# Standard, reduced and zero rates of value added tax, in percent.
TAX_RATES = {
    "AT": {"0", "10", "13", "20"},
    "BE": {"0", "6", "12", "21"},
    "DE": {"0", "7", "19"},
    "ES": {"0", "4", "10", "21"},
    "FR": {"0", "2.1", "5.5", "10", "20"},
    "IT": {"0", "4", "5", "10", "22"},
    "NL": {"0", "9", "21"},
    "PL": {"0", "5", "8", "23"},
}

REQUIRED = ("number", "issued", "supplier.name", "supplier.taxId", "customer.name")
SEVERITIES = {"error": 0, "warning": 1}


class Unusable(Exception):
    """The file is not an invoice in the expected form."""


def amount(holder, field, where, default=None):
    value = holder.get(field, default)
    if value is None:
        raise Unusable(f"{where}: {field} is missing")
    if isinstance(value, (bool, list, dict)):
        raise Unusable(f"{where}: {field} must be a decimal number as text")
    try:
        parsed = Decimal(str(value))
    except InvalidOperation:
        raise Unusable(f"{where}: {field} is {value!r}, not a decimal number such as 1022.36") from None
    if not parsed.is_finite() or abs(parsed) >= Decimal("1e12"):
        raise Unusable(f"{where}: {field} is out of range")
    return parsed


def day(invoice, field):
    value = invoice.get(field)
    if value is None:
        return None
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise Unusable(f"{field} is {value!r}, not a date such as 2026-03-31") from None


def cents(value):
    return value.quantize(CENT, rounding=ROUND_HALF_UP)


def finding(code, severity, message, **facts):
    return {"code": code, "severity": severity, "message": message, **facts}


def differs(code, name, printed, calculated, **facts):
    if cents(printed) == calculated:
        return []
    message = f"{name} is printed as {cents(printed)} and calculates to {calculated}"
    return [finding(code, "error", message, printed=str(cents(printed)), calculated=str(calculated),
                    difference=str(cents(printed) - calculated), **facts)]


def check_lines(lines, rates):
    """Returns the findings, the net sum of the lines as calculated, and the net sum of each tax rate."""
    findings, by_rate, seen = [], {}, {}
    for number, line in enumerate(lines, start=1):
        where = f"line {number}"
        if not isinstance(line, dict):
            raise Unusable(f"{where} is not an object")
        quantity, price = amount(line, "quantity", where), amount(line, "unitPrice", where)
        discount, rate = amount(line, "discountPercent", where, "0"), amount(line, "taxRate", where)
        total = cents(quantity * price * (100 - discount) / 100)
        findings += differs("line_total", f"The total of {where}", amount(line, "total", where), total, line=number)
        if rates is not None and rate not in rates:
            known = ", ".join(str(known_rate) for known_rate in sorted(rates))
            findings.append(finding("tax_rate", "error", f"{where} has {rate} % tax; the country has {known} %", line=number))
        by_rate[rate] = by_rate.get(rate, Decimal(0)) + total
        key = (str(line.get("description", "")).strip().casefold(), quantity, price)
        if key in seen:
            message = f"{where} repeats line {seen[key]}"
            findings.append(finding("duplicate_line", "warning", message, line=number))
        seen.setdefault(key, number)
    return findings, by_rate


def check_totals(invoice, by_rate):
    net = sum(by_rate.values(), Decimal(0))
    tax = sum((cents(base * rate / 100) for rate, base in by_rate.items()), Decimal(0))
    findings = differs("net_total", "The net total", amount(invoice, "netTotal", "invoice"), cents(net))
    findings += differs("tax_total", "The tax", amount(invoice, "taxTotal", "invoice"), cents(tax))
    return findings + differs("gross_total", "The gross total", amount(invoice, "grossTotal", "invoice"), cents(net + tax))


def check_dates(invoice, today):
    issued, due = day(invoice, "issued"), day(invoice, "due")
    findings = []
    if issued and issued > today:
        findings.append(finding("dates", "error", f"The invoice is dated {issued}, after {today}"))
    if issued and due and due < issued:
        findings.append(finding("dates", "error", f"It is due on {due}, before it was issued on {issued}"))
    if due and due < today and not (issued and due < issued):
        findings.append(finding("overdue", "warning", f"It was due on {due}", days=(today - due).days))
    return findings


def check_account(iban):
    """The check digits of ISO 13616: the rearranged number is 1 modulo 97."""
    compact = "".join(str(iban).split()).upper()
    valid = compact.isascii() and compact.isalnum() and 15 <= len(compact) <= 34
    if valid and int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1:
        return []
    return [finding("iban", "error", f"The check digits of the account {iban} are wrong")]


def check_fields(invoice):
    findings = []
    for path in REQUIRED:
        holder = invoice
        for part in path.split("."):
            holder = holder.get(part) if isinstance(holder, dict) else None
        if holder in (None, ""):
            findings.append(finding("missing", "warning", f"{path} is not given"))
    return findings


def check(invoice, today):
    if not isinstance(invoice, dict):
        raise Unusable("the file must hold one JSON object")
    lines = invoice.get("lines")
    if not isinstance(lines, list) or not 1 <= len(lines) <= MAX_LINES:
        raise Unusable(f"lines must be a list of 1 to {MAX_LINES} lines")
    rates = TAX_RATES.get(str(invoice.get("country", "")).upper())
    findings, by_rate = check_lines(lines, None if rates is None else {Decimal(rate) for rate in rates})
    findings += check_totals(invoice, by_rate)
    findings += check_dates(invoice, today)
    supplier = invoice.get("supplier")
    if isinstance(supplier, dict) and supplier.get("iban"):
        findings += check_account(supplier["iban"])
    findings += check_fields(invoice)
    findings.sort(key=lambda item: SEVERITIES[item["severity"]])
    return {
        "invoice": str(invoice.get("number", "")),
        "currency": str(invoice.get("currency", "")),
        "lines": len(lines),
        "errors": sum(item["severity"] == "error" for item in findings),
        "warnings": sum(item["severity"] == "warning" for item in findings),
        "taxRatesKnown": rates is not None,
        "findings": findings,
    }


def main():
    parser = argparse.ArgumentParser(description="Checks one invoice, given as JSON.")
    parser.add_argument("file")
    parser.add_argument("--today", type=date.fromisoformat, default=date.today())
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            report = check(json.load(file, parse_float=str), options.today)
    except (OSError, ValueError, RecursionError, Unusable) as error:
        print(json.dumps({"unusable": str(error)}, ensure_ascii=False))
        return 2
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
