//! Pages and searches of lists, on a running server.

use serde_json::Value;

use crate::world::{World, file_registry, mk_folder};

/// Returns a ServiceEntry of several endpoints.
fn mk_service(name: &str, endpoints: std::ops::Range<u8>) -> String {
    let endpoints: Vec<String> = endpoints.map(|at| format!("{{address: 10.1.0.{at}}}")).collect();
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  hosts: [{name}.test]\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  resolution: STATIC\n  endpoints: [{}]\n",
        endpoints.join(", ")
    )
}

async fn mk_world() -> (World, tempfile::TempDir) {
    let names = ["cart", "pay-0", "pay-1", "pay-2", "pay-3"];
    let files = names.map(|name| (format!("{name}.yaml"), mk_service(name, 10..14)));
    let files: Vec<(&str, String)> = files.iter().map(|(file, text)| (file.as_str(), text.clone())).collect();
    let dir = mk_folder(&files);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get services", "pay-3").await;
    (world, dir)
}

/// Returns the document of a path.
async fn get(world: &World, path: &str) -> Value {
    let response = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}{path}", world.server.addresses().admin);
    let body = response.get(url).send().await.unwrap().bytes().await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Returns the named field of each item, the number of matches, and that of those after the page.
fn shown(list: &Value, field: &str) -> (Vec<String>, u64, u64) {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let names = items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect();
    let metadata = &list["metadata"];
    (names, metadata["total"].as_u64().unwrap(), metadata["remaining"].as_u64().unwrap_or_default())
}

#[tokio::test]
async fn services_are_searched_and_paged() {
    let (world, _dir) = mk_world().await;
    let page = async |query: &str| shown(&get(&world, &format!("/debug/services?{query}")).await, "host");
    assert_eq!(page("search=PAY&limit=2").await, (vec!["pay-0.test".into(), "pay-1.test".into()], 4, 2));
    assert_eq!(
        page("search=pay&offset=2&limit=2").await,
        (vec!["pay-2.test".into(), "pay-3.test".into()], 4, 0)
    );
    assert_eq!(page("search=shop&limit=1").await, (vec!["cart.test".into()], 5, 4), "by namespace");
    assert_eq!(page("offset=9").await, (Vec::new(), 5, 0));
    assert_eq!(page("search=none").await, (Vec::new(), 0, 0));
    let list = get(&world, "/debug/services?limit=1").await;
    assert_eq!(
        (&list["items"][0]["endpoints"]["total"], &list["items"][0]["endpoints"]["healthy"]),
        (&4.into(), &4.into())
    );
    let result = world.run("get services --search pay-2 -o name").await;
    assert_eq!(result.out, "services/shop/pay-2.test\n");
    let result = world.run("get services --limit 2").await;
    assert!(result.talk.contains("3 more are not shown"), "{}", result.talk);
    assert!(result.out.contains("pay-0") && !result.out.contains("pay-1"), "{}", result.out);
}

#[tokio::test]
async fn endpoints_are_searched_and_paged_across_services() {
    let (world, _dir) = mk_world().await;
    let page =
        async |query: &str| shown(&get(&world, &format!("/debug/endpoints?{query}")).await, "endpoint");
    let all = page("").await;
    assert_eq!((all.0.len(), all.1, all.2), (20, 20, 0));
    let mut pages = Vec::new();
    for offset in [0, 3, 6, 9, 12, 15, 18] {
        let (items, total, remaining) = page(&format!("offset={offset}&limit=3")).await;
        assert_eq!((total, remaining), (20, 20_u64.saturating_sub(offset + 3)));
        pages.extend(items);
    }
    assert_eq!(pages, all.0, "pages have each endpoint once, in order");
    assert_eq!(page("search=.13:80&limit=1").await, (vec!["10.1.0.13:80".into()], 5, 4), "by address");
    assert_eq!(page("search=PAY-1").await.1, 4, "by host");
    assert_eq!(page("host=pay-1.test&search=.10").await, (vec!["10.1.0.10:80".into()], 1, 0));
    assert_eq!(page("name=10.1.0.11&offset=4").await, (vec!["10.1.0.11:80".into()], 5, 0));
}
