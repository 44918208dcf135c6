//! Detokenizing against the library, and against bytes.

use proptest::prelude::*;

use super::super::{Detokenizer, Tokenizer};
use super::fixtures;

fn detokenize(tokenizer: &Tokenizer, ids: &[u32], keep_special: bool) -> String {
    let mut detokenizer = Detokenizer::new(std::sync::Arc::clone(tokenizer.vocabulary()), keep_special);
    let mut text = String::new();
    for &id in ids {
        detokenizer.push(id, &mut text);
    }
    detokenizer.finish(&mut text);
    text
}

/// One U+FFFD for each byte that belongs to no character.
fn by_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

proptest! {
    #[test]
    fn any_ids_give_the_text_of_their_bytes(ids in proptest::collection::vec(0u32..300, 0..40), keep in any::<bool>()) {
        let tokenizer = fixtures::byte_level();
        let shown = |id: &u32| keep || !tokenizer.vocabulary().is_special(*id);
        let bytes: Vec<u8> = ids.iter().filter(|id| shown(id)).flat_map(|id| tokenizer.vocabulary().bytes(*id)).copied().collect();
        prop_assert_eq!(detokenize(&tokenizer, &ids, keep), by_bytes(&bytes));
    }

    #[test]
    fn text_survives_the_way_there_and_back(text in "\\PC{0,40}") {
        // SentencePiece itself tells neither a space before the text from the one it puts there, nor `▁` from a space.
        let spaced = text.starts_with(' ') || text.contains('▁');
        let mut tokenizers = vec![fixtures::byte_level()];
        tokenizers.extend((!spaced).then(|| [fixtures::sentence_piece(), fixtures::unigram()]).into_iter().flatten());
        for tokenizer in tokenizers {
            let ids = tokenizer.encode_plain(&text).unwrap();
            prop_assert_eq!(&detokenize(&tokenizer, &ids, false), &text);
        }
    }

    /// The library decodes whole lists of ids; token by token must add up to the same.
    #[test]
    fn valid_text_is_what_the_library_decodes(text in "[a-z <>|é漢🌊\n]{0,30}", controls in proptest::collection::vec(0..8usize, 0..4)) {
        for tokenizer in [fixtures::byte_level(), fixtures::sentence_piece()] {
            let mut ids = tokenizer.encode_plain(&text).unwrap();
            for control in &controls {
                let spelling = ["<|im_start|>", "<think>", "</think>", "<s>", "[INST]", "<tool_call>", "<｜User｜>", "</s>"][*control];
                ids.insert(ids.len() / 2, tokenizer.token_id(spelling).unwrap());
            }
            for keep in [false, true] {
                let library = tokenizer.library_text(&ids, keep);
                // Control tokens inside a character make bytes invalid; how those look is our own rule.
                if !library.contains(char::REPLACEMENT_CHARACTER) {
                    prop_assert_eq!(detokenize(&tokenizer, &ids, keep), library);
                }
            }
        }
    }
}

#[test]
fn a_character_appears_with_its_last_byte_and_never_broken() {
    let tokenizer = fixtures::byte_level();
    let mut detokenizer = Detokenizer::new(std::sync::Arc::clone(tokenizer.vocabulary()), false);
    let mut text = String::new();
    let wave: Vec<u32> = "🌊".bytes().map(u32::from).collect();
    for (at, &id) in wave.iter().enumerate() {
        detokenizer.push(id, &mut text);
        assert_eq!(text, if at == 3 { "🌊" } else { "" });
    }
    // Bytes that can be no part of a character do not wait.
    detokenizer.push(0xFF, &mut text);
    assert_eq!(text, "🌊\u{FFFD}");
    // The end of the text releases what never became whole.
    detokenizer.push(wave[0], &mut text);
    detokenizer.push(wave[1], &mut text);
    detokenizer.finish(&mut text);
    assert_eq!(text, "🌊\u{FFFD}\u{FFFD}\u{FFFD}");
}

#[test]
fn ids_outside_the_vocabulary_have_no_text() {
    let tokenizer = fixtures::byte_level();
    assert_eq!(detokenize(&tokenizer, &[u32::from(b'a'), 9_999_999, u32::from(b'b')], true), "ab");
}
