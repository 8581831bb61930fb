#!/usr/bin/env bash
# No FOCUS dataset passes every rule of focus-validator: of the two rules about a null InvoiceId one always fails, and the run ends with 0.
#
# Rule InvoiceId-C-004-C asks for null ("when the charge is not associated with an invoice"), rule InvoiceId-C-005-C asks for a value ("when
# the charge is associated with …"). The validator cannot see which of the two holds, checks both on every row, and reports the other one
# as FAIL beside the rule above them, which is met by either and passes. Who gates a pipeline on "no FAIL" never passes; who gates it on the
# exit code never fails.
#
# Installs focus-validator in a temporary folder and validates two datasets that differ in InvoiceId alone.
# Needs Python 3.12 or later with venv: PYTHON names it where python3 is older.
set -euo pipefail

VALIDATOR=2.2.1
ARROW=19.0.1
RULES=1.2.0.1

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "focus_validator==$VALIDATOR" "pyarrow==$ARROW" >"$folder/log" 2>&1 || { tail -20 "$folder/log"; exit 1; }
echo "focus-validator $VALIDATOR, rules $RULES"

dataset() { # dataset FILE INVOICE: one hour of usage
    cat >"$1" <<CSV
BilledCost,BillingAccountId,BillingAccountName,BillingCurrency,BillingPeriodStart,BillingPeriodEnd,ChargeCategory,ChargeClass,ChargeDescription,ChargePeriodStart,ChargePeriodEnd,ContractedCost,EffectiveCost,InvoiceId,InvoiceIssuerName,ListCost,PricingQuantity,PricingUnit,ProviderName,PublisherName,ServiceCategory,ServiceName
2.000000,account,Account,USD,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,Usage,,An hour of a GPU,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,2.000000,2.000000,$2,Issuer,2.000000,1.000000,Hours,Provider,Publisher,Compute,GPUs
CSV
}
dataset "$folder/null.csv" ""
dataset "$folder/set.csv" "INV-1"

failed=0
expect() { # expect DATASET PATTERN
    grep -E "$2" "$folder/$1.out" | cut -c1-110 | head -1 || { echo "CHANGED: $1 says no more: $2"; failed=1; }
}
for one in null set; do
    code=0
    # (It reads a table of its package by a path relative to the package's folder.)
    (cd "$folder"/venv/lib/python3*/site-packages &&
        "$folder/venv/bin/focus-validator" --data-file "$folder/$one.csv" --validate-version "$RULES" --block-download) \
        >"$folder/$one.out" 2>&1 || code=$?
    echo "InvoiceId $one: exit code $code"
    [ "$code" = 0 ] || { echo "CHANGED: it ends with $code"; failed=1; }
    expect "$one" "InvoiceId-C-003-C: PASS"
done
expect null "InvoiceId-C-004-C: PASS"
expect null "InvoiceId-C-005-C: FAIL"
expect set "InvoiceId-C-005-C: PASS"
expect set "InvoiceId-C-004-C: FAIL"
exit $failed
