//! The namespace that every measurement works in.

use anyhow::Result;
use candor_client::{Client, Config};

/// Makes namespace and database `bench` at the node of `url`, and a client whose session stands there.
pub(crate) async fn make(url: &str, config: Config) -> Result<Client> {
    let client = Client::connect(
        url,
        Config {
            session: true,
            ..config
        },
    )?;
    client
        .execute(
            "DEFINE NAMESPACE bench; USE NAMESPACE bench; DEFINE DATABASE bench; USE DATABASE bench",
            &[],
        )
        .await?;
    Ok(client)
}
