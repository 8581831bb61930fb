//! The right to write: a [`Grant`] comes from settings only, an [`Approved`] plan from a grant only.
//!
//! Without a grant no value exists that could perform a write: `exec::Writer` and `exec::Probe` are built from one,
//! and a run takes only an approved plan. `tests/exec/compile_fail` checks that nothing else compiles, and clippy that
//! only `runtime` asks settings for a grant.

use std::fmt;

use model::base::Name;
use model::base::name::{is_hostile, printable};
use model::plan::Plan;
use settings::{Layer, Settings};

/// The right to write to one cluster. It cannot be copied, and is created from settings only.
#[derive(Debug)]
pub struct Grant {
    context: Name,
    by: String,
}

/// Why there is no grant: which setting refuses it, and how to change that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    /// A few words for a disabled key: `read-only`.
    pub short: &'static str,
    pub sentence: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Denied {}

impl Grant {
    /// The grant of the settings for the cluster of `context`. A simulated cluster of our own grants writing by default.
    ///
    /// # Errors
    /// No setting grants it, or one forbids it.
    pub fn from_settings(
        settings: &Settings,
        context: &Name,
        simulated: bool,
    ) -> Result<Self, Denied> {
        let origin = |key| settings.origins.of(key);
        if settings.forbid_write && !simulated {
            let place = origin("forbid_write").map(ToString::to_string);
            return Err(Denied {
                short: "writing is forbidden",
                sentence: format!(
                    "writing is forbidden on this machine: {} says forbid_write = true",
                    place.unwrap_or_else(|| "the settings".to_owned())
                ),
            });
        }
        let write = origin("write");
        let is_set = write.is_some_and(|origin| origin.layer != Layer::Default);
        if settings.write || simulated && !is_set {
            return Ok(Self {
                context: context.clone(),
                by: match write {
                    Some(origin) if is_set => origin.to_string(),
                    _ => "the simulated cluster".to_owned(),
                },
            });
        }
        let sentence = match write {
            Some(origin) if is_set => format!("read-only: {origin} says so"),
            _ => format!(
                "read-only: allow writing with --write, or with write = true in the section [context.\"{}\"] of your settings",
                printable(context)
            ),
        };
        Err(Denied {
            short: "read-only",
            sentence,
        })
    }

    /// The context whose cluster may be written to.
    pub fn context(&self) -> &Name {
        &self.context
    }

    /// What granted it: a flag, a variable, a line of a file.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Approves a plan that its operator has confirmed.
    ///
    /// # Errors
    /// The required text was not typed, the plan is malformed, or one of its checks has failed.
    pub fn approve(&self, plan: Plan, consent: Confirmation) -> Result<Approved, Unconfirmed> {
        plan.validate().map_err(Unconfirmed)?;
        if plan.steps.is_empty() {
            return Err(Unconfirmed("the plan has no step".to_owned()));
        }
        if consent.reason.contains(is_hostile) {
            let words = "the reason has control or invisible characters: remove them";
            return Err(Unconfirmed(words.to_owned()));
        }
        if let Some(check) = plan.failed_check() {
            return Err(Unconfirmed(format!(
                "the plan would fail: {}: {}",
                check.name, check.sentence
            )));
        }
        if let Confirmed::Typed(typed) = &consent.confirmed
            && plan.needs_typed_name()
        {
            let wanted = plan.typed(&self.context);
            if typed.trim() != wanted {
                return Err(Unconfirmed(format!(
                    "not confirmed: type {} to confirm",
                    printable(&wanted)
                )));
            }
        }
        Ok(Approved {
            plan,
            context: self.context.clone(),
            reason: consent.reason,
        })
    }
}

/// How an operator confirmed a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confirmation {
    /// The reason for the log; may be empty.
    pub reason: String,
    /// The form of the confirmation.
    pub confirmed: Confirmed,
}

/// Form of a confirmation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Confirmed {
    /// Typed text; a plan that is not grave needs only a yes.
    Typed(String),
    /// `--yes` of a script.
    ByFlag,
}

/// A plan that was not approved, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unconfirmed(pub String);

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unconfirmed {}

/// A plan that may be carried out on one cluster.
#[derive(Debug)]
pub struct Approved {
    plan: Plan,
    context: Name,
    reason: String,
}

impl Approved {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The context whose cluster it is for.
    pub fn context(&self) -> &Name {
        &self.context
    }

    /// The operator's reason; may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Moment;
    use model::plan::{Intent, JobRef, Mutation, Object, Outcome, PlanCheck, Step, Verb};
    use settings::{Inputs, SettingsText, load};

