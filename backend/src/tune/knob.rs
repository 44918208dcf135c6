//! The knobs: their names, the values that are tried, and what is set altogether.

use std::fmt;

use crate::run::{DeviceId, Knobs};

/// A value for every knob. No result depends on any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Where work runs on a GPU.
    pub knobs: Knobs,
    /// Most prompt tokens of a sequence in one step, on any device; 0: as many as the step takes.
    pub long_prefill_token_threshold: u32,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// [`Knobs::attention_blocks`].
    AttentionBlocks,
    /// [`Knobs::attention_many_rows`].
    AttentionManyRows,
    /// [`Knobs::gemm_64_rows`].
    Gemm64Rows,
    /// [`Knobs::gemm_128_rows`].
    Gemm128Rows,
    /// [`Knobs::fine_buckets`]; 0 or 1.
    FineBuckets,
    /// [`Tuning::long_prefill_token_threshold`].
    LongPrefillTokenThreshold,
}

impl Knob {
    /// All that a device has, those first whose choice changes most.
    #[must_use]
    pub fn of(device: DeviceId) -> &'static [Self] {
        const ALL: [Knob; 6] = [
            Knob::AttentionBlocks,
            Knob::Gemm128Rows,
            Knob::Gemm64Rows,
            Knob::AttentionManyRows,
            Knob::FineBuckets,
            Knob::LongPrefillTokenThreshold,
        ];
        match device {
            DeviceId::Cpu => &ALL[5..],
            DeviceId::Cuda(_) => &ALL,
        }
    }

    /// As in profiles and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AttentionBlocks => "attention_blocks",
            Self::AttentionManyRows => "attention_many_rows",
            Self::Gemm64Rows => "gemm_64_rows",
            Self::Gemm128Rows => "gemm_128_rows",
            Self::FineBuckets => "fine_buckets",
            Self::LongPrefillTokenThreshold => "long_prefill_token_threshold",
        }
    }

    /// The knob of that name that a device has.
    #[must_use]
    pub fn named(name: &str, device: DeviceId) -> Option<Self> {
        Self::of(device).iter().copied().find(|knob| knob.name() == name)
    }

    /// Its value in `tuning`.
    #[must_use]
    pub fn value(self, tuning: &Tuning) -> u32 {
        let knobs = &tuning.knobs;
        match self {
            Self::AttentionBlocks => knobs.attention_blocks,
            Self::AttentionManyRows => knobs.attention_many_rows,
            Self::Gemm64Rows => knobs.gemm_64_rows,
            Self::Gemm128Rows => knobs.gemm_128_rows,
            Self::FineBuckets => knobs.fine_buckets.into(),
            Self::LongPrefillTokenThreshold => tuning.long_prefill_token_threshold,
        }
    }

    /// `tuning` with another value.
    #[must_use]
    pub fn with(self, mut tuning: Tuning, value: u32) -> Tuning {
        let knobs = &mut tuning.knobs;
        match self {
            Self::AttentionBlocks => knobs.attention_blocks = value,
            Self::AttentionManyRows => knobs.attention_many_rows = value,
            Self::Gemm64Rows => knobs.gemm_64_rows = value,
            Self::Gemm128Rows => knobs.gemm_128_rows = value,
            Self::FineBuckets => knobs.fine_buckets = value != 0,
            Self::LongPrefillTokenThreshold => tuning.long_prefill_token_threshold = value,
        }
        tuning
    }

    /// Values to try beside the default, where a step has at most `rows` rows: those that no step could tell apart are left out.
    #[must_use]
    pub fn candidates(self, rows: u32) -> Vec<u32> {
        let (values, most): (&[u32], u32) = match self {
            // Blocks of a launch, which are units of 128 tokens and heads at most: steps of any size have many.
            Self::AttentionBlocks => (&[128, 256, 1024, 2048], u32::MAX),
            Self::AttentionManyRows => (&[17, 33, 129], rows),
            Self::Gemm64Rows => (&[5, 9], rows),
            Self::Gemm128Rows => (&[65, 129, 513, 1025], rows),
            Self::FineBuckets => (if rows > 16 { &[0] } else { &[] }, u32::MAX),
            Self::LongPrefillTokenThreshold => (&[64, 128, 256, 512, 1024, 2048], rows.saturating_sub(1)),
        };
        values.iter().copied().filter(|value| *value <= most).collect()
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_sets_what_it_shows_and_nothing_else() {
        let device = DeviceId::Cuda(0);
        for &knob in Knob::of(device) {
            assert_eq!(Knob::named(knob.name(), device), Some(knob));
            for value in knob.candidates(4096) {
                let tuning = knob.with(Tuning::default(), value);
                assert_eq!(knob.value(&tuning), value);
                assert_ne!(tuning, Tuning::default(), "{knob} tries its default");
                assert_eq!(knob.with(tuning, knob.value(&Tuning::default())), Tuning::default());
            }
        }
    }

    #[test]
    fn no_value_is_tried_that_no_step_can_reach() {
        assert_eq!(Knob::LongPrefillTokenThreshold.candidates(512), [64, 128, 256]);
        assert_eq!(Knob::Gemm128Rows.candidates(512), [65, 129]);
        assert!(Knob::FineBuckets.candidates(16).is_empty());
        assert_eq!(Knob::named("gemm_64_rows", DeviceId::Cpu), None);
    }
}
