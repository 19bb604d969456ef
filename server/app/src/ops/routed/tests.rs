//! Steps of virtual hosts and listeners, by where they lead.

use super::*;

fn mk_route(conditions: &[&str], to: &[(&str, u32)]) -> SentRoute {
    let action = match to {
        [] => Action::Requested,
        to => Action::Forward(to.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()),
    };
    let conditions = conditions.iter().map(|&text| text.to_owned()).collect();
    SentRoute {
        name: String::new(),
        conditions,
        action,
        copies: Vec::new(),
        settings: Vec::new(),
        rule: None,
        delegate: None,
    }
}
fn mk_step(routes: Vec<SentRoute>) -> (Verdict, Code, String) {
    mk_step_with(routes, None)
}
/// Returns the step of an endpoint in these subsets, or of the port.
fn mk_step_with(routes: Vec<SentRoute>, subsets: Option<BTreeSet<Subset>>) -> (Verdict, Code, String) {
    let of = SentHost { name: "pay.shop:80".into(), domains: vec!["pay.shop".into()], routes };
    let (host, cluster) = (Hostname::new("pay.shop").unwrap(), "outbound|80||pay.shop".parse().unwrap());
    let wanted = Wanted { cluster, subsets };
    let step = step_of(&of, "80", &host, Some(&wanted));
    (step.verdict, step.code, step.detail)
}

#[test]
fn virtual_host_of_another_service_is_a_warning() {
    let begin = "RDS 80, virtual host pay.shop:80: requests for pay.shop";
    let own = mk_step(vec![mk_route(&[], &[("outbound|80||pay.shop", 1)])]);
    assert_eq!(own, (Verdict::Pass, Code::ROUTED, format!("{begin} go to outbound|80||pay.shop")));
    let other = mk_step(vec![mk_route(&[], &[("outbound|80||old.shop", 1)])]);
    assert_eq!(
        other,
        (Verdict::Warn, Code::ROUTED_ELSEWHERE, format!("{begin} go to outbound|80||old.shop"))
    );
    let first = || vec![mk_route(&[], &[("outbound|80|v1|pay.shop", 1)])];
    assert_eq!(mk_step(first()).0, Verdict::Pass, "some endpoint of the port");
    let subset = mk_step_with(first(), Some([Subset::new("v2").unwrap()].into()));
    assert_eq!((subset.0, subset.1), (Verdict::Warn, Code::ROUTED_ELSEWHERE), "it lacks the endpoint");
    assert_eq!(mk_step(vec![mk_route(&[], &[])]).0, Verdict::Pass, "each request names its destination");
}

#[test]
fn every_route_and_share_counts_for_the_service() {
    let canary = mk_route(&["header x = 1"], &[("outbound|80||old.shop", 1)]);
    let shares = &[("outbound|80||old.shop", 90), ("outbound|80|v2|pay.shop", 10)];
    let (verdict, _, detail) = mk_step(vec![canary.clone(), mk_route(&[], shares)]);
    assert_eq!(verdict, Verdict::Pass);
    assert!(detail.ends_with("take 2 routes, of which 1 leads to outbound|80|v2|pay.shop"), "{detail}");
    let (verdict, _, detail) = mk_step(vec![mk_route(&[], shares)]);
    assert_eq!(verdict, Verdict::Pass);
    assert!(detail.ends_with("go to 90 % outbound|80||old.shop, 10 % outbound|80|v2|pay.shop"), "{detail}");
    let none = &[("outbound|80||old.shop", 100), ("outbound|80||pay.shop", 0)];
    let (verdict, code, detail) = mk_step(vec![canary, mk_route(&[], none)]);
    assert_eq!((verdict, code), (Verdict::Warn, Code::ROUTED_ELSEWHERE));
    assert!(detail.ends_with("of which 0 lead to outbound|80||pay.shop"), "{detail}");
}

#[test]
fn listener_of_another_service_is_a_warning() {
    let found = SentListener::leading_to(&["outbound|80||old.shop", "PassthroughCluster"], &[]);
    let port = |name: &str| Wanted { cluster: name.parse().unwrap(), subsets: None };
    assert!(lost_step("10.0.0.1_80", &port("outbound|80||old.shop"), &found).is_none());
    let lost = lost_step("10.0.0.1_80", &port("outbound|80||pay.shop"), &found).unwrap();
    assert_eq!((lost.verdict, lost.code), (Verdict::Warn, Code::ROUTED_ELSEWHERE));
    assert_eq!(
        lost.detail,
        "LDS 10.0.0.1_80: connections go to outbound|80||old.shop, not to outbound|80||pay.shop"
    );
    let found = SentListener::leading_to(&[], &["80"]);
    let lost = lost_step("0.0.0.0_80", &port("outbound|80||pay.shop"), &found).unwrap();
    assert_eq!(
        lost.detail,
        "LDS 0.0.0.0_80: connections are taken as HTTP requests by route table 80 and do not go to outbound|80||pay.shop"
    );
}

#[test]
fn requests_that_no_route_takes_are_named() {
    let own = || &[("outbound|80||pay.shop", 1)];
    let (verdict, _, detail) = mk_step(vec![mk_route(&["path /a*"], own())]);
    assert_eq!(verdict, Verdict::Pass);
    assert!(detail.ends_with("leads to outbound|80||pay.shop; others get answer 404"), "{detail}");
    let (_, _, detail) = mk_step(vec![mk_route(&["path /a*"], own()), mk_route(&[], own())]);
    assert!(!detail.contains("404"), "{detail}");
}
