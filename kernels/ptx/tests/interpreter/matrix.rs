//! Matrix fragments and tensor-core products.

use sluicegate_kernels::{fp8, nvfp4};

use super::{LANES, Launch, bytes, noise, words};

const TEXT: &str = include_str!("../snippets/warp.ptx");

#[test]
fn matrices_are_loaded_transposed_and_stored() {
    let source = noise(2, 4 * LANES);
    let halves: Vec<u32> = source.iter().flat_map(|w| [w & 0xffff, w >> 16]).collect();
    let found = Launch::warp(TEXT, "matrices").run(vec![vec![0; 3 * 16 * LANES], bytes(&source)]).unwrap();
    let found = words(&found[0]);
    for lane in 0..LANES {
        let (g, q) = (lane / 4, lane % 4);
        for m in 0..4 {
            let cell = |row: usize, column: usize| halves[8 * (8 * m + row) + column];
            assert_eq!(found[4 * lane + m], cell(g, 2 * q) | cell(g, 2 * q + 1) << 16);
            assert_eq!(found[128 + 4 * lane + m], cell(2 * q, g) | cell(2 * q + 1, g) << 16);
        }
    }
    assert_eq!(found[256..], source);
}

/// `d += a b` with numbers in double precision; `a` is 16 x K, `b` K x 8.
fn product(a: &[Vec<f64>], b: &[Vec<f64>], d: &mut [[f32; 8]; 16]) {
    for (row, d) in a.iter().zip(d) {
        for (n, d) in d.iter_mut().enumerate() {
            let sum: f64 = row.iter().zip(b).map(|(x, b)| x * b[n]).sum();
            *d = (f64::from(*d) + sum) as f32;
        }
    }
}

/// Where a lane holds what of the 16 x 8 result.
fn results(lane: usize) -> [(usize, usize); 4] {
    let (g, q) = (lane / 4, lane % 4);
    [(g, 2 * q), (g, 2 * q + 1), (g + 8, 2 * q), (g + 8, 2 * q + 1)]
}

fn start() -> [[f32; 8]; 16] {
    std::array::from_fn(|m| std::array::from_fn(|n| m as f32 - 3.0 * n as f32))
}

fn packed(d: &[[f32; 8]; 16]) -> Vec<u8> {
    let cells = (0..LANES).flat_map(results).map(|(m, n)| d[m][n].to_bits());
    bytes(&cells.collect::<Vec<_>>())
}

#[test]
fn a_bf16_product_is_the_products_sum() {
    let code = |x: u32| half::bf16::from_f32(((x >> 8) % 1000) as f32 / 128.0 - 3.5).to_bits();
    let numbers = noise(3, 16 * 16 + 16 * 8);
    let a: Vec<Vec<u16>> = numbers[..256].chunks(16).map(|r| r.iter().map(|&x| code(x)).collect()).collect();
    let b: Vec<Vec<u16>> = numbers[256..].chunks(8).map(|r| r.iter().map(|&x| code(x)).collect()).collect();
    let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for lane in 0..LANES {
        let (g, q) = (lane / 4, lane % 4);
        for (row, k) in [(g, 2 * q), (g + 8, 2 * q), (g, 2 * q + 8), (g + 8, 2 * q + 8)] {
            left.push(pair(a[row][k], a[row][k + 1]));
        }
        for k in [2 * q, 2 * q + 8] {
            right.push(pair(b[k][g], b[k + 1][g]));
        }
    }
    let mut wanted = start();
    let launch = Launch::warp(TEXT, "multiply_bf16");
    let found = launch.run(vec![packed(&wanted), bytes(&left), bytes(&right)]).unwrap();
    let wide = |m: &[Vec<u16>]| -> Vec<Vec<f64>> {
        m.iter().map(|r| r.iter().map(|&c| half::bf16::from_bits(c).to_f64()).collect()).collect()
    };
    product(&wide(&a), &wide(&b), &mut wanted);
    assert_eq!(found[0], packed(&wanted));
}

#[test]
fn an_nvfp4_product_scales_sixteen_of_k_at_a_time() {
    let numbers = noise(4, 16 * 64 + 64 * 8 + 16 * 4 + 8 * 4);
    let (codes, scales) = numbers.split_at(16 * 64 + 64 * 8);
    let a: Vec<Vec<u32>> = codes[..1024].chunks(64).map(|r| r.iter().map(|x| x >> 9 & 15).collect()).collect();
    let b: Vec<Vec<u32>> = codes[1024..].chunks(8).map(|r| r.iter().map(|x| x >> 9 & 15).collect()).collect();
    // Ordinary scales, one for each 16 of k.
    let scale = |x: &u32| 0x28 + (x >> 5) % 0x20;
    let scale_a: Vec<Vec<u32>> = scales[..64].chunks(4).map(|r| r.iter().map(scale).collect()).collect();
    let scale_b: Vec<Vec<u32>> = scales[64..].chunks(4).map(|r| r.iter().map(scale).collect()).collect();
    let word = |bytes: &[u32]| bytes.iter().rev().fold(0, |w, b| w << 8 | b);
    let (mut left, mut right, mut words_a, mut words_b) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for lane in 0..LANES {
        let (g, q) = (lane / 4, lane % 4);
        for (row, k) in [(g, 8 * q), (g + 8, 8 * q), (g, 8 * q + 32), (g + 8, 8 * q + 32)] {
            left.push((0..8).fold(0, |w, i| w | a[row][k + i] << (4 * i)));
        }
        for k in [8 * q, 8 * q + 32] {
            right.push((0..8).fold(0, |w, i| w | b[k + i][g] << (4 * i)));
        }
        // Only lanes 4g and 4g + 1, and 4g, are looked at.
        words_a.push([word(&scale_a[g]), word(&scale_a[g + 8]), 0x7e7e_7e7e, 0x7e7e_7e7e][q]);
        words_b.push(if q == 0 { word(&scale_b[g]) } else { 0x7e7e_7e7e });
    }
    let mut wanted = start();
    let buffers = vec![packed(&wanted), bytes(&left), bytes(&right), bytes(&words_a), bytes(&words_b)];
    let found = Launch::warp(TEXT, "multiply_nvfp4").run(buffers).unwrap();
    let number =
        |code: u32, scale: u32| f64::from(nvfp4::E2M1[code as usize]) * f64::from(fp8::e4m3_to_f32(scale as u8));
    let wide_a: Vec<Vec<f64>> =
        a.iter().zip(&scale_a).map(|(r, s)| (0..64).map(|k| number(r[k], s[k / 16])).collect()).collect();
    let wide_b: Vec<Vec<f64>> =
        (0..64).map(|k| (0..8).map(|n| number(b[k][n], scale_b[n][k / 16])).collect()).collect();
    product(&wide_a, &wide_b, &mut wanted);
    assert_eq!(found[0], packed(&wanted));
}
