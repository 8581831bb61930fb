//! Tests: layers, origins, and error messages.

use std::sync::Arc;
use std::time::Duration;

use model::cost::{PoolPrice, PriceBook};
use model::fleet::accelerator::Catalog;
use model::fleet::node::Billing;
use model::fleet::policy::Policy;
use model::fleet::pool::PoolMode;

use super::*;

fn user(text: &str) -> Inputs {
    Inputs {
        files: vec![SettingsText {
            layer: Layer::User,
            path: "/home/ada/.config/stokehold/stokehold.toml".into(),
            text: text.into(),
        }],
        ..Inputs::default()
    }
}

fn refused(inputs: &Inputs) -> String {
    let faults = load(inputs).expect_err("is wrong");
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n").replace("/home/ada/.config/stokehold/", "")
}

#[test]
fn the_defaults_stand_alone_and_agree_with_the_policy() {
    let settings = load(&Inputs::default()).expect("defaults are whole");
    assert_eq!(settings.theme, "ember");
    assert!(!settings.write);
    assert_eq!(settings.scrape.per_second.get(), 20.0);
    assert_eq!(settings.refresh.duration(), Duration::from_secs(1));
    assert!(settings.pool.is_empty() && settings.team.is_empty());
    let (ours, theirs) = (settings.policy(Arc::default()), Policy::default());
    assert_eq!(ours.pool_labels, theirs.pool_labels);
    assert_eq!(ours.rack_labels, theirs.rack_labels);
    assert_eq!(ours.team_labels, theirs.team_labels);
    assert_eq!(ours.queue_labels, theirs.queue_labels);
    assert_eq!(ours.idle_util_below, theirs.idle_util_below);
    assert_eq!(ours.idle_power_factor, theirs.idle_power_factor);
    assert_eq!(ours.idle_grace, theirs.idle_grace);
    for (path, _, origin) in settings.origins.iter() {
        assert_eq!(origin.layer, Layer::Default, "{path:?}");
    }
}

/// The examples in the comments must be valid settings.
#[test]
fn the_examples_in_the_defaults_are_true() {
    let text: Vec<&str> = DEFAULTS
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') || line.starts_with("#        ") => {
                if rest.starts_with(' ') { line } else { rest }
            }
            _ => line,
        })
        .collect();
    let settings = load(&user(&text.join("\n"))).unwrap_or_else(|faults| {
        panic!(
            "{}",
            faults
                .iter()
                .map(|fault| format!("{fault}\n"))
                .collect::<String>()
        )
    });
    assert_eq!(settings.pool.len(), 1);
    assert_eq!(settings.pool[0].billing, Some(Paid(Billing::Reserved)));
    assert_eq!(
        settings.pool[0].mode,
        Some(PoolModeSetting(PoolMode::Static))
    );
    assert_eq!(settings.team[0].wanted.namespace.0, ["nlp", "nlp-*"]);
    assert_eq!(settings.scrape.target.len(), 1);
    assert_eq!(settings.prices.overrides.len(), 1);
    assert_eq!(settings.route.len(), 1);
    assert_eq!(settings.route[0].flavors.len(), 3);
    assert_eq!(settings.service.len(), 1);
    assert_eq!(settings.budget.len(), 1);
    assert_eq!(settings.budget[0].steps, [50, 80, 100]);
    assert_eq!(settings.notify.len(), 2);
    assert_eq!(settings.notify[0].filter.codes.len(), 2);
    for key in super::load::WITHOUT_DEFAULT {
        let origin = settings
            .origins
            .of(key)
            .unwrap_or_else(|| panic!("{key} has an example"));
        assert_eq!(origin.layer, Layer::User, "{key}");
    }
}

