//! `localityLbSetting`: which localities the clients of the mesh use.

use serde_json::Value;
use tributary_model::{LocalityBalancing, LocalitySetting};

use super::tree::{Tree, flag, get, list, map};

/// Supported fields.
pub(super) const FIELDS: [&str; 4] = ["enabled", "distribute", "failover", "failoverPriority"];

/// Parses the setting, and returns it with the names of lists that have no effect. Without `enabled` it is on, as in Istio's
/// default configuration.
pub(super) fn parse(tree: &Tree) -> Result<(LocalityBalancing, Vec<&'static str>), String> {
    let enabled = get(tree, "enabled").map(flag).transpose().map_err(|why| format!("enabled {why}"))?;
    let setting = LocalitySetting {
        enabled,
        distribute: items(tree, "distribute", share)?,
        failover: items(tree, "failover", region)?,
        failover_priority: items(tree, "failoverPriority", text)?,
    };
    Ok((setting.parse()?, setting.ignored()))
}

/// Reads the entries of a list, and one more than the most, so that a longer list is refused.
fn items<T>(tree: &Tree, name: &str, read: impl Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    let all = list(tree, name)?.iter().take(LocalitySetting::MOST_ITEMS + 1).enumerate();
    all.map(|(at, value)| read(value).map_err(|why| format!("{name}[{at}] {why}"))).collect()
}

fn share(value: &Value) -> Result<(String, Vec<(String, u32)>), String> {
    let tree = map(value)?;
    let places = get(tree, "to").map(map).transpose().map_err(|why| format!("to {why}"))?;
    let places = places.into_iter().flatten().take(LocalitySetting::MOST_ITEMS + 1);
    let weight = |(place, value): (&String, &Value)| {
        let share = value.as_u64().and_then(|number| u32::try_from(number).ok());
        Ok((place.clone(), share.ok_or_else(|| format!("to[{place:?}] is not a number"))?))
    };
    Ok((named(tree, "from")?, places.map(weight).collect::<Result<_, String>>()?))
}

fn region(value: &Value) -> Result<(String, String), String> {
    let tree = map(value)?;
    Ok((named(tree, "from")?, named(tree, "to")?))
}

fn named(tree: &Tree, name: &str) -> Result<String, String> {
    let value = get(tree, name).ok_or_else(|| format!("has no {name}"))?;
    text(value).map_err(|why| format!("{name} {why}"))
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{Distribution, FailoverLabel};

    use super::super::Mesh;
    use super::*;

    fn mesh(text: &str) -> Mesh {
        Mesh::read(Some(&format!("localityLbSetting: {{{text}}}")), None)
    }
    fn failover(regions: &[(&str, &str)], labels: &[&str]) -> LocalityBalancing {
        LocalityBalancing::Failover {
            regions: regions.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect(),
            labels: labels.iter().map(|text| FailoverLabel::read(text)).collect(),
        }
    }

    #[test]
    fn setting_is_read() {
        let shares =
            Distribution { from: "eu/a/*".into(), to: [("eu".into(), 80), ("us".into(), 20)].into() };
        let cases = [
            ("", failover(&[], &[])),
            ("enabled: true", failover(&[], &[])),
            ("enabled: false", LocalityBalancing::Off),
            ("failover: [{from: eu, to: us}]", failover(&[("eu", "us")], &[])),
            ("failoverPriority: [tier, site=a]", failover(&[], &["tier", "site=a"])),
            ("failover_priority: [tier]", failover(&[], &["tier"])),
            (
                "distribute: [{from: eu/a/*, to: {us: 20, eu: 80}}]",
                LocalityBalancing::Distribute(Arc::from([shares])),
            ),
        ];
        for (text, want) in cases {
            let mesh = mesh(text);
            assert_eq!((mesh.complaint(), mesh.ignored.len()), (None, 0), "{text}");
            assert_eq!(mesh.locality.as_deref(), Some(&want), "{text}");
        }
        assert_eq!(Mesh::read(Some("trustDomain: a"), None).locality, None);
        assert_eq!(*mesh("other: 1").ignored, ["localityLbSetting.other".into()]);
        let off = mesh("enabled: false, failover: [{from: eu, to: us}]");
        assert_eq!(off.locality.as_deref(), Some(&LocalityBalancing::Off));
        assert_eq!(*off.ignored, ["localityLbSetting.failover".into()]);
    }

    #[test]
    fn invalid_setting_keeps_the_last_one_and_is_named() {
        let last = mesh("failover: [{from: eu, to: us}]");
        let long = format!("failoverPriority: [{}]", vec!["a"; 257].join(", "));
        let invalid = [
            ("enabled: 1", "enabled is neither true nor false"),
            ("distribute: a", "distribute is not a list"),
            ("distribute: [{to: {us: 100}}]", "distribute[0] has no from"),
            ("distribute: [{from: eu, to: {us: 90}}]", "the shares of distribute[0].to add up to 90"),
            ("distribute: [{from: eu}]", "the shares of distribute[0].to add up to 0"),
            ("distribute: [{from: eu, to: {us: -1}}]", "to[\"us\"] is not a number"),
            ("distribute: [{from: eu, to: {us: 0, de: 100}}]", "distribute[0].to[\"us\"] is 0"),
            ("distribute: [{from: a//b, to: {us: 100}}]", "distribute[].from: \"a//b\" is not a place"),
            (
                "distribute: [{from: a, to: {b: 100}}, {from: a/c, to: {b: 100}}]",
                "distribute[].from: \"a/c\" contains, or is in, another place",
            ),
            ("distribute: [{from: a, to: {b: 50, b/c: 50}}]", "distribute[0].to: \"b/c\" contains"),
            ("failover: [{from: eu}]", "failover[0] has no to"),
            ("failover: [{from: eu, to: eu}]", "failover[0] has from and to alike"),
            ("failover: [{from: eu/a, to: us}]", "failover[0]: \"eu/a\" is not a region"),
            ("failoverPriority: ['a b']", "failoverPriority[0]: \"a b\" is not a label"),
            (&long, "failoverPriority has 257 items; write 256 at most"),
            (
                "failover: [{from: a, to: b}], distribute: [{from: a, to: {b: 100}}]",
                "has both distribute and failover",
            ),
            (
                "failover: [{from: a, to: b}], failoverPriority: [topology.kubernetes.io/zone]",
                "failoverPriority has topology.kubernetes.io/zone beside failover",
            ),
        ];
        for (text, want) in invalid {
            let mut next = mesh(text);
            let complaint = next.complaint().unwrap_or_default();
            assert!(complaint.starts_with("localityLbSetting: ") && complaint.contains(want), "{complaint}");
            next.inherit(&last);
            assert_eq!(next.locality, last.locality, "{text}");
        }
    }
}
