//! Laws of the KV memory: blocks are conserved, never shared while written, and found only when complete.

use proptest::prelude::*;

use super::hash::Chain;
use super::pool::Pool;
use super::table::BlockTable;

const BLOCK: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    /// A new sequence with this text, as far as memory goes; `front` tokens of it are computed.
    Begin { text: Vec<u32>, front: usize },
    /// A step of a sequence completes.
    Advance { which: usize, tokens: usize },
    /// A sequence ends.
    End { which: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Few different texts, so that prefixes meet.
    let text = (0..3_u32, 1..40_usize, 0..3_u32).prop_map(|(family, len, last)| {
        (0..len as u32).map(|i| if i as usize == len - 1 { last } else { i * family }).collect()
    });
    let begin = (text, 0..40_usize).prop_map(|(text, front)| Op::Begin { text, front });
    let advance = (0..8_usize, 1..9_usize).prop_map(|(which, tokens)| Op::Advance { which, tokens });
    let end = (0..8_usize).prop_map(|which| Op::End { which });
    prop::collection::vec(prop_oneof![begin, advance, end], 1..120)
}

/// What a block is known to hold: the whole text up to its end.
type Contents = Vec<Option<Vec<u32>>>;

fn ids(table: &BlockTable) -> Vec<u32> {
    table.readable().ids(table.len() * BLOCK).collect()
}

/// Writes the next tokens of a sequence as a device would, then records the step.
fn compute(table: &mut BlockTable, text: &[u32], upto: usize, contents: &mut Contents) {
    let upto = upto.min(text.len()).max(table.filled());
    for (i, id) in ids(table).into_iter().enumerate() {
        let end = (i + 1) * BLOCK;
        if end > table.filled() && i * BLOCK < upto {
            contents[id as usize] = (end <= upto).then(|| text[..end].to_vec());
        }
    }
    table.advance(text, upto);
}

proptest! {
    #[test]
    fn blocks_are_conserved_and_hold_what_their_hash_says(blocks in 4..24_u32, ops in ops()) {
        let pool = Pool::new(blocks, false);
        let mut contents: Contents = vec![None; blocks as usize];
        let mut live: Vec<(BlockTable, Vec<u32>)> = Vec::new();
        for op in ops {
            match op {
                Op::Begin { text, front } => {
                    let mut table = BlockTable::new(BLOCK, Chain::new(None), true);
                    table.match_prefix(&text[..text.len() - 1], |h| pool.find(h));
                    for (i, id) in ids(&table).into_iter().enumerate() {
                        prop_assert_eq!(contents[id as usize].as_deref(), Some(&text[..(i + 1) * BLOCK]));
                    }
                    let before = pool.counts();
                    if table.grow(text.len(), || Some(pool.allocate()?.0)) {
                        compute(&mut table, &text, front, &mut contents);
                        live.push((table, text));
                    } else {
                        prop_assert_eq!(before.held, pool.counts().held, "a refused growth took blocks");
                    }
                }
                Op::Advance { which, tokens } if which < live.len() => {
                    let (table, text) = &mut live[which];
                    let upto = table.filled() + tokens;
                    compute(table, text, upto, &mut contents);
                }
                Op::End { which } if which < live.len() => drop(live.swap_remove(which)),
                _ => {}
            }
            pool.audit();
            for (table, text) in &live {
                let full = table.filled() / BLOCK;
                for (i, id) in ids(table)[..full].iter().enumerate() {
                    prop_assert_eq!(contents[*id as usize].as_deref(), Some(&text[..(i + 1) * BLOCK]));
                }
            }
        }
        drop(live);
        let counts = pool.counts();
        prop_assert_eq!((counts.held, counts.free + counts.cached), (0, blocks as usize));
    }

    #[test]
    fn chains_differ_where_text_or_salt_differs(a in prop::collection::vec(0..3_u32, 0..12), b in prop::collection::vec(0..3_u32, 0..12),
        salts in any::<(Option<u64>, Option<u64>)>()) {
        let chain = |text: &[u32], salt| text.chunks(BLOCK).fold(Chain::new(salt), Chain::then).hash();
        prop_assert_eq!(chain(&a, salts.0) == chain(&b, salts.1), a == b && salts.0 == salts.1);
    }
}

#[test]
fn the_tail_of_an_idle_prefix_is_evicted_before_its_head() {
    let pool = Pool::new(4, false);
    let text: Vec<u32> = (0..16).collect();
    let mut table = BlockTable::new(BLOCK, Chain::new(None), true);
    assert!(table.grow(16, || Some(pool.allocate()?.0)));
    table.advance(&text, 16);
    drop(table);
    let taken = pool.allocate();
    assert!(taken.is_some());
    let mut again = BlockTable::new(BLOCK, Chain::new(None), true);
    again.match_prefix(&text, |h| pool.find(h));
    assert_eq!(again.filled(), 12);
}

#[test]
fn two_sequences_that_compute_the_same_share_one_copy() {
    let pool = Pool::new(4, false);
    let text: Vec<u32> = (0..8).collect();
    let mut tables: Vec<_> = (0..2).map(|_| BlockTable::new(BLOCK, Chain::new(None), true)).collect();
    assert!(tables.iter_mut().all(|t| t.grow(8, || Some(pool.allocate()?.0))));
    assert_eq!(pool.counts().free, 0);
    tables.iter_mut().for_each(|t| t.advance(&text, 8));
    assert_eq!(pool.counts().free, 2);
    assert_eq!(ids(&tables[0]), ids(&tables[1]));
}
