//! The tokenizer's door: what is refused, and agreement with the library where there is nothing to protect.

use proptest::prelude::*;

use super::super::{Prompt, Tokenizer, TokenizerError};
use super::fixtures;

impl Tokenizer {
    /// What the library itself makes of text, added tokens recognised everywhere.
    pub(super) fn library_ids(&self, text: &str) -> Vec<u32> {
        self.library().encode_fast(text, false).unwrap().get_ids().to_vec()
    }

    pub(super) fn library_text(&self, ids: &[u32], keep_special: bool) -> String {
        self.library().decode(ids, !keep_special).unwrap()
    }
}

proptest! {
    /// Text of a template alone gives the ids that the library gives.
    #[test]
    fn template_text_is_encoded_as_the_library_encodes_it(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "<|im_start|>", "<|im_end|>", "<think>", "user", " think", "\n", "    ", "        x", "é", "[INST]", "</s>", "<s>",
        ]), 0..12),
    ) {
        for tokenizer in [fixtures::byte_level(), fixtures::sentence_piece()] {
            let text = pieces.concat();
            let mut prompt = Prompt::default();
            tokenizer.controls().push_template(&text, &mut prompt);
            prop_assert_eq!(tokenizer.encode(&prompt).unwrap(), tokenizer.library_ids(&text));
        }
    }
}

#[test]
fn stripping_tokens_swallow_white_space_as_in_training() {
    let json = std::str::from_utf8(include_bytes!("../../../tests/golden/deepseek/tiny-tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(json).unwrap();
    for token in json["added_tokens"].as_array_mut().unwrap() {
        token["rstrip"] = (token["content"] == "</think>").into();
        token["lstrip"] = (token["content"] == "<think>").into();
    }
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap();
    let text = "a \n<think> b</think> \n c</think></think>  ";
    let mut prompt = Prompt::default();
    tokenizer.controls().push_template(text, &mut prompt);
    assert_eq!(tokenizer.encode(&prompt).unwrap(), tokenizer.library_ids(text));
}

#[test]
fn an_unknown_control_token_is_the_operators_fault_and_named() {
    let mut prompt = Prompt::default();
    prompt.push_special("<｜nothing｜>");
    let error = fixtures::byte_level().encode(&prompt).unwrap_err();
    assert_eq!(error, TokenizerError::UnknownControl("<｜nothing｜>".to_owned()));
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let refuse = |json: &str| Tokenizer::from_bytes(json.as_bytes()).unwrap_err();
    assert!(refuse("{").contains("not JSON"));
    assert!(Tokenizer::load("/nonexistent/tokenizer.json".as_ref()).unwrap_err().to_string().contains("/nonexistent"));
    let model = r#""added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "version": "1.0",
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}"#;
    let word_piece = format!(r#"{{{model}, "decoder": {{"type": "WordPiece", "prefix": "x", "cleanup": true}}}}"#);
    assert!(refuse(&word_piece).contains("WordPiece"), "{}", refuse(&word_piece));
}

#[test]
fn a_prompts_parts_must_fit() {
    let parts = |ranges: &[(usize, usize)]| {
        Prompt::from_parts("é<s>x".to_owned(), ranges.iter().map(|&(start, end)| start..end).collect())
    };
    assert!(parts(&[(2, 5)]).is_some());
    for bad in [&[(1, 3)][..], &[(2, 5), (4, 6)], &[(3, 9)], &[(4, 4)]] {
        assert!(parts(bad).is_none(), "{bad:?}");
    }
    assert_eq!(parts(&[]).unwrap().tail(5), "<s>x");
}
