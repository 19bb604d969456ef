//! Whether a change of a Secret has the effect that a command reports: what the Secret and a server show before.
//!
//! `cluster pause`, `resume` and `rotate` call it before they write. A function of its arguments.

use tributary_remote::StoredSecret;
use tributary_remote::roster::REMOVE;

use crate::document::ClusterItem;
use crate::exit::CommandError;

/// Fails if no server would act on the change. `shown` is the cluster as a server shows it, if one was requested and knows it.
pub(super) fn has_effect(
    name: &str,
    stored: &StoredSecret,
    shown: Option<&ClusterItem>,
) -> Result<(), CommandError> {
    let secret = &stored.name;
    if stored.annotation(REMOVE) == Some("true") {
        let message = format!("cluster `{name}` is being removed: Secret {secret} has the annotation");
        let next = format!(
            "`tributary cluster remove {name}` completes the removal, `tributary cluster remove {name} --cancel` cancels it"
        );
        return Err(CommandError::no(message).next(next));
    }
    if !stored.is_read() {
        let message = format!("no server reads Secret {secret}: its label is missing");
        return Err(CommandError::no(message).next("set the label tributary.dev/cluster=true on it"));
    }
    shown.map_or(Ok(()), |one| is_used(one, stored))
}

/// Fails if the server uses another declaration of the cluster.
fn is_used(one: &ClusterItem, stored: &StoredSecret) -> Result<(), CommandError> {
    let (name, object) = (&one.name, format!("Secret {}", stored.name));
    let used = one.claims.iter().find(|claim| claim.outcome == "Used").map(|claim| claim.object.as_str());
    let own = one.claims.iter().find(|claim| claim.object == object).map(|claim| claim.outcome.as_str());
    match (own, used) {
        // a refused declaration may be all that there is
        (Some("Used"), _) | (Some("Refused"), None) => Ok(()),
        (None, _) => {
            let message =
                format!("the server does not read {object}; cluster `{name}` is declared by {}", one.source);
            Err(CommandError::no(message)
                .next("name its server with --server, or the Secret that it reads with --secret"))
        }
        (Some(_), used) => {
            let used = used.unwrap_or("the configuration");
            let message = format!("{object} is not used: {used} declares cluster `{name}`");
            Err(CommandError::no(message)
                .next(format!("change {used}, or delete it so that {object} is used")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::document::clusters::ClaimItem;
    use crate::exit::Exit;

    fn secret(labels: &Value, annotations: &Value) -> StoredSecret {
        let metadata =
            json!({"namespace": "system", "name": "a", "labels": labels, "annotations": annotations});
        StoredSecret::read(json!({"metadata": metadata}).to_string().as_bytes()).unwrap()
    }

    fn item(claims: &[(&str, &str)]) -> ClusterItem {
        let claim = |(object, outcome): &(&str, &str)| ClaimItem {
            object: (*object).to_owned(),
            outcome: (*outcome).to_owned(),
            faults: Vec::new(),
        };
        let claims = claims.iter().map(claim).collect();
        ClusterItem { name: "east".into(), source: "file /c/east".into(), claims, ..ClusterItem::default() }
    }

    fn refused(stored: &StoredSecret, shown: Option<&ClusterItem>) -> String {
        let failure = has_effect("east", stored, shown).unwrap_err();
        assert_eq!(failure.exit, Exit::No);
        failure.to_string()
    }

    #[test]
    fn secret_that_no_server_acts_on_is_not_changed() {
        let label = json!({"tributary.dev/cluster": "true"});
        let read = secret(&label, &json!(null));
        assert_eq!(has_effect("east", &read, None), Ok(()));
        assert!(refused(&secret(&json!(null), &json!(null)), None).contains("label is missing"));
        let leaving = secret(&label, &json!({"tributary.dev/remove": "true"}));
        assert!(refused(&leaving, None).contains("`tributary cluster remove east --cancel`"));
    }

    #[test]
    fn declaration_that_is_not_used_is_not_changed() {
        let read = secret(&json!({"istio/multiCluster": "true"}), &json!(null));
        let (own, other) = ("Secret system/a", "Secret system/b");
        let check = |claims: &[(&str, &str)]| has_effect("east", &read, Some(&item(claims)));
        assert_eq!(check(&[(own, "Used"), (other, "Duplicate")]), Ok(()));
        assert_eq!(check(&[(own, "Refused")]), Ok(()));
        let text = refused(&read, Some(&item(&[(other, "Used"), (own, "Duplicate")])));
        assert!(
            text.starts_with("Secret system/a is not used: Secret system/b declares cluster `east`"),
            "{text}"
        );
        let text = refused(&read, Some(&item(&[(own, "NotUsed")])));
        assert!(text.contains("the configuration declares"), "{text}");
        let text = refused(&read, Some(&item(&[])));
        assert!(
            text.contains("does not read Secret system/a; cluster `east` is declared by file /c/east"),
            "{text}"
        );
    }
}
