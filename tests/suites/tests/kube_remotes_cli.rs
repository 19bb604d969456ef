//! The commands for remote clusters on two real API servers, as an operator runs them, while a client of ADS is connected: a cluster is
//! added, rotated, paused, resumed and removed, and what an operator may not do is refused by name.

#[path = "kube_remotes_cli/lab.rs"]
mod lab;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::{LOOPBACK, Lab, SOON, TOKEN};
use serde_json::{Value, json};
use tributary_suites::consul::PORT;
use tributary_suites::kube::remotes::{AWAY, HOME, NAMESPACE, mk_declaration, sends_nothing};
use tributary_suites::kube::{Login, Named};
use tributary_suites::{eventually, outbound};

/// UID of a cluster that is not there yet.
const UID: &str = "0b54ab2f-0000-4000-8000-000000000000";
/// Longer than several probes and audits of shortened intervals.
const WATCHED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn cluster_is_added_rotated_paused_resumed_and_removed_by_commands() -> Result<()> {
    let mut lab = Lab::start().await?;
    // without --apply nothing is written
    let add = [&["add", "away", "--from-context", "away"], &LOOPBACK[..]].concat();
    lab.run(&add).await?.ends(0)?.prints("kind: ClusterRoleBinding")?.notes("nothing was written")?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": NAMESPACE, "name": "tributary-remote"}});
    ensure!(lab.away.api().find(&Named::of(&account)?).await?.is_none(), "it only prints");
    // the address of this machine needs the same flag as the server's setting
    lab.run(&add[..4]).await?.ends(3)?.notes("--allow-server-cidr 127.0.0.0/8")?;

    lab.add().await?;
    lab.serves(&[HOME, AWAY]).await?;
    let solo = outbound(PORT, "solo.shop.svc.cluster.local");
    lab.recorder.has_endpoints(&solo, &["10.78.0.20:8080".parse()?], SOON).await?;
    lab.run(&[&add[..], &["--apply"]].concat()).await?.ends(3)?.notes("declares cluster `away` already")?;
    let first = lab.value().await?;
    printed_secret_is_accepted(&lab).await?;
    every_cluster_is_tried(&lab).await?;
    lab.is_pinned(&Named::of(&mk_declaration("tributary-cluster-away", "away", ""))?).await?;
    lab.recorder.forget();

    let rotate = [&["rotate", "away", "--from-context", "away", "--wait", "15s"], &LOOPBACK[..]].concat();
    lab.run(&rotate).await?.ends(0)?.prints("cluster away is served with it")?;
    ensure!(lab.value().await? != first, "the Secret has another token");
    sends_nothing(&mut lab.recorder, WATCHED).await?;
    contexts_of_other_clusters_are_refused(&lab).await?;

    let patch = lab.run(&["pause", "away", "--dry-run"]).await?.ends(0)?;
    let patch: Value = serde_json::from_str(&patch.out)?;
    ensure!(patch[0]["path"] == "/metadata/resourceVersion" && patch[1]["op"] == "add", "{patch}");
    lab.waits_for("Live").await?;
    lab.run(&["pause", "away"]).await?.ends(0)?.prints("cluster away paused: Secret")?;
    lab.waits_for("Paused").await?;
    lab.run(&["pause", "away"]).await?.ends(0)?.prints("needs no change")?;
    lab.run(&rotate).await?.ends(0)?.notes("it after `tributary cluster resume away`")?;
    lab.run(&["resume", "away"]).await?.ends(0)?;
    lab.waits_for("Live").await?;
    sends_nothing(&mut lab.recorder, WATCHED).await?;
    lab.run(&["accept", "away"]).await?.ends(3)?.notes("no other cluster answers")?;

    // a removal that drains can be cancelled
    lab.run(&["remove", "away", "--no-wait", "--drain", "1h"]).await?.ends(0)?;
    lab.waits_for("Removing").await?;
    lab.run(&["remove", "away", "--cancel"])
        .await?
        .ends(0)?
        .prints("the removal of cluster away is cancelled")?;
    lab.waits_for("Live").await?;
    lab.run(&["remove", "away", "--cancel"]).await?.ends(3)?.notes("is not being removed")?;
    lab.serves(&[HOME, AWAY]).await?;

    let plan = "2 endpoints, 1 host without an endpoint: solo.shop.svc.cluster.local";
    lab.run(&["remove", "away"]).await?.ends(3)?.notes(plan)?.notes("nothing was changed")?;
    lab.waits_for("Live").await?;
    let began = std::time::Instant::now();
    let removed = lab.run(&["remove", "away", "--yes", "--drain", "3s", "--wait", "15s"]).await?.ends(0)?;
    let removed = removed.prints("cluster away removed: ")?.prints(plan)?;
    removed.prints(
        "delete --ignore-not-found clusterrolebinding/tributary-remote clusterrole/tributary-remote",
    )?;
    ensure!(
        began.elapsed() >= Duration::from_secs(3),
        "it is drained for longer than the server is configured to"
    );
    ensure!(lab.secret().await?.is_none(), "the Secret had no other key");
    lab.serves(&[HOME]).await?;
    lab.waits_for("removed").await?;
    lab.run(&["pause", "away"]).await?.ends(4)?;
    // it can be added again, and what the account may do for others stays
    let others = account_of_others(&lab).await?;
    let again = [&add[..], &["--apply"]].concat();
    lab.run(&again).await?.ends(0)?.notes("ServiceAccount tributary-remote of context away: exists")?;
    lab.waits_for("Live").await?;
    lab.serves(&[HOME, AWAY]).await?;
    for (object, path, kept) in others {
        let found = lab.away.api().find(&object).await?.context("the object")?;
        ensure!(found.pointer(path) == Some(&kept), "{found:#}");
    }
    another_declaration_takes_over(&mut lab).await
}