    fn settings(machine: &str, user: &str, flags: &[(&str, &str)]) -> Settings {
        let file = |layer, path: &str, text: &str| SettingsText {
            layer,
            path: path.into(),
            text: text.into(),
        };
        let inputs = Inputs {
            files: vec![
                file(Layer::Machine, "/etc/stokehold/stokehold.toml", machine),
                file(Layer::User, "/home/ada/stokehold.toml", user),
            ],
            context: Some("prod".into()),
            flags: flags
                .iter()
                .map(|(flag, value)| ((*flag).into(), "write".into(), (*value).into()))
                .collect(),
            ..Inputs::default()
        };
        load(&inputs).expect("is right")
    }

    fn ask(settings: &Settings, simulated: bool) -> Result<Grant, Denied> {
        Grant::from_settings(settings, &Name::new("prod"), simulated)
    }

    #[test]
    fn without_settings_the_console_is_read_only_except_on_the_simulated_cluster() {
        let nothing = settings("", "", &[]);
        let denied = ask(&nothing, false).expect_err("is read-only");
        assert!(denied.sentence.contains("--write") && denied.sentence.contains("prod"));
        assert_eq!(
            ask(&nothing, true).expect("is ours").by(),
            "the simulated cluster"
        );
    }

    #[test]
    fn settings_and_flags_grant_and_read_only_wins() {
        let file = settings("", "[context.\"prod\"]\nwrite = true\n", &[]);
        assert_eq!(
            ask(&file, false).expect("granted").by(),
            "/home/ada/stokehold.toml:2"
        );
        let flag = settings("", "", &[("--write", "true")]);
        assert_eq!(ask(&flag, false).expect("granted").by(), "--write");
        let both = settings("", "write = true\n", &[("--readonly", "false")]);
        let denied = ask(&both, false).expect_err("read-only wins");
        assert_eq!(denied.sentence, "read-only: --readonly says so");
        assert!(ask(&both, true).is_err(), "over the simulated cluster too");
    }

    #[test]
    fn machine_settings_forbid_over_user_settings() {
        let forbidden = settings(
            "forbid_write = true\n",
            "forbid_write = false\nwrite = true\n",
            &[("--write", "true")],
        );
        let denied = ask(&forbidden, false).expect_err("is forbidden");
        assert!(
            denied.sentence.contains("/etc/stokehold/stokehold.toml:1"),
            "{denied}"
        );
        assert!(ask(&forbidden, true).is_ok(), "it is about real clusters");
    }

    #[test]
    fn a_disruptive_plan_needs_typed_confirmation_and_a_failed_check_stops_it() {
        let grant = ask(&settings("", "", &[("--write", "true")]), false).expect("granted");
        let job = model::plan::JobName(model::base::ObjectKey::new("nlp", "train"));
        let mut plan = Plan::new(
            "hold",
            Intent::Preempt { job: job.clone() },
            Moment::from_seconds(0),
        );
        let consent = |typed: &str| Confirmation {
            reason: "why".into(),
            confirmed: Confirmed::Typed(typed.into()),
        };
        assert!(grant.approve(plan.clone(), consent("")).is_err(), "no step");
        let object = Object::new("batch", "v1", "jobs", "Job", "train").within("nlp");
        let mut step = Step::new(Verb::Suspend, object, Mutation::Suspend { value: true });
        step.job = Some(JobRef {
            name: job,
            devices: Some(8),
            gang: None,
        });
        plan.steps.push(step);
        let quiet = grant.approve(plan.clone(), consent(""));
        assert!(quiet.is_ok(), "it runs nowhere");
        plan.steps[0].side_effects.interrupts = true;
        assert!(grant.approve(plan.clone(), consent("prod")).is_err());
        let approved = grant
            .approve(plan.clone(), consent(" prod/train "))
            .expect("typed");
        assert_eq!((&**approved.context(), approved.reason()), ("prod", "why"));
        let outright = Confirmation {
            reason: String::new(),
            confirmed: Confirmed::ByFlag,
        };
        assert!(grant.approve(plan.clone(), outright.clone()).is_ok());
        for reason in [
            "a\nb",
            "a\u{1b}[2Jb",
            "a\u{9b}b",
            "a\u{202e}b",
            "a\u{e0041}b",
        ] {
            let hostile = Confirmation {
                reason: reason.into(),
                ..outright.clone()
            };
            let refused = grant
                .approve(plan.clone(), hostile)
                .expect_err("is refused");
            assert!(refused.to_string().contains("control"), "{reason:?}");
        }
        plan.checks.push(PlanCheck {
            name: "rights".into(),
            outcome: Outcome::Failed,
            sentence: "may not patch jobs".into(),
        });
        let refused = grant.approve(plan, outright).expect_err("would fail");
        assert!(refused.0.contains("may not patch jobs"));
    }
}
