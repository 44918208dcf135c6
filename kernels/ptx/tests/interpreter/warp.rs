//! Shuffles, votes, barriers, atomics, asynchronous copies.

use super::{LANES, Launch, bytes, noise, words};

const TEXT: &str = include_str!("../snippets/warp.ptx");

#[test]
fn a_warp_exchanges_and_votes() {
    let found = words(&Launch::warp(TEXT, "shuffles").run(vec![vec![0; 8 * LANES * 4]]).unwrap()[0]);
    let value = |lane: u32| 3 * lane + 100;
    for lane in 0..32u32 {
        let at = |i: usize| found[i * LANES + lane as usize];
        assert_eq!(at(0), value(lane ^ 16));
        assert_eq!(at(1), if lane >= 3 { value(lane - 3) + 1000 } else { value(lane) });
        // Segments of eight lanes.
        assert_eq!(at(2), if lane % 8 + 5 < 8 { value(lane + 5) + 1000 } else { value(lane) });
        assert_eq!((at(3), at(4), at(5)), (value(9), 0xfff, 1));
        assert_eq!(at(6), (0..32).map(value).sum::<u32>());
        assert_eq!(at(7), if lane < 16 { value(1) } else { 0 });
    }
}

#[test]
fn a_block_meets_at_barriers_and_counts() {
    let launch = Launch { text: TEXT, kernel: "barriers", grid: 3, block: 64, shared: 256 };
    let found = launch.run(vec![vec![0; 3 * 64 * 4], vec![0; 4]]).unwrap();
    for (i, value) in words(&found[0]).into_iter().enumerate() {
        let (block, thread) = (i as u32 / 64, i as u32 % 64);
        assert_eq!(value, block * 1000 + (63 - thread) + 5 + 2 * 64 + 20, "block {block}, thread {thread}");
    }
    assert_eq!(words(&found[1]), [3 * 64]);
}

#[test]
fn copies_arrive_when_their_group_is_waited_for() {
    let source = noise(1, 4 * LANES);
    let found = Launch::warp(TEXT, "copies").run(vec![vec![0; 16 * LANES], bytes(&source)]).unwrap();
    for (lane, (found, source)) in words(&found[0]).chunks(4).zip(source.chunks(4)).enumerate() {
        // In flight it is neither old nor new; odd lanes fill 4 bytes, the rest is zero.
        let third = if lane % 2 == 1 { 0 } else { source[2] };
        assert_eq!(found, [u32::MAX, third, u32::MAX, source[1]], "lane {lane}");
    }
}
