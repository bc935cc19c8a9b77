//! What a certificate says about its holder. The signature is checked by the TLS handshake, before this.

use candor_proto::NodeName;
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{CertError, ClusterId};
use crate::names::check_node;

const SCHEME: &str = "candor://";

/// The node and the cluster a certificate was issued for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which node.
    pub node: NodeName,
    /// Of which cluster.
    pub cluster: ClusterId,
}

impl Identity {
    /// Reads the identity of a certificate made by [`issue`](super::issue).
    ///
    /// # Errors
    /// It has no, or more than one, Candor name.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertError> {
        let parsed = parse(certificate)?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|_| CertError::NotOurs("its alternative names cannot be read"))?
            .ok_or(CertError::NotOurs("it has no alternative names"))?;
        let mut uris = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(SCHEME),
            _ => None,
        });
        let uri = uris.next().ok_or(CertError::NotOurs("it names no cluster and node"))?;
        if uris.next().is_some() {
            return Err(CertError::NotOurs("it names two clusters or nodes"));
        }
        let (cluster, node) = uri.split_once('/').ok_or(CertError::NotOurs("it names no node"))?;
        let node = NodeName::new(node);
        check_node(&node)?;
        Ok(Self {
            node,
            cluster: cluster.parse()?,
        })
    }
}

/// The cluster of an authority's certificate: its organisation.
pub(super) fn cluster_of(authority: &CertificateDer<'_>) -> Result<ClusterId, CertError> {
    let parsed = parse(authority)?;
    parsed
        .subject()
        .iter_organization()
        .next()
        .and_then(|name| name.as_str().ok())
        .ok_or(CertError::NotOurs("it names no cluster"))?
        .parse()
}

pub(super) fn uri(cluster: ClusterId, node: &NodeName) -> String {
    format!("{SCHEME}{cluster}/{node}")
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, CertError> {
    let (rest, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertError::NotOurs("it is not X.509"))?;
    if rest.is_empty() {
        Ok(parsed)
    } else {
        Err(CertError::NotOurs("bytes follow it"))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["n1".to_owned()]).expect("params");
        for uri in uris {
            params
                .subject_alt_names
                .push(SanType::URI(Ia5String::try_from(*uri).expect("ascii")));
        }
        let key = KeyPair::generate().expect("key");
        params.self_signed(&key).expect("signed").der().clone()
    }

    #[test]
    fn only_one_well_formed_name_is_an_identity() {
        let id = "00112233445566778899aabbccddeeff";
        let good = Identity::of(&certificate(&["https://x/", &format!("candor://{id}/n1")])).expect("identity");
        assert_eq!((good.node.as_str(), good.cluster.to_string().as_str()), ("n1", id));
        for bad in [
            vec![],
            vec![format!("candor://{id}/n1"), format!("candor://{id}/n2")],
            vec![format!("candor://{id}")],
            vec![format!("candor://{id}/../n1")],
            vec!["candor://12/n1".to_owned()],
            vec![format!("candor://{}/n1", "g".repeat(32))],
        ] {
            let uris: Vec<&str> = bad.iter().map(String::as_str).collect();
            assert!(Identity::of(&certificate(&uris)).is_err(), "{uris:?}");
        }
        assert!(Identity::of(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
