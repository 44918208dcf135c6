//! Finding a card's profile, and what is refused.

use std::path::{Path, PathBuf};

use sluicegate_kernels::ops::DeviceError;

use super::{Device, Profile};
use crate::run::DeviceId;
use crate::tune::{Card, Tuning};

const AGAIN: &str = "correct it, or delete the file and run `sluicegate tune` again";

/// Why a profile was refused.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The folder or the file can't be read.
    #[error("{path}: cannot read tuned configurations: {source}; `sluicegate tune --save-dir` makes the folder")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is wrong.
    #[error("{path}:{line}: {key}: {message}; {AGAIN}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key, as far as it was understood.
        key: String,
        /// What is wrong.
        message: String,
    },
}

impl Profile {
    /// Parses a file's text. `path` is for messages.
    ///
    /// # Errors
    /// [`ProfileError::Wrong`]: it is no TOML, has an unknown key or a bad value, or is for another card.
    pub fn parse(text: &str, path: &Path, card: &Card) -> Result<Self, ProfileError> {
        let wrong = |start: usize, key: &str, message: String| ProfileError::Wrong {
            path: path.to_owned(),
            line: text.bytes().take(start).filter(|b| *b == b'\n').count() + 1,
            key: key.to_owned(),
            message,
        };
        let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        let document =
            toml::Deserializer::parse(text).map_err(|e| wrong(start(&e), "syntax", e.message().to_owned()))?;
        let profile: Self = serde_path_to_error::deserialize(document)
            .map_err(|e| wrong(start(e.inner()), &e.path().to_string(), e.inner().message().to_owned()))?;
        let Device { name, capability } = &profile.device;
        for (key, there, here) in [("name", name, &card.name), ("capability", capability, &card.capability)] {
            if there.as_ref() != here {
                let message = format!("this profile is for \"{}\", and the device is \"{here}\"", there.as_ref());
                return Err(wrong(there.span().start, &format!("device.{key}"), message));
            }
        }
        Ok(profile)
    }
}

/// A card's profile in a folder of them, if it has one.
///
/// # Errors
/// The folder can't be read, or the profile is wrong.
pub fn find(folder: &Path, card: &Card) -> Result<Option<(PathBuf, Profile)>, ProfileError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        |source| ProfileError::Read { path, source }
    };
    std::fs::read_dir(folder).map_err(unreadable(folder))?;
    let path = folder.join(card.file_name());
    match std::fs::read_to_string(&path) {
        Ok(text) => Profile::parse(&text, &path, card).map(|profile| Some((path, profile))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&path)(error)),
    }
}

/// What a device is to be set to: its profile's settings, else the defaults. The log says which.
///
/// # Errors
/// As [`find`], or there is no such device.
pub fn tuning(folder: Option<&Path>, device: DeviceId) -> Result<Tuning, ProfileError> {
    let Some(folder) = folder else { return Ok(Tuning::default()) };
    let card = Card::of(device)?;
    let Some((path, profile)) = find(folder, &card)? else {
        let wanted = folder.join(card.file_name());
        tracing::info!(%device, wanted = %wanted.display(), "no tuned configuration for this device; defaults");
        return Ok(Tuning::default());
    };
    let (made, tuning) = (&profile.made, profile.tuning());
    tracing::info!(
        %device,
        file = %path.display(),
        made_with = format!("{} {} x {}", made.architecture, made.num_hidden_layers, made.hidden_size),
        date = made.date,
        %tuning,
        "tuned configuration applied"
    );
    Ok(tuning)
}
