//! The figures of both sides of a bench, and the table that compares them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// What was measured, and how many sequences; 0 for what has none.
type Key = (String, u64);
/// Of wall and of CPU time, where both are measured.
type Figure = (f64, f64);

/// A program that measures, and what it has measured.
pub(super) struct Side {
    name: &'static str,
    command: Vec<PathBuf>,
    figures: BTreeMap<Key, Vec<Figure>>,
    left_out: BTreeSet<String>,
}

impl Side {
    /// `command` is a program with its first arguments; what to measure is the last one.
    pub(super) fn new(name: &'static str, command: Vec<PathBuf>) -> Self {
        Self { name, command, figures: BTreeMap::new(), left_out: BTreeSet::new() }
    }

    /// Runs the program once, unless `what` is left out.
    pub(super) fn measure(&mut self, what: &str) -> Result<()> {
        if self.left_out.contains(what) {
            return Ok(());
        }
        let (program, first) = self.command.split_first().context("no program")?;
        for (key, figure) in figures(&run::output(Command::new(program).args(first).arg(what))?)? {
            self.figures.entry(key).or_default().push(figure);
        }
        Ok(())
    }

    /// The last figure of CPU time.
    fn last(&self, key: &Key) -> f64 {
        self.figures.get(key).and_then(|all| all.last()).map_or(0.0, |(_, cpu)| *cpu)
    }

    fn medians(&self, key: &Key) -> Option<Figure> {
        let all = self.figures.get(key)?;
        Some((median(all.iter().map(|(wall, _)| *wall)), median(all.iter().map(|(_, cpu)| *cpu))))
    }
}

/// Leaves out of later rounds those of llama.cpp's types that are far behind the best of them.
pub(super) fn leave_out(sides: &mut [Side], what: &str, far: f64) {
    let key = what.parse().map_or_else(|_| (what.to_owned(), 1), |batch| ("decode".to_owned(), batch));
    let theirs = &mut sides[1..];
    let best = theirs.iter().map(|side| side.last(&key)).fold(0.0, f64::max);
    for side in theirs.iter_mut().filter(|side| side.last(&key) < far * best) {
        side.left_out.insert(what.to_owned());
    }
}

/// Reads lines of JSON; other lines are llama.cpp's own.
fn figures(text: &str) -> Result<Vec<(Key, Figure)>> {
    let mut figures = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("{\"what\"")) {
        let value: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let what = value["what"].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| value[key].as_f64().unwrap_or_default();
        let figure = match what.as_str() {
            "load" | "first token" => (number("seconds"), number("seconds")),
            "memory" => (number("megabytes"), number("megabytes")),
            "bandwidth" | "most bandwidth" => (number("weights_megabytes"), number("gigabytes_per_second")),
            _ => (number("per_second"), number("per_cpu_second")),
        };
        figures.push(((what, value["batch"].as_u64().unwrap_or_default()), figure));
    }
    Ok(figures)
}

/// Prints medians, and the median ratio to the best of llama.cpp's types with the least and the greatest of the rounds.
pub(super) fn print(sides: &[Side]) {
    let [ours, theirs @ ..] = sides else { return };
    println!("tokens per second of CPU time (of wall time), medians");
    print!("{:<14}", "");
    sides.iter().for_each(|side| print!(" {:>16}", side.name));
    println!("  ratio to the best of llama.cpp");
    let rates = ours.figures.keys().filter(|(_, batch)| *batch > 0);
    for key in rates {
        let name = if key.0 == "prefill" { "prefill, 512".to_owned() } else { format!("{} {}", key.0, key.1) };
        print!("{name:<14}");
        for side in sides {
            let cell = side.medians(key).map_or_else(String::new, |(wall, cpu)| format!("{cpu:.1} ({wall:.1})"));
            print!(" {cell:>16}");
        }
        let best = theirs.iter().max_by(|a, b| cpu(a, key).total_cmp(&cpu(b, key)));
        println!("  {}", best.map(|best| spread(ratios(ours, best, key))).unwrap_or_default());
    }
    let line = |name: &str, what: &str, digits: usize, pick: &dyn Fn(&[f64]) -> f64| {
        print!("{name:<14}");
        for side in sides {
            let all: Option<Vec<f64>> =
                side.figures.get(&(what.to_owned(), 0)).map(|all| all.iter().map(|(one, _)| *one).collect());
            print!(" {:>16}", all.map_or_else(String::new, |all| format!("{:.digits$}", pick(&all))));
        }
        println!();
    };
    line("load, s", "load", 2, &|all| median(all.iter().copied()));
    line("first token, s", "first token", 2, &|all| median(all.iter().copied()));
    line("memory, MB", "memory", 0, &|all| all.iter().copied().fold(0.0, f64::max));
    println!("{}, reading from end to end", bound(ours, "bandwidth"));
    println!("{}, reading at the best number of places", bound(ours, "most bandwidth"));
}

