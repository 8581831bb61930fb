//! Who loses what by a plan: a row a displaced job, with sums by team.

use std::collections::BTreeMap;

use model::base::SmallSort;
use model::base::quantities::counted;
use model::base::{Moment, Name};
use model::cost::LIST_MARK;
use model::plan::{CONTESTED, Displaced, Forecast, JobName, Loss, Plan, PlanEffect};

use crate::spend::dollars;
use crate::table::{cell, text_table};
use crate::text::{NO_ETA, UNKNOWN, eta, or_unknown};

/// From so many displaced jobs on they are a table.
const TABLE_FROM: usize = 3;

/// The displaced jobs that have a line of their own: those of a forecast that has too few for a table.
pub fn apart(forecast: &Forecast) -> &[Displaced] {
    match forecast.displaced.len() {
        ..TABLE_FROM => &forecast.displaced,
        _ => &[],
    }
}

/// Titles of the columns, each with whether it is right-aligned. The first columns are the last to go on a narrow screen.
const TITLES: [(&str, bool); 7] = [
    ("JOB", false),
    ("TEAM", false),
    ("DEVICES", true),
    ("LOST", true),
    ("COST", true),
    ("PRIORITY", true),
    ("BACK", false),
];

/// Displaced jobs of one team, added up.
#[derive(Default)]
struct TeamSum {
    jobs: u64,
    devices: u64,
    /// Tenths of device-hours, of what the lines show; unknown where that of one job is.
    tenths: Option<u64>,
    micro_usd: Option<i64>,
    by_list: bool,
}

impl TeamSum {
    fn of<'a>(jobs: impl IntoIterator<Item = &'a Displaced>) -> Self {
        let none = Self {
            tenths: Some(0),
            micro_usd: Some(0),
            ..Self::default()
        };
        jobs.into_iter().fold(none, |sum, one| Self {
            jobs: sum.jobs + 1,
            devices: sum.devices + u64::from(one.devices),
            tenths: (sum.tenths.zip(one.loss.tenths())).map(|(sum, own)| sum.saturating_add(own)),
            micro_usd: (sum.micro_usd.zip(one.loss.micro_usd))
                .map(|(sum, own)| sum.saturating_add(own)),
            by_list: sum.by_list || one.loss.by_list,
        })
    }

    fn line(&self, team: &str) -> Vec<String> {
        vec![
            counted(self.jobs, "job"),
            team.to_owned(),
            self.devices.to_string(),
            hours(self.tenths),
            or_unknown(marked(self.micro_usd, self.by_list)),
            String::new(),
            String::new(),
        ]
    }
}

/// What one team loses by a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TeamLoss {
    /// The team; `-` where it is not known.
    pub team: String,
    /// Jobs of the team that lose their devices.
    pub jobs: u64,
    /// Lost work, tenths of device-hours, as [`lines`] adds it up; `None` where that of one job is not known.
    pub tenths: Option<u64>,
    /// What that work cost; `None` where that of one job is not known.
    pub cost: Option<String>,
}

impl TeamLoss {
    /// Lost work: `21.4 device-h`.
    pub fn hours(&self) -> String {
        match self.tenths {
            Some(tenths) => format!("{}.{} device-h", tenths / 10, tenths % 10),
            None => String::from("unknown"),
        }
    }

    /// Its part of the largest of these losses, 0 to 1.
    pub fn share(&self, of: &[Self]) -> f64 {
        let most = of.iter().filter_map(|one| one.tenths).max();
        self.tenths.unwrap_or(0) as f64 / most.unwrap_or(0).max(1) as f64
    }

    /// The jobs and the cost: `9 jobs · $147`.
    pub fn besides(&self) -> String {
        let cost = self.cost.as_deref().unwrap_or("cost unknown");
        format!("{} · {cost}", counted(self.jobs, "job"))
    }
}

/// What each team loses by the displacement of these jobs, the largest loss first.
pub fn by_team<'a>(displaced: impl IntoIterator<Item = &'a Displaced>) -> Vec<TeamLoss> {
    let teams = teams(displaced).into_iter();
    let losses = teams.map(|(team, jobs)| {
        let sum = TeamSum::of(jobs);
        TeamLoss {
            team: match team.is_empty() {
                true => UNKNOWN.to_owned(),
                false => cell(team),
            },
            jobs: sum.jobs,
            tenths: sum.tenths,
            cost: marked(sum.micro_usd, sum.by_list),
        }
    });
    losses.collect()
}

