//! Who a node is: the cluster's own certificate authority and one certificate per node.
//!
//! A folder of credentials holds `ca.pem` (everybody has it), `<node>.pem` and `<node>.key` (that node's), and where
//! the cluster was made also `ca.key`, which issues further certificates and should stay off the nodes. Keys are
//! ECDSA P-256 in PKCS #8, mode 0600. A certificate says in its subject and in its alternative names which node it
//! is (`DNS:n1`) and of which cluster (`URI:candor://<cluster id>/n1`); the other names it lists are for people and
//! proxies and never decide who a node is.
//!
//! Certificates do not expire by themselves: a node whose wall clock is wrong must not lose its cluster. To lock a
//! node out, issue new credentials under a new authority.

mod identity;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use candor_proto::NodeName;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

pub use identity::Identity;

use crate::error::NameError;
use crate::names::check_node;

/// The cluster's number, drawn when its authority is made; nodes of two clusters never talk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterId([u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClusterId {
    type Err = CertError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 32 {
            return Err(CertError::NotOurs("its cluster id has not 32 digits"));
        }
        u128::from_str_radix(text, 16)
            .map(|id| Self(id.to_be_bytes()))
            .map_err(|_| CertError::NotOurs("its cluster id is not hexadecimal"))
    }
}

/// Why credentials could not be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertError {
    /// A file could not be read or written.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is there already is never overwritten.
    #[error("{} exists already; move it away first", .0.display())]
    Exists(PathBuf),
    /// A file is not what its name says.
    #[error("{} holds no {what} in PEM form", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// A certificate that was not made by `candor cert`.
    #[error("the certificate is not one of a Candor node: {0}")]
    NotOurs(&'static str),
    /// The certificate names another node.
    #[error("{} is the certificate of node {found}, not of {wanted}", path.display())]
    OtherNode {
        /// Which file.
        path: PathBuf,
        /// Whom it names.
        found: NodeName,
        /// Who was expected.
        wanted: NodeName,
    },
    /// A name that no certificate can hold.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Random numbers for the cluster id were not to be had.
    #[error("the system gives no random numbers")]
    Random,
    /// The certificate could not be made.
    #[error("cannot make the certificate")]
    Make(#[from] rcgen::Error),
}

/// What a node presents to its peers.
#[derive(Debug)]
pub struct Credentials {
    /// The authority that every peer's certificate must come from.
    pub authority: CertificateDer<'static>,
    /// This node's certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// What the certificate says.
    pub identity: Identity,
}

/// Makes a new cluster: its authority and the first node's certificate, all in `dir`.
///
/// # Errors
/// `dir` holds an authority already, or cannot be written.
pub fn init(dir: &Path, node: &NodeName, hosts: &[String]) -> Result<ClusterId, CertError> {
    check_node(node)?;
    fs::create_dir_all(dir).map_err(io_error("create the folder", dir))?;
    let mut id = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut id).map_err(|_| CertError::Random)?;
    let cluster = ClusterId(id);

    let mut params = CertificateParams::default();
    params.distinguished_name = subject("Candor cluster authority", cluster);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    write_new(&dir.join("ca.key"), key.serialize_pem().as_bytes(), 0o600)?;
    write_new(&dir.join("ca.pem"), certificate.pem().as_bytes(), 0o644)?;
    issue(dir, node, hosts, dir)?;
    Ok(cluster)
}

/// Issues a certificate for `node` under the authority in `dir`, into `out` (which may be `dir`): `<node>.pem`,
/// `<node>.key`, and `ca.pem` where it is missing.
///
/// # Errors
/// `dir` holds no authority with its key, the node has a certificate in `out` already, or a file cannot be written.
pub fn issue(dir: &Path, node: &NodeName, hosts: &[String], out: &Path) -> Result<(), CertError> {
    check_node(node)?;
    let ca_pem = read_text(&dir.join("ca.pem"))?;
    let ca_key_path = dir.join("ca.key");
    let ca_key = KeyPair::from_pem(&read_text(&ca_key_path)?).map_err(|_| malformed(&ca_key_path, "private key"))?;
    let authority = read_certificate(&dir.join("ca.pem"))?;
    let cluster = identity::cluster_of(&authority)?;
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, ca_key)?;

    let key = KeyPair::generate()?;
    let certificate = node_params(node, cluster, hosts)?.signed_by(&key, &issuer)?;
    fs::create_dir_all(out).map_err(io_error("create the folder", out))?;
    write_new(&out.join(format!("{node}.key")), key.serialize_pem().as_bytes(), 0o600)?;
    write_new(&out.join(format!("{node}.pem")), certificate.pem().as_bytes(), 0o644)?;
    let out_ca = out.join("ca.pem");
    if !out_ca.exists() {
        write_new(&out_ca, ca_pem.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// Reads what `node` presents to its peers from `dir`.
///
/// # Errors
/// A file is missing, is not PEM, or names another node.
pub fn load(dir: &Path, node: &NodeName) -> Result<Credentials, CertError> {
    check_node(node)?;
    let authority = read_certificate(&dir.join("ca.pem"))?;
    let path = dir.join(format!("{node}.pem"));
    let certificate = read_certificate(&path)?;
    let key_path = dir.join(format!("{node}.key"));
    let key = PrivateKeyDer::from_pem_slice(read_text(&key_path)?.as_bytes())
        .map_err(|_| malformed(&key_path, "private key"))?;
    let identity = Identity::of(&certificate)?;
    if identity.node != *node {
        return Err(CertError::OtherNode {
            path,
            found: identity.node,
            wanted: node.clone(),
        });
    }
    Ok(Credentials {
        authority,
        certificate,
        key,
        identity,
    })
}

fn node_params(node: &NodeName, cluster: ClusterId, hosts: &[String]) -> Result<CertificateParams, CertError> {
    let mut names = vec![node.as_str().to_owned()];
    names.extend(hosts.iter().filter(|host| *host != node.as_str()).cloned());
    let mut params = CertificateParams::new(names)?;
    params
        .subject_alt_names
        .push(SanType::URI(Ia5String::try_from(identity::uri(cluster, node))?));
    params.distinguished_name = subject(node.as_str(), cluster);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A node both listens and dials.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn subject(name: &str, cluster: ClusterId) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, cluster.to_string());
    subject.push(DnType::CommonName, name);
    subject
}

fn read_text(path: &Path) -> Result<String, CertError> {
    fs::read_to_string(path).map_err(io_error("read", path))
}

fn read_certificate(path: &Path) -> Result<CertificateDer<'static>, CertError> {
    CertificateDer::from_pem_slice(read_text(path)?.as_bytes()).map_err(|_| malformed(path, "certificate"))
}

