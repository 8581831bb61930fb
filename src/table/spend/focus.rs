//! A month as a FOCUS dataset: the FinOps Foundation's open format for cost and usage, version 1.2.
//!
//! The columns are the specification's mandatory ones, the recommended and conditional ones that the ledger knows, and custom columns
//! with the prefix `x_`. Nothing here was billed: BilledCost is 0, InvoiceId is null, and the estimates are in ListCost,
//! ContractedCost and EffectiveCost, which must not be null. Usage without a price is left out for that reason.
//!
//! ListUnitPrice, SkuId, SkuPriceId and SkuMeter are absent. The specification binds them to a provider's price list: a SKU price
//! must be found there, and ListUnitPrice times PricingQuantity must be ListCost. The ledger sums a month of prices that may change,
//! of own prices and of shares of a machine's price, and keeps no SKU.

use usage::{CostPart, Dimension, Span, UsageSum, start_of};

use super::{decimal, nobodys, safe_line};

/// The dimensions that the sums must start with, before the requested ones.
pub const KEYS: [Dimension; 4] = [
    Dimension::Billing,
    Dimension::Pool,
    Dimension::Class,
    Dimension::Zone,
];

/// Service category and subcategory of device-hours. They are computing capacity, whatever runs on it: AI services
/// (`AI and Machine Learning`) are models and platforms that a provider runs. No subcategory of `Compute` has accelerators:
/// `Virtual Machines` is wrong for bare metal, and `Containers` is their orchestration.
const SERVICE: [&str; 2] = ["Compute", "Other (Compute)"];

/// Unit of both quantities: the usage that is measured is what is priced.
const UNIT: &str = "Device-Hours";

const COLUMNS: [&str; 28] = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
];

/// A dataset of the sums by [`KEYS`] and `by`: up to two lines a sum, one for allocated and one for unallocated device time.
/// `cluster` becomes the billing account name.
pub fn focus(
    cluster: &str,
    month: Span,
    ratio: f64,
    by: &[Dimension],
    sums: &[UsageSum],
) -> String {
    let mut titles: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
    titles.extend(["x_Pool", "x_Class"].map(str::to_owned));
    titles.extend(by.iter().map(|by| format!("x_{}", capital(by.name()))));
    titles.extend(CostPart::ALL.map(|part| format!("x_Cost{}", capital(part.field()))));
    titles.extend(["x_ObservedRatio", "x_Estimate"].map(str::to_owned));
    let mut out = safe_line(&titles);
    let (start, end) = (start_of(month.from).rfc3339(), start_of(month.to).rfc3339());
    let account = if cluster.is_empty() {
        "unknown"
    } else {
        cluster
    };
    for sum in sums {
        let Some(parts) = sum.totals.parts_micros else {
            continue;
        };
        let free = nobodys(&sum.totals);
        let held: i64 = parts.iter().sum::<i64>() - free;
        let free_ms = sum.totals.unallocated_ms + sum.totals.out_of_service_ms;
        let [billing, pool, class, zone] = [0, 1, 2, 3].map(|at| &sum.names[at]);
        for (cost, ms, allocated) in [
            (held, sum.totals.priced_allocated_ms, true),
            (free, free_ms, false),
        ] {
            if ms == 0 && cost == 0 {
                continue;
            }
            let what = if allocated {
                "allocated"
            } else {
                "not allocated"
            };
            let cost = decimal(cost);
            let quantity = format!("{}.{:06}", ms / 3_600_000, ms % 3_600_000 * 10 / 36);
            let [service, subcategory] = SERVICE.map(str::to_owned);
            let mut cells = vec![
                zone.clone(),
                "0.000000".to_owned(),
                account.to_owned(),
                account.to_owned(),
                "USD".to_owned(),
                start.clone(),
                end.clone(),
                "Usage".to_owned(),
                String::new(),
                format!(
                    "{class} devices of pool {pool}, {what}; an estimate from list prices, nothing was billed"
                ),
                "Usage-Based".to_owned(),
                start.clone(),
                end.clone(),
                quantity.clone(),
                UNIT.to_owned(),
                cost.clone(),
                cost.clone(),
                String::new(),
                "Stokehold (estimate, no invoice)".to_owned(),
                cost,
                category(billing).to_owned(),
                quantity,
                UNIT.to_owned(),
                account.to_owned(),
                account.to_owned(),
                service,
                "Accelerators on Kubernetes".to_owned(),
                subcategory,
                pool.clone(),
                class.clone(),
            ];
            cells.extend((0..by.len()).map(|at| sum.names[KEYS.len() + at].clone()));
            cells.extend(CostPart::ALL.map(|part| {
                let own =
                    matches!(part, CostPart::Unallocated | CostPart::OutOfService) != allocated;
                match sum.totals.part_micros(part) {
                    Some(_) => decimal(if own { parts[part as usize] } else { 0 }),
                    None => String::new(),
                }
            }));
            cells.extend([format!("{ratio:.6}"), "true".to_owned()]);
            out.push_str(&safe_line(&cells));
        }
    }
    out
}

/// The FOCUS pricing category of a billing type; on-demand for a price without one.
fn category(billing: &str) -> &'static str {
    match billing {
        "spot" => "Dynamic",
        "reserved" => "Committed",
        "owned" => "Other",
        _ => "Standard",
    }
}

fn capital(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect()
}
