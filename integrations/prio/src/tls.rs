//! Mutual TLS 1.3: a certificate of the federation's own authority with a party's name identifies that party.
//!
//! A server's certificate may also be pinned by its SHA-256. Then the owner of the authority's key cannot impersonate
//! the server.

use crate::Party;
use damper_files::{hex, unhex};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TlsError {
    #[error("{}: {problem}; give a PEM file", file.display())]
    File { file: PathBuf, problem: String },
    #[error("{}: a certificate of {found}, not of {wanted}; give the one whose only DNS name is {wanted}", file.display())]
    Party { file: PathBuf, found: String, wanted: &'static str },
    #[error("{0}: not the SHA-256 of a certificate; give 64 hexadecimal digits")]
    Fingerprint(String),
    #[error("the certificate and the key cannot be used ({0}); make them again")]
    Rustls(#[from] rustls::Error),
    #[error("the authority's certificate cannot be used ({0}); make it again")]
    Authority(String),
}

/// SHA-256 of a certificate, as `openssl x509 -outform DER | sha256sum` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.0))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        // Also accepts the colons of `openssl x509 -fingerprint -sha256`.
        unhex(&text.replace(':', "")).map(Self).ok_or_else(|| TlsError::Fingerprint(text.into()))
    }
}

/// Certificate of a party, its key, and its trusted authority.
pub struct PartyIdentity {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl PartyIdentity {
    /// Reads the PEM files of `party`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the certificate is another party's.
    pub fn read(party: Party, authority: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let failed = |file: &Path, problem: String| TlsError::File { file: file.into(), problem };
        let bytes = |file: &Path| fs::read(file).map_err(|error| failed(file, error.to_string()));
        let certificates = |file: &Path| {
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(file)?).collect();
            match found {
                Ok(found) if !found.is_empty() => Ok(found),
                Ok(_) => Err(failed(file, "it has no certificate".into())),
                Err(error) => Err(failed(file, error.to_string())),
            }
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(authority)? {
            roots.add(root).map_err(|error| TlsError::Authority(error.to_string()))?;
        }
        let chain = certificates(certificate)?;
        let found = chain.first().and_then(party_of);
        if found != Some(party) {
            let found = found.map_or("no one party", Party::name).to_owned();
            return Err(TlsError::Party { file: certificate.into(), found, wanted: party.name() });
        }
        let key = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| failed(key, error.to_string()))?;
        Ok(Self { roots: Arc::new(roots), chain, key, provider: Arc::new(default_provider()) })
    }

    /// Returns the configuration of a server. It rejects a client without a certificate of the authority.
    ///
    /// # Errors
    ///
    /// The key is not that of the certificate.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone()).build();
        let verifier = verifier.map_err(|error| TlsError::Authority(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        // Each connection proves its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// Returns the configuration of a client.
    ///
    /// # Errors
    ///
    /// The key is not that of the certificate.
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        config.resumption = rustls::client::Resumption::disabled();
        // The name is not that of a host.
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// Returns the party of a verified certificate. Returns `None` if it has no party's name, or several.
pub(crate) fn party_of(certificate: &CertificateDer<'_>) -> Option<Party> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let has = |party: &Party| server_name(*party).is_some_and(|name| verify_server_name(&parsed, &name).is_ok());
    let mut parties = Party::ALL.into_iter().filter(has);
    parties.next().filter(|_| parties.next().is_none())
}

/// Returns the name of `party` in a certificate.
pub(crate) fn server_name(party: Party) -> Option<ServerName<'static>> {
    ServerName::try_from(party.name()).ok()
}

/// Returns the party and the fingerprint of the first certificate of the other side.
pub(crate) fn peer(certificates: Option<&[CertificateDer<'_>]>) -> Option<(Option<Party>, Fingerprint)> {
    let first = certificates?.first()?;
    Some((party_of(first), Fingerprint::of(first)))
}
