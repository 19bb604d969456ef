//! Conversion of VirtualServices to policies.

use std::time::Duration;

use super::*;

fn service(spec: &str) -> VirtualService {
    let facts = facts(&mk("VirtualService", "", spec));
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(key.to_string(), "VirtualService shop/pay");
    let Policy::VirtualService(service) = declared.policy.clone() else { panic!("not a VirtualService") };
    service
}

fn route(fields: &str) -> HttpRoute {
    service(&format!("  hosts: [a.test]\n  http: [{{{fields}}}]\n")).http[0].clone()
}

/// A route to a destination with these further fields.
fn settings(fields: &str) -> RouteSettings {
    route(&format!("route: [{{destination: {{host: web}}}}], {fields}")).settings
}

fn matched(fields: &str) -> HttpMatch {
    route(&format!("route: [{{destination: {{host: web}}}}], match: [{{{fields}}}]")).matches[0].clone()
}

fn ignored(spec: &str) -> Vec<String> {
    let spec = format!("  hosts: [a.test]\n{spec}");
    service(&spec).ignored.iter().map(ToString::to_string).collect()
}

fn share(millionths: u32) -> RequestShare {
    RequestShare::new(millionths).unwrap()
}

const TO: &str = "route: [{destination: {host: web}}]";

#[test]
fn service_keeps_hosts_export_and_gateways() {
    let of = service(&format!(
        "  hosts: [Pay, '*.Example.com', 10.0.0.1, '2001:db8::1']\n  exportTo: [\".\"]\n  gateways: [mesh, web/in]\n  http: [{{{TO}}}]\n"
    ));
    let hosts: Vec<&str> = of.hosts.iter().map(HostPattern::as_str).collect();
    assert_eq!(hosts, ["pay", "*.example.com", "10.0.0.1"]);
    let own = [Namespace::new("shop").unwrap()];
    assert_eq!(of.export, ExportTo::Set(Visibility::Namespaces(own.into())));
    assert!(of.mesh && !of.is_delegate());
    let ignored: Vec<&str> = of.ignored.iter().map(|path| &**path).collect();
    assert_eq!(ignored, ["spec.gateways[1]", "spec.hosts[3]"]);
    let only = service(&format!("  hosts: ['*']\n  gateways: [web/in]\n  http: [{{{TO}}}]\n"));
    assert!(!only.mesh);
    let delegate = service(&format!("  http: [{{{TO}}}]\n"));
    assert!(delegate.mesh && delegate.is_delegate() && delegate.export == ExportTo::Default);
}

#[test]
fn match_keeps_its_conditions_sorted() {
    let of = matched(
        "name: m, uri: {prefix: /a}, ignoreUriCase: true, scheme: {exact: http}, method: {regex: GET}, authority: {}, headers: {b: {exact: ''}, A: {}}, withoutHeaders: {c: {regex: '*'}, d: {regex: .*}}, queryParams: {q: {}}, port: 80, statPrefix: s",
    );
    let exact = |text: &str| TextMatch::Exact(text.into());
    assert_eq!((&*of.name, &*of.stat_prefix, of.ignores_uri_case), ("m", "s", true));
    assert_eq!(of.uri, Some(TextMatch::Prefix("/a".into())));
    assert_eq!((of.scheme, of.authority), (Some(exact("http")), Some(TextMatch::Present)));
    assert_eq!(of.method, Some(TextMatch::Regex("GET".into())));
    assert_eq!(*of.headers, [("A".into(), TextMatch::Present), ("b".into(), exact(""))]);
    let without = [("c".into(), TextMatch::Present), ("d".into(), TextMatch::Regex(".*".into()))];
    assert_eq!(*of.without_headers, without);
    assert_eq!((of.query.len(), of.port.map(PortNumber::get)), (1, Some(80)));
    assert_eq!(matched("uri: {}").uri, None, "without a kind any path matches");
    assert_eq!(matched("port: 0").port, None);
}

#[test]
fn clients_of_a_match_have_labels_namespace_and_gateway() {
    let clients = matched("sourceLabels: {app: a}, sourceNamespace: web").clients;
    assert_eq!(clients.labels.get("app"), Some("a"));
    assert_eq!(clients.namespace, Namespace::new("web").ok());
    assert_eq!(clients.gateways, GatewayMatch::Undeclared);
    assert_eq!(matched("gateways: [web/in, mesh]").clients.gateways, GatewayMatch::Mesh);
    assert_eq!(matched("gateways: [web/in]").clients.gateways, GatewayMatch::Other);
}