#[test]
fn later_layers_win_and_each_value_knows_its_place() {
    let mut inputs = user(
        "theme = \"ash\"\nrefresh = \"5s\"\n[scope]\nteam = \"a\"\n\n[context.prod]\nascii = true\nscope.team = \"b\"\n\
         [context.other]\ntheme = \"snow\"\n",
    );
    inputs.files.insert(
        0,
        SettingsText {
            layer: Layer::Machine,
            path: "/etc/stokehold/stokehold.toml".into(),
            text: "theme = \"coal\"\nscrape.per_second = 5\n[context.prod]\nrefresh = 9\n".into(),
        },
    );
    inputs.context = Some("prod".into());
    inputs.variables = vec![
        ("STOKEHOLD_SCRAPE_MODE".into(), "direct".into()),
        ("STOKEHOLD_THEME".into(), "env".into()),
        ("STOKEHOLD_PORT".into(), "tcp://10.0.0.1".into()),
        ("STOKEHOLD_SCOPE_NAMESPACES".into(), "a, b".into()),
    ];
    inputs.flags = vec![("--theme".into(), "theme".into(), "flag".into())];
    let settings = load(&inputs).expect("is right");
    assert_eq!(settings.theme, "flag");
    assert!(settings.ascii);
    assert_eq!(settings.scope.team.as_deref(), Some("b"));
    assert_eq!(settings.scope.namespaces, ["a", "b"]);
    assert_eq!(settings.refresh.duration(), Duration::from_secs(9));
    assert_eq!(settings.scrape.per_second.get(), 5.0);
    assert_eq!(settings.scrape.mode, ScrapeMode::Direct);
    let origin = |key: &str| settings.origins.of(key).expect("is set").to_string();
    assert_eq!(origin("theme"), "--theme");
    assert_eq!(
        origin("scope.team"),
        "/home/ada/.config/stokehold/stokehold.toml:8"
    );
    assert_eq!(origin("refresh"), "/etc/stokehold/stokehold.toml:4");
    assert_eq!(origin("scrape.mode"), "STOKEHOLD_SCRAPE_MODE");
    assert_eq!(origin("idle.grace"), "default");
}