/// What a single sequence reads a second, of what a thread reads otherwise.
fn bound(ours: &Side, bandwidth: &str) -> String {
    let of = |what: &str, batch| ours.figures.get(&(what.to_owned(), batch)).map_or(&[][..], Vec::as_slice);
    // Each process measures both; the processes of one sequence ran first.
    let rounds = of("decode", 1).iter().zip(of(bandwidth, 0));
    let (mut shares, mut rates) = (Vec::new(), Vec::new());
    let mut megabytes = 0.0;
    for ((_, tokens), (weights, gigabytes)) in rounds {
        shares.push(100.0 * tokens * weights / (1000.0 * gigabytes));
        rates.push(*gigabytes);
        megabytes = *weights;
    }
    format!(
        "1 sequence reads {megabytes:.1} MB of weights a token: {} % of the bandwidth of one thread, {} GB/s",
        spread(shares),
        spread(rates)
    )
}

fn cpu(side: &Side, key: &Key) -> f64 {
    side.medians(key).map_or(0.0, |(_, cpu)| cpu)
}

/// Round by round.
fn ratios(ours: &Side, theirs: &Side, key: &Key) -> Vec<f64> {
    let (Some(ours), Some(theirs)) = (ours.figures.get(key), theirs.figures.get(key)) else { return Vec::new() };
    ours.iter().zip(theirs).map(|((_, ours), (_, theirs))| ours / theirs).collect()
}

/// `median (least to greatest)`.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return String::new() };
    format!("{:.2} ({least:.2} to {greatest:.2})", median(values.iter().copied()))
}

/// The middle value, the mean of two; 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (len, half) if len % 2 == 1 => values[half],
        (_, half) => f64::midpoint(values[half - 1], values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rates: &[f64]) -> Side {
        let mut side = Side::new("x", Vec::new());
        side.figures.insert(("decode".to_owned(), 4), rates.iter().map(|rate| (0.0, *rate)).collect());
        side
    }

    #[test]
    fn lines_of_other_programs_are_passed_over() {
        let text = "srv: loading\n{\"what\": \"decode\", \"batch\": 4, \"per_second\": 10.5, \"per_cpu_second\": 9}\n{\"what\": \"load\", \"seconds\": 0.5}";
        let figures = figures(text).unwrap();
        assert_eq!(figures, [(("decode".to_owned(), 4), (10.5, 9.0)), (("load".to_owned(), 0), (0.5, 0.5))]);
    }

    #[test]
    fn ratios_are_of_one_round_and_the_slow_are_left_out() {
        let key = ("decode".to_owned(), 4);
        assert_eq!(ratios(&side(&[30.0, 12.0, 20.0]), &side(&[10.0, 6.0, 5.0]), &key), [3.0, 2.0, 4.0]);
        assert_eq!(spread(vec![3.0, 2.0, 4.0]), "3.00 (2.00 to 4.00)");
        assert_eq!((median([1.0, 4.0].into_iter()), median([].into_iter())), (2.5, 0.0));
        let mut sides = [side(&[30.0]), side(&[10.0]), side(&[5.0]), side(&[7.0])];
        leave_out(&mut sides, "4", 0.6);
        assert_eq!(sides.map(|side| side.left_out.len()), [0, 0, 1, 0]);
    }
}