/// A token goes to the cluster that issued it only, and a cluster has one name.
async fn contexts_of_other_clusters_are_refused(lab: &Lab) -> Result<()> {
    let token = lab.value().await?;
    // a server knows which cluster that is
    for (more, next) in
        [(&[][..], "that one is cluster Kubernetes"), (&["--no-wait"], "tributary cluster accept away --uid")]
    {
        let wrong = [&["rotate", "away", "--from-context", "home"], more, &LOOPBACK].concat();
        let ran = lab.run(&wrong).await?.ends(3)?.notes("context home leads to the cluster with the UID")?;
        ran.notes(next)?;
    }
    let dead = [&["rotate", "away", "--from-context", "dead"], &LOOPBACK[..]].concat();
    lab.run(&dead).await?.ends(1)?.notes("context dead (127.0.0.1:1): ")?;
    let dead = ["pause", "away", "--context", "dead"];
    lab.run(&dead).await?.ends(1)?.notes("context dead (127.0.0.1:1): ")?;
    ensure!(lab.value().await? == token, "nothing was written");
    for (name, context, text) in [
        ("again", "away", "known as `away` (Secret tributary-system/tributary-cluster-away)"),
        ("again", "home", "is the config cluster `Kubernetes` itself"),
    ] {
        let add = [&["add", name, "--from-context", context, "--apply"], &LOOPBACK[..]].concat();
        lab.run(&add).await?.ends(3)?.notes(text)?;
    }
    // another namespace declares nothing yet; the server knows the cluster all the same
    let args = ["add", "again", "--from-context", "away", "--apply", "--system-namespace", "shop"];
    lab.run(&[&args[..], &LOOPBACK].concat()).await?.ends(3)?.notes("known as `away` (the server").map(drop)
}

/// Gives the account's role a rule, and its binding another account in place of this one. Returns where each is kept.
async fn account_of_others(lab: &Lab) -> Result<Vec<(Named, &'static str, Value)>> {
    let named = |kind: &str, metadata: Value| {
        Named::of(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata}))
    };
    let role = named("Role", json!({"namespace": NAMESPACE, "name": "tributary-remote"}))?;
    let binding = named("ClusterRoleBinding", json!({"name": "tributary-remote"}))?;
    let rule = json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"],
        "resourceNames": ["tributary-remote"]});
    let subject = json!({"kind": "ServiceAccount", "namespace": "other-system", "name": "tributary-remote"});
    lab.away.api().patch(&role, &json!({"rules": [rule]})).await?;
    lab.away.api().patch(&binding, &json!({"subjects": [subject]})).await?;
    Ok(vec![(role, "/rules/0", rule), (binding, "/subjects/0", subject)])
}