#[test]
fn a_mistake_names_file_line_key_and_mend() {
    for (text, expected) in [
        (
            "\nrefesh = 1\n",
            "stokehold.toml:2: refesh: unknown key `refesh`; did you mean `refresh`?",
        ),
        (
            "[scrape]\nmod = \"proxy\"\n",
            "stokehold.toml:2: scrape.mod: unknown key `mod`; did you mean `mode`?",
        ),
        (
            "scrape.mode = \"poxy\"",
            "stokehold.toml:1: scrape.mode: unknown value `poxy`; did you mean `proxy`?",
        ),
        (
            "\n[[budget]]\nname = \"a\"\nusd = 1\nperiod = \"month\"\n",
            "stokehold.toml:2: budget: budget `a` is for nothing: give exactly one of fleet = true, team, queue, pool and namespace",
        ),
        (
            "[[budget]]\nname = \"a\"\nteam = \"x\"\npool = \"y\"\nusd = 1\nperiod = \"month\"\n",
            "stokehold.toml:1: budget: budget `a` is for several things: give exactly one of fleet = true, team, queue, pool and namespace",
        ),
        (
            "[[budget]]\nname = \"a\"\nlabel = { team = \"x\" }\nusd = 1\nperiod = \"month\"\n",
            "stokehold.toml:1: budget: budget `a`: the usage ledger has no labels: map the label to a team ([[team]] with match = { label = { KEY = \"VALUE\" } }) and give team = \"NAME\"",
        ),
        (
            "[cost]\npue = 0.9\n",
            "stokehold.toml:2: cost.pue: 0.9 is not a power usage effectiveness, which is from 1 up",
        ),
        (
            "[[budget]]\nname = \"a\"\nteam = \"x\"\nusd = 1\ndevice_hours = 2\nperiod = \"month\"\n",
            "stokehold.toml:1: budget: budget `a`: give one of usd and device_hours",
        ),
        (
            "[[budget]]\nname = \"a\"\nfleet = true\nusd = 1\nperiod = \"moth\"\n",
            "stokehold.toml:1: budget: budget `a`: unknown period `moth`; did you mean `month`?",
        ),
        (
            "[[budget]]\nname = \"a\"\nfleet = true\nusd = 0\nperiod = \"month\"\n",
            "stokehold.toml:4: budget.usd: 0 is not a number above 0",
        ),
        (
            "[[budget]]\nname = \"a\"\nfleet = true\nusd = 1\nperiod = \"month\"\nsteps = [80, 50]\n",
            "stokehold.toml:1: budget: budget `a`: steps are at most 10 rising percentages from 1 to 1000, such as [50, 80, 100]",
        ),
        (
            "[[budget]]\nname = \"a\"\nfleet = true\nusd = 1\nperiod = \"month\"\n[[budget]]\nname = \"a\"\nfleet = true\nusd = 1\nperiod = \"month\"\n",
            "stokehold.toml:6: budget: two budgets are named `a`",
        ),
        (
            "[[pool]]\nname = \"a\"\nmatch = { x = \"\" }\nbilling = \"on_demand\"\n",
            "stokehold.toml:4: pool.billing: unknown value `on_demand`; did you mean `on-demand`?",
        ),
        (
            "[context.\"prod.eu\"]\nthme = \"x\"\n",
            "stokehold.toml:2: context.\"prod.eu\".thme: unknown key `thme`; did you mean `theme`?",
        ),
        (
            "[idle]\nutil_below = 5\n",
            "stokehold.toml:2: idle.util_below: 5 is not a ratio from 0 to 1",
        ),
        (
            "refresh = \"soon\"",
            "stokehold.toml:1: refresh: `soon` is not a duration such as \"90s\", \"15m\" or \"1h30m\"",
        ),
        (
            "refresh = 0",
            "stokehold.toml:1: refresh: must be longer than 0s",
        ),
        (
            "[shell]\nimage = \"--privileged\"\n",
            "stokehold.toml:2: shell.image: `--privileged` is not an image",
        ),
        (
            "shell.namespace = \"-n\"",
            "stokehold.toml:1: shell.namespace: `-n` is not a namespace",
        ),
        (
            "write = \"yes\"",
            "stokehold.toml:1: write: invalid type: string \"yes\", expected a boolean",
        ),
        (
            "scrape.in_flight = 0",
            "stokehold.toml:1: scrape.in_flight: invalid value: integer `0`, expected a nonzero u32",
        ),
        (
            "[[pool]]\nname = \"a\"\nmatch = {}\n",
            "stokehold.toml:3: pool.match: a pool that matches no label would take every node; name at least one label",
        ),
        (
            "[[pool]]\nname = \"a\"\nmatch = { x = \"\" }\nprice = { multiplier = 1, usd_per_device_hour = 2 }\n",
            "stokehold.toml:4: pool.price: a price is one of usd_per_device_hour, multiplier and owned",
        ),
        (
            "[[pool]]\nname = \"a\"\nmatch = { x = \"\" }\nprice = { usd_per_device_hour = 0 }\n",
            "stokehold.toml:4: pool.price.usd_per_device_hour: 0 is not a sum above 0 USD an hour",
        ),
        (
            "[[tco.owned]]\nclass = \"H100\"\ndevices = 8\nmachine = { capex_usd = 1e300, kw = 1 }\n",
            "stokehold.toml:4: tco.owned.machine.capex_usd: 1e300 is not a number above 0 up to 1e12",
        ),
        (
            "[[pool]]\nname = \"a\"\nmatch = { x = \"\" }\nmin = 3\nmax = 2\n",
            "stokehold.toml:1: pool: pool `a`: min 3 is above max 2",
        ),
        (
            "[[team]]\nname = \"a\"\nmatch = {}\n",
            "stokehold.toml:3: team.match: a team that matches nothing in particular would take every job; name a \
             namespace, queue or label",
        ),
        (
            "[[prices.override]]\nusd_per_device_hour = 2\n",
            "stokehold.toml:1: prices.override: an override needs an instance, a class, or both",
        ),
        (
            "[[scrape.target]]\nname = \"a\"\nurl = \"10.0.0.1:9400\"\n",
            "stokehold.toml:1: scrape.target: target `a`: url must start with http:// or https://",
        ),
        (
            "context.a.context.b.theme = \"x\"",
            "stokehold.toml: context.a: a context's section cannot hold sections of contexts",
        ),
    ] {
        assert_eq!(refused(&user(text)), expected);
    }
    assert!(refused(&user("theme = \"a\"\ntheme = \"b\"")).starts_with("stokehold.toml:2: "));
    assert!(refused(&user("theme = \u{0}")).starts_with("stokehold.toml:1: "));
}

