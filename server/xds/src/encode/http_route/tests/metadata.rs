//! Metadata of routes, which names the objects that they are from.

use super::*;

#[test]
fn metadata_names_the_virtual_service_and_the_delegate_to_envoy() {
    let plan = mk_found(HttpMatch::default());
    let cart = DelegateRef { namespace: Namespace::new("team").unwrap(), name: "cart".into() };
    let of_delegate = RoutePlan { delegate: Some(Arc::new(cart)), ..plan.clone() };
    let text = |plan: &RoutePlan, dialect, (key, field): (&str, &str)| {
        let metadata = encoded(plan, dialect).metadata?;
        match metadata.filter_metadata.get(key)?.fields.get(field)?.kind.clone()? {
            protobuf::value::Kind::StringValue(text) => Some(text),
            _ => None,
        }
    };
    let (rule, delegate) = (("istio", "config"), ("tributary.dev", "delegate"));
    let path = "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/pay";
    for plan in [&plan, &of_delegate] {
        assert_eq!(text(plan, Dialect::Envoy, rule).as_deref(), Some(path));
        assert_eq!(text(plan, Dialect::Grpc, rule), None);
    }
    assert_eq!(text(&plan, Dialect::Envoy, delegate), None);
    assert_eq!(text(&of_delegate, Dialect::Envoy, delegate).as_deref(), Some("team/cart"));
}