/// What each team loses by the displacement of these jobs, as their plan forecasts it; empty without a forecast.
pub fn losses_of(plan: &Plan, jobs: &[JobName]) -> Vec<TeamLoss> {
    match &plan.effect {
        PlanEffect::Forecast(forecast) => {
            let displaced = forecast.displaced.iter();
            by_team(displaced.filter(|one| jobs.contains(&one.job)))
        }
        PlanEffect::Unknown { .. } => Vec::new(),
    }
}

/// The displaced jobs by team, the largest loss first, and of each team the largest first.
fn teams<'a>(
    displaced: impl IntoIterator<Item = &'a Displaced>,
) -> Vec<(&'a Name, Vec<&'a Displaced>)> {
    let mut teams: BTreeMap<&Name, Vec<&Displaced>> = BTreeMap::new();
    for one in displaced {
        teams.entry(&one.team).or_default().push(one);
    }
    let mut teams: Vec<(&Name, Vec<&Displaced>)> = teams.into_iter().collect();
    let weight = |one: &Displaced| (one.loss.device_seconds, one.devices);
    for (_, jobs) in &mut teams {
        jobs.small_sort_by(|a, b| weight(b).cmp(&weight(a)));
    }
    let total = |jobs: &[&Displaced]| -> u64 {
        let lost = jobs.iter().filter_map(|one| one.loss.device_seconds);
        lost.fold(0, u64::saturating_add)
    };
    teams.small_sort_by(|(_, a), (_, b)| total(b).cmp(&total(a)));
    teams
}

/// Tenths of device-hours as `12.5h`.
fn hours(tenths: Option<u64>) -> String {
    or_unknown(tenths.map(|tenths| format!("{}.{}h", tenths / 10, tenths % 10)))
}

fn marked(micros: Option<i64>, by_list: bool) -> Option<String> {
    let mark = if by_list { LIST_MARK } else { "" };
    micros.map(|micros| format!("{}{mark}", dollars(micros)))
}

/// The cost of lost work, with its mark where it is by list prices: `$34*`.
pub fn cost(loss: &Loss) -> Option<String> {
    marked(loss.micro_usd, loss.by_list)
}

/// The cost of all lost work of a forecast.
pub fn total_cost(forecast: &Forecast) -> Option<String> {
    let mut lost = forecast.displaced.iter();
    marked(forecast.lost_micro_usd, lost.any(|one| one.loss.by_list))
}

/// Lost work in words: `12.5 device-hours ($34)`; `an unknown amount of work`.
pub fn words(loss: &Loss) -> String {
    let lost = match loss.device_seconds {
        Some(seconds) => format!("{:.1} device-hours", seconds as f64 / 3600.0),
        None => String::from("an unknown amount of work"),
    };
    match cost(loss) {
        Some(cost) => format!("{lost} ({cost})"),
        None => lost,
    }
}

/// The displaced jobs as lines of a table of at most `width` cells: by team, the largest loss first, with a sum for each team that
/// has several and for all. `most` jobs of a team have a line; the sums are over all. Nothing below [`TABLE_FROM`] jobs.
pub fn lines(
    plan: &Plan,
    forecast: &Forecast,
    now: Moment,
    width: usize,
    most: usize,
) -> Vec<String> {
    let all = &forecast.displaced;
    if all.len() < TABLE_FROM {
        return Vec::new();
    }
    let teams = teams(all);
    let mut cells: Vec<Vec<String>> = Vec::new();
    for (team, jobs) in &teams {
        let team = cell(team);
        let shown = match jobs.len() {
            // One more line is no longer than the words that there is one more.
            count if count <= most + 1 => count,
            _ => most,
        };
        cells.extend(
            jobs.iter()
                .take(shown)
                .map(|one| row(plan, forecast, now, one)),
        );
        if shown < jobs.len() {
            let mut rest = TeamSum::of(jobs.iter().skip(shown).copied()).line(&team);
            rest[0] = format!("{} more", jobs.len() - shown);
            cells.push(rest);
        }
        if jobs.len() > 1 && teams.len() > 1 {
            cells.push(TeamSum::of(jobs.iter().copied()).line(&team));
        }
    }
    cells.push(TeamSum::of(all).line("all teams"));
    for columns in (4..=TITLES.len()).rev() {
        let cut: Vec<Vec<String>> = cells.iter().map(|line| line[..columns].to_vec()).collect();
        let text = text_table(TITLES[..columns].to_vec(), &cut, true);
        if columns == 4 || text.lines().all(|line| line.chars().count() <= width) {
            return text.lines().map(str::to_owned).collect();
        }
    }
    Vec::new()
}

