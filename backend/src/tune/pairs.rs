//! Whether one of two ways is faster, from pairs of times that were measured one right after the other.
//!
//! The figure is the median of the pairs' ratios. Its interval is the one that inverts the sign test: the k-th smallest and the k-th
//! largest ratio, where k comes from the binomial distribution of "heads" (Conover, *Practical Nonparametric Statistics*, 3rd edition,
//! 3.2). It assumes nothing of the times' distribution, only that pairs are independent; one of two pairs begins with either way, so a
//! machine that slows down during the run favours neither.

/// Times of two ways to do the same, in seconds, measured one right after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The way that is known.
    pub baseline: f64,
    /// The other.
    pub candidate: f64,
}

impl Pair {
    /// Below 1 where the candidate was faster. A time of 0 is below a clock's tick and says nothing.
    fn ratio(self) -> f64 {
        if self.baseline > 0.0 && self.candidate > 0.0 { self.candidate / self.baseline } else { 1.0 }
    }
}

/// What an interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is below 1.
    Faster,
    /// It contains 1.
    NoDifference,
    /// All of it is above 1.
    Slower,
}

/// What the pairs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// How many pairs.
    pub pairs: usize,
    /// Median time of the known way, in seconds.
    pub baseline: f64,
    /// Median time of the other.
    pub candidate: f64,
    /// Median of the pairs' ratios, candidate to baseline.
    pub ratio: f64,
    /// The interval's lower end; 0 where there are too few pairs for one.
    pub low: f64,
    /// Its upper end; infinite where there are too few pairs.
    pub high: f64,
}

impl Comparison {
    /// From at least one pair. `risk` is the probability that the interval misses the true median ratio.
    #[must_use]
    pub fn of(pairs: &[Pair], risk: f64) -> Self {
        let sorted = |value: fn(&Pair) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let ratios = sorted(|p| p.ratio());
        let (low, high) = match rank(pairs.len(), risk) {
            0 => (0.0, f64::INFINITY),
            k => (ratios[k - 1], ratios[pairs.len() - k]),
        };
        Self {
            pairs: pairs.len(),
            baseline: median(&sorted(|p| p.baseline)),
            candidate: median(&sorted(|p| p.candidate)),
            ratio: median(&ratios),
            low,
            high,
        }
    }

    /// What the interval says.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.high < 1.0 {
            Verdict::Faster
        } else if self.low > 1.0 {
            Verdict::Slower
        } else {
            Verdict::NoDifference
        }
    }
}

/// Of sorted values; 0 of none.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The interval's place among `pairs` sorted ratios: it runs from the `rank`-th smallest to the `rank`-th largest and misses the
/// median with a probability of at most `risk`. 0 where even the extremes miss it more often.
///
/// So `rank - 1` pairs may be arbitrarily wrong without an end of the interval leaving the others' range.
#[must_use]
pub fn rank(pairs: usize, risk: f64) -> usize {
    // Both ends: twice the probability that fewer than `rank` of the pairs fall on one side.
    let (mut probability, mut below, mut rank) = (2.0 * 0.5_f64.powi(pairs as i32), 0.0, 0);
    while rank < pairs.div_ceil(2) {
        below += probability;
        if below > risk {
            break;
        }
        probability *= (pairs - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    rank
}

/// The fewest pairs whose interval so many wrong pairs can't decide.
#[must_use]
pub fn fewest(risk: f64, wrong: usize) -> usize {
    (1..1000).find(|&pairs| rank(pairs, risk) > wrong).unwrap_or(1000)
}
