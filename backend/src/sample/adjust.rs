//! What changes logits before a token is chosen: bias, penalties, the grammar mask.

use crate::exec::SampleRow;

/// Applies everything that `row` asks for. Afterwards no logit is NaN or +inf. `seen` is a buffer.
pub(super) fn apply(logits: &mut [f32], row: &SampleRow, seen: &mut Vec<u32>) {
    for &(id, bias) in &row.sampling.logit_bias {
        if let Some(l) = logits.get_mut(id as usize) {
            *l += bias;
        }
    }
    if let Some(history) = &row.history {
        penalize(logits, history, row, seen);
    }
    if let Some(mask) = &row.mask {
        for (id, l) in logits.iter_mut().enumerate() {
            if !admits(mask, id) {
                *l = f32::NEG_INFINITY;
            }
        }
    }
    for l in logits {
        *l = if l.is_nan() { f32::NEG_INFINITY } else { l.min(f32::MAX) };
    }
}

/// The first token that a mask admits.
pub(super) fn first_admitted(mask: &[u32]) -> Option<u32> {
    let word = mask.iter().position(|&w| w != 0)?;
    Some(word as u32 * 32 + mask[word].trailing_zeros())
}

fn admits(mask: &[u32], id: usize) -> bool {
    mask.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

/// Repetition penalty (Keskar et al. 2019, CTRL) over prompt and output; then OpenAI's frequency and presence penalties
/// over the output.
fn penalize(logits: &mut [f32], history: &[u32], row: &SampleRow, seen: &mut Vec<u32>) {
    let s = &row.sampling;
    if s.repetition_penalty != 1.0 {
        for_each_count(history, seen, |id, _| {
            if let Some(l) = logits.get_mut(id as usize) {
                *l = if *l > 0.0 { *l / s.repetition_penalty } else { *l * s.repetition_penalty };
            }
        });
    }
    if s.frequency_penalty != 0.0 || s.presence_penalty != 0.0 {
        let output = history.get(row.prompt_len as usize..).unwrap_or_default();
        for_each_count(output, seen, |id, count| {
            if let Some(l) = logits.get_mut(id as usize) {
                *l -= s.frequency_penalty * count as f32 + s.presence_penalty;
            }
        });
    }
}

/// Calls `f` once for each different token, with how often it occurs.
fn for_each_count(tokens: &[u32], sorted: &mut Vec<u32>, mut f: impl FnMut(u32, usize)) {
    sorted.clear();
    sorted.extend_from_slice(tokens);
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).for_each(|run| f(run[0], run.len()));
}