#[test]
fn a_variable_that_is_no_setting_is_refused_with_the_nearest() {
    for (name, near) in [
        ("STOKEHOLD_THEM", "did you mean STOKEHOLD_THEME?"),
        ("STOKEHOLD_READ_ONLY", "did you mean STOKEHOLD_READONLY?"),
        ("STOKEHOLD_WRIET", "did you mean STOKEHOLD_WRITE?"),
        ("STOKEHOLD_FURNACE_DOOR_OPENER", "unset it"),
    ] {
        let inputs = Inputs {
            variables: vec![(name.into(), "1".into())],
            ..Inputs::default()
        };
        let message = refused(&inputs);
        assert!(
            message.starts_with(&format!("{name}: is not a setting")),
            "{message}"
        );
        assert!(message.contains(near), "{message}");
    }
}

#[test]
fn the_readonly_variable_overrides_settings_that_allow_writing() {
    let mut inputs = user("write = true\n");
    inputs.flags = vec![("--write".into(), "write".into(), "true".into())];
    inputs.variables = vec![
        (variables::READONLY.into(), "true".into()),
        ("STOKEHOLD_WRITE".into(), "true".into()),
    ];
    let settings = load(&inputs).expect("is right");
    assert!(!settings.write);
    let origin = settings.origins.of("write").expect("is set");
    assert_eq!(origin.to_string(), variables::READONLY);
    for no in ["false", "0", ""] {
        inputs.variables[0].1 = no.into();
        assert!(load(&inputs).expect("is right").write, "{no:?}");
    }
    for neither in ["yes", "TRUE", " true"] {
        inputs.variables[0].1 = neither.into();
        assert!(refused(&inputs).contains("is neither true nor false"));
    }
}

#[test]
fn every_layer_at_fault_is_named_at_once() {
    let mut inputs = user("thme = 1");
    inputs.variables = vec![("STOKEHOLD_ASCII".into(), "maybe".into())];
    inputs.flags = vec![("--refresh".into(), "refresh".into(), "soon".into())];
    let message = refused(&inputs);
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 3, "{message}");
    assert_eq!(
        lines[1],
        "STOKEHOLD_ASCII: ascii: `maybe` is neither true nor false"
    );
    assert!(
        lines[2].starts_with("--refresh: refresh: `soon` is not a duration"),
        "{message}"
    );
}

#[test]
fn paths_start_where_they_are_written() {
    let mut inputs = user(
        "alerts_file = \"alerts.toml\"\nkeys_file = \"~/keys.toml\"\nprices.files = [\"/abs.toml\", \"b.toml\"]",
    );
    inputs.home = Some("/home/ada".into());
    inputs.flags = vec![("--log-file".into(), "log_file".into(), "here.log".into())];
    let settings = load(&inputs).expect("is right");
    let text =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    assert_eq!(
        text(&settings.alerts_file).as_deref(),
        Some("/home/ada/.config/stokehold/alerts.toml")
    );
    assert_eq!(
        text(&settings.keys_file).as_deref(),
        Some("/home/ada/keys.toml")
    );
    assert_eq!(text(&settings.log_file).as_deref(), Some("here.log"));
    assert_eq!(settings.prices.files[0].display().to_string(), "/abs.toml");
    assert_eq!(
        settings.prices.files[1].display().to_string(),
        "/home/ada/.config/stokehold/b.toml"
    );
}