/// A cluster with a second declaration is not removed, and the one that is removed makes way without a change for the client.
async fn another_declaration_takes_over(lab: &mut Lab) -> Result<()> {
    let kubeconfig = std::fs::read_to_string(lab.away.kubeconfig(&Login::user("admin"))?)?;
    lab.home.api().apply(&mk_declaration("younger", "away", &kubeconfig)).await?;
    let younger = "Secret tributary-system/younger";
    lab.has_declaration(younger, "Duplicate").await?;
    // Secrets of one second are ordered by name; the client takes what followed the return of the cluster
    lab.recorder.settle(WATCHED).await?;
    lab.recorder.forget();
    let ran = lab.run(&["remove", "away", "--yes"]).await?.ends(3)?;
    ran.notes(&format!("{younger} declares cluster away too, and would take its place"))?;
    ensure!(lab.secret().await?.is_some(), "nothing was changed");
    let unused = lab.run(&["pause", "away", "--secret", "tributary-system/younger"]).await?.ends(3)?;
    unused.notes("is not used: Secret tributary-system/tributary-cluster-away declares cluster `away`")?;
    lab.run(&["remove", "away", "--no-wait"]).await?.ends(0)?;
    let leaving = ["pause", "away", "--secret", "tributary-system/tributary-cluster-away"];
    lab.run(&leaving).await?.ends(3)?.notes("is being removed")?;
    lab.has_declaration(younger, "Used").await?;
    lab.waits_for("Live").await?;
    sends_nothing(&mut lab.recorder, WATCHED).await
}

/// The server connects to each cluster that it knows, that of its configuration included.
async fn every_cluster_is_tried(lab: &Lab) -> Result<()> {
    // on a busy machine one of the frequent probes of the Secrets may be late, which the check reports
    let out = eventually("every cluster to be accepted", SOON, || async {
        let args = ["cluster", "check", "--all", "--connect", "-o", "json"];
        let (status, out, notes) = lab.server.command(&args).await?;
        ensure!(status.success() && !out.contains(TOKEN), "{out}\n{notes}");
        Ok(out)
    })
    .await?;
    let list: Value = serde_json::from_str(&out)?;
    let items = list["items"].as_array().context("a list")?;
    let names: Vec<_> = items.iter().filter_map(|one| one["cluster"].as_str()).collect();
    ensure!(names == ["away", "Kubernetes"], "{out}");
    for one in items {
        let checks = one["checks"].as_array().context("checks")?;
        let names: Vec<_> = checks.iter().filter_map(|check| check["check"].as_str()).collect();
        let all = ["name", "connection", "authentication", "version", "clock", "identity", "rights"];
        ensure!(names == all && checks.iter().all(|check| check["outcome"] == "Ok"), "{one:#}");
        ensure!(one["version"].is_string() && one["identity"].is_string(), "{one:#}");
    }
    Ok(())
}

/// The Secret that is printed on request is a credential, and nothing else is.
async fn printed_secret_is_accepted(lab: &Lab) -> Result<()> {
    let args = ["add", "other", "--from-context", "away", "--print-secret"];
    let ran = lab.run(&[&args[..], &LOOPBACK].concat()).await?;
    ensure!(ran.code == Some(0) && ran.out.contains(TOKEN), "{}", ran.notes);
    ensure!(!ran.notes.contains(TOKEN), "a token is among the messages: {}", ran.notes);
    let path = lab.folder.path().join("secret.yaml");
    std::fs::write(&path, &ran.out)?;
    let file = path.to_str().context("a path that is text")?;
    let check = [&["cluster", "check", "-f", file], &LOOPBACK[..]].concat();
    let (status, out, notes) = lab.server.run(&check).await?;
    ensure!(status.success() && notes.starts_with("accepted: 1"), "{out}\n{notes}");
    Ok(())
}

