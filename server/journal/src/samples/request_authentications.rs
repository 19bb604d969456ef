//! Random RequestAuthentications.

use super::*;

fn texts() -> BoxedStrategy<Arc<[Arc<str>]>> {
    vec(text(), 0..3).prop_map(Arc::from).boxed()
}

fn keys() -> BoxedStrategy<TokenKeys> {
    let fetched = (text(), any::<bool>(), host(), port())
        .prop_map(|(uri, is_tls, host, port)| TokenKeys::Fetched(KeysUri { uri, is_tls, host, port }));
    prop_oneof![Just(TokenKeys::Undeclared), text().prop_map(TokenKeys::Inline), fetched].boxed()
}

fn rule() -> BoxedStrategy<TokenRule> {
    let headers = vec((text(), text()).prop_map(|(name, prefix)| TokenHeader { name, prefix }), 0..3);
    let claims = vec((text(), text()).prop_map(|(header, claim)| ClaimHeader { header, claim }), 0..3);
    let timeout = of((0u64..100_000).prop_map(Duration::from_millis));
    let places = (headers, texts(), texts());
    let sent = (any::<bool>(), of(text()), claims, texts());
    (text(), texts(), keys(), places, sent, timeout)
        .prop_map(|(issuer, audiences, keys, (headers, params, cookies), sent, timeout)| {
            let (forwards, payload_header, claim_headers, spaced_claims) = sent;
            let (headers, claim_headers) = (headers.into(), claim_headers.into());
            TokenRule {
                issuer,
                audiences,
                keys,
                headers,
                params,
                cookies,
                forwards,
                payload_header,
                claim_headers,
                spaced_claims,
                timeout,
            }
        })
        .boxed()
}

pub(super) fn request_authentication() -> BoxedStrategy<Policy> {
    (labels(), vec(rule(), 0..3), texts())
        .prop_map(|(selector, rules, ignored)| {
            Policy::RequestAuthentication(RequestAuthentication { selector, rules: rules.into(), ignored })
        })
        .boxed()
}
