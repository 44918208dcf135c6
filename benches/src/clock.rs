//! CPU time of this thread, which neighbours on a busy machine disturb less than wall time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that this thread has used.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The middle value; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