#[tokio::test]
async fn commands_refuse_what_would_reach_other_clusters_or_lacks_a_right() -> Result<()> {
    let lab = Lab::start().await?;
    // an operator without rights: verb, resource and namespace are named, and nothing is written
    let add = [&["add", "away", "--from-context", "away", "--apply"], &LOOPBACK[..]].concat();
    let list = "may not list secrets in namespace tributary-system";
    lab.run_as("unprivileged", &add).await?.ends(6)?.notes(list)?;
    nothing_is_written_for_what_would_fail_later(&lab).await?;
    let secret = lab.away.kubeconfig(&Login::user("admin"))?;
    let kubeconfig = std::fs::read_to_string(secret)?;
    let mut both = mk_declaration("both", "away", &kubeconfig);
    both["stringData"]["other"] = json!(kubeconfig);
    lab.home.api().apply(&both).await?;
    lab.waits_for("Live").await?;
    for command in ["pause", "resume", "remove"] {
        let ran = lab.run(&[command, "away"]).await?.ends(3)?;
        ran.notes("Secret tributary-system/both declares other too")?.notes("split the Secret")?;
    }
    let get = "may not get secrets in namespace tributary-system";
    lab.run_as("unprivileged", &["pause", "away"]).await?.ends(6)?.notes(get)?;
    lab.home.api().allow("reader", &["get"], &["secrets"]).await?;
    both["stringData"] = json!({"away": kubeconfig});
    lab.home.api().apply(&both).await?;
    let patch = "may not patch secrets in namespace tributary-system";
    let pause = ["pause", "away", "--secret", "tributary-system/both"];
    // an API server learns of a new right a moment after it was granted
    eventually("the reader to be refused the patch only", SOON, || async {
        lab.run_as("reader", &pause).await?.ends(6)?.notes(patch).map(drop)
    })
    .await?;

    // a configured cluster is edited in its file
    lab.run(&["remove", "Kubernetes"]).await?.ends(3)?.prints("- name: kubernetes")?;
    lab.run(&["pause", "Kubernetes"]).await?.ends(3)?.notes("configuration file")?;
    // longer than one answer of the server may take on a busy machine, which is then the reason
    let late = ["cluster", "wait", "away", "--for=removed", "--timeout", "4s"];
    let (status, _, notes) = lab.server.command(&late).await?;
    // a busy machine may be late with a bookmark
    let states = ["it is Live", "it is Unreachable: the watch has brought neither event nor bookmark"];
    let is_shown = states.iter().any(|state| notes.contains(&format!("4s passed, and {state}")));
    ensure!(status.code() == Some(5) && is_shown, "{notes}");
    // by --system-namespace no server is requested; a UID is accepted before it is found
    let place = ["--system-namespace", NAMESPACE, "--dry-run"];
    let accepted = lab.run(&[&["accept", "away", "--uid", UID], &place[..]].concat()).await?.ends(0)?;
    accepted.prints(UID)?.prints("accept-uid")?;
    lab.run(&[&["accept", "away", "--rights"], &place[..]].concat())
        .await?
        .ends(0)?
        .prints("accept-rights")?;
    let drained = lab.run(&[&["remove", "away", "--drain", "0"], &place[..]].concat()).await?.ends(0)?;
    drained.prints("tributary.dev~1drain")?.prints("tributary.dev~1remove")?;
    Ok(())
}

/// All of it is checked before the first object is written in the remote cluster.
async fn nothing_is_written_for_what_would_fail_later(lab: &Lab) -> Result<()> {
    let cases: [(&str, &[&str], i32, &str); 5] = [
        ("away", &["--system-namespace", "nowhere"], 4, "create it with `kubectl create namespace nowhere`"),
        ("_", &[], 2, "the name `_` cannot be a part of the name of a Secret"),
        ("away", &["--account", "A_b"], 2, "invalid value 'A_b' for '--account <NAME>'"),
        ("away", &["--token-lifetime", "1m"], 2, "is shorter than 10m"),
        ("away", &["--system-namespace", "a.b"], 2, "'--system-namespace <NAMESPACE>'"),
    ];
    for (name, more, code, text) in cases {
        let args = ["add", name, "--from-context", "away", "--apply"];
        lab.run(&[&args[..], more, &LOOPBACK].concat()).await?.ends(code)?.notes(text)?;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "tributary-remote"}});
    ensure!(lab.away.api().find(&Named::of(&role)?).await?.is_none(), "nothing was written");
    Ok(())
}

