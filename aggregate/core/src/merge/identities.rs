//! Identities of a service under the aliases of the trust domain.
//!
//! As in Istio: a workload whose certificate is of an alias is the same workload. The build calls it for each changed service.

use tributary_model::{Identity, Settings};

/// Returns the identities, and each of a service account under every alias of the trust domain too.
pub(crate) fn expanded(identities: Vec<Identity>, settings: &Settings) -> Vec<Identity> {
    let Some(aliases) = settings.trust_domain_aliases.as_deref().filter(|all| !all.is_empty()) else {
        return identities;
    };
    let under_aliases = |identity: &Identity| {
        let account = account(identity.as_str()).map(str::to_owned);
        let of = |account: String| aliases.iter().map(move |alias| format!("spiffe://{alias}{account}"));
        account.into_iter().flat_map(of).filter_map(|text| Identity::new(text).ok()).collect::<Vec<_>>()
    };
    let more: Vec<Identity> = identities.iter().flat_map(under_aliases).collect();
    identities.into_iter().chain(more).collect()
}

/// Returns the part after the trust domain: `/ns/NAMESPACE/sa/ACCOUNT`. Identities with other parts have no alias.
fn account(identity: &str) -> Option<&str> {
    let rest = identity.strip_prefix("spiffe://")?;
    let path = rest.get(rest.find('/')?..)?;
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["", "ns", _, "sa", _]).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_every_alias_and_other_names_none() {
        let aliases = Some(["old".into(), "older".into()].into());
        let settings = Settings { trust_domain_aliases: aliases, ..Settings::default() };
        let of = |texts: &[&str]| -> Vec<String> {
            let all = texts.iter().map(|text| Identity::new(text).unwrap()).collect();
            expanded(all, &settings).iter().map(ToString::to_string).collect()
        };
        let own = "spiffe://mesh/ns/shop/sa/pay";
        assert_eq!(of(&[own]), [own, "spiffe://old/ns/shop/sa/pay", "spiffe://older/ns/shop/sa/pay"]);
        for other in
            ["pay.example.com", "spiffe://mesh", "spiffe://mesh/ns/a/sa/b/more", "spiffe://from/service"]
        {
            assert_eq!(of(&[other]), [other]);
        }
        let none = expanded(vec![Identity::new(own).unwrap()], &Settings::default());
        assert_eq!(none.len(), 1);
    }
}
