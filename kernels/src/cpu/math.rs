//! Elementary functions on arrays of lanes, the same bits for every instruction set and every lane count.

/// Lanes that reductions are laid out over; fixed, because it decides the order of additions.
pub(crate) const LANES: usize = 16;
/// One value per lane.
pub(crate) type Lanes = [f32; LANES];

/// Adds the lanes pairwise: distance 8, 4, 2, 1.
#[inline(always)]
pub(crate) fn sum(v: Lanes) -> f32 {
    let [mut a, mut b] = [[0.0; 8], [0.0; 8]];
    for i in 0..8 {
        a[i] = v[i] + v[i + 8];
    }
    for i in 0..4 {
        b[i] = a[i] + a[i + 4];
    }
    (b[0] + b[2]) + (b[1] + b[3])
}

/// The largest lane.
#[inline(always)]
pub(crate) fn max(v: Lanes) -> f32 {
    let [mut a, mut b] = [[0.0; 8], [0.0; 8]];
    for i in 0..8 {
        a[i] = larger(v[i], v[i + 8]);
    }
    for i in 0..4 {
        b[i] = larger(a[i], a[i + 4]);
    }
    larger(larger(b[0], b[2]), larger(b[1], b[3]))
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// `e^x` within 2 units in the last place; below -87.3 it is 0, above 88 it stays at `e^88`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let c = if x > 88.0 { 88.0 } else { x };
    let c = if c < -88.0 { -88.0 } else { c };
    let shifted = c.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, so that n * ln 2 is subtracted without loss.
    let r = n.mul_add(-0.693_359_4, c);
    let r = n.mul_add(2.121_944_4e-4, r);
    // Minimax polynomial of e^r on |r| <= ln 2 / 2 (Cephes' coefficients).
    let p = 1.987_569_2e-4_f32;
    let p = p.mul_add(r, 1.398_2e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 0.166_666_66);
    let p = p.mul_add(r, 0.5);
    let e = p.mul_add(r * r, r) + 1.0;
    let power = f32::from_bits((shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127)) << 23);
    if x < -87.3 { 0.0 } else { e * power }
}

/// `v / (1 + e^-v)`.
#[inline(always)]
pub(crate) fn silu(v: f32) -> f32 {
    v / (1.0 + exp(-v))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_double_precision_one() {
        let mut worst = 0f64;
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max(((f64::from(exp(x)) - exact) / exact).abs());
        }
        assert!(worst < 2.5e-7, "relative error {worst}");
        assert_eq!((exp(0.0), exp(-1e30), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn reductions() {
        let v: Lanes = std::array::from_fn(|i| i as f32);
        assert_eq!((sum(v), max(v)), (120.0, 15.0));
    }
}
