//! What can be wrong with a checkpoint, said so that its owner can mend it.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing wrong with one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File that holds (or should hold) the tensor.
    pub file: PathBuf,
    /// Tensor name; empty when the problem is the file's own.
    pub tensor: String,
    /// What is wrong and what was expected.
    pub what: String,
}

/// Everything found wrong, in one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

/// Lines printed before the list is cut short.
const SHOWN: usize = 40;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "{} problem{one} in the checkpoint:", self.0.len())?;
        for p in self.0.iter().take(SHOWN) {
            write!(f, "\n  {}: ", p.file.display())?;
            if !p.tensor.is_empty() {
                write!(f, "`{}`: ", p.tensor)?;
            }
            write!(f, "{}", p.what)?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, "\n  ... and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Why a model folder or file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The operating system refused.
    #[error("{}: {source}{}", path.display(), advice(source))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A JSON file does not hold what it must.
    #[error("{}: {what}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The architecture is not one that this program runs.
    #[error("{}: architecture `{architecture}` is not supported (supported: {supported})", path.display())]
    UnknownArchitecture {
        /// config.json.
        path: PathBuf,
        /// As `architectures` (or `model_type`) names it.
        architecture: String,
        /// What could be there instead.
        supported: &'static str,
    },
    /// Tensors are wrong.
    #[error("{0}")]
    Problems(Problems),
    /// A conversion met something that it does not know.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// Source file.
        path: PathBuf,
        /// What is not supported, by name.
        what: String,
    },
}

/// What to do about an error of the system, where that is plain.
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; free space and run it again: finished files are kept"
        }
        _ => "",
    }
}

impl WeightsError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn config(path: &Path, what: impl Into<String>) -> Self {
        Self::Config { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }

    /// A single problem of a whole file.
    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::Problems(Problems(vec![Problem { file: path.to_owned(), tensor: String::new(), what: what.into() }]))
    }
}
