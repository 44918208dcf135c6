//! Grammars that go to an engine in another process: sent as what they are made from, and compiled there for the same tokens.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use sluicegate_backend::grammar::Grammar;
use sluicegate_workers as workers;

use super::compile::{Grammars, keep, recent};
use super::source::Spec;
use super::tokens::TokenSpace;
use crate::text::Vocabulary;

/// Token spaces whose grammars are kept; gateways of one model have the same.
const SPACES: usize = 4;

#[derive(Serialize)]
struct Outgoing<'a> {
    spec: &'a Spec,
    space: &'a TokenSpace,
}

#[derive(Deserialize)]
struct Incoming {
    spec: Spec,
    space: TokenSpace,
}

/// All that a grammar of a model is made from, as text; equal grammars have equal texts.
pub(super) fn source(spec: &Spec, space: &TokenSpace) -> serde_json::Result<Arc<str>> {
    serde_json::to_string(&Outgoing { spec, space }).map(Arc::from)
}

/// Compiles what gateways send to this process.
pub struct Compiler {
    vocabulary: Arc<Vocabulary>,
    known: Mutex<VecDeque<(TokenSpace, Arc<Grammars>)>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").finish_non_exhaustive()
    }
}

impl Compiler {
    /// For a model with these tokens.
    #[must_use]
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, known: Mutex::default() }
    }
}

impl workers::Grammars for Compiler {
    fn compile(&self, source: &str) -> Result<Arc<dyn Grammar>, String> {
        let unknown = |error| format!("the gateway's grammar is not understood; run the same release on both: {error}");
        let Incoming { spec, space } = serde_json::from_str(source).map_err(unknown)?;
        let grammars = match recent(&self.known, |(known, _)| *known == space) {
            Some((_, grammars)) => grammars,
            None => {
                let grammars = Arc::new(Grammars::new(Arc::clone(&self.vocabulary), space.clone()));
                keep(&self.known, (space, Arc::clone(&grammars)), SPACES);
                grammars
            }
        };
        grammars.compile(&spec).map_err(|error| error.to_string())
    }
}