#[test]
fn rules_and_prices_come_out_of_the_settings() {
    let settings = load(&user(
        "prices.provider = \"aws\"\nprices.owned.years = 5\n[[pool]]\nname = \"mine\"\nmatch = { rack = \"\" }\n\
         price = { owned = { capex_usd = 1, kw = 1, pue = 2 } }\n[[team]]\nname = \"nlp\"\nmatch = { queue = \"q\" }\n",
    ))
    .expect("is right");
    let policy = settings.policy(Arc::default());
    assert_eq!(policy.pools[0].labels, [("rack".to_owned(), String::new())]);
    assert_eq!(policy.teams[0].queues, ["q"]);
    let price = settings.pool[0].price.as_ref().expect("is set");
    let PoolPrice::Owned(owned) = price.of(&settings.prices.owned) else {
        panic!("{price:?}");
    };
    assert_eq!(
        (owned.years, owned.pue, owned.usd_per_kwh),
        (5.0, 2.0, 0.09)
    );
    let catalog = Catalog::default();
    assert!(settings.prices(Vec::new(), &catalog).is_ok());
    let wrong = load(&user("prices.provider = \"nebus\"")).expect("is known only with the books");
    let fault = wrong.prices(Vec::new(), &catalog).expect_err("has no book");
    assert!(
        fault
            .to_string()
            .ends_with(":1: prices.provider: unknown provider `nebus`; did you mean `nebius`?")
    );
    let own = PriceBook::parse("provider = \"nebus\"", "x").expect("parses");
    assert!(wrong.prices(vec![own], &catalog).is_ok());
}

#[test]
fn printing_names_origins_and_hides_secrets() {
    let settings = load(&user(
        "theme = \"ash\"\n[[scrape.target]]\nname = \"a\"\nurl = \"http://x\"\nheaders = { Authorization = \"Bearer s3cret\" }\n\
         [prometheus]\nheaders = { X-Token = \"s3cret\" }\n",
    ))
    .expect("is right");
    let text = print(&settings);
    assert!(!text.contains("s3cret"), "{text}");
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {text}")).to_owned()
    };
    assert!(line("theme = \"ash\"").ends_with("# /home/ada/.config/stokehold/stokehold.toml:1"));
    assert!(line("idle.grace = \"15m\"").ends_with("# default"));
    assert!(line("#scope.team =").ends_with("# not set"));
    // The output can be parsed again.
    assert!(load(&user(&text)).is_ok());
}

/// Every row of every price book must refer to a class in the catalog, or it could never price a device.
#[test]
fn books_and_catalogue_speak_of_the_same_classes() {
    let catalog = Catalog::embedded();
    for book in PriceBook::embedded() {
        for row in &book.prices {
            assert!(
                catalog.find(&row.accelerator).is_some(),
                "{}: {}",
                book.provider,
                row.accelerator
            );
        }
    }
}

#[test]
fn real_machines_have_real_prices() {
    use model::cost::sample::{device, node};
    let settings = load(&Inputs::default()).expect("defaults are whole");
    let book = Rulebook::new(&settings, &Texts::default()).expect("defaults are whole");
    let price = |product: &str, instance: Option<&str>, provider: Option<&str>, count: u32| {
        let class = Catalog::embedded()
            .find(product)
            .expect("is known")
            .class
            .clone();
        let devices = (0..count).map(|at| device("n", at, &class)).collect();
        let mut node = node("n", "p", instance, devices);
        if let Some(id) = provider {
            Arc::make_mut(&mut node.seen).provider_id = Some(id.into());
        }
        let price = book.prices.price(&node, &node.devices[0]);
        price.map(|price| (price.rate.usd(), price.source.to_string()))
    };
    let usd = |found: Option<(f64, String)>| found.map(|(usd, _)| usd);
    let h100 = "NVIDIA-H100-80GB-HBM3";
    assert_eq!(
        usd(price(
            h100,
            Some("p5.48xlarge"),
            Some("aws:///us-east-1b/i-0"),
            8
        )),
        Some(6.88)
    );
    assert_eq!(usd(price(h100, Some("p5.48xlarge"), None, 8)), Some(6.88));
    assert_eq!(
        usd(price(
            h100,
            Some("Standard_ND96isr_H100_v5"),
            Some("azure:///x"),
            8
        )),
        Some(12.29)
    );
    assert_eq!(
        usd(price(h100, Some("a3-highgpu-8g"), Some("gce://p/z/n"), 8)),
        Some(11.06125)
    );
    assert_eq!(
        usd(price(
            "tpu-v5p-slice",
            Some("ct5p-hightpu-4t"),
            Some("gce://p/z/n"),
            4
        )),
        Some(4.2)
    );
    assert_eq!(usd(price("tpu-v6e-slice", None, None, 8)), Some(2.7));
    let (_, source) = price(h100, None, None, 8).expect("the market knows");
    assert!(
        source.starts_with(
            "market H100-80GB on-demand (list price, billing not known; median of 8 providers"
        ),
        "{source}"
    );
    let (usd_l4, source) =
        price("NVIDIA-L4", Some("g6.12xlarge"), Some("aws:///z/i-0"), 4).expect("by class");
    assert!(
        source.contains("by class: the instance type is not in the price book"),
        "{source}"
    );
    assert!((0.8..1.7).contains(&usd_l4), "{usd_l4}");
    assert_eq!(price("tpu7x", None, Some("gce://p/z/n"), 4), None);
}