#[test]
fn destinations_keep_weight_subset_port_and_headers() {
    let HttpAction::Route(all) = route(
        "route: [{destination: {host: A.test, subset: v1, port: {number: 81}}, weight: 3, headers: {request: {add: {host: b.test, b: '2', a: '1'}, remove: [d, c]}}}, {destination: {host: web}}]",
    )
    .action
    else {
        panic!("not a route")
    };
    let [one, other] = &all[..] else { panic!("{all:?}") };
    assert_eq!(one.destination.host.as_str(), "a.test");
    assert_eq!(one.destination.subset.as_ref().map(Subset::as_str), Some("v1"));
    assert_eq!((one.destination.port.map(PortNumber::get), one.weight), (Some(81), 3));
    let headers = one.headers.as_deref().unwrap();
    assert_eq!(headers.authority.as_deref(), Some("b.test"));
    assert_eq!(*headers.request.add, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    assert_eq!(*headers.request.remove, ["d".into(), "c".into()]);
    assert_eq!((other.weight, &other.headers), (0, &None));
}

#[test]
fn delegate_is_of_the_namespace_unless_it_names_one() {
    let named = |fields: &str| route(fields).action.delegate().unwrap().namespace.to_string();
    assert_eq!(named("delegate: {name: other}"), "shop");
    assert_eq!(named("delegate: {name: other, namespace: web}"), "web");
    let both = route("delegate: {name: other}, directResponse: {status: 404}").action;
    let HttpAction::Delegate(_, Some(response)) = both else { panic!("{both:?}") };
    assert_eq!(response.status, 404);
}

#[test]
fn answers_of_the_proxy_are_redirects_and_responses() {
    let redirect = |fields: &str| match route(&format!("redirect: {{{fields}}}")).action {
        HttpAction::Redirect(redirect) => (*redirect).clone(),
        other => panic!("{other:?}"),
    };
    let plain = redirect("authority: b.test");
    assert_eq!((plain.status, plain.path, plain.port), (301, RedirectPath::Keep, RedirectPort::Undeclared));
    let of = redirect("uri: /a, scheme: https, derivePort: FROM_REQUEST_PORT, redirectCode: 307");
    assert_eq!(
        (of.status, of.path, of.port),
        (307, RedirectPath::Whole("/a".into()), RedirectPort::OfListener)
    );
    assert_eq!(redirect("port: 8443").port, RedirectPort::Number(PortNumber::new(8443).unwrap()));
    assert_eq!(redirect("prefixRewrite: /b").path, RedirectPath::Prefix("/b".into()));
    let body =
        |fields: &str| match route(&format!("directResponse: {{status: 200, body: {{{fields}}}}}")).action {
            HttpAction::Respond(response) => response.body.clone(),
            other => panic!("{other:?}"),
        };
    assert_eq!(body("string: a"), Some(ResponseBody::Text("a".into())));
    assert_eq!(body("bytes: aGk="), Some(ResponseBody::Bytes(b"hi".as_slice().into())));
}

#[test]
fn retries_differ_when_absent_empty_or_given() {
    assert_eq!(settings("timeout: 1s").retries, None);
    assert_eq!(settings("retries: {}").retries.unwrap().retries.attempts, 0);
    let of = settings(
        "retries: {attempts: 3, perTryTimeout: 2s, retryOn: 'reset,503', retryIgnorePreviousHosts: false, backoff: 100ms}",
    );
    let of = of.retries.unwrap();
    assert!(of.declares_other_hosts && !of.retries.other_hosts && !of.retries.remote_localities);
    assert_eq!(&*of.retries.conditions, "reset,retriable-status-codes");
    assert_eq!((of.retries.attempts, &*of.retries.codes), (3, &[503][..]));
    assert_eq!(of.retries.backoff, Some(Duration::from_millis(100)));
    let usual = settings("retries: {attempts: 1}").retries.unwrap();
    assert!(!usual.declares_other_hosts && usual.retries.other_hosts);
    assert_eq!(&*usual.retries.conditions, HttpRetries::CONDITIONS);
}

#[test]
fn shares_of_faults_and_mirrors_have_their_defaults() {
    let fault = |fields: &str| settings(&format!("fault: {{{fields}}}")).fault.map(|fault| (*fault).clone());
    let delay =
        |fields: &str| fault(&format!("delay: {{fixedDelay: 1s, {fields}}}")).unwrap().delay.unwrap().share;
    assert_eq!(delay(""), RequestShare::NONE);
    assert_eq!(
        (delay("percent: 20"), delay("percent: 20, percentage: {value: 12.5}")),
        (share(200_000), share(125_000))
    );
    let abort = fault("abort: {httpStatus: 500}").unwrap().abort.unwrap();
    assert_eq!((abort.status, abort.share), (AbortStatus::Http(500), None));
    let grpc = fault("abort: {grpcStatus: UNAVAILABLE, percentage: {value: 0.0001}}").unwrap().abort.unwrap();
    assert_eq!((grpc.status, grpc.share), (AbortStatus::Grpc(14), Some(share(1))));
    assert_eq!(fault("delay: {percent: 1}"), None);
    let mirrors = |fields: &str| -> Vec<(String, u32)> {
        let of = settings(fields);
        of.mirrors().map(|of| (of.destination.host.to_string(), of.share.millionths())).collect()
    };
    assert_eq!(mirrors("mirror: {host: b}"), [("b".to_owned(), 1_000_000)]);
    assert_eq!(mirrors("mirror: {host: b}, mirrorPercent: 20"), [("b".to_owned(), 200_000)]);
    let newer = "mirror: {host: b}, mirrorPercent: 20, mirrorPercentage: {value: 0}";
    assert_eq!(mirrors(newer), [("b".to_owned(), 0)]);
    let several = "mirrors: [{destination: {host: c}}, {destination: {host: b}, percentage: {value: 10}}]";
    assert_eq!(mirrors(several), [("c".to_owned(), 1_000_000), ("b".to_owned(), 100_000)]);
}

#[test]
fn headers_rewrites_and_origins_are_kept() {
    let of = settings(
        "headers: {request: {set: {':authority': h.test, b: '1', a: '%REQ(x)%'}}, response: {remove: [r]}}, rewrite: {uri: /}, corsPolicy: {allowOrigin: ['*'], maxAge: 24h}",
    );
    let headers = of.headers.unwrap();
    assert_eq!(headers.authority.as_deref(), Some("h.test"));
    assert_eq!(*headers.request.set, [("a".into(), "%REQ(x)%".into()), ("b".into(), "1".into())]);
    assert_eq!(*headers.response.remove, ["r".into()]);
    assert_eq!(of.rewrite.unwrap().path, Some(PathRewrite::Prefix("/".into())));
    let cors = of.cors.unwrap();
    assert_eq!(*cors.origins, [TextMatch::Exact("*".into())]);
    assert!(cors.forwards_unmatched && cors.credentials.is_none());
    let cors =
        settings("corsPolicy: {allowOrigins: [{prefix: a}], unmatchedPreflights: IGNORE}").cors.unwrap();
    assert!(!cors.forwards_unmatched);
    let regex =
        settings("rewrite: {uriRegexRewrite: {match: '(a)', rewrite: '\\1'}, authority: b}").rewrite.unwrap();
    assert_eq!(regex.path, Some(PathRewrite::Regex("(a)".into(), "\\1".into())));
    assert_eq!(regex.authority.as_deref(), Some("b"));
}

#[test]
fn connections_keep_matches_and_weights() {
    let of = service(
        "  hosts: ['*.a.test']\n  tls: [{match: [{sniHosts: [x.a.test], destinationSubnets: [10.1.2.3, 10.1.0.0/16], port: 443}], route: [{destination: {host: b}, weight: 3}]}]\n  tcp: [{match: [{sourceNamespace: web}], route: [{destination: {host: c}}]}, {route: [{destination: {host: d}}]}]\n",
    );
    let found = &of.tls[0].matches[0];
    assert_eq!(found.names.iter().map(HostPattern::as_str).collect::<Vec<_>>(), ["x.a.test"]);
    let subnets: Vec<String> = found.connection.subnets.iter().map(ToString::to_string).collect();
    assert_eq!(subnets, ["10.1.2.3/32", "10.1.0.0/16"]);
    assert_eq!(
        (found.connection.port.map(PortNumber::get), of.tls[0].destinations[0].weight),
        (Some(443), 3)
    );
    assert_eq!((of.tcp[0].matches.len(), of.tcp[1].matches.len()), (1, 0));
    let hosts: Vec<String> = of.destinations().map(|of| of.host.to_string()).collect();
    assert_eq!(hosts, ["b", "c", "d"]);
}

#[test]
fn fields_of_a_virtual_service_without_effect_are_named() {
    for (fields, path) in [
        ("match: [{gateways: [web/in]}]", "spec.http[0].match[0].gateways[0]"),
        ("match: [{gateways: [mesh], sourceNamespace: web}]", "spec.http[0].match[0].sourceNamespace"),
        ("mirror: {host: b}, mirrorPercent: 1, mirrorPercentage: {value: 1}", "spec.http[0].mirrorPercent"),
        ("mirrorPercentage: {value: 1}", "spec.http[0].mirrorPercentage"),
        ("fault: {delay: {percent: 1}}", "spec.http[0].fault.delay"),
        ("fault: {abort: {percentage: {value: 1}}}", "spec.http[0].fault.abort"),
        ("fault: {delay: {fixedDelay: 1s}}", "spec.http[0].fault.delay (no percentage)"),
        ("fault: {abort: {httpStatus: 500}}", "spec.http[0].fault.abort (no percentage)"),
        ("corsPolicy: {allowOrigin: [a], allowOrigins: [{exact: b}]}", "spec.http[0].corsPolicy.allowOrigin"),
    ] {
        assert_eq!(ignored(&format!("  http: [{{{TO}, {fields}}}]\n")), [path], "{fields}");
    }
    let tcp = format!("  tcp: [{{match: [{{sourceSubnet: 10.0.0.1}}], {TO}}}]\n");
    assert_eq!(ignored(&tcp), ["spec.tcp[0].match[0].sourceSubnet"]);
    assert!(ignored("  http: [{delegate: {name: a}, mirrorPercentage: {value: 1}}]\n").is_empty());
    let whole = "delay: {fixedDelay: 1s, percent: 1}, abort: {httpStatus: 500, percentage: {value: 0}}";
    assert!(ignored(&format!("  http: [{{{TO}, fault: {{{whole}}}}}]\n")).is_empty());
}