fn row(plan: &Plan, forecast: &Forecast, now: Moment, one: &Displaced) -> Vec<String> {
    let back = match one.back {
        Some(_) => eta(now, [one.back_p10, one.back, one.back_p90]),
        None if forecast.is_contested(&one.job) => CONTESTED.to_owned(),
        None => NO_ETA.to_owned(),
    };
    let besides = match plan.is_evicted_besides(&one.job) {
        true => ", evicted by its scheduler",
        false => "",
    };
    vec![
        cell(&one.job.to_string()),
        match one.team.is_empty() {
            true => UNKNOWN.to_owned(),
            false => cell(&one.team),
        },
        one.devices.to_string(),
        hours(one.loss.tenths()),
        or_unknown(cost(&one.loss)),
        or_unknown(one.priority),
        format!("{back}{besides}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;
    use model::plan::Intent;

    fn displaced(name: &str, team: &str, devices: u32, hours: Option<u64>) -> Displaced {
        Displaced {
            job: JobName(ObjectKey::new(team, name)),
            team: Name::new(team),
            priority: Some(50),
            devices,
            loss: Loss {
                device_seconds: hours.map(|hours| hours * 3600),
                micro_usd: hours.map(|hours| hours as i64 * 12_345_678),
                by_list: false,
                since: None,
            },
            back: None,
            back_p10: None,
            back_p90: None,
        }
    }

    fn table(all: Vec<Displaced>, width: usize) -> String {
        let now = Moment::default();
        let plan = Plan::new("p", Intent::Rebalance { pool: None }, now);
        let forecast = Forecast {
            displaced: all,
            ..Forecast::default()
        };
        lines(&plan, &forecast, now, width, 2).join("\n")
    }

    #[test]
    fn losses_stand_by_team_with_sums_the_largest_first() {
        let all = vec![
            displaced("small", "nlp", 1, Some(1)),
            displaced("a", "vision", 8, Some(4)),
            displaced("b", "vision", 8, Some(20)),
            displaced("c", "vision", 2, Some(2)),
            displaced("d", "vision", 2, Some(3)),
        ];
        let expected = "\
JOB         TEAM        DEVICES    LOST   COST   PRIORITY   BACK
vision/b    vision            8   20.0h   $247         50   no ETA
vision/a    vision            8    4.0h    $49         50   no ETA
2 more      vision            4    5.0h    $62
4 jobs      vision           20   29.0h   $358
nlp/small   nlp               1    1.0h    $12         50   no ETA
5 jobs      all teams        21   30.0h   $370";
        assert_eq!(table(all.clone(), 200), expected);
        let narrow = table(all.clone(), 50);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 50),
            "{narrow}"
        );
        assert!(
            narrow.contains("5 jobs      all teams        21   30.0h"),
            "{narrow}"
        );
        let mut two = all;
        two.truncate(2);
        assert_eq!(table(two, 200), "");
    }

    #[test]
    fn what_teams_lose_sums_up_to_the_total_of_the_table_the_largest_first() {
        let all = vec![
            displaced("small", "nlp", 1, Some(1)),
            displaced("a", "vision", 8, Some(4)),
            displaced("b", "vision", 8, Some(20)),
            displaced("c", "", 2, Some(2)),
        ];
        let losses = by_team(&all);
        let words: Vec<String> = losses
            .iter()
            .map(|it| format!("{} {} {}", it.team, it.hours(), it.besides()))
            .collect();
        let expected = [
            "vision 24.0 device-h 2 jobs · $296",
            "- 2.0 device-h 1 job · $25",
            "nlp 1.0 device-h 1 job · $12",
        ];
        assert_eq!(words, expected);
        let tenths: u64 = losses.iter().filter_map(|it| it.tenths).sum();
        let jobs: u64 = losses.iter().map(|it| it.jobs).sum();
        let total = table(all, 200);
        let total = total.lines().last().expect("a sum").to_owned();
        let stated = format!("{}.{}h", tenths / 10, tenths % 10);
        assert!(total.starts_with(&format!("{jobs} jobs")), "{total}");
        assert!(total.contains(&stated), "{stated}: {total}");
        let unknown = by_team(&[displaced("a", "vision", 8, None)]);
        assert_eq!(unknown[0].hours(), "unknown");
        assert_eq!(unknown[0].besides(), "1 job · cost unknown");
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let all = vec![
            displaced("a", "vision", 8, None),
            displaced("b", "vision", 8, Some(20)),
            displaced("c", "nlp", 2, Some(2)),
        ];
        let table = table(all, 200);
        let sum = table.lines().last().expect("a sum");
        assert_eq!(
            sum.split_whitespace().collect::<Vec<_>>()[4..],
            ["18", "-", "-"]
        );
    }
}
