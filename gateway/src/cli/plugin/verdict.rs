//! Holds one case against a plugin: the shared judgement, and that work is linear.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sluicegate_cases::chunking::points;
use sluicegate_cases::{Case, Verdict, judge};

use super::message::Run;
use crate::plugins::Pinned;

/// Most two-way splits tried; of a longer text, this many are spread evenly.
const MAX_SPLITS: usize = 20_000;
/// Texts of this many bytes are timed.
const LONG: usize = 4096;

/// How `case` goes with a plugin.
pub(super) fn verdict(pinned: &Pinned, case: &Case) -> Verdict {
    let run = Run::new(pinned, case);
    let markers = &pinned.descriptor().markers;
    let verdict = judge(case, markers, MAX_SPLITS, |chunks| run.stream(chunks), Clone::clone);
    let text = case.chunks.concat();
    if text.len() < LONG {
        return verdict;
    }
    is_linear(&run, &points(&text)).map_or_else(Verdict::Broken, |()| verdict)
}

/// Twice the text may take about twice the time; four times would be quadratic.
fn is_linear(run: &Run<'_>, points: &[&str]) -> Result<(), String> {
    let time = |points: &[&str]| {
        let least = (0..5).map(|_| {
            let begun = cpu_time();
            let _ = black_box(run.stream(points));
            cpu_time() - begun
        });
        least.min().unwrap_or_default()
    };
    let (half, full) = (time(&points[..points.len() / 2]), time(points));
    if full > half.mul_f64(3.5) + Duration::from_millis(1) {
        return Err(format!("work is not linear: {half:?} for half the text, {full:?} for all of it"));
    }
    Ok(())
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
