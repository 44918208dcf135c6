//! The only door to HF `tokenizers`: prompts to ids, with control tokens only where the prompt says so.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokenizers::normalizer::Range as NormalizedRange;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, Token};

use super::controls::{Control, Controls};
use super::prompt::Prompt;
use super::vocabulary::{Entry, Vocabulary};

/// Why a tokenizer cannot be used, or cannot encode a prompt. Never the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file is missing, damaged or of a kind that cannot be streamed.
    #[error("tokenizer {path}: {reason}")]
    Load {
        /// Which file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The renderer wrote a control token that the checkpoint does not have: renderer and checkpoint do not belong together.
    #[error("the prompt has the control token {0:?}, which the tokenizer lacks; is this the model's renderer?")]
    UnknownControl(String),
    /// The library failed.
    #[error("tokenizing failed: {0}")]
    Encode(String),
}

/// A checkpoint's tokenizer.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    controls: Arc<Controls>,
    /// White-space tokens of the added vocabulary; they are ordinary text and stay active everywhere.
    blanks: Controls,
    vocabulary: Arc<Vocabulary>,
}

impl Tokenizer {
    /// Loads a `tokenizer.json`.
    ///
    /// # Errors
    /// [`TokenizerError::Load`].
    pub fn load(path: &Path) -> Result<Self, TokenizerError> {
        let load = |reason: String| TokenizerError::Load { path: path.display().to_string(), reason };
        let bytes = std::fs::read(path).map_err(|error| load(error.to_string()))?;
        Self::from_bytes(&bytes).map_err(load)
    }

    /// Reads the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"))?;
        let inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
        let added = inner.get_added_vocabulary().get_added_tokens_decoder();
        let mut controls = Vec::new();
        let mut blanks = Vec::new();
        for (&id, token) in added {
            let control = Control {
                id,
                spelling: token.content.clone(),
                lstrip: token.lstrip,
                rstrip: token.rstrip,
                single_word: token.single_word,
            };
            if control.spelling.chars().all(char::is_whitespace) && !token.special {
                blanks.push(control);
            } else {
                controls.push(control);
            }
        }
        let vocab = inner.get_vocab(false);
        let base = vocab.iter().map(|(token, &id)| Entry { id, token, added: None });
        let added = added.iter().map(|(&id, token)| Entry { id, token: &token.content, added: Some(token.special) });
        let vocabulary = Arc::new(Vocabulary::new(&json["decoder"], base.chain(added))?);
        let (controls, blanks) = (Arc::new(Controls::new(controls)?), Controls::new(blanks)?);
        Ok(Self { inner, controls, blanks, vocabulary })
    }

    /// Control tokens.
    #[must_use]
    pub fn controls(&self) -> &Arc<Controls> {
        &self.controls
    }

    /// The table for detokenizing.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The id of a token of either vocabulary by its exact spelling in tokenizer.json.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Encodes a prompt. Each special range is one id; plain text never yields a control token's id, whatever it spells.
    /// Adjacent plain text is encoded as one, as the model saw it in training, wherever it came from.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownControl`] and [`TokenizerError::Encode`].
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, TokenizerError> {
        let fixed = self.fixed(prompt)?;
        self.encode_around(prompt.text(), &fixed).map_err(|error| TokenizerError::Encode(error.to_string()))
    }

    /// Encodes text without any control token.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut prompt = Prompt::default();
        prompt.push_plain(text);
        self.encode(&prompt)
    }

    /// The library's tokenizer, to compare with.
    #[cfg(test)]
    pub(super) fn library(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }

    /// The ranges whose ids are known beforehand: control tokens and white-space tokens.
    fn fixed(&self, prompt: &Prompt) -> Result<Vec<(Range<usize>, u32)>, TokenizerError> {
        let text = prompt.text();
        let mut fixed = Vec::with_capacity(prompt.special().len());
        let mut end = 0;
        for (at, range) in prompt.special().iter().enumerate() {
            let spelling = &text[range.clone()];
            let unknown = || TokenizerError::UnknownControl(spelling.to_owned());
            let control = self.controls.token(spelling).ok_or_else(unknown)?;
            let mut range = range.clone();
            if control.lstrip {
                range.start = end + text[end..range.start].trim_end().len();
            }
            if control.rstrip {
                let next = prompt.special().get(at + 1).map_or(text.len(), |next| next.start);
                range.end = next - text[range.end..next].trim_start().len();
            }
            self.fix_blanks(text, end..range.start, &mut fixed);
            end = range.end;
            fixed.push((range, control.id));
        }
        self.fix_blanks(text, end..text.len(), &mut fixed);
        Ok(fixed)
    }

    fn fix_blanks(&self, text: &str, plain: Range<usize>, fixed: &mut Vec<(Range<usize>, u32)>) {
        for found in self.blanks.find(&text[plain.clone()]) {
            let range = plain.start + found.start..plain.start + found.end;
            fixed.extend(self.blanks.id(&text[range.clone()]).map(|id| (range, id)));
        }
    }

    /// HF's own pipeline (split, normalize, pre-tokenize, tokenize) with our split in place of its added vocabulary.
    fn encode_around(&self, text: &str, fixed: &[(Range<usize>, u32)]) -> tokenizers::Result<Vec<u32>> {
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, whole| split_at(&whole, fixed))?;
        if let Some(normalizer) = self.inner.get_normalizer() {
            pieces.normalize(|piece| normalizer.normalize(piece))?;
        }
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.tokenize_plain(piece.get()))?;
        Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }

    /// Tokens of plain text. Some models (Unigram above all) hold their control tokens in the base vocabulary too and would
    /// find them in plain text; such a token is spelled out character by character.
    fn tokenize_plain(&self, text: &str) -> tokenizers::Result<Vec<Token>> {
        let model = self.inner.get_model();
        let tokens = model.tokenize(text)?;
        if !tokens.iter().any(|token| self.is_control(token)) {
            return Ok(tokens);
        }
        let mut spelled = Vec::with_capacity(tokens.len() + 8);
        for token in tokens {
            if self.is_control(&token) {
                for c in token.value.chars() {
                    spelled.extend(model.tokenize(c.encode_utf8(&mut [0; 4]))?);
                }
            } else {
                spelled.push(token);
            }
        }
        Ok(spelled)
    }

    /// A control token of one character cannot be spelled out and counts as text here; none is known to exist.
    fn is_control(&self, token: &Token) -> bool {
        self.controls.has_id(token.id) && token.value.chars().nth(1).is_some()
    }
}

type Piece = (NormalizedString, Option<Vec<Token>>);

fn split_at(whole: &NormalizedString, fixed: &[(Range<usize>, u32)]) -> tokenizers::Result<Vec<Piece>> {
    let slice = |range: Range<usize>| {
        whole.slice(NormalizedRange::Original(range.clone())).ok_or_else(|| format!("no text at {range:?}"))
    };
    let mut pieces: Vec<Piece> = Vec::with_capacity(2 * fixed.len() + 1);
    let mut end = 0;
    for (range, id) in fixed {
        if end < range.start {
            pieces.push((slice(end..range.start)?, None));
        }
        let text = slice(range.clone())?;
        let token = Token::new(*id, text.get().to_owned(), (0, text.len()));
        pieces.push((text, Some(vec![token])));
        end = range.end;
    }
    let length = whole.len_original();
    if end < length {
        pieces.push((slice(end..length)?, None));
    }
    Ok(pieces)
}

/// Special tokens by their role in `tokenizer_config.json` or `special_tokens_map.json`: `bos_token` → `<s>`.
pub type SpecialTokens = HashMap<String, String>;