#[tokio::test]
async fn server_renews_a_token_and_knows_a_cluster_by_its_secret() -> Result<()> {
    let mut lab = Lab::start().await?;
    // another server wrote the UID of another cluster: this one answers in its place, at the first contact
    let kubeconfig = std::fs::read_to_string(lab.away.kubeconfig(&Login::user("admin"))?)?;
    let mut moved = mk_declaration("moved", "away", &kubeconfig);
    moved["metadata"]["annotations"] = json!({"tributary.dev/found-uid": "00000000-0000"});
    lab.home.api().apply(&moved).await?;
    lab.waits_for("Conflict").await?;
    let shown = lab.shown().await?;
    let reason = shown["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.contains("`tributary cluster accept away`") && shown["sinceMillisAgo"].is_u64(),
        "{shown:#}"
    );
    lab.serves(&[HOME]).await?;
    lab.run(&["accept", "away"]).await?.ends(0)?;
    lab.waits_for("Live").await?;
    lab.is_pinned(&Named::of(&moved)?).await?;
    lab.run(&["remove", "away", "--yes", "--drain", "0", "--wait", "15s"]).await?.ends(0)?;

    let args = [&["add", "away", "--from-context", "away", "--apply", "--renew"], &LOOPBACK[..]].concat();
    lab.run(&args).await?.ends(0)?.notes("`writes` lists `credentials`")?;
    lab.waits_for("Live").await?;
    ensure!(lab.shown().await?["renewal"].is_string(), "{:#}", lab.shown().await?);
    lab.serves(&[HOME, AWAY]).await?;
    lab.recorder.settle(WATCHED).await?;
    lab.recorder.forget();
    lab.ages().await?;
    let aged = lab.value().await?;
    eventually("the token to be renewed", SOON, || async {
        ensure!(lab.value().await? != aged, "{:#}", lab.shown().await?);
        let shown = lab.shown().await?;
        // the aged token, then the renewed one
        ensure!(shown["state"] == "Live" && shown["rotations"] == 2, "{shown:#}");
        Ok(())
    })
    .await?;
    sends_nothing(&mut lab.recorder, WATCHED).await?;

    // without the right to request one, the failure shows, and what is served stays
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"namespace": NAMESPACE, "name": "tributary-remote"}});
    let role = Named::of(&role)?;
    let mut rules = lab.away.api().find(&role).await?.context("the role")?["rules"].clone();
    rules.as_array_mut().context("rules")?.retain(|rule| rule["resources"][0] != "serviceaccounts/token");
    lab.away.api().patch(&role, &json!({"rules": rules})).await?;
    eventually("the failure to show", SOON, || async {
        let shown = lab.shown().await?;
        let next: jiff::Timestamp = shown["renewal"].as_str().context("a renewal")?.parse()?;
        if next > jiff::Timestamp::now() {
            // it was renewed before the API server knew of the change
            lab.ages().await?;
        }
        let text = shown["conditions"].to_string();
        ensure!(
            text.contains("TRB0721") && text.contains("the renewal fails and is tried again"),
            "{shown:#}"
        );
        Ok(())
    })
    .await?;
    sends_nothing(&mut lab.recorder, WATCHED).await?;

    // the account goes with the cluster, in its own cluster only
    let remove = ["remove", "away", "--yes", "--drain", "0", "--wait", "15s", "--from-context"];
    let other = lab.run(&[&remove[..], &["home"]].concat()).await?.ends(3)?;
    other.notes("context home leads to the cluster with the UID")?;
    ensure!(lab.secret().await?.is_some(), "nothing was changed");
    let removed = lab.run(&[&remove[..], &["away"]].concat()).await?.ends(0)?;
    removed.notes("ServiceAccount tributary-system/tributary-remote of context away: deleted")?;
    for (version, kind, metadata) in [
        ("v1", "ServiceAccount", json!({"namespace": NAMESPACE, "name": "tributary-remote"})),
        ("rbac.authorization.k8s.io/v1", "Role", json!({"namespace": NAMESPACE, "name": "tributary-remote"})),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"name": "tributary-remote"})),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", json!({"name": "tributary-remote"})),
    ] {
        let object = Named::of(&json!({"apiVersion": version, "kind": kind, "metadata": metadata}))?;
        ensure!(lab.away.api().find(&object).await?.is_none(), "{kind} is left");
    }
    Ok(())
}
