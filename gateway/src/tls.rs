//! TLS: the server's settings, certificates that are reloaded when their files change, and the first run's own one.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::state::StateDir;

pub use tokio_rustls::TlsAcceptor;

/// How often the files are looked at. Reading two small files is cheaper than getting every kind of replacement
/// (rename, symbolic link of a mounted secret, rewriting in place) right with file events.
const POLL: Duration = Duration::from_millis(500);

/// The certificate in use.
pub struct Certificates {
    current: ArcSwap<CertifiedKey>,
    files: Files,
}

#[derive(Clone, Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

impl Certificates {
    /// Loads a chain and its key.
    ///
    /// # Errors
    /// A file can't be read, is not PEM, or the key does not belong to the certificate.
    pub fn load(cert: &Path, key: &Path) -> anyhow::Result<Arc<Self>> {
        let files = Files { cert: cert.to_owned(), key: key.to_owned() };
        let (cert, key) = files.read()?;
        let current = ArcSwap::from_pointee(files.check(&cert, &key)?);
        Ok(Arc::new(Self { current, files }))
    }

    /// Replaces the certificate whenever its files change and hold a valid pair; otherwise keeps the old one and
    /// logs why. Runs until dropped.
    pub async fn watch(self: Arc<Self>) {
        let mut seen = self.files.read().ok();
        loop {
            tokio::time::sleep(POLL).await;
            let files = self.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || files.read()).await else { return };
            let now = read.ok();
            if now == seen {
                continue;
            }
            let checked = match &now {
                Some((cert, key)) => self.files.check(cert, key),
                None => Err(anyhow::anyhow!("the files can't be read")),
            };
            match checked {
                Ok(pair) => {
                    self.current.store(Arc::new(pair));
                    tracing::info!(file = %self.files.cert.display(), "certificate reloaded");
                }
                Err(error) => tracing::warn!("certificate not reloaded, the old one stays: {error:#}"),
            }
            seen = now;
        }
    }

    /// TLS 1.2 and 1.3 with ALPN for HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// The library offers no such configuration.
    pub fn server_config(self: &Arc<Self>) -> anyhow::Result<Arc<ServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl Files {
    fn read(&self) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok((read(&self.cert)?, read(&self.key)?))
    }

    fn check(&self, cert: &[u8], key: &[u8]) -> anyhow::Result<CertifiedKey> {
        let chain = CertificateDer::pem_slice_iter(cert)
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("{} is not PEM", self.cert.display()))?;
        if chain.is_empty() {
            bail!("{} has no certificate", self.cert.display());
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .with_context(|| format!("{} has no private key in PEM", self.key.display()))?;
        CertifiedKey::from_der(chain, key, &provider())
            .with_context(|| format!("{} and {} are not a pair", self.cert.display(), self.key.display()))
    }
}

/// The first run's certificate: self-signed, for localhost and `names`, kept in the state folder.
///
/// # Errors
/// The folder can't be written, or a name is not one.
pub fn self_signed(state: &StateDir, names: &[String], listen: IpAddr) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (cert, key) = (state.path("tls/cert.pem"), state.path("tls/key.pem"));
    if !(cert.exists() && key.exists()) {
        let mut subjects = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !listen.is_unspecified() {
            subjects.push(listen.to_string());
        }
        subjects.extend_from_slice(names);
        subjects.sort();
        subjects.dedup();
        let made = rcgen::generate_simple_self_signed(subjects).context("cannot make a self-signed certificate")?;
        // The key first: a certificate without its key would never be completed.
        state.write("tls/key.pem", made.signing_key.serialize_pem().as_bytes())?;
        state.write("tls/cert.pem", made.cert.pem().as_bytes())?;
        tracing::info!(file = %cert.display(), "made a self-signed certificate");
    }
    Ok((cert, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn a_pair_is_swapped_only_when_it_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        let (first, second) = (pair(), pair());
        std::fs::write(&cert, &first.0).unwrap();
        std::fs::write(&key, &first.1).unwrap();
        let certificates = Certificates::load(&cert, &key).unwrap();
        let served = |c: &Certificates| c.current.load().cert[0].to_vec();
        let old = served(&certificates);
        let watch = tokio::spawn(Arc::clone(&certificates).watch());

        std::fs::write(&key, &second.1).unwrap();
        tokio::time::sleep(POLL * 3).await;
        assert_eq!(served(&certificates), old, "half a pair must not be served");
        std::fs::write(&cert, "garbage").unwrap();
        tokio::time::sleep(POLL * 2).await;
        assert_eq!(served(&certificates), old);
        std::fs::write(&cert, &second.0).unwrap();
        tokio::time::timeout(Duration::from_secs(20), async {
            while served(&certificates) == old {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap();
        watch.abort();
    }

    #[test]
    fn a_wrong_pair_is_refused_with_both_names() {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        std::fs::write(&cert, pair().0).unwrap();
        std::fs::write(&key, pair().1).unwrap();
        let message = format!("{:#}", Certificates::load(&cert, &key).unwrap_err());
        assert!(message.contains("c.pem") && message.contains("k.pem") && message.contains("not a pair"), "{message}");
    }
}
