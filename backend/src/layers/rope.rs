//! Rotary frequencies, in radians per position.

use std::f64::consts::TAU;

use crate::weights::config::{Rope, RopeScaling};

/// The `dim / 2` frequencies of a head's rotated part, slowest last, with the config's scaling applied.
#[must_use]
pub fn frequencies(rope: &Rope, dim: usize) -> Vec<f64> {
    let scaled = |i: usize| {
        let plain = rope.theta.powf(-2.0 * i as f64 / dim as f64);
        match rope.scaling {
            RopeScaling::None => plain,
            RopeScaling::Linear { factor } => plain / factor,
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                // Turns over the training length decide: few turns are stretched, many are kept, a ramp between.
                let turns = original_max_position_embeddings as f64 * plain / TAU;
                let keep = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
                plain * keep + plain / factor * (1.0 - keep)
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max_position_embeddings } => {
                let pair_of = |turns: f64| {
                    let positions = original_max_position_embeddings as f64;
                    dim as f64 * (positions / (turns * TAU)).ln() / (2.0 * rope.theta.ln())
                };
                let low = pair_of(beta_fast).floor().max(0.0);
                let high = pair_of(beta_slow).ceil().min(dim as f64 - 1.0);
                let stretch = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                plain / factor * stretch + plain * (1.0 - stretch)
            }
        }
    };
    (0..dim / 2).map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_fast_pairs_and_stretches_slow_ones() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64,
        };
        let plain = frequencies(&Rope { theta: 50_000.0, scaling: RopeScaling::None }, 32);
        let scaled = frequencies(&Rope { theta: 50_000.0, scaling }, 32);
        assert_eq!((plain[0], scaled[0]), (1.0, 1.0));
        assert!((scaled[15] - plain[15] / 8.0).abs() < 1e-12);
    }

    #[test]
    fn yarn_ramps_between_pairs_15_and_25_for_deepseek_v4() {
        let scaling = RopeScaling::Yarn {
            factor: 16.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max_position_embeddings: 65_536,
        };
        let plain = frequencies(&Rope { theta: 160_000.0, scaling: RopeScaling::None }, 64);
        let scaled = frequencies(&Rope { theta: 160_000.0, scaling }, 64);
        assert_eq!(plain[15], scaled[15]);
        assert!(scaled[16] < plain[16] && scaled[24] > plain[24] / 16.0);
        assert!((scaled[25] - plain[25] / 16.0).abs() < 1e-15);
    }
}