#[test]
fn texts_at_fault_are_named_together() {
    let settings = load(&Inputs::default()).expect("defaults are whole");
    let pair = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let texts = Texts {
        accelerators: Some(pair("acc.toml", "[[accelerator]]\nklass = 1\n")),
        alerts: Some(pair("alerts.toml", "[no-such-check]\nenabled = false\n")),
        books: vec![pair("book.toml", "\nprovidr = 1\n")],
        dialects: vec![pair("mine.toml", "nmae = 1\n")],
    };
    let faults = Rulebook::new(&settings, &texts).expect_err("is wrong");
    let message: Vec<String> = faults.iter().map(ToString::to_string).collect();
    for start in [
        "acc.toml:2: ",
        "alerts.toml:1: ",
        "book.toml:2: providr: unknown key",
        "mine.toml",
    ] {
        assert!(
            message.iter().any(|line| line.starts_with(start)),
            "{start}: {message:#?}"
        );
    }
}

#[test]
fn user_settings_cannot_allow_what_machine_settings_forbid() {
    let file = |layer, text: &str| SettingsText {
        layer,
        path: format!("/{layer:?}.toml"),
        text: text.into(),
    };
    let mut inputs = Inputs {
        files: vec![
            file(Layer::Machine, "forbid_write = true\n"),
            file(
                Layer::User,
                "forbid_write = false\n[context.\"prod\"]\nforbid_write = false\n",
            ),
        ],
        context: Some("prod".into()),
        variables: vec![("STOKEHOLD_FORBID_WRITE".into(), "false".into())],
        flags: vec![("--forbid".into(), "forbid_write".into(), "false".into())],
        ..Inputs::default()
    };
    let settings = load(&inputs).expect("is right");
    assert!(settings.forbid_write);
    let origin = settings.origins.of("forbid_write").expect("is set");
    assert_eq!(origin.to_string(), "/Machine.toml:1");
    // The machine's own file may make an exception for a context.
    inputs.files[0].text = "forbid_write = true\n[context.\"prod\"]\nforbid_write = false\n".into();
    assert!(!load(&inputs).expect("is right").forbid_write);
    // Users may lift their own prohibition.
    inputs.files[0].text = String::new();
    inputs.files[1].text = "forbid_write = true\n".into();
    assert!(!load(&inputs).expect("is right").forbid_write);
    inputs.variables.clear();
    inputs.flags.clear();
    assert!(load(&inputs).expect("is right").forbid_write);
}

#[test]
fn a_number_without_a_default_is_read_from_the_environment_too() {
    let mut inputs = user("[cost]\nusd_per_kwh = 0.2\n");
    inputs.variables = vec![("STOKEHOLD_COST_PUE".into(), "1.25".into())];
    let energy = load(&inputs).expect("is valid").cost.energy();
    assert_eq!(
        (energy.usd_per_kwh, energy.pue, energy.kg_co2e_per_kwh),
        (Some(0.2), Some(1.25), None)
    );
    inputs.variables = vec![("STOKEHOLD_COST_PUE".into(), "much".into())];
    let faults = load(&inputs).expect_err("is no number");
    assert!(
        faults[0].to_string().contains("`much` is not a number"),
        "{faults:?}"
    );
}