fn malformed(path: &Path, what: &'static str) -> CertError {
    CertError::Malformed {
        path: path.to_owned(),
        what,
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertError {
    let path = path.to_owned();
    move |source| CertError::Io { doing, path, source }
}

/// The file is made with its final mode, so a key is never readable by others, not even for a moment.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CertError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                CertError::Exists(path.to_owned())
            } else {
                io_error("create", path)(source)
            }
        })?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(io_error("write", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn n(name: &str) -> NodeName {
        NodeName::new(name)
    }

    #[test]
    fn a_cluster_and_its_nodes_share_one_id_and_keep_their_names() {
        let dir = tempfile::tempdir().expect("tempdir");
        let out = dir.path().join("n2");
        let cluster = init(dir.path(), &n("n1"), &["127.0.0.1".into(), "db-1.internal".into()]).expect("init");
        issue(dir.path(), &n("n2"), &[], &out).expect("issue");
        let one = load(dir.path(), &n("n1")).expect("n1");
        let two = load(&out, &n("n2")).expect("n2");
        for (credentials, name) in [(&one, "n1"), (&two, "n2")] {
            assert_eq!(credentials.identity.node, n(name));
            assert_eq!(credentials.identity.cluster, cluster);
        }
        assert_eq!(one.authority, two.authority);
    }

    #[test]
    fn keys_are_readable_by_their_owner_only() {
        let dir = tempfile::tempdir().expect("tempdir");
        init(dir.path(), &n("n1"), &[]).expect("init");
        for (file, mode) in [
            ("ca.key", 0o600),
            ("n1.key", 0o600),
            ("ca.pem", 0o644),
            ("n1.pem", 0o644),
        ] {
            let found = fs::metadata(dir.path().join(file)).expect(file).permissions().mode() & 0o777;
            assert_eq!(found, mode, "{file}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().expect("tempdir");
        init(dir.path(), &n("n1"), &[]).expect("init");
        let before = fs::read(dir.path().join("ca.key")).expect("read");
        assert!(matches!(init(dir.path(), &n("n1"), &[]), Err(CertError::Exists(_))));
        assert!(matches!(
            issue(dir.path(), &n("n1"), &[], dir.path()),
            Err(CertError::Exists(_))
        ));
        assert_eq!(fs::read(dir.path().join("ca.key")).expect("read"), before);
    }

    #[test]
    fn another_nodes_files_are_not_taken_for_ours() {
        let dir = tempfile::tempdir().expect("tempdir");
        init(dir.path(), &n("n1"), &[]).expect("init");
        for end in ["pem", "key"] {
            fs::copy(
                dir.path().join(format!("n1.{end}")),
                dir.path().join(format!("n2.{end}")),
            )
            .expect("copy");
        }
        let error = load(dir.path(), &n("n2")).expect_err("the certificate says n1");
        assert!(
            error.to_string().ends_with("is the certificate of node n1, not of n2"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().expect("tempdir");
        let error = load(dir.path(), &n("n1")).expect_err("nothing there");
        assert!(error.to_string().contains("ca.pem"), "{error}");
        init(dir.path(), &n("n1"), &[]).expect("init");
        fs::write(dir.path().join("n1.key"), "nonsense").expect("write");
        let error = load(dir.path(), &n("n1")).expect_err("no key");
        assert!(
            error.to_string().ends_with("n1.key holds no private key in PEM form"),
            "{error}"
        );
        assert!(matches!(
            issue(dir.path(), &n("N2"), &[], dir.path()),
            Err(CertError::Name(_))
        ));
    }
}
