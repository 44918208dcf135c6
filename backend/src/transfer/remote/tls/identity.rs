//! The key pair that follows from a secret, and who is accepted with it.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, ServerConfig, SignatureScheme,
};

use crate::transfer::remote::Secret;

/// PKCS #8 up to the 32 bytes of an Ed25519 private key (RFC 8410, section 7).
const PKCS8_OF_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// What both ends of a connection between processes of one deployment are to each other.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For the end that connects.
    pub client: Arc<ClientConfig>,
    /// For the end that listens.
    pub server: Arc<ServerConfig>,
}

impl Identity {
    /// The identity of all who know this secret.
    ///
    /// # Errors
    /// The TLS library refuses the key or the settings; it does not on any machine that it supports.
    pub fn of(secret: &Secret) -> io::Result<Self> {
        Self::build(secret).map_err(io::Error::other)
    }

    /// A failed handshake in a sentence that says what to do.
    #[must_use]
    pub fn explain(error: io::Error) -> io::Error {
        let Some(inner) = error.get_ref().and_then(|e| e.downcast_ref::<Error>()) else { return error };
        let why = match inner {
            Error::General(why) => why.clone(),
            Error::AlertReceived(alert) => {
                format!("the peer broke off the TLS handshake ({alert:?}); does it know the shared secret?")
            }
            other => format!("the peer does not speak this protocol: {other}"),
        };
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    fn build(secret: &Secret) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let seed = secret.proof(&[b"the Ed25519 key of sessions and links"]);
        let pkcs8 = PrivatePkcs8KeyDer::from([PKCS8_OF_ED25519.as_slice(), &seed].concat());
        let signing = aws_lc_rs::sign::any_eddsa_type(&pkcs8)?;
        let public = signing.public_key().ok_or_else(|| Error::General("the key has no public half".into()))?;
        let public = CertificateDer::from(public.to_vec());
        let pinned = Arc::new(Pinned { public: public.clone(), provider: Arc::clone(&provider) });
        let key = Arc::new(CertifiedKey::new(vec![public], signing));
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&pinned) as _)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&key))));
        client.enable_sni = false;
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(pinned)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        // Connections are few and long: nothing is resumed.
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// Accepts one public key.
#[derive(Debug)]
struct Pinned {
    public: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        if presented.as_ref() == self.public.as_ref() {
            return Ok(());
        }
        Err(Error::General("the peer does not know the shared secret; give both sides the same secret file".into()))
    }

    fn verify(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(presented.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.provider.signature_verification_algorithms)
    }

    fn schemes() -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// TLS 1.2 is not offered, so a peer that signs in its way broke off the negotiation.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerMisbehaved::SelectedTls12UsingTls13VersionExtension.into())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Self::schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Self::schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