/// The header of each array of tables, an entry that is right, and entries that are wrong: by themselves, or after the first.
const ARRAYS: &[(&str, &str, &[&str])] = &[
    (
        "notify",
        "name = \"a\"\nkind = \"webhook\"\nurl = \"http://a\"",
        &[
            "name = \"a\"\nkind = \"webhook\"\nurl = \"http://a\"",
            "name = \"b\"\nkind = \"webhook\"\nurl = \"http://a\"\ntimeout = \"99s\"",
            "name = \"b\"\nkind = \"webhook\"",
            "kind = \"webhook\"\nurl = \"http://a\"",
        ],
    ),
    (
        "scrape.target",
        "name = \"a\"\nurl = \"http://a\"",
        &[
            "name = \"a\"\nurl = \"http://b\"",
            "name = \"b\"\nurl = \"b:9400\"",
            "url = \"http://b\"",
        ],
    ),
    (
        "budget",
        "name = \"a\"\nfleet = true\nusd = 1\nperiod = \"month\"",
        &[
            "name = \"a\"\nfleet = true\nusd = 1\nperiod = \"month\"",
            "name = \"b\"\nfleet = true\nusd = 1\nperiod = \"day\"",
            "name = \"b\"\nusd = 1\nperiod = \"month\"",
            "name = \"b\"\nfleet = true\nusd = 1",
        ],
    ),
    (
        "service",
        "ttft = \"1s\"",
        &["match = { name = \"a\" }", ""],
    ),
    (
        "pool",
        "name = \"a\"\nmatch = { x = \"1\" }",
        &[
            "name = \"a\"\nmatch = { x = \"2\" }",
            "name = \"b\"\nmatch = { x = \"2\" }\nmin = 3\nmax = 2",
            "name = \"b\"",
        ],
    ),
    (
        "team",
        "name = \"a\"\nmatch = { queue = \"q\" }",
        &["name = \"b\""],
    ),
    (
        "prices.override",
        "class = \"H100\"\nusd_per_device_hour = 2",
        &["usd_per_device_hour = 2", "class = \"H100\""],
    ),
    (
        "tco.owned",
        "class = \"H100\"\ndevices = 8\nmachine = { capex_usd = 1, kw = 1 }",
        &["class = \"H100\"\ndevices = 8"],
    ),
    (
        "route",
        "match = { queue = \"a\" }\nflavors = [{ flavor = \"a\" }]",
        &[
            "match = { queue = \"a\" }\nflavors = [{ flavor = \"b\" }]",
            "flavors = [{ flavor = \"b\" }, { flavor = \"b\" }]",
            "match = { queue = \"b\" }",
        ],
    ),
];

#[test]
fn a_fault_of_an_entry_of_an_array_has_the_line_of_that_entry() {
    for (key, right, wrong) in ARRAYS {
        for wrong in *wrong {
            let before = format!("[[{key}]]\n{right}\n\n");
            let line = before.lines().count() + 1;
            let message = refused(&user(&format!("{before}[[{key}]]\n{wrong}\n")));
            let start = format!("stokehold.toml:{line}: {key}: ");
            assert!(message.starts_with(&start), "{start}\n{wrong}\n{message}");
        }
        // In the section of a context and as an inline array, the entry has its line, too.
        let inline = |text: &str| format!("  {{ {} }},\n", text.replace('\n', ", "));
        let text = format!("{key} = [\n{}{}]\n", inline(right), inline(wrong[0]));
        let message = refused(&user(&text));
        assert!(
            message.starts_with("stokehold.toml:3: "),
            "{text}\n{message}"
        );
        let section = format!("context.prod.{key}");
        let text = format!("[[{section}]]\n{right}\n[[{section}]]\n{}\n", wrong[0]);
        let mut inputs = user(&text);
        inputs.context = Some("prod".into());
        let line = right.lines().count() + 2;
        let message = refused(&inputs);
        let start = format!("stokehold.toml:{line}: ");
        assert!(message.starts_with(&start), "{start}\n{text}\n{message}");
    }
}

#[test]
fn every_array_of_tables_is_tried_with_a_wrong_entry() {
    let shown = DEFAULTS
        .lines()
        .filter_map(|line| line.strip_prefix("#[[")?.strip_suffix("]]"));
    for key in shown {
        assert!(ARRAYS.iter().any(|(tried, ..)| *tried == key), "{key}");
    }
}
