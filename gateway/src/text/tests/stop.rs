//! Stop strings against a slow and obvious version of themselves.

use proptest::prelude::*;

use super::super::{StopScanner, StopStrings};

/// The text before the stop string that is completed first, and that stop string.
fn obvious(text: &str, stops: &[String]) -> (String, Option<String>) {
    for end in 1..=text.len() {
        let done = stops.iter().filter(|stop| !stop.is_empty() && text.as_bytes()[..end].ends_with(stop.as_bytes()));
        if let Some(stop) = done.max_by_key(|stop| stop.len()) {
            return (text[..end - stop.len()].to_owned(), Some(stop.clone()));
        }
    }
    (text.to_owned(), None)
}

fn run(scanner: &mut StopScanner, pieces: &[String]) -> (String, Option<String>) {
    let mut out = String::new();
    for piece in pieces {
        if let Some(stop) = scanner.push(piece, &mut out) {
            return (out, Some(stop));
        }
    }
    scanner.flush(&mut out);
    (out, None)
}

proptest! {
    #[test]
    fn any_cut_gives_the_obvious_result(
        pieces in proptest::collection::vec("[abé]{0,4}", 0..12),
        stops in proptest::collection::vec("[abé]{0,5}", 0..4),
    ) {
        let expected = obvious(&pieces.concat(), &stops);
        prop_assert_eq!(run(&mut StopStrings::new(&stops).scanner(), &pieces), expected);
    }

    /// Held back is the longest end of the text with which a stop string begins, and not a byte more.
    #[test]
    fn nothing_is_held_longer_than_needed(
        pieces in proptest::collection::vec("[ab]{1,3}", 1..12),
        stops in proptest::collection::vec("[ab]{2,6}", 1..4),
    ) {
        let mut scanner = StopStrings::new(&stops).scanner();
        let (mut seen, mut out) = (String::new(), String::new());
        for piece in &pieces {
            seen.push_str(piece);
            if scanner.push(piece, &mut out).is_some() {
                return Ok(());
            }
            let begins = |n: &usize| stops.iter().any(|stop| stop.starts_with(&seen[seen.len() - n..]));
            let held = (0..=seen.len()).filter(begins).max().unwrap_or(0);
            prop_assert_eq!(&out, &seen[..seen.len() - held]);
        }
    }
}

#[test]
fn a_hostile_text_takes_linear_time() {
    let stop = format!("{}b", "a".repeat(4000));
    let mut scanner = StopStrings::new([stop]).scanner();
    let mut out = String::new();
    for _ in 0..400_000 {
        assert!(scanner.push("a", &mut out).is_none());
    }
    assert_eq!(out.len(), 400_000 - 4000);
}
