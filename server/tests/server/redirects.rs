//! Where to go, and what a redirect may say.

use serde_json::json;

use crate::harness::{Cluster, ask_with, client, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn s18_s19_s24_s25_s26_s46_a_redirect_names_address_node_and_epoch() {
    let cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    cluster.wait_greeted().await;
    let headers = [
        ("candor-namespace", "main"),
        ("candor-database", "main"),
        ("authorization", "Bearer hunter2"),
    ];
    for (sql, reason) in [
        ("SELECT 1 FROM t ANSWERED BY LEADER", "answered_by_leader"),
        ("INSERT INTO t VALUES (1)", "write"),
    ] {
        let url = format!("{}/sql?trace=%20a&b=1", cluster.url(1));
        let mut request = client().post(&url).body(sql);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 307, "S26: 307 and nothing else");
        let location = response.headers()["location"].to_str().expect("text").to_owned();
        assert_eq!(
            location,
            format!("{}/sql?trace=%20a&b=1", cluster.url(0)),
            "path and query byte for byte"
        );
        assert_eq!(response.headers()["cache-control"], "no-store");
        let text = response.text().await.expect("a body");
        assert!(!text.contains("hunter2"), "no secrets: {text}");
        let body: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let redirect = &body["redirect"];
        assert_eq!(redirect["node"], "n1");
        assert_eq!(redirect["kind"], "settled");
        assert_eq!(redirect["reason"], reason);
        assert_eq!(redirect["address"], cluster.configs[0].link.to_string());
        assert_eq!(
            redirect["epoch"],
            cluster.info(0).await["ranges"][0]["epoch"],
            "S19: the epoch that n1 published"
        );
        assert!(body["error"].as_str().expect("words").contains("does not fetch"), "S18");
        assert!(body["retry_with"].as_str().expect("a line").contains(&location));
    }
    cluster.wait_level(1).await;
    let untouched = cluster.ask(1, "SELECT count(*) FROM t").await;
    assert_eq!(untouched.rows(0), &json!([[0]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn s20_without_a_known_leader_the_refusal_says_what_to_declare() {
    let mut cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    cluster.wait_level(1).await;
    cluster.stop(0).await;
    cluster.stop(1).await;
    // A node that was just started has heard from nobody.
    cluster.start_again(1).await;
    let refused = cluster.ask(1, "SELECT * FROM t ANSWERED BY LEADER").await;
    assert_eq!((refused.status, refused.code()), (503, "no-leader"), "{refused:?}");
    assert!(
        refused
            .error()
            .contains("this node does not lead, and no peer it has greeted says it does"),
        "{refused:?}"
    );
    assert!(refused.error().contains("DEFINE REPLICA … ROLES writable"));
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn s27_s44_without_an_http_address_there_is_no_307() {
    let cluster = Cluster::start_undefined(2).await;
    cluster.ask_plain(0, "DEFINE NAMESPACE main; USE NAMESPACE main; DEFINE DATABASE main; USE DATABASE main; CREATE TABLE t (id INT)").await;
    cluster.wait_level(1).await;
    let link = cluster.configs[0].link;
    let redefine = format!("REMOVE REPLICA n1; DEFINE REPLICA n1 AT '{link}' CLIENTS AT '10.9.8.7:99' ROLES writable");
    assert_eq!(cluster.ask_plain(1, &redefine).await.status, 200);
    let answer = eventually("a word of n1", || async {
        let answer = cluster.ask(1, "INSERT INTO t VALUES (1)").await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.header("location"), None);
    assert_eq!(
        answer.body["redirect"]["address"], "10.9.8.7:99",
        "S45: CLIENTS AT is named"
    );
    assert_eq!(answer.body["redirect"]["http"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn s45_redirects_name_clients_at_and_http_at() {
    let cluster = Cluster::start(2).await;
    let link = cluster.configs[0].link;
    let redefine = format!(
        "REMOVE REPLICA n1; DEFINE REPLICA n1 AT '{link}' CLIENTS AT 'db-2.example:9000' HTTP AT 'db-2.example:8080' ROLES writable"
    );
    assert_eq!(cluster.ask_plain(1, &redefine).await.status, 200);
    let answer = eventually("a word of n1", || async {
        let answer = cluster.ask(1, "CREATE TABLE t (id INT)").await;
        (answer.status == 307).then_some(answer)
    })
    .await;
    assert_eq!(answer.header("location"), Some("http://db-2.example:8080/sql"));
    assert_eq!(answer.body["redirect"]["address"], "db-2.example:9000");
}

#[tokio::test(flavor = "multi_thread")]
async fn s28_s29_s30_only_a_script_without_commits_is_redirected() {
    let cluster = Cluster::start_undefined(2).await;
    // S56: two nodes, two namespaces; each leads its own.
    for (node, namespace) in [(0, "a"), (1, "b")] {
        let made = cluster
            .ask_plain(node, &format!("DEFINE NAMESPACE {namespace}; USE NAMESPACE {namespace}; DEFINE DATABASE d; USE DATABASE d; CREATE TABLE t (id INT PRIMARY KEY)"))
            .await;
        assert_eq!(made.status, 200, "{made:?}");
    }
    eventually("copies of both", || async {
        let both = [(0, "b"), (1, "a")].map(|(node, namespace)| {
            let range = candor_proto::RangeName::new(namespace);
            cluster
                .server(node)
                .node()
                .view(&range)
                .own
                .copy
                .is_some_and(|copy| copy.position.index.0 >= 3)
        });
        (both == [true, true]).then_some(())
    })
    .await;
    // S57: each refuses the other's writes and names the leader.
    for (node, namespace, leader) in [(0, "b", "n2"), (1, "a", "n1")] {
        let sql = format!("USE NS {namespace} DATABASE d; INSERT INTO t VALUES (1)");
        let redirect = cluster.ask_plain(node, &sql).await;
        assert_eq!(
            (redirect.status, &redirect.body["redirect"]["node"]),
            (307, &json!(leader)),
            "{redirect:?}"
        );
    }
    // S28: a read before it does not matter.
    let read_first = cluster
        .ask_plain(0, "USE NS b DATABASE d; SELECT * FROM t; INSERT INTO t VALUES (1)")
        .await;
    assert_eq!(read_first.status, 307, "{read_first:?}");
    // S29: a committed write before it does; the row stays.
    let written = cluster
        .ask_plain(
            0,
            "USE NS a DATABASE d; INSERT INTO t VALUES (7); USE NS b DATABASE d; INSERT INTO t VALUES (8)",
        )
        .await;
    assert_eq!((written.status, written.code()), (409, "not-leader"), "{written:?}");
    assert_eq!(written.body["statement"], 3);
    assert!(written.error().contains("stay written"), "{written:?}");
    assert_eq!(
        cluster
            .ask_plain(0, "USE NS a DATABASE d; SELECT id FROM t")
            .await
            .rows(1),
        &json!([[7]])
    );
    assert_eq!(
        cluster
            .ask_plain(1, "USE NS b DATABASE d; SELECT id FROM t")
            .await
            .rows(1),
        &json!([])
    );
    // S30: a transaction that needs another leader leaves nothing here and goes there whole.
    let whole = "USE NS b DATABASE d; BEGIN; INSERT INTO t VALUES (9); INSERT INTO t VALUES (10); COMMIT";
    assert_eq!(cluster.ask_plain(0, whole).await.status, 307);
    assert_eq!(cluster.ask_plain(1, whole).await.status, 200);
    assert_eq!(
        cluster
            .ask_plain(1, "USE NS b DATABASE d; SELECT id FROM t ORDER BY id")
            .await
            .rows(1),
        &json!([[9], [10]])
    );
    // S59: "may this node write" and "may it write here" are two answers of INFO.
    let info = cluster.info(0).await;
    assert_eq!(info["may_write"], true);
    let leads: Vec<_> = info["ranges"]
        .as_array()
        .expect("ranges")
        .iter()
        .map(|range| (&range["range"], &range["leads"]))
        .collect();
    assert_eq!(leads, [(&json!("a"), &json!(true)), (&json!("b"), &json!(false))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s54_a_redirect_of_an_older_epoch_is_refused_with_the_newer_named() {
    let mut cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    cluster.wait_greeted().await;
    let captured = cluster.ask(1, "INSERT INTO t VALUES (1)").await;
    let epoch = captured.body["redirect"]["epoch"].as_u64().expect("an epoch");
    // A restart is a new leadership of the one voter: epoch + 1.
    cluster.stop(0).await;
    cluster.start_again(0).await;
    let redirected = |node: &str, epoch: u64, hops: u8| format!("node={node}; range=main; epoch={epoch}; hops={hops}");
    let replay = |header: String| {
        let url = cluster.url(0);
        async move {
            let headers = [
                ("candor-namespace", "main"),
                ("candor-database", "main"),
                ("candor-redirected", header.as_str()),
            ];
            ask_with(&url, "INSERT INTO t VALUES (1)", &headers).await
        }
    };
    let stale = replay(redirected("n1", epoch, 1)).await;
    assert_eq!((stale.status, stale.code()), (409, "epoch-stale"), "{stale:?}");
    assert!(stale.error().contains(&(epoch + 1).to_string()), "{stale:?}");
    let other = replay(redirected("n2", epoch + 1, 1)).await;
    assert_eq!((other.status, other.code()), (421, "wrong-node"), "{other:?}");
    let looping = replay(redirected("n1", epoch + 1, 4)).await;
    assert_eq!((looping.status, looping.code()), (508, "redirect-loop"), "{looping:?}");
    let good = replay(redirected("n1", epoch + 1, 1)).await;
    assert_eq!(good.status, 200, "{good:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s55_a_redirect_is_given_from_memory_while_the_leader_is_gone() {
    let mut cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    cluster.wait_greeted().await;
    cluster.stop(0).await;
    // What n1 published last still says where to go; nobody was asked.
    let redirect = cluster.ask(1, "INSERT INTO t VALUES (1)").await;
    assert_eq!(
        (redirect.status, &redirect.body["redirect"]["node"]),
        (307, &json!("n1")),
        "{redirect:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s46_s49_s51_the_rust_client_follows_inside_the_call() {
    let cluster = Cluster::start(3).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY)").await;
    cluster.wait_greeted().await;
    let config = candor_client::Config {
        namespace: Some("main".to_owned()),
        database: Some("main".to_owned()),
        ..candor_client::Config::default()
    };
    let client = candor_client::Client::connect(&cluster.url(1), config).expect("a client");
    let written = client.execute("INSERT INTO t VALUES (1)", &[]).await.expect("followed");
    let receipt = written.results[0].receipt.as_ref().expect("a receipt");
    assert_eq!(receipt.node.as_str(), "n1", "S46: one call, answered by the leader");
    // S51: settled moves the connection.
    let next = client
        .execute("RETURN session::context()", &[])
        .await
        .expect("answered");
    assert_eq!(
        next.results[0].rows[0][0],
        json!({"node": "n1", "namespace": "main", "database": "main"}),
        "S49, S52"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulky_body_on_a_follower_still_gets_its_307() {
    let cluster = Cluster::start(2).await;
    cluster.write("CREATE TABLE t (id INT PRIMARY KEY, note TEXT)").await;
    cluster.wait_greeted().await;
    let bulk = format!("INSERT INTO t VALUES (1, '{}')", "x".repeat(20 << 20));
    let redirect = cluster.ask(1, &bulk).await;
    assert_eq!(redirect.status, 307);
    assert_eq!(
        redirect.header("location"),
        Some(format!("{}/sql", cluster.url(0)).as_str())
    );
}
